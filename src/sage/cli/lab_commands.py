"""The group `sage lab`, and its commands `collect-synth`, `replay`, `verifiers` and `analyze-rewards`."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from pathlib import Path

from sage.cli.parser import Parser, accept, add_actions
from sage.cli.train_commands import ROWS
from sage.cli.values import NO_LOG, open_log, say, seed
from sage.files import write_json
from sage.log.decision_log import DecisionLog
from sage.log.records import DATA_SOURCES
from sage.orchestrator.static_table import StaticTable
from sage.pipeline.choices import DATABASE, MODELS_FILE
from sage.policies.notation import ROUTING, policy_help

COMMANDS = {
    "plan": ("plan_commands.add_plan", "how many decisions you need to prove a gain, and what exploring costs"),
    "plausible": ("plan_commands.add_plausible", "list the models that are worth exploring, for models.yaml"),
    "frontier": ("frontier_command.add_frontier", "which quality you get for which cost, estimated from a log"),
    "verifiers": ("lab_commands.add_verifiers", "how often each verifier is right, from logged cascades"),
    "collect-synth": ("lab_commands.add_collect_synth", "log made-up decisions and outcomes, labelled synthetic"),
    "replay": ("lab_commands.add_replay", "log what a policy would have done over a table of real outcomes"),
    "analyze-rewards": ("lab_commands.add_analyze_rewards", "distribution and drivers of the reward"),
}


def add_lab(lab: Parser) -> None:
    lab.description = "Questions about a log beyond the proof, and logs without a user: replayed or made up."
    add_actions(lab, COMMANDS)


def add_collect_synth(synth: argparse.ArgumentParser) -> None:
    synth.add_argument("--rows", type=int, default=12_000, help="decisions to log (12,000)")
    share = synth.add_argument("--exploration", type=float, default=0.3, metavar="SHARE", help="that explores (0.3)")
    accept(synth, share, "--epsilon")
    common(synth, collect_synth)


def add_replay(replay: argparse.ArgumentParser) -> None:
    replay.add_argument("--outcomes", required=True, type=Path, metavar="TABLE", help="made by `sage log import`")
    replay.add_argument("--policy", default="epsilon:0.1", help=f"{policy_help(ROUTING)} (epsilon:0.1)")
    replay.add_argument("--rows", type=int, default=20_000, help="decisions to log (20,000)")
    out = replay.add_argument("--out", type=Path, help="write this JSONL file instead of the log")
    accept(replay, out, "--output")
    common(replay, replay_table)


def add_verifiers(verifiers: argparse.ArgumentParser) -> None:
    verifiers.add_argument("--db", default=str(DATABASE), help=f"the log (default: {DATABASE})")
    verifiers.add_argument("--data-source", choices=DATA_SOURCES, default="real", help="of the cascades (real)")
    verifiers.add_argument("--out", type=Path, help="write the table as JSON")
    verifiers.add_argument("--json", action="store_true", help="one JSON object")
    verifiers.set_defaults(func=measure_verifiers)


def add_analyze_rewards(analyze: argparse.ArgumentParser) -> None:
    analyze.add_argument("--data", required=True, type=Path, help=ROWS.format(""))
    analyze.add_argument("--out", required=True, type=Path, help="the report as JSON")
    analyze.set_defaults(func=analyze_rewards)


def common(parser: argparse.ArgumentParser, func: object) -> None:
    parser.add_argument("--db", default=str(DATABASE), help=f"the log (default: {DATABASE})")
    parser.add_argument("--models", type=Path, help=f"the static table (default: {MODELS_FILE}, if there is one)")
    parser.add_argument("--seed", type=seed, default=0, help="of everything that is drawn (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(func=func)


def static_table(path: Path | None) -> StaticTable | None:
    """The table that was asked for, or the one in this folder, or none."""
    if path is None and not MODELS_FILE.exists():
        return None
    return StaticTable.read(path or MODELS_FILE)


def collect_synth(arguments: argparse.Namespace) -> int:
    from sage.outcomes.synthetic import MODELS
    from sage.rl.collect_synth import collect_synthetic
    from sage.rl.replay import append_to_log

    static = static_table(arguments.models)
    models = MODELS if static is None else tuple(static.by_price)
    data = collect_synthetic(
        arguments.rows, models=models, static=static, epsilon=arguments.exploration, seed=arguments.seed
    )
    session = data.decision_id[0].rpartition("-")[0]
    with closing(DecisionLog.open(arguments.db)) as log:
        append_to_log(log, data, session)
    say(arguments, {"rows": len(data), "data_source": data.source, "session": session, "db": arguments.db})
    if not arguments.json:
        print("next: sage train, sage prove CHECKPOINT --allow-synthetic, sage promote CHECKPOINT --allow-synthetic")
    return 0


def replay_table(arguments: argparse.Namespace) -> int:
    from sage.outcomes.table import OutcomeTable
    from sage.rl.logging_policies import parse_policy
    from sage.rl.replay import append_to_log, best_first, replay, session_of

    table = OutcomeTable.open(arguments.outcomes)
    static = static_table(arguments.models)
    if static is not None and not set(static.models) & set(table.models):
        if arguments.models:
            raise ValueError(
                f"{arguments.models} and {arguments.outcomes} have no model in common: use a table of the same models"
            )
        static = None
    base = static or best_first(table)
    policy = parse_policy(arguments.policy, base)
    data = replay(table, policy, arguments.rows, seed=arguments.seed)
    session = session_of(table, policy, arguments.seed)
    if arguments.out:
        data.write(arguments.out)
    else:
        with closing(DecisionLog.open(arguments.db)) as log:
            append_to_log(log, data, session)
    around = str(arguments.models or MODELS_FILE) if static else "the models from the best mean score down"
    say(
        arguments,
        {
            "rows": len(data),
            "data_source": data.source,
            "session": session,
            "policy": policy.name,
            "around": around,
            "written_to": str(arguments.out or arguments.db),
        },
    )
    return 0


def measure_verifiers(arguments: argparse.Namespace) -> int:
    from sage.evidence.cascades.cascade_export import cascades
    from sage.proof.verifier_rates import measure

    with closing(open_log(arguments.db, NO_LOG)) as log:
        rates = measure(cascades(log, unreadable=[], data_source=arguments.data_source))
    if not rates:
        raise ValueError(
            f"{arguments.db} has no verdict of a {arguments.data_source} cascade: run some with `sage log route --cascade`, or "
            "choose another --data-source"
        )
    if arguments.out is not None:
        write_json(arguments.out, [found.to_json() for found in rates])
    if arguments.json:
        print(json.dumps([found.to_json() for found in rates]))
        return 0
    print(
        f"{'verifier':<18}{'model':<18}{'role':<16}{'verdicts':>8}{'known':>7}  passes right answers  passes wrong answers"
    )
    for found in rates:
        shares = (
            "-" if rate is None else f"{rate.share:.3f} ({rate.low:.3f}-{rate.high:.3f})"
            for rate in (found.true_positive, found.false_positive)
        )
        print(
            f"{found.verifier:<18}{found.model:<18}{found.role:<16}{found.verdicts:>8}{found.known:>7}  "
            f"{'  '.join(f'{share:<20}' for share in shares)}{found.note}".rstrip()
        )
    return 0


def analyze_rewards(arguments: argparse.Namespace) -> int:
    from sage.evidence.routing_data import RoutingData
    from sage.rl.analyze_rewards import analyze_rewards

    report = analyze_rewards(RoutingData.read(arguments.data))
    write_json(arguments.out, report)
    print(
        f"{arguments.out}: {report['rows']} rows ({report['data_source']}), mean reward {report['distribution']['mean']:.4f}"
    )
    return 0

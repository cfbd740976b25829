"""`sage rl collect-synth`, `replay`, `export` and `analyze-rewards`."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from pathlib import Path

from sage.cli.values import add_selection, open_log, seconds, seed, selection_of
from sage.files import write_json
from sage.log.decision_log import DecisionLog
from sage.log.records import DATA_SOURCES
from sage.orchestrator.static_table import StaticTable
from sage.pipeline.choices import DATABASE, MODELS_FILE

NO_LOG = "give --db, or start one with `sage rl collect-synth`"


def add_commands(actions: argparse._SubParsersAction) -> None:
    synth = actions.add_parser("collect-synth", help="log made-up decisions and outcomes, labelled synthetic")
    synth.add_argument("--rows", type=int, default=650)
    synth.add_argument("--epsilon", type=float, default=0.1, help="share of exploration (0.1)")
    common(synth, collect_synth)

    replay = actions.add_parser("replay", help="log what a policy would have done over a table of real outcomes")
    replay.add_argument("--outcomes", required=True, type=Path, metavar="TABLE", help="made by `sage data import`")
    replay.add_argument("--policy", default="epsilon:0.1", help="static, uniform or epsilon:E around the static table")
    replay.add_argument("--rows", type=int, default=20_000)
    replay.add_argument("--output", type=Path, help="write this JSONL file instead of the log")
    common(replay, replay_table)

    export = actions.add_parser("export", help="write decisions with their outcomes to a JSONL file")
    export.add_argument("--output", required=True, type=Path)
    export.add_argument("--db", default=str(DATABASE))
    export.add_argument(
        "--data-source", choices=DATA_SOURCES, help="default: real, replay or synthetic, the first with 50 rows"
    )
    export.add_argument("--session", help="only this session's decisions")
    export.add_argument("--since", type=seconds, metavar="T", help="only from this time on: 2026-01-31, or seconds")
    export.add_argument(
        "--until", type=seconds, metavar="T", help="only before this time, because later outcomes may still be missing"
    )
    export.add_argument("--complete", action="store_true", help="an outcome without cost or latency counts as missing")
    export.add_argument(
        "--cascades", action="store_true", help="write cascades, one episode a line, and no single decisions"
    )
    add_selection(export)
    export.add_argument("--json", action="store_true")
    export.set_defaults(func=export_log)

    verifiers = actions.add_parser("verifiers", help="how often each verifier is right, from logged cascades")
    verifiers.add_argument("--db", default=str(DATABASE))
    verifiers.add_argument("--data-source", choices=DATA_SOURCES, default="real", help="of the cascades (real)")
    verifiers.add_argument("--out", type=Path, help="write the table as JSON")
    verifiers.add_argument("--json", action="store_true")
    verifiers.set_defaults(func=measure_verifiers)

    analyze = actions.add_parser("analyze-rewards", help="distribution and drivers of the reward")
    analyze.add_argument("--data", required=True, type=Path)
    analyze.add_argument("--out", required=True, type=Path)
    analyze.set_defaults(func=analyze_rewards)


def common(parser: argparse.ArgumentParser, func: object) -> None:
    parser.add_argument("--db", default=str(DATABASE), help=f"the decision log ({DATABASE})")
    parser.add_argument("--models", type=Path, help=f"the static table (default: {MODELS_FILE}, if there is one)")
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--json", action="store_true")
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
        arguments.rows, models=models, static=static, epsilon=arguments.epsilon, seed=arguments.seed
    )
    session = data.decision_id[0].rpartition("-")[0]
    with closing(DecisionLog.open(arguments.db)) as log:
        append_to_log(log, data, session)
    say(arguments, {"rows": len(data), "data_source": data.source, "session": session, "db": arguments.db})
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
    if arguments.output:
        data.write(arguments.output)
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
            "written_to": str(arguments.output or arguments.db),
        },
    )
    return 0


def export_log(arguments: argparse.Namespace) -> int:
    from sage.evidence.cascades.cascade_export import export_cascades
    from sage.evidence.export_dataset import export

    wanted = {name: getattr(arguments, name) for name in ("data_source", "session", "since", "until")}
    wanted["selection"] = selection_of(arguments)
    if arguments.cascades and arguments.complete:
        raise ValueError(
            "--complete is for single decisions: of cascades, an attempt without a cost always counts as missing"
        )
    with closing(open_log(arguments.db, NO_LOG)) as log:
        if arguments.cascades:
            written = vars(export_cascades(log, arguments.output, **wanted))
        else:
            written = vars(export(log, arguments.output, **wanted, complete=arguments.complete))
    say(arguments, {"written_to": str(arguments.output)} | written)
    return 0


def measure_verifiers(arguments: argparse.Namespace) -> int:
    from sage.evidence.cascades.cascade_export import cascades
    from sage.proof.verifier_rates import measure

    with closing(open_log(arguments.db, NO_LOG)) as log:
        rates = measure(cascades(log, unreadable=[], data_source=arguments.data_source))
    if not rates:
        raise ValueError(
            f"{arguments.db} has no verdict of a {arguments.data_source} cascade: run some with `sage route --cascade`, or "
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


def say(arguments: argparse.Namespace, values: dict) -> None:
    if arguments.json:
        print(json.dumps(values))
        return
    for name, value in values.items():
        if isinstance(value, dict):
            value = [f"{number} {key}" for key, number in value.items()]
        text = ", ".join(value) if isinstance(value, list) else str(value)
        if text:
            print(f"{name.replace('_', ' ')}: {text}")

"""`sage init`, `doctor`, `route` and `outcome`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from sage.files import read_text
from sage.log.records import DATA_SOURCES, ROLES
from sage.settings import POLICY

if TYPE_CHECKING:
    from sage.log.cascade_steps import Verdict
    from sage.log.records import Decision
    from sage.orchestrator.cascade import Cascade
    from sage.orchestrator.model_router import Router
    from sage.orchestrator.request_fields import AttemptFields, RequestFields
    from sage.verifiers.verifier import Said

EXAMPLE = re.compile("^( +)# upstream: .*\n", re.MULTILINE)  # of the template


def add_commands(commands: argparse._SubParsersAction) -> None:
    init = commands.add_parser("init", help="write a models.yaml to start from")
    init.add_argument("--models", type=Path, default=Path("models.yaml"), help="where (default: models.yaml)")
    init.add_argument("--force", action="store_true", help="replace an existing file")
    init.set_defaults(func=init_command)

    doctor = commands.add_parser("doctor", help="check the installation, the table, the log and the policy")
    add_places(doctor)
    doctor.set_defaults(func=doctor_command)

    route = commands.add_parser("route", help="choose a model for one call, and log the choice")
    add_places(route)
    route.add_argument("--role", metavar="ROLE", help=", ".join(ROLES))
    route.add_argument(
        "--cascade",
        nargs="?",
        const="",
        metavar="ID",
        help="begin a cascade, or continue the one with this id; prints the model to try, or stop",
    )
    route.add_argument("--task", default="", help="the task's text; - reads standard input")
    route.add_argument("--task-id", default="", help="groups decisions about one task")
    route.add_argument("--category", default="", help="of the task, where one is known")
    route.add_argument("--tenant", default="default")
    route.add_argument("--session", default="")
    route.add_argument("--past-failures", type=int, default=0, help="failed attempts at this task before this call")
    route.add_argument("--probe-calls", type=int, help="number of calls that a cheap attempt took")
    route.add_argument("--probe-cost", type=float, help="cost of that attempt, in USD")
    route.add_argument("--probe-verified", choices=("true", "false"), help="whether a verifier accepted it")
    route.add_argument(
        "--data-source", default="real", metavar="SOURCE", help=f"{', '.join(DATA_SOURCES)} (default: real)"
    )
    route.set_defaults(func=route_command)

    outcome = commands.add_parser("outcome", help="report the outcome of a decision")
    outcome.add_argument("decision_id", metavar="DECISION_ID")
    add_places(outcome)
    outcome.add_argument("--quality", type=float, help="0 to 1")
    outcome.add_argument("--cost", type=float, help="USD")
    outcome.add_argument("--latency", type=float, help="seconds")
    outcome.add_argument("--retries", type=int, default=0)
    outcome.add_argument("--timed-out", action="store_true", help="the call timed out, so its quality is not known")
    outcome.add_argument("--tokens-in", type=int)
    outcome.add_argument("--tokens-cached", type=int, help="how many of the input tokens were cached")
    outcome.add_argument("--tokens-out", type=int)
    outcome.add_argument("--provenance", default="", help="who judged: tests, a person, a verifier ...")
    outcome.add_argument("--model", help="the model that answered, if the provider fell back to another one")
    outcome.add_argument(
        "--verdict", action="append", default=[], metavar="NAME=WORD", help="of a verifier: passed, failed or unknown"
    )
    outcome.add_argument(
        "--answer", metavar="FILE", help="file with the answer, for the verifiers of the role's cascade; - reads stdin"
    )
    outcome.add_argument(
        "--sample", action="append", default=[], metavar="FILE", help="another answer, to compare with"
    )
    outcome.add_argument("--shadow", action="store_true", help="of the second model that the decision asked for")
    outcome.add_argument("--correct", action="store_true", help="replace what was reported before; the log keeps both")
    outcome.set_defaults(func=outcome_command)


def add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--db", type=Path, default=Path("sage.db"), help="the log (default: sage.db)")
    parser.add_argument("--models", type=Path, default=Path("models.yaml"), help="the table (default: models.yaml)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def init_command(options: argparse.Namespace) -> int:
    from sage.files import write_text
    from sage.local_models.registry import Registry

    if options.models.exists() and not options.force:
        raise ValueError(f"{options.models} is there already: edit it, or replace it with --force")
    template = files("sage").joinpath("assets/models.yaml").read_text(encoding="utf-8")
    local = Registry().ready()
    if local is None:
        served = "`sage serve` needs the upstream of each of them, too, for which the file has an example"
    else:
        answers = f"upstream: {{local: {local}, dialects: [chat, responses, messages]}}  # until you give another one"
        template = EXAMPLE.sub(lambda found: f"{found[1]}{answers}\n{found[0]}", template)
        served = f"until then `sage serve` answers for all of them with {local}, a model on this machine"
    write_text(options.models, template)
    print(
        f'wrote {options.models}: put in your models and prices, then: sage route --role coder --task "..."\n  {served}'
    )
    return 0


def doctor_command(options: argparse.Namespace) -> int:
    from sage.cli.doctor import report

    return report(options)


def route_command(options: argparse.Namespace) -> int:
    from sage.orchestrator.model_router import Router

    if not options.role and not options.cascade:
        raise ValueError("--role is needed: give a role, or go on with a cascade by --cascade ID")
    task = sys.stdin.read() if options.task == "-" else options.task
    with Router.open(options.db, models=options.models, data_source=options.data_source, needs_log=True) as router:
        if options.cascade:
            decision = cascade_step(router.resume(options.cascade))
        else:
            request: RequestFields = {
                "role": options.role,
                "task": task,
                "task_id": options.task_id,
                "category": options.category,
                "tenant": options.tenant,
                "session": options.session,
                "past_failures": options.past_failures,
                "probe_calls": options.probe_calls,
                "probe_cost_usd": options.probe_cost,
                "probe_verified": None if options.probe_verified is None else options.probe_verified == "true",
            }
            single = options.cascade is None
            decision = router.route(**request) if single else cascade_step(router.cascade(**request))
    if options.json:
        print(json.dumps(decision.to_json()))
    else:
        shares = ", ".join(f"{m} {p:.3g}" for m, p in zip(decision.candidates, decision.probabilities, strict=True))
        print(f"{decision.model}\n  decision {decision.id}\n  {decision.reason}\n  probabilities: {shares}")
        if decision.shadow is not None:
            print(
                f"  in the shadow {decision.shadow}: ask it too, and report with `sage outcome {decision.id} --shadow`"
            )
        if decision.cascade is not None:
            print(f"  cascade {decision.cascade.cascade_id}, step {decision.cascade.number}")
    return 0


def cascade_step(task: Cascade) -> Decision:
    """The next attempt or, once it has stopped, the stop."""
    decision = task.next() or task.stopped
    assert decision is not None
    return decision


def outcome_command(options: argparse.Namespace) -> int:
    from sage.orchestrator.model_router import Router

    if not options.db.exists():
        raise ValueError(f"{options.db}: there is no such log: give the one that `sage route` wrote with --db")
    no_policy = {POLICY: "0"}
    with Router.open(options.db, models=options.models, environment=no_policy, needs_log=True) as router:
        fields: AttemptFields = {
            "quality": options.quality,
            "cost_usd": options.cost,
            "latency_s": options.latency,
            "retries": options.retries,
            "timed_out": options.timed_out,
            "tokens_in": options.tokens_in,
            "tokens_cached": options.tokens_cached,
            "tokens_out": options.tokens_out,
            "provenance": options.provenance,
            "model": options.model,
            "source": "operator",
        }
        outcome = router.outcome_of(options.decision_id, None, fields, verdicts(router, options))
        status = router.report(outcome, correction=options.correct, shadow=options.shadow)
    print(json.dumps({"decision_id": options.decision_id, "status": status}) if options.json else status)
    if status == "unknown":
        of = " with a shadow" if options.shadow else ""
        print(f"note: {options.db} has no decision {options.decision_id!r}{of}; the outcome is kept", file=sys.stderr)
    if status == "refused":
        print("note: the decision has as many reports as it may have; this one is not kept", file=sys.stderr)
    return 1 if status in ("unknown", "refused") else 0


def verdicts(router: Router, options: argparse.Namespace) -> tuple[Verdict, ...]:
    """Returns the verdicts that were given, and those of the verifiers of the role's cascade on the answer."""
    from sage.verifiers.verifier import Answer, verify

    given: dict[str, Said] = {}
    for text in options.verdict:
        name, separator, word = text.partition("=")
        if not separator:
            raise ValueError(f"--verdict {text!r} must be NAME=passed, NAME=failed or NAME=unknown")
        given[name] = word
    if options.answer is None:
        return verify(None, {}, given)
    texts = [sys.stdin.read() if name == "-" else read_text(Path(name)) for name in (options.answer, *options.sample)]
    rule = router.cascades.rule(router.log.decision(options.decision_id).role)
    return verify(Answer(text=texts[0], samples=tuple(texts[1:])), rule.verifiers, given)

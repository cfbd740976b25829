"""`sage log route` and `sage log outcome`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sage.cli.parser import accept
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


def add_route(route: argparse.ArgumentParser) -> None:
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
    route.add_argument("--tenant", default="default", help="who asks (default: default)")
    route.add_argument("--session", default="", help="groups the calls of one run or conversation")
    route.add_argument("--past-failures", type=int, default=0, help="failed attempts at this task before this call")
    route.add_argument("--probe-calls", type=int, help="number of calls that a cheap attempt took")
    cost = route.add_argument("--probe-cost-usd", type=float, help="cost of that attempt")
    accept(route, cost, "--probe-cost")
    route.add_argument("--probe-verified", choices=("true", "false"), help="whether a verifier accepted it")
    route.add_argument(
        "--data-source", default="real", metavar="SOURCE", help=f"{', '.join(DATA_SOURCES)} (default: real)"
    )
    route.set_defaults(func=route_command)


def add_outcome(outcome: argparse.ArgumentParser) -> None:
    outcome.add_argument("decision_id", metavar="DECISION_ID", help="as `sage log route` printed it")
    add_places(outcome)
    outcome.add_argument("--quality", type=float, help="0 to 1")
    cost = outcome.add_argument("--cost-usd", type=float, help="of the call")
    latency = outcome.add_argument("--latency-s", type=float, help="of the call")
    accept(outcome, cost, "--cost")
    accept(outcome, latency, "--latency")
    outcome.add_argument("--retries", type=int, default=0, help="of the call (0)")
    outcome.add_argument("--timed-out", action="store_true", help="the call timed out, so its quality is not known")
    outcome.add_argument("--tokens-in", type=int, help="of the call")
    outcome.add_argument("--tokens-cached", type=int, help="how many of the input tokens were cached")
    outcome.add_argument("--tokens-out", type=int, help="of the call")
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
                "probe_cost_usd": options.probe_cost_usd,
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
                f"  in the shadow {decision.shadow}: ask it too, and report with `sage log outcome {decision.id} --shadow`"
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
        raise ValueError(f"{options.db}: there is no such log: give the one that `sage log route` wrote with --db")
    no_policy = {POLICY: "0"}
    with Router.open(options.db, models=options.models, environment=no_policy, needs_log=True) as router:
        fields: AttemptFields = {
            "quality": options.quality,
            "cost_usd": options.cost_usd,
            "latency_s": options.latency_s,
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

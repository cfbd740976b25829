"""`sage log explain`."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from typing import TYPE_CHECKING

from sage.cli.route_commands import add_places
from sage.cli.values import open_log
from sage.policies.notation import ROUTING, policy_help
from sage.settings import Settings

if TYPE_CHECKING:
    from sage.orchestrator.explanation import Explanation


def add_explain(explain: argparse.ArgumentParser) -> None:
    explain.add_argument("decision_id", metavar="DECISION_ID", help="as `sage log route` printed it")
    add_places(explain)
    explain.add_argument(
        "--policy",
        nargs="+",
        default=[],
        metavar="POLICY",
        help=f"to ask, beside the one that serves: {policy_help(ROUTING)}",
    )
    explain.set_defaults(func=explain_decision)


def explain_decision(options: argparse.Namespace) -> int:
    from sage.orchestrator.explanation import explain
    from sage.orchestrator.installed_policies import InstalledPolicies
    from sage.orchestrator.models_file import ModelsFile
    from sage.orchestrator.static_table import StaticTable
    from sage.policies.checkpoint import load_any
    from sage.rl.logging_policies import parse_policy

    settings, promoted = Settings.read(), InstalledPolicies(options.db)
    serving = [path for path in (settings.checkpoint, settings.cascade) if settings.policy_on and path is not None]
    if not settings.decides:
        serving += [promoted.checkpoint(slot.serving) for slot in promoted.read().values() if slot.serving is not None]
    asked = dict.fromkeys([*options.policy, *(str(path) for path in serving if path.is_file())])
    table = ModelsFile.read(options.models)
    static = StaticTable.from_file(table)
    with closing(open_log(options.db)) as log:
        decision = log.decision(options.decision_id)
    explanation = explain(decision, table, [parse_policy(text, static, load_any) for text in asked])
    print(json.dumps(as_json(explanation)) if options.json else as_text(explanation))
    return 1 if explanation.differences else 0


def as_json(explanation: Explanation) -> dict:
    return {
        "decision": explanation.decision.to_json(),
        "tier": explanation.tier,
        "features_from": explanation.seen,
        "repeated": explanation.repeated,
        "differences": explanation.differences,
        "alternatives": [vars(alternative) for alternative in explanation.alternatives],
    }


def as_text(explanation: Explanation) -> str:
    decision = explanation.decision
    columns = {"logged": decision.probabilities, "repeated": explanation.repeated}
    columns |= {f"{i}. {a.name}": a.probabilities for i, a in enumerate(explanation.alternatives, start=1)}
    shown = {name: values for name, values in columns.items() if values is not None}
    width = max(len(name) for name in ("model", *decision.candidates))
    header = "  ".join(["model".ljust(width), *shown])
    rows = [
        "  ".join([model.ljust(width), *(f"{values[row]:.6g}".rjust(len(name)) for name, values in shown.items())])
        for row, model in enumerate(decision.candidates)
    ]
    notes = [f"{i}. {a.name}: {a.note}" for i, a in enumerate(explanation.alternatives, start=1)]
    same = "the decision repeats bit for bit"
    return "\n".join(
        [
            f"{decision.model}, drawn with probability {decision.propensity:.6g}",
            f"  decided by: {explanation.tier} ({decision.policy} {decision.policy_version}, verdict {decision.verdict})",
            f"  why: {decision.reason}",
            f"  features from: {explanation.seen}",
            header,
            *rows,
            *notes,
            *(f"DIFFERENT: {difference}" for difference in explanation.differences or ()),
            *([] if explanation.differences else [same]),
        ]
    )

"""`sage doctor`: what is installed, what the table, the log and the policy look like, and what to do about the rest."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from sage.cli.route_commands import add_places
from sage.cli.sandbox_commands import show_sandboxes
from sage.evidence.objective import DEFAULT
from sage.log.decision_log import DecisionLog
from sage.log.records import ROLES
from sage.orchestrator.cascade_rules import CascadeRule
from sage.orchestrator.installed_policies import DECISIONS
from sage.orchestrator.model_router import Router
from sage.orchestrator.models_file import GuardLimits, ModelsFile
from sage.orchestrator.promotion import cascade_kind, served_policy, single_decision_kind
from sage.pipeline.status import details_of, status
from sage.verifiers.sandboxed import SandboxTests
from sage.verifiers.source import SourceCheck, found

REQUIRED = ("numpy", "pyyaml", "safetensors")
OPTIONAL = {
    "torch": "sage train --learner bc and cql need it: pip install 'sage-routing[train]'",
    "pyarrow": "Parquet tables need it: pip install 'sage-routing[train]'",
    "aiohttp": "sage serve and sage run need it: pip install 'sage-routing[serve]'",
}
HERE = Path(__file__).parents[1]
Finding = tuple[str, str, str]  # 'ok', '--' or 'BAD'; what; sentence


def add_doctor(doctor: argparse.ArgumentParser) -> None:
    add_places(doctor)
    doctor.add_argument(
        "--sandboxes", action="store_true", help="attack every sandbox of this host instead, and time it"
    )
    doctor.set_defaults(func=report)


def report(options: argparse.Namespace) -> int:
    """One line per check; 1 if something that is needed is broken."""
    if options.sandboxes:
        return show_sandboxes(options)
    checks: dict[str, Callable[[], tuple[str, str]]] = {
        "table": lambda: check_table(options.models),
        "log": lambda: check_log(options.db),
        "policy": lambda: check_policy(options.models, options.db),
        "served": lambda: check_served(options.models, options.db),
        "cascades": lambda: check_cascades(options.models, options.db),
        "routing": check_routing,
    }
    findings = [*check_packages(), *check_namesakes(HERE, sys.path)]
    for name, check in checks.items():
        state, text = guarded(check)
        findings.append((state, name, text))
    if options.json:
        print(json.dumps([{"state": state, "what": what, "text": text} for state, what, text in findings]))
    else:
        for state, what, text in findings:
            print(f"{state:<4} {what}: {text}")
    return 1 if any(state == "BAD" for state, _, _ in findings) else 0


def guarded(check: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    try:
        return check()
    except ValueError as error:
        return "BAD", str(error)


def check_packages() -> list[Finding]:
    findings = []
    for name in REQUIRED:
        try:
            findings.append(("ok", name, version(name)))
        except PackageNotFoundError:
            findings.append(("BAD", name, f"not installed: pip install {name}"))
    for name, need in OPTIONAL.items():
        found = importlib.util.find_spec(name) is not None
        findings.append(("ok", name, version(name)) if found else ("--", name, need))
    return findings


def check_namesakes(here: Path, path: Sequence[str]) -> list[Finding]:
    """Looks for other packages with the import name `sage`, such as SageMath: in our own folder, and along the path."""
    if (here / "all.py").exists():
        found = f"SageMath's files are in {here}, too: install sage-routing in an environment of its own"
        return [("BAD", "the name sage", found)]
    folders = {Path(place, "sage").resolve() for place in path} - {here.resolve()}
    others = [
        str(folder) for folder in sorted(folders) if any((folder / n).is_file() for n in ("__init__.py", "all.py"))
    ]
    told = (
        "another package of this name, as SageMath's is; only one of them can be imported: use an environment for each"
    )
    return [("--", "the name sage", f"{', '.join(others)} is {told}")] if others else []


def check_table(path: Path) -> tuple[str, str]:
    if not path.exists():
        return "--", f"there is no {path}: `sage init` writes one"
    table = ModelsFile.read(path)
    told = f"{path}: {len(table.models)} models, all {len(table.roles)} roles served"
    return "ok", f"{told}; {told_exploration(table)}; objective: {table.objective.name}"


def told_exploration(table: ModelsFile) -> str:
    """Says how models other than the preferred one are tried: instead of it, beside it, or by a bandit."""
    share, shadow = table.exploration.share, table.exploration.shadow
    ways = [f"{share:.0%} of calls explore"] if share else []
    ways += [f"in {shadow:.0%} of calls a second model is asked in the shadow"] if shadow else []
    ways += [f"the bandit {table.bandit.kind} explores"] if table.bandit is not None else []
    return ", ".join(ways) or "nothing explores, so nothing is learned"


def check_log(path: Path) -> tuple[str, str]:
    if not path.exists():
        return "--", f"there is no {path} yet: `sage serve` or `sage log route` starts it"
    with closing(DecisionLog(path)) as log:
        damage, counts = log.damage(), log.counts()
        if damage:
            return (
                "BAD",
                f"{path} is damaged ({damage}): stop all that write to it, and put a copy or nothing in its place",
            )
        log.file.open()  # a log that can be read but not written is no log
    return "ok", f"{path}: " + ", ".join(f"{number} {name}" for name, number in counts.items() if number)


def check_policy(path: Path, db: Path) -> tuple[str, str]:
    table = ModelsFile.read(path) if path.exists() else None
    models, guard = (("a", "b"), GuardLimits()) if table is None else (tuple(table.models), table.guard)
    objective = DEFAULT if table is None else table.objective
    served = served_policy(None, single_decision_kind(models, guard.confidence_floor), objective, db=db)
    if served.problem:
        return "BAD", f"{served.problem}; the static table answers"
    if served.policy is None:
        return "ok", "off: the static table rules"
    named = f"{served.policy.name} {served.policy.version}"
    return ("--", f"{named}: {served.forced}") if served.forced else ("ok", f"{named} serves, promoted by the gate")


def check_served(path: Path, db: Path) -> tuple[str, str]:
    """Compares what a promoted policy has done since with its proof."""
    for place in (path, db):
        if not place.exists():
            return "--", f"there is no {place}, so nothing has been served"
    slot = status(db=db, models=path).slots[DECISIONS]
    if slot.proof is None:
        return "--", "no policy is promoted"
    return ("BAD" if slot.worse else "ok"), "; ".join(details_of(slot))


def check_cascades(path: Path, db: Path) -> tuple[str, str]:
    rules = ModelsFile.read(path).cascade if path.exists() else {}
    if not rules:
        return "--", "models.yaml has no cascade"
    objective = ModelsFile.read(path).objective
    ladders = sorted({" -> ".join(rule.ladder) for rule in rules.values()})
    told = f"{len(rules)} roles, {'; '.join(ladders)}"
    lacking = sorted({name for rule in rules.values() for name in missing_tools(rule)})
    counts = cascade_counts(db) if db.exists() else {}
    told += "".join(f", {number} {name}" for name, number in counts.items() if number)
    served = served_policy(None, cascade_kind(rules), objective, db=db)
    if served.problem:
        return "BAD", f"{told}; {served.problem}; the ladders answer"
    if served.policy is not None:
        told += f"; {served.policy.name} {served.policy.version} serves, {served.forced or 'promoted by the gate'}"
    if lacking:
        return "--", f"{told}; not installed, so their verdict is unknown: {', '.join(lacking)}"
    return ("--" if served.forced else "ok"), told


def missing_tools(rule: CascadeRule) -> list[str]:
    checks = [verifier for verifier in rule.verifiers.values() if isinstance(verifier, SourceCheck)]
    lacking = [check.tool for check in checks if found(check.tool) is None]
    in_sandboxes = [one for one in rule.verifiers.values() if isinstance(one, SandboxTests)]
    return lacking + ["a sandbox for tests (see `sage doctor --sandboxes`)" for one in in_sandboxes if one.problem()]


def cascade_counts(db: Path) -> dict[str, int]:
    with closing(DecisionLog(db)) as log:
        return log.cascade_counts()


def check_routing() -> tuple[str, str]:
    """Routes every role once with the packaged table, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "models.yaml"
        table.write_text(files("sage").joinpath("assets/models.yaml").read_text(encoding="utf-8"), encoding="utf-8")
        with Router.open(Path(folder) / "log.db", models=table, data_source="synthetic", environment={}) as router:
            statuses = {router.outcome(router.route(role=role, task="try").id, quality=1.0) for role in ROLES}
    return ("ok", "routed, logged and joined") if statuses == {"joined"} else ("BAD", f"outcomes came back {statuses}")

"""Whether sage's claims hold, read from results files and compared with thresholds; exits with 1 if one does not.

.venv/bin/python scripts/check_claims.py                        # the committed results
.venv/bin/python scripts/check_claims.py --results DIR          # files of DIR first: what was measured just now
.venv/bin/python scripts/check_claims.py --write                # the table of docs/verification_matrix.md anew

A claim is one number of one file and what it must be (sage_claims.py, sage_misses.py). Where DIR lacks a file, the
committed one counts, and is named so. A claim that is known not to hold is told as missed, with the number, and does not fail.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from sage_claims import CLAIMS
from sage_misses import MISSES
from sage_numbers import Claim

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = ROOT / "benchmarks" / "sage" / "results"
MATRIX = ROOT / "docs" / "verification_matrix.md"
COMMANDS = {  # of a results file, or a folder of them; DATA: the folder of the outcome packs
    "gate.json": "benchmarks/sage/gate.py --data DATA",
    "looks": "benchmarks/sage/looks.py --data DATA",
    "missing_outcomes": "benchmarks/sage/missing_outcomes.py --data DATA",
    "deleted_rows": "benchmarks/sage/deleted_rows.py --data DATA",
    "served_fall": "benchmarks/sage/served_fall.py --data DATA",
    "sampled_outcomes": "benchmarks/sage/sampled_outcomes.py --data DATA",
    "planned_looks": "benchmarks/sage/planned_looks.py --data DATA",
    "cheapest_within_margin": "benchmarks/sage/cheapest_within_margin.py --data DATA",
    "cascade_budgets": "benchmarks/sage/cascade_budgets.py --data DATA",
    "power": "benchmarks/sage/power.py --data DATA",
    "plan": "benchmarks/sage/plan.py --data DATA",
    "objectives": "benchmarks/sage/objectives.py --data DATA",
    "learn_from_log.json": "benchmarks/sage/learn_from_log.py --data DATA",
    "confidence": "benchmarks/sage/confidence.py --data DATA",
    "confidence_fresh": "benchmarks/sage/confidence.py --data DATA --first-seed 100 --trials 60",
    "routing.json": "benchmarks/sage/routing.py --data DATA",
    "cascades": "benchmarks/sage/cascades.py --data DATA",
    "online_bandits.json": "benchmarks/sage/online_bandits.py --data DATA",
    "online_bandits_left_out.json": "benchmarks/sage/online_bandits.py --data DATA --left-out --orders 3",
    "local_matrix/analysis.json": "benchmarks/sage/local_analysis.py",
    "sim_models.json": "benchmarks/sage/sim_models.py --data DATA",
    "package.json": "scripts/check_package.py FILE",
    "serve_import.json": "benchmarks/sage/serve_import.py",
    "decision_overhead.json": "benchmarks/sage/decision_overhead.py",
    "believed_propensities.json": "benchmarks/sage/believed_propensities.py",
    "log_throughput.json": "benchmarks/sage/log_throughput.py",
    "tenant_budgets.json": "benchmarks/sage/tenant_budgets.py",
    "serve_latency.json": "benchmarks/sage/serve_latency.py",
    "serve_conformance.json": "benchmarks/sage/serve_conformance.py",
    "serve_clients.json": "benchmarks/sage/serve_clients.py",
    "serve_soak.json": "benchmarks/sage/serve_soak.py",
    "demo/proof.json": "scripts/demo_sage.sh",
    "demo/refused.json": "scripts/demo_sage.sh",
    "demo/seconds.json": "scripts/demo_sage.sh",
}


def read(path: Path) -> dict:
    if path.is_dir():
        return {"results": [read(file) for file in sorted(path.glob("*.json"))]}
    return json.loads(path.read_text(encoding="utf-8"))


def check(claim: Claim, fresh: Path | None) -> tuple[str, str]:
    """Whether it holds, in a word ("--": there is no result), and what was found."""
    found = next((f for f in (fresh and fresh / claim.file, COMMITTED / claim.file) if f and f.exists()), None)
    if found is None:
        return "--", f"{claim.sentence}: no result; run {COMMANDS[claim.file]}"
    value = claim.value(read(found))
    word = "holds" if claim.met(value, claim.must) else "missed" if claim.missed else "FAILS"
    goal = "" if claim.goal is None else f"; goal {claim.goal:g} {'met' if claim.met(value, claim.goal) else 'not met'}"
    origin = "measured now" if fresh and found.is_relative_to(fresh) else "committed"
    return word, f"{claim.sentence}: {value:.4g} (must {claim.rule} {claim.must:g}{goal}; {origin})"


def artefact(claim: Claim) -> str:
    if claim.file.startswith("demo/"):
        return f"`{claim.file}` of the run"
    if not (COMMITTED / claim.file).exists():
        return "not measured yet"
    return f"[{claim.file}](../benchmarks/sage/results/{claim.file})"


def matrix() -> str:
    lines = ["| claim | must | goal | command | artefact |", "|---|---|---|---|---|"]
    for claim in CLAIMS:
        goal = "" if claim.goal is None else f"{claim.rule} {claim.goal:g}"
        must = f"{claim.rule} {claim.must:g}"
        lines.append(f"| {claim.sentence} | {must} | {goal} | `{COMMANDS[claim.file]}` | {artefact(claim)} |")
    return "\n".join(lines)


def misses() -> str:
    lines = ["| wanted | must | measured | what is known about it | artefact |", "|---|---|---|---|---|"]
    for claim in MISSES:
        value, must = f"{claim.value(read(COMMITTED / claim.file)):.3g}", f"{claim.rule} {claim.must:g}"
        lines.append(f"| {claim.sentence} | {must} | {value} | {claim.missed} | {artefact(claim)} |")
    return "\n".join(lines)


def with_tables(page: str) -> str:
    for name, table in {"claims": matrix(), "misses": misses()}.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = marked.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", page)
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="folder of results that were measured just now")
    parser.add_argument("--write", action="store_true", help="renew the tables of docs/verification_matrix.md")
    options = parser.parse_args()
    if options.write:
        MATRIX.write_text(with_tables(MATRIX.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    answers = [check(claim, options.results) for claim in (*CLAIMS, *MISSES)]
    print("\n".join(f"{word:<7} {line}" for word, line in answers))
    words = [word for word, _ in answers]
    failed = words.count("FAILS") + (words.count("--") if options.results else 0)
    told = f"{words.count('holds')} hold, {failed} fail, {words.count('missed')} are known to be missed"
    print(f"{told}, {words.count('--')} without a result")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

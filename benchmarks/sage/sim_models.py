"""The simulator's models from recorded outcomes: do fits hold on unseen tasks, and what do policies get at each level?

.venv/bin/python benchmarks/sage/sim_models.py --data FOLDER_OF_PACKS [--packs swebench llmrouter] [--checkpoints NAME=FOLDER ...]

Stores checks and scores in results/sim_models.json, and neither parameters nor rows: the licence of a pack may forbid that. A pack
whose results are stored is computed again; others stay. Checkpoints of `sage sim train` are judged at every level.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from sage.files import write_json
from sage.outcomes.importers import import_table
from sage.sim.comparison import Contest, PolicyComparison
from sage.sim.environment.packed import SHIPPED
from sage.sim.recorded.fitting import HELD_OUT_BY, fit_models
from sage.sim.recorded.model_file import LEVELS

RESULT = Path(__file__).parent / "results" / "sim_models.json"
PACKS = {"swebench": "swebench_verified_minisweagent.parquet", "llmrouter": "llmrouter_dcrouter.parquet"}
INVENTED = "invented"
COMMAND = "benchmarks/sage/sim_models.py --data DATA --checkpoints NAME=FOLDER"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the outcome packs")
    parser.add_argument("--packs", nargs="*", default=list(PACKS), choices=list(PACKS))
    parser.add_argument("--checkpoints", nargs="*", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    policies = {name: Path(folder) for name, _, folder in (text.partition("=") for text in options.checkpoints)}
    begun = options.out.exists()
    stored = json.loads(options.out.read_text(encoding="utf-8")) if begun else {"command": COMMAND, "packs": {}}
    stored[INVENTED] = scores(played(policies, None))
    for kind in options.packs:
        stored["packs"][kind] = of_pack(kind, options.data / PACKS[kind], policies)
        write_json(options.out, stored)


def of_pack(kind: str, path: Path, policies: dict[str, Path]) -> dict:
    table = import_table(kind, path)
    fits = {by: fit_models(table, held_out_by=by) for by in HELD_OUT_BY}
    source = fits["task"].source
    found: dict = {name: source[name] for name in ("provenance", "licence", "cost_kind", "sha256")}
    found |= {"tasks": len(table), "models": len(table.models), "tiers": fits["task"].tiers}
    found["checks"] = {name: checks for fit in fits.values() for name, checks in fit.checks.items()}
    with tempfile.TemporaryDirectory() as folder:
        for level in LEVELS:
            file = Path(folder) / f"{level}.json"
            fit_models(table, level).save(file)
            found[level] = scores(played(policies, file))
            print(kind, level, json.dumps(found[level]["normalised"], indent=1), flush=True)
    return found


def played(policies: dict[str, Path], models: Path | None) -> PolicyComparison:
    return Contest(policies=policies, tables=SHIPPED, models=models).run()


def scores(found: PolicyComparison) -> dict:
    """Of every policy; the band has the lowest and the highest normalised score over correlations."""
    bands = {name: [scores[name] for scores in found.band.values()] for name in found.rows}
    return {
        "level": found.level,
        "correlations": list(found.band),
        "normalised": {name: round(row.normalised, 4) for name, row in found.rows.items()},
        "solved": {name: round(row.solved, 4) for name, row in found.rows.items()},
        "spent": {name: round(row.spent, 2) for name, row in found.rows.items()},
        "band": {name: [round(min(values), 4), round(max(values), 4)] for name, values in bands.items()},
    }


if __name__ == "__main__":
    main()

"""What each part of the method is worth on the published outcome tables: `sage bench --ablations` for every bundled suite.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/ablations.py --data DIR      # writes results/ablations/SUITE.json

One setting is changed at a time; what is learned from a log of the suite's training tasks serves on its held-out ones, whose
outcomes are all known. Seeds 0 to 4 are splits; the interval is over the tasks of the first. The verifier of cascades is
simulated from recorded outcomes. A finished suite is not run again.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pools import FILES

from sage.benchmarks.runner import format_results, run_suite
from sage.benchmarks.suite import TASKS
from sage.files import write_json
from sage.outcomes.importers import import_table

OUT = Path(__file__).parent / "results" / "ablations"
SUITES = {
    "llmrouter": "llmrouter",
    "llmrouter_unseen_types": "llmrouter",
    "routellm": "routellm",
    "swebench_unseen_repositories": "swebench",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for suite in arguments.suites:
        target = arguments.out / f"{suite}.json"
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table.npz"
            import_table(SUITES[suite], arguments.data / FILES[SUITES[suite]]).save(table)
            results = run_suite(Path(str(TASKS / f"{suite}.yaml")), kind="ablations", table_path=str(table))
        write_json(target, results)
        print(format_results(results), flush=True)


if __name__ == "__main__":
    main()

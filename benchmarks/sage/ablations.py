"""What each part of the method is worth: one setting is changed at a time, on the published outcome tables or on one suite.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/ablations.py --data DIR      # writes results/ablations/SUITE.json
python benchmarks/sage/ablations.py [--suite FILE] --run-pack-dir DIR           # one suite; default: the synthetic one
python benchmarks/sage/ablations.py --verify DIR

What is learned from a log of the suite's training tasks serves on its held-out ones, whose outcomes are all known. Seeds
0 to 4 are splits; the interval is over the tasks of the first. The verifier of cascades is simulated from recorded
outcomes. With --data a finished suite is not run again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ablation_setups import PACKS, format_results, headline, run_suite
from pools import FILES

from sage.benchmarks.run_pack import format_differences, verify, write_pack
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


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the outcome packs: runs the published suites")
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=list(SUITES), help="which of them")
    parser.add_argument("--suite", type=Path, help="a YAML file; default without --data: the bundled synthetic one")
    parser.add_argument("--out", type=Path, help="with --data, the folder of the results; otherwise their file")
    parser.add_argument("--run-pack-dir", type=Path, metavar="DIR", help="write a run pack here")
    parser.add_argument("--verify", type=Path, metavar="DIR", help="compute the numbers of this run pack again")
    arguments = parser.parse_args(words)
    if arguments.data is not None and (arguments.suite or arguments.run_pack_dir):
        parser.error("--data runs the published suites: leave --suite and --run-pack-dir out")
    try:
        if arguments.verify is not None:
            found = verify(arguments.verify, PACKS)
            print(format_differences(arguments.verify, found))
            return bool(found)
        if arguments.data is not None:
            return run_published(arguments.data, arguments.suites, arguments.out or OUT)
        return run_one(arguments.suite, arguments.out, arguments.run_pack_dir)
    except (ValueError, OSError) as error:
        parser.error(str(error))


def run_published(data: Path, suites: list[str], out: Path) -> int:
    out.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        target = out / f"{suite}.json"
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table.npz"
            import_table(SUITES[suite], data / FILES[SUITES[suite]]).save(table)
            results = run_suite(Path(str(TASKS / f"{suite}.yaml")), str(table))
        write_json(target, results)
        print(format_results(results), flush=True)
    return 0


def run_one(suite: Path | None, out: Path | None, folder: Path | None) -> int:
    results = run_suite(suite)
    if folder:
        write_pack(folder, results, suite, None, metrics=headline(results), command=["python", *sys.argv])
    if out:
        write_json(out, results)
    print(format_results(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Real models answer every short task twice, chosen by the static table and by a learned policy.

python benchmarks/sage/live.py --checkpoint policy.safetensors --tasks 100 --run-pack-dir packs/live
python benchmarks/sage/live.py --verify packs/live

The models are those of models.yaml; all calls are decisions in the log. Tasks that the policy was learned from are left
out. A run pack cannot ask the models again: --verify checks its hashes and computes every number from its pairs.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from sage.files import write_json


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="the policy")
    parser.add_argument("--models", type=Path, default=Path("models.yaml"), help="default: models.yaml")
    parser.add_argument("--db", type=Path, default=Path("sage.db"), help="the log (default: sage.db)")
    parser.add_argument("--tasks", type=int, default=100, metavar="N", help="tasks to ask (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the tasks (default: 0)")
    parser.add_argument("--out", type=Path, help="write the results here as JSON")
    parser.add_argument("--run-pack-dir", type=Path, metavar="DIR", help="write a run pack here")
    parser.add_argument("--verify", type=Path, metavar="DIR", help="compute the numbers of this run pack again")
    arguments = parser.parse_args(words)
    if find_spec("aiohttp") is None:
        parser.error("calls of models need aiohttp: pip install 'sage-routing[serve]'")
    if arguments.verify is None and arguments.checkpoint is None:
        parser.error("give the policy that is compared with the static table: --checkpoint POLICY")
    try:
        return verify_pack(arguments.verify) if arguments.verify else compare(arguments)
    except (ValueError, OSError) as error:
        parser.error(str(error))


def compare(arguments: argparse.Namespace) -> int:
    from live_comparison import LiveSuite, format_live, run_live
    from live_pack import write_live_pack

    names = ("models", "db", "checkpoint", "tasks", "seed")
    suite = LiveSuite(**{name: getattr(arguments, name) for name in names})
    results, pairs = run_live(suite, lambda done: print(f"\r{done} of {suite.tasks} tasks", end="", file=sys.stderr))
    print(file=sys.stderr)
    if arguments.run_pack_dir:
        write_live_pack(arguments.run_pack_dir, suite, results, pairs)
    if arguments.out:
        write_json(arguments.out, results)
    print(format_live(results))
    return 0


def verify_pack(folder: Path) -> int:
    from live_pack import PACKS

    from sage.benchmarks.run_pack import format_differences, verify

    found = verify(folder, PACKS)
    print(format_differences(folder, found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

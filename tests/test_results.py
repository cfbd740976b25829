"""No number in the docs without its row: the tables there are those that the raw results give."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_tables_in_the_docs_are_those_of_the_raw_results() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "write_results.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "stale: nothing"), done.stderr

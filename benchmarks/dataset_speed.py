"""How fast a dataset that is larger than what is read of it opens and gives batches.

.venv/bin/python benchmarks/dataset_speed.py                      # writes results/dataset_speed.json
.venv/bin/python benchmarks/dataset_speed.py --rows 100000 --out /tmp/x.json

Makes a folder of columns in a temporary folder, then measures in a fresh process: the time to open it (import not
counted), the first batch (which finds the episodes), batches drawn uniformly, and the memory that all of it took: once
with the files in the page cache (`warm`), and once after the system was asked to forget them (`cold`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rl_training.core import Box, Spec
from rl_training.data import Dataset, Provenance
from rl_training.experiment.run_directory import collect_metadata, write_atomically

RESULT = Path(__file__).parent / "results" / "dataset_speed.json"
WIDTH, ACTIONS, LENGTH, BATCH = 11, 3, 1000, 256
BATCHES = {"warm": 4000, "cold": 200}
BYTES_PER_ROW = 4 * (WIDTH + ACTIONS + 1) + 2
SPARE = 2_000_000_000  # bytes that must stay free on the disk


def make(path: Path, rows: int) -> None:
    """Random numbers in the shape of Hopper, in episodes that were cut after 1000 steps."""
    rng = np.random.default_rng(0)
    truncated = np.zeros(rows, bool)
    truncated[LENGTH - 1 :: LENGTH] = True
    truncated[-1] = True
    Dataset.from_arrays(
        obs=rng.random((rows, WIDTH), np.float32),
        action=rng.random((rows, ACTIONS), np.float32),
        reward=rng.random(rows, np.float32),
        terminated=np.zeros(rows, bool),
        truncated=truncated,
        last_obs=rng.random((int(truncated.sum()), WIDTH), np.float32),
        spec=Spec(
            Box((WIDTH,), (-np.inf,) * WIDTH, (np.inf,) * WIDTH), Box((ACTIONS,), (-1.0,) * ACTIONS, (1.0,) * ACTIONS)
        ),
        provenance=Provenance(source="benchmarks/dataset_speed.py", method="random numbers", seed=0, synthetic=True),
    ).save(path)


def forget(path: Path) -> None:
    """Asks the system to drop the pages of the files, which are on disk already."""
    for file in path.iterdir():
        handle = os.open(file, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def measure(path: Path, batches: int) -> dict[str, float]:
    """To be run in a process of its own, because memory is counted from its start."""
    base = memory()
    start = time.perf_counter()
    dataset = Dataset.open(path)
    opened = time.perf_counter()
    rng = np.random.default_rng(1)
    dataset.sample(rng, BATCH)
    first = time.perf_counter()
    after_first = memory()
    for _ in range(batches):
        dataset.sample(rng, BATCH)
    sampled = time.perf_counter()
    return {
        "open_seconds": opened - start,
        "first_batch_seconds": first - opened,
        "batches_per_second": batches / (sampled - first),
        "rows_per_second": BATCH * batches / (sampled - first),
        "private_megabytes_before": base["RssAnon"],
        "private_megabytes_after_first_batch": after_first["RssAnon"],
        "private_megabytes_after": memory()["RssAnon"],
        "mapped_megabytes_after": memory()["RssFile"],
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def memory() -> dict[str, float]:
    """Resident megabytes of this process: its own, and pages of mapped files, which the system may take back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) / 1e3 for name in ("RssAnon", "RssFile")}


def run_once(path: Path, kind: str) -> dict[str, float]:
    if kind == "cold":
        forget(path)
    command = [sys.executable, __file__, "--measure", str(path), "--batches", str(BATCHES[kind])]
    return json.loads(subprocess.check_output(command, text=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batches", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.batches)))
        return
    need = options.rows * BYTES_PER_ROW
    if shutil.disk_usage(options.folder).free < need + SPARE:
        sys.exit(f"{options.folder} has no room for {need / 1e9:.1f} GB: name another with --folder")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "dataset"
        start = time.perf_counter()
        make(path, options.rows)
        made = time.perf_counter() - start
        runs = {kind: [run_once(path, kind) for _ in range(options.repeats)] for kind in BATCHES}
        size = sum(file.stat().st_size for file in path.iterdir())
    record = {
        "rows": options.rows,
        "bytes": size,
        "batch_size": BATCH,
        "batches": BATCHES,
        "make_and_save_seconds": made,
        "runs": runs,
        "metadata": collect_metadata(),
    }
    write_atomically(options.out, json.dumps(record, indent=1) + "\n")
    for kind, records in runs.items():
        for name in records[0]:
            values = sorted(run[name] for run in records)
            print(f"{kind} {name}: {values[len(values) // 2]:.4g} ({values[0]:.4g} to {values[-1]:.4g})")


if __name__ == "__main__":
    main()

"""Renders the raw results into the docs: every number there comes from a file here.

.venv/bin/python benchmarks/write_results.py            # rewrites what stands between the markers
.venv/bin/python benchmarks/write_results.py --check    # exits with 1 if the docs are not up to date
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import offline_tables
from result_tables import learning_table, peer_table

from rl_training.bench.tables import speed_table

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
PEERS = RESULTS / "peers_cpu.json"
FROM_DATA = RESULTS / "speed_data.json"
WHOLE = RESULTS / "speed_learn.json"
MARKERS = re.compile(r"(<!-- results(?: [a-z0-9-]+)* -->).*?(<!-- end of results -->)", re.DOTALL)


def stored_speed() -> dict[str, dict]:
    """What has no table of its own: where a cell was measured twice, the newer measurement stands with the peers."""
    found = [
        json.loads(path.read_text()) for path in sorted(RESULTS.glob("speed*.json")) if path not in (FROM_DATA, WHOLE)
    ]
    newer = json.loads(PEERS.read_text())
    return {name: row for rows in found for name, row in rows.items() if name not in newer}


def render(marker: str) -> str:
    """Returns the text of a marker.

    `peers` and those that begin with `speed` are tables of speed, `offline` is of learning; other words name cells, or
    their beginning.
    """
    words = marker.removeprefix("<!-- results").removesuffix(" -->").split()
    if words == ["peers"]:
        return peer_table(json.loads(PEERS.read_text()))
    if words == ["speed-data"]:
        return speed_table(json.loads(FROM_DATA.read_text()))
    if words == ["speed-learn"]:
        return speed_table(json.loads(WHOLE.read_text()))
    if words == ["speed"]:
        return speed_table(stored_speed())
    if words[:1] == ["offline"]:
        return offline_tables.render(words[1:])
    return learning_table(RESULTS / "learning", words)


def update(path: Path) -> tuple[str, str]:
    old = path.read_text()
    return old, MARKERS.sub(lambda m: f"{m[1]}\n{render(m[1])}\n{m[2]}", old)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        old, new = update(path)
        if old != new:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(new)
    print(("stale: " if check else "wrote: ") + (", ".join(stale) or "nothing"))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

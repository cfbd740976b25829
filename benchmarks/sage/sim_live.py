"""Whether live episodes are those of compiled tasks: plays policies on both, and counts what differs.

.venv/bin/sage sim compile --tasks src/sage/sim/assets/sim_tasks.jsonl.gz --limit 300 --out tables.npz
.venv/bin/python benchmarks/sage/sim_live.py --tables tables.npz --count 30          # adds to results/sim_live.json

Tasks are drawn from the tables. Each is played by the fixed heuristic and by chance, with the same draws on both sides; the
compiled side chooses. A transition differs if an observation, a reward, the end or the state does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path

import torch

from sage.files import write_json
from sage.sandbox.choose import open_backend
from sage.sandbox.counted import CountingBackend
from sage.settings import cache_folder
from sage.sim.environment import packed, rules
from sage.sim.environment.baselines import Chooser, chance
from sage.sim.environment.dynamics import SoftwareTaskDynamics, split
from sage.sim.environment.growing import begun
from sage.sim.environment.live import LiveDynamics
from sage.sim.environment.players import OCHIAI
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder
from sage.sim.tasks.sources import Sources

RESULT = Path(__file__).parent / "results" / "sim_live.json"


def compared(compiled: SoftwareTaskDynamics, live: LiveDynamics, choose: Chooser, seed: int) -> dict[str, int]:
    """Transitions of one episode, those after an edit, and those that differ."""
    uniform = torch.rand(1, compiled.num_random, generator=torch.Generator().manual_seed(seed))
    ours, theirs = compiled.initial(uniform), live.initial(uniform)
    counts = {"transitions": 0, "after_an_edit": 0, "different": 0}
    for _ in range(rules.HORIZON):
        seen, also = compiled.observe(ours), live.observe(theirs)
        action = choose(seen)
        counts["after_an_edit"] += int(split(ours).node.item() > 0)
        ours, reward, terminated = compiled.step(ours, action)
        theirs, other_reward, other_end = live.step(theirs, action)
        same = all(torch.equal(seen[name], also[name]) for name in seen) and torch.equal(ours, theirs)
        counts["transitions"] += 1
        counts["different"] += int(not same or bool(reward != other_reward) or bool(terminated != other_end))
        if terminated:
            break
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--tasks", type=Path, help="the manifest of the tables; the one of the package if not given")
    parser.add_argument("--count", type=int, default=30, help="tasks")
    parser.add_argument("--episodes", type=int, default=4, help="of chance, for each task")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    manifest = Manifest.open(options.tasks) if options.tasks else Manifest.shipped()
    rows = {row["id"]: row for row in manifest.rows}
    rebuilder = Rebuilder(Sources(cache_folder()), manifest.suites)
    tables = packed.load(options.tables)
    total = {"transitions": 0, "after_an_edit": 0, "different": 0}
    wrong, nodes, expanded = [], 0, 0
    backend = CountingBackend(open_backend())
    for table in random.Random(0).sample(tables, min(options.count, len(tables))):
        growth = begun(backend, rebuilder.materialise(rows[table.id]))
        if growth is None:
            wrong.append(table.id)
            continue
        compiled, live = SoftwareTaskDynamics(packed.packed([table]), shaping=False), LiveDynamics(growth)
        policies = [chance(torch.Generator().manual_seed(seed)) for seed in range(options.episodes)]
        counts = [compared(compiled, live, choose, seed) for seed, choose in enumerate([*policies, OCHIAI])]
        total = {name: value + sum(count[name] for count in counts) for name, value in total.items()}
        wrong += [table.id] * any(count["different"] for count in counts)
        nodes, expanded = nodes + len(table.nodes), expanded + growth.expanded
        print(table.id, total, flush=True)
    backend.close()
    facts = {"tasks": options.count, "tasks_that_differ": wrong, **total, "nodes": nodes, "nodes_executed": expanded}
    facts |= {"sandbox_runs": backend.runs, "sandbox_cpu_s": round(backend.cpu_s, 1), "load": os.getloadavg()[0]}
    before = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else []
    write_json(options.out, [*before, facts])


if __name__ == "__main__":
    main()

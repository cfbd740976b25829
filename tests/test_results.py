"""No number in the docs without its row: the tables there are those that the raw results give."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

from rl_training.bench import LEARNING
from rl_training.bench.baselines import BASELINES, FLOORS, Floor
from rl_training.bench.gates import judge
from rl_training.bench.learning import frozen_config
from rl_training.bench.records import read_cell
from rl_training.core.registry import ALGORITHMS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
OTHERS = ("CleanRL", "RL Baselines3 Zoo", "SLM-Lab", "SimbaV2's runs", "TD3's author")  # whose numbers are published
WRITTEN = re.compile(r"<!-- results peers -->\n(.*?)\n<!-- end of results -->", re.DOTALL)


def test_tables_in_the_docs_are_those_of_the_raw_results() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "write_results.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "stale: nothing"), done.stderr


def test_the_readme_quotes_the_table_of_peers() -> None:
    """The page and the README show the same table, and every row that was measured is in it."""
    (quoted,), (shown,) = (WRITTEN.findall((ROOT / page).read_text()) for page in ("README.md", "docs/results.md"))
    assert quoted == shown
    rows = json.loads((RESULTS / "peers_cpu.json").read_text())
    assert {row["work"]["algorithm"] for row in rows.values()} == {"PPO", "DQN", "SAC", "TD3"}
    ratios = [f" {row['ratio_median']:.1f}x (" for row in rows.values() if "ratio_median" in row]
    assert ratios
    assert [ratio for ratio in ratios if ratio not in quoted] == []


def test_floors_are_the_best_that_was_measured_without_learning() -> None:
    measured = json.loads((RESULTS / "floors.json").read_text())["returns"]
    best = {env: max(found.items(), key=lambda item: item[1]["mean"]) for env, found in measured.items()}
    floors = {env: Floor(found["mean"], found["std"], of) for env, (of, found) in best.items()}
    # What is hidden changes nothing for those who look at nothing.
    floors |= {name.replace("-v1", "NoVel-v1"): floors[name] for name in ("CartPole-v1", "Pendulum-v1")}
    assert floors == FLOORS


def test_every_published_number_names_its_source() -> None:
    assert [cell for cell, baseline in BASELINES.items() if "@" not in baseline.source] == []


def reproduced_from_data() -> set[str]:
    """The methods that reached d3rlpy's scores on the same data."""
    spec = importlib.util.spec_from_file_location("offline_tables", ROOT / "benchmarks" / "offline_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    return tables.reproduced()


def test_core_algorithms_are_those_that_reached_a_number_of_others() -> None:
    published = [name for name, cell in LEARNING.items() if cell.gate is not None and cell.reference.startswith(OTHERS)]
    stored = {name: records for name in published if (records := read_cell(RESULTS / "learning", name))}
    met = [name for name, records in stored.items() if judge(name, records).met]
    reached = {frozen_config(name, seed=0).name for name in met} | reproduced_from_data()
    assert {name for name, entry in ALGORITHMS.items() if entry.tier == "core"} == reached

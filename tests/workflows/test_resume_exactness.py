"""Random runs that stop and go on end as those that do not: a sample of what benchmarks/resume_exactness.py draws."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rl_training import RunConfig

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "resume_exactness.py"
SEED = 1


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[SCRIPT.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()


@pytest.mark.parametrize("number", range(20))
def test_cheap_draws_are_exact(number):
    promise, found = script.compare(script.draw_case(SEED, number, cheap=True))
    assert (promise in ("exact", "replayed"), found) == (True, None)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_draws_are_exact(number):
    row = script.run_draw(SEED, number)
    if "skipped" in row:
        pytest.skip(f"needs a package of an environment ({row['skipped']}): make setup")
    assert script.failures([row]) == []


def test_every_draw_is_a_valid_config_and_follows_from_its_number():
    for number in range(100):
        case = script.draw_case(2, number)
        RunConfig.from_mapping(case["config"])
        assert case == script.draw_case(2, number)
        assert 0 < case["stop_at"] < case["config"]["training"]["total_timesteps"]


def test_the_recorded_draws_are_exact():
    """At least 500 that promise it, of this very script, each another one."""
    rows = script.read_rows(script.OUT)
    assert script.failures(rows) == []
    promised = [row for row in rows if row.get("promise") in script.PROMISED]
    assert len(promised) >= 500
    assert len({(row["seed"], row["draw"]) for row in rows}) == len(rows)
    for row in rows:
        case = script.draw_case(row["seed"], row["draw"])
        assert case == {key: row[key] for key in case}, f"draw {row['draw']} is no longer what was run: run it again"


def test_a_difference_is_counted_only_where_exactness_is_promised():
    rows = [{"promise": kind, "difference": "/obs"} for kind in ("exact", "replayed", "boundary")]
    assert script.failures(rows) == rows[:2]
    assert script.failures([{"skipped": "mujoco is not installed"}]) == []

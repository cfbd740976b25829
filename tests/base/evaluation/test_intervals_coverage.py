"""The simulation of coverage: its own statistics are right, its checks can fail, and the page quotes its file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "ope_coverage.py"
RESULTS = json.loads((ROOT / "benchmarks" / "results" / "ope_coverage.json").read_text())


def test_the_page_quotes_the_file() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], check=False)
    assert done.returncode == 0, "run benchmarks/ope_coverage.py --render"


def test_the_measured_file_is_complete_and_passed() -> None:
    assert RESULTS["failures"] == []
    assert {cell["replications"] for cell in RESULTS["cells"]} == {2000}
    assert len(RESULTS["cells"]) == 10
    verdicts = [row["passed"] for cell in RESULTS["cells"] for row in cell["intervals"]]
    assert len(verdicts) > 60
    assert all(verdicts)


@pytest.mark.parametrize("cell", RESULTS["cells"], ids=lambda cell: cell["cell"])
def test_candidates_without_gain_have_none(cell: dict) -> None:
    useless, useful = cell["promotions"]
    assert abs(useless["true_gain"]) < 1e-12
    assert useless["passed"]
    assert useful["true_gain"] > 0.02


def test_binomial_p_values_and_holm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import ope_coverage

    assert ope_coverage.binomial_p_value(0, 3, 0.5) == pytest.approx(0.25)
    assert ope_coverage.binomial_p_value(2, 3, 0.5) == pytest.approx(1.0)
    assert ope_coverage.binomial_p_value(1950, 2000, 0.95) < 1e-6
    assert ope_coverage.binomial_p_value(1873, 2000, 0.95) < 0.01 < ope_coverage.binomial_p_value(1880, 2000, 0.95)
    assert ope_coverage.binomial_p_value(1, 3, 0.5, only_below=True) == pytest.approx(0.5)
    assert ope_coverage.holm([0.01, 0.5, 0.02]) == pytest.approx([0.03, 0.5, 0.04])


def test_the_checks_find_intervals_that_are_too_short_and_careless_promotion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import ope_coverage

    def cell(covered: int, kind: str, promoted: float) -> dict:
        row = {"interval": "x", "kind": kind, "answered": 2000, "covered": covered, "coverage": covered / 2000}
        promotion = {"candidate": "no gain", "true_gain": 0.0, "rate": promoted}
        return {"cell": "c", "replications": 2000, "intervals": [row], "promotions": [promotion]}

    assert ope_coverage.check([cell(1900, "asymptotic", 0.025), cell(1990, "conservative", 0.0)]) == []
    assert ope_coverage.check([cell(1850, "asymptotic", 0.0)]) == ["c: x covers 0.9250"]
    assert ope_coverage.check([cell(1999, "asymptotic", 0.0)]) == ["c: x covers 0.9995"]
    assert ope_coverage.check([cell(1999, "widened", 0.0)]) == []
    assert ope_coverage.check([cell(1850, "widened", 0.0)]) == ["c: x covers 0.9250"]
    assert ope_coverage.check([cell(1890, "conservative", 0.0)]) == ["c: x covers 0.9450"]
    assert ope_coverage.check([cell(1900, "asymptotic", 0.07)]) == ["c: a candidate without gain is promoted in 0.0700"]

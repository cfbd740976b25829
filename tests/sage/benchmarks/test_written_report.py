"""docs/sage/report.md and its appendix: both are written from whatever results there are, and say which are missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "sage" / "results"
PAGE, APPENDIX = ROOT / "docs" / "sage" / "report.md", ROOT / "benchmarks" / "sage" / "appendix.md"
RUN = {
    "scheduler": "as others",
    "load": 1.25,
    "whole": {"direct": {}, "sage": {"added_ms": {"p50": 1.51, "p99": 4.02}, "cpu_ms_per_request": 1.33}},
    "stream": {"sage": {"added_first_byte_ms": {"p50": 1.74}}},
    "loaded": {"sage, 2 workers": {"requests_per_s": 1234, "cpu_ms_per_request": 1.1}},
}


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RESULTS.parent))


def test_without_results_every_part_names_its_file_and_its_command(tmp_path: Path) -> None:
    from report.page import RESULT_PARTS, appendix

    page = appendix(tmp_path)
    for part in RESULT_PARTS:
        for source in part.sources:
            assert source.command in page
            assert source.folder or f"needs `{source.name}`" in page or f"writes; `{source.name}`" in page
    assert "There is no stored result about conformance of the dialects; real clients" in page
    assert "| real log: live decisions | must >= 3000, target >= 10000 | not measured | unknown |" in page


def test_results_of_the_proxy_appear_when_they_are_there(tmp_path: Path) -> None:
    from report.page import appendix

    (tmp_path / "serve_latency.json").write_text(json.dumps({"runs": [RUN]}))
    (tmp_path / "serve_soak.json").write_bytes((RESULTS / "serve_soak.json").read_bytes())
    (tmp_path / "serve_new.json").write_text(json.dumps({"minutes": 30, "lost": {"outcomes": 0}, "rss_mb": [1.0] * 40}))
    page = appendix(tmp_path)
    assert "| 1 | as others | 1.2 | sage | 1.51 | 4.02 | 1.74 | 1.33 |" in page
    assert (
        "| proxy: latency added to a call, p50, ms | must <= 2, target <= 1, goal <= 0.6 | 1.51 | target, goal |"
        in page
    )
    assert (
        "| proxy: requests a second, two workers, all logged | must >= 500, target >= 1200, goal >= 2500 | 1,234 | goal |"
        in page
    )
    assert "| lost, outcomes | 0 |\n| rss mb | 40 entries |" in page
    assert "half an hour under faults" not in page


def test_numbers_of_the_report_are_those_of_the_files(tmp_path: Path) -> None:
    from report.page import report

    gate = json.loads((RESULTS / "gate.json").read_text())
    gate["results"][0]["false_promotion"] = 0.077
    (tmp_path / "gate.json").write_text(json.dumps(gate))
    assert "the gate promotes at most 7.7 % of the candidates" in report(tmp_path)
    assert "the gate promotes at most 7.7 % of the candidates" not in PAGE.read_text()


def test_figures_depend_on_the_results_only(tmp_path: Path) -> None:
    from report.figures import drawn

    shutil.copy(RESULTS / "gate.json", tmp_path)
    first = drawn("coverage", RESULTS)
    assert drawn("coverage", tmp_path) == first
    (tmp_path / "gate.json").write_text(
        (tmp_path / "gate.json").read_text().replace('"coverage": 0.945', '"coverage": 0.955')
    )
    assert drawn("coverage", tmp_path) != first


def test_every_figure_of_the_page_is_there_and_small() -> None:
    lines = [*PAGE.read_text().splitlines(), *APPENDIX.read_text().splitlines()]
    shown = {line.split("/")[-1].rstrip(")") for line in lines if line.startswith("![")}
    stored = {path.name: path.stat().st_size for path in PAGE.with_suffix("").glob("*.svg")}
    assert shown == set(stored)
    assert max(stored.values()) < 40_000

"""Metrics of several processes: their sum, and that it never falls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sage.serve.worker_metrics import WorkerMetrics, retire, total_of, write
from sage.upstream.metrics import Metrics


def counted(requests: int, in_flight: float, unusable: float) -> Metrics:
    metrics = Metrics()
    metrics.count("sage_requests_total", requests, dialect="chat", status="200")
    metrics.time("sage_request_seconds", 0.03, dialect="chat")
    gauges = {"sage_in_flight": in_flight, "sage_log_unusable": unusable, "sage_lost_outcomes_total": 1.0}
    return metrics.with_gauges([(name, value, {}) for name, value in gauges.items()])


def put(folder: Path, process: int, metrics: Metrics) -> None:
    write(folder / f"{process}.json", {"of": [process], **metrics.to_json()})


def test_processes_are_added_up(tmp_path: Path) -> None:
    put(tmp_path, 1, counted(3, 2, 1))
    put(tmp_path, 2, counted(4, 1, 1))
    text = total_of(tmp_path).text()
    assert 'sage_requests_total{dialect="chat",status="200"} 7\n' in text
    assert 'sage_request_seconds_count{dialect="chat"} 2\n' in text
    assert 'sage_request_seconds_bucket{dialect="chat",le="0.05"} 2\n' in text
    assert "sage_in_flight 3\n" in text
    assert "sage_log_unusable 1\n" in text
    assert "sage_lost_outcomes_total 2\n" in text


def test_a_process_that_ended_keeps_its_counters_and_loses_its_gauges(tmp_path: Path) -> None:
    put(tmp_path, 1, counted(3, 2, 1))
    put(tmp_path, 2, counted(4, 1, 0))
    retire(tmp_path, 1)
    retire(tmp_path, 7)  # which never wrote
    text = total_of(tmp_path).text()
    assert 'sage_requests_total{dialect="chat",status="200"} 7\n' in text
    assert "sage_in_flight 1\n" in text
    assert "sage_log_unusable 0\n" in text
    assert "sage_lost_outcomes_total 2\n" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.json", "ended.json"]


def test_a_process_is_counted_once_while_it_is_taken_in(tmp_path: Path) -> None:
    put(tmp_path, 1, counted(3, 0, 0))
    own = (tmp_path / "1.json").read_text(encoding="utf-8")
    retire(tmp_path, 1)
    (tmp_path / "1.json").write_text(own, encoding="utf-8")  # as before it was removed
    assert total_of(tmp_path).counters["sage_requests_total", (("dialect", "chat"), ("status", "200"))] == 3


def test_a_scrape_shows_what_was_counted_until_now(tmp_path: Path) -> None:
    put(tmp_path, 1, counted(3, 0, 0))
    now = counted(1, 0, 0)
    shared = WorkerMetrics(tmp_path, lambda: now)
    now.count("sage_requests_total", 5, dialect="chat", status="200")
    assert 'sage_requests_total{dialect="chat",status="200"} 9\n' in shared.total().text()


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared = WorkerMetrics(tmp_path / "gone", lambda: counted(1, 0, 0))
    shared.total()
    shared.total()
    assert [("cannot be written" in text) for text in caplog.messages] == [True]


def test_metrics_survive_a_file() -> None:
    metrics = counted(3, 2, 1)
    assert Metrics.from_json(json.loads(json.dumps(metrics.to_json()))).text() == metrics.text()

"""The page of a report, for runs in every state."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from rl_base import file_lock
from rl_training import ConfigError
from rl_training.evaluation import bootstrap_interval, iqm, probability_of_improvement
from rl_training.experiment.report.formatting import number
from rl_training.experiment.report.page import write_report
from rl_training.experiment.run_directory import held
from tests import needs
from tests.experiment.report.run_folders import config_of, evaluated, logged, write_run

OUTSIDE = ("<script", "<link", "@import", "url(", "<iframe", "<object", "onload=")


def body_of(page: Path) -> ET.Element:
    """The body of a page, which must be well-formed and must ask for nothing outside."""
    text = page.read_text(encoding="utf-8")
    assert not [word for word in OUTSIDE if word in text]
    body = ET.fromstring(text[text.index("<body>") : text.index("</html>")])
    for one in body.iter():
        assert one.get("src", "data:").startswith("data:")
        assert one.tag == "a" or one.get("href") is None
    keys = {one.get("id") for one in body.iter()}
    assert all(href[1:] in keys for one in body.iter("a") if (href := one.get("href", "")).startswith("#"))
    return body


def text_of(element: ET.Element) -> str:
    """The words of an element, with a space between those of different ones."""
    return " ".join(" ".join(element.itertext()).split())


def section(body: ET.Element, key: str) -> ET.Element:
    return next(one for one in body.iter("section") if one.find("h2").get("id") == key)


def headings(body: ET.Element) -> list[str]:
    return [one.text or "" for one in body.iter("h2")]


@pytest.fixture
def seeds(tmp_path: Path) -> list[Path]:
    """Three seeds of two algorithms."""
    return [
        write_run(tmp_path / "runs" / name / f"seed{seed}", config_of(name, seed=seed), level=level)
        for name, level in (("ppo", 1.0), ("dqn", 0.98))
        for seed in (0, 3, 4)
    ]


def test_groups_of_seeds_are_compared_with_the_statistics_of_evaluation(tmp_path: Path, seeds: list[Path]) -> None:
    body = body_of(write_report(tmp_path / "runs", tmp_path / "deep" / "r.html"))
    assert headings(body) == ["Results", "Learning curves", "Comparison", "Training", "Settings", "Runs"]
    lead = text_of(body.find("header"))
    assert "dqn, ppo on CartPole-v1" in lead
    assert "6 runs in 2 groups with 3 seeds each; 6 finished." in lead
    ppo, dqn = [100.0, 103.0, 104.0], [98.0, 101.0, 102.0]
    low, high = bootstrap_interval(ppo)
    row = next(text_of(row) for row in section(body, "results").iter("tr") if "ppo" in text_of(row))
    scores = f"{number(sum(ppo) / 3)} ± 2.082 {number(iqm(ppo))} {number(low)} to {number(high)}"
    assert row == f"ppo 3 (0, 3, 4) 10,000 {scores} 12.5 s 800"
    found = probability_of_improvement([ppo], [dqn])
    labels = " ".join(svg.get("aria-label", "") for svg in section(body, "comparison").iter("svg"))
    assert f"ppo > dqn: {found.probability:.2f} ({found.low:.2f} to {found.high:.2f})" in labels
    assert f"ppo (3): {number(iqm(ppo))} ({number(low)} to {number(high)})" in labels
    assert "intervals of fewer than 5 runs are too narrow" in text_of(section(body, "comparison"))


def test_learning_curves_say_their_numbers_and_how_many_seeds(tmp_path: Path, seeds: list[Path]) -> None:
    curves = section(body_of(write_report(seeds[:3], tmp_path / "r.html")), "curves")
    assert "IQM over seeds; band: 95 % bootstrap interval over seeds" in text_of(curves)
    last = list(curves.iter("tr"))[-1]
    low, high = bootstrap_interval([100.0, 103.0, 104.0])
    assert [cell.text for cell in last] == ["ppo", "10,000", "102.3", number(low), number(high), "3"]
    notes = [one.text for one in curves.iter("title")]
    assert len(notes) == 10
    assert notes[-1] == f"ppo, 10,000 env steps: 102.3 ({number(low)} to {number(high)}), 3 seeds"


def test_one_run_has_intervals_over_episodes_and_no_comparison(tmp_path: Path, seeds: list[Path]) -> None:
    body = body_of(write_report(seeds[0], tmp_path / "r.html"))
    assert headings(body) == ["Results", "Learning curves", "Training", "Settings", "Runs"]
    assert "One run with seed 0; finished. Nothing here says how much the seed matters" in text_of(body.find("header"))
    assert "interval over the episodes of an evaluation" in text_of(section(body, "curves"))
    assert "100 100 one seed" in text_of(section(body, "results"))
    training = text_of(section(body, "training"))
    for title in ("Training return", "Episode length (steps)", "Throughput (steps per second)", "loss", "q_bias"):
        assert title in training
    assert "(1 value not finite, left out)" in training


def test_groups_of_one_run_are_not_compared_in_pairs(tmp_path: Path, seeds: list[Path]) -> None:
    body = body_of(write_report(seeds[2:4], tmp_path / "r.html"))
    captions = [text_of(one) for one in section(body, "comparison").iter("figcaption")]
    assert [caption.partition(" (")[0] for caption in captions] == ["IQM"]
    assert "Groups of one run stand in the first figure alone." in text_of(section(body, "comparison"))


def test_scores_that_cannot_be_compared_are_named(tmp_path: Path) -> None:
    for name, seed, sticky in (("a", 0, 0.25), ("b", 0, 0.25), ("c", 1, 0.0)):
        write_run(tmp_path / "runs" / name, config_of(seed=seed), result={"protocol": {"env": {"sticky": sticky}}})
    results = text_of(section(body_of(write_report(tmp_path / "runs", tmp_path / "r.html")), "results"))
    assert "ppo: seed 0 occurs more than once; such runs are not independent." in results
    assert "ppo seed 0 and ppo seed 1 differ in env.sticky 0.25 and 0.0." in results


def test_settings_that_differ_are_shown_and_name_the_groups(tmp_path: Path) -> None:
    for gamma in (0.9, 0.99):
        for seed in (1, 2):
            write_run(tmp_path / "runs" / f"{gamma}-{seed}", config_of(seed=seed, gamma=gamma))
    body = body_of(write_report(tmp_path / "runs", tmp_path / "r.html"))
    assert "ppo, gamma=0.9, ppo, gamma=0.99 on CartPole-v1" in text_of(body.find("header"))
    rows = [[text_of(cell) for cell in row] for row in section(body, "settings").iter("tr")]
    assert rows == [["setting", "ppo, gamma=0.9", "ppo, gamma=0.99"], ["algorithm.gamma", "0.9", "0.99"]]


@pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)
def test_runs_in_every_state_give_a_page_with_sentences(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "whole", config_of(seed=0))
    write_run(runs / "killed", config_of(seed=1), until=4_000, result={"status": None})
    failure = {"status": "failed", "reason": "ValueError: <b>no</b>", "eval_mean_return": None}
    write_run(runs / "failed", config_of(seed=2), until=3_000, result=failure)
    write_run(runs / "begun", config_of(seed=3), metrics=[], episodes=[], result={"status": None})
    write_run(runs / "running", config_of(seed=4), until=5_000, result={"status": None})
    strange = [{"timesteps": "x"}, {"timesteps": 10**400}, evaluated(2_000, float("nan")), logged(3_000, float("inf"))]
    write_run(runs / "strange", config_of(seed=5), metrics=strange, result={"offline_updates": "many", "reason": 7})
    old = write_run(runs / "old", config_of(seed=6), result={"total_timesteps": None})
    (old / "metadata.json").write_text("{}")
    damaged = write_run(runs / "damaged", config_of(seed=7))
    (damaged / "config.yaml").write_text("algorithm: [")
    (damaged / "metrics.jsonl").write_text('nonsense\n{"timesteps": 5, "eval/mean_reward": 3}\n')
    (damaged / "result.json").write_text("[]")
    with held(runs / "running", "it", "wait"):
        body = body_of(write_report(runs, tmp_path / "r.html"))
    whole = text_of(body)
    assert "8 runs in 2 groups with 1 to 7 seeds" in whole
    for state in ("3 finished", "1 running", "1 failed", "3 interrupted"):
        assert state in text_of(body.find("header"))
    assert "config.yaml cannot be read" in whole
    assert "line 1 is damaged" in whole
    assert "ValueError: <b>no</b>." in whole
    assert "5,000 of 10,000" in whole
    results = text_of(section(body, "results"))
    assert "seed 3, 5 has no score yet and does not count." in results
    assert "seed 1 (interrupted at 4,000), 2 (failed at 3,000), 4 (running at 5,000)" in results
    assert "nan" not in whole.lower().replace("nano", "")


def test_without_evaluations_training_episodes_are_the_score(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / "runs" / str(seed), config_of(seed=seed), metrics=[], result={"eval_mean_return": None})
    body = body_of(write_report(tmp_path / "runs", tmp_path / "r.html"))
    assert headings(body) == ["Results", "Training", "Settings", "Runs"]
    assert "mean return of the last 100 training episodes" in text_of(section(body, "results"))
    assert "55.5 ± 0.7071" in text_of(section(body, "results"))  # of 55 and 56


def test_learning_from_data_is_counted_in_updates(tmp_path: Path) -> None:
    config = config_of("cql") | {"training": {"total_timesteps": 0, "total_updates": 10_000, "seed": 0}}
    result = {"total_timesteps": 0, "offline_updates": 10_000}
    run = write_run(tmp_path / "cql", config, episodes=[], result=result)
    going_on = write_run(tmp_path / "bc", config | {"algorithm": {"name": "bc"}}, episodes=[], result={"status": None})
    rows = [evaluated(1_000, 3.0), {"timesteps": 1_500, "train/loss": 1.0, "time/total_timesteps": 0, "time/fps": 9.0}]
    (going_on / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    body = body_of(write_report([run, going_on, write_run(tmp_path / "ppo", config_of())], tmp_path / "r.html"))
    labels = [svg.get("aria-label", "") for svg in section(body, "curves").iter("svg")]
    assert any(
        label.startswith("Evaluation return over updates from data: cql 100 at 10,000; bc 3 at 1,000")
        for label in labels
    )
    assert any(label.startswith("Evaluation return over env steps: ppo") for label in labels)
    assert "Throughput (updates from data per second)" in text_of(section(body, "training"))


def test_everything_that_is_shown_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>\"&"
    metrics = [logged(1_000, 1.0) | {f"train/{evil}": 1.0, f"{evil}/x": 2.0}, evaluated(1_000, 1.0)]
    for seed, gamma in ((0, evil), (1, 0.9)):
        config = config_of(evil, env=evil, seed=seed, gamma=gamma)
        write_run(tmp_path / "<b>&" / str(seed), config, metrics=metrics, result={"reason": evil})
    body = body_of(write_report(tmp_path / "<b>&", tmp_path / "r.html"))
    assert evil in text_of(body.find("header"))
    assert not list(body.iter("script"))
    assert not list(body.iter("b"))


def test_videos_stand_in_the_page_as_far_as_there_is_room(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, config_of(name)) for name in ("ppo", "dqn", "sac")]
    for run, content in zip(runs, (b"GIF89a-old", b"x" * 2_000_000, b"MP4"), strict=True):
        (run / "videos").mkdir()
        (run / "videos" / ("step_000001000.mp4" if run.name == "sac" else "step_000001000.gif")).write_bytes(content)
    (runs[0] / "videos" / "step_000002000.gif").write_bytes(b"GIF89a-new")
    page = write_report(runs, tmp_path / "r.html")
    videos = section(body_of(page), "videos")
    assert [one.get("src") for one in videos.iter("img")] == ["data:image/gif;base64,R0lGODlhLW5ldw=="]
    assert [one.get("src") for one in videos.iter("video")] == ["data:video/mp4;base64,TVA0"]
    assert "dqn, seed 0, step_000001000.gif is left out, as the page would grow too large (2.0 MB)" in text_of(videos)
    assert page.stat().st_size < 1_000_000


def test_wrong_arguments_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    run, empty = write_run(tmp_path / "run", config_of()), tmp_path / "empty"
    empty.mkdir()
    for runs, out, message in (
        (tmp_path / "nowhere", tmp_path / "r.html", "does not exist: give the run directory"),
        (empty, tmp_path / "r.html", "is not a run directory: it has no config.yaml"),
        ([], tmp_path / "r.html", "runs is empty: name at least one"),
        (run, empty, "is a folder: give the name of the HTML file"),
        (run, run / "config.yaml" / "r.html", "cannot be written"),
        (3, tmp_path / "r.html", "runs=3 "),
        ([run, 3], tmp_path / "r.html", "runs=3 "),
        (run, 3, "out=3 "),
    ):
        with pytest.raises(ConfigError, match=message):
            write_report(runs, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "run"]

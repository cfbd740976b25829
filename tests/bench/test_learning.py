"""Learning cells: frozen, resumable, judged by gates and published results, compared and summarised."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from rl_training.bench import LEARNING, LEARNING_SUITES, LearningCell, learning
from rl_training.bench.baselines import BASELINES, FLOORS, Baseline, Floor
from rl_training.bench.comparison import comparisons
from rl_training.bench.gates import detectable, judge, normalised, power_note, reached_blindly, threshold
from rl_training.bench.learning_cells import COMPILED
from rl_training.bench.peer_environments import SCRIPTS, PeerUnavailableError
from rl_training.bench.records import read_json
from rl_training.bench.report import write_report
from rl_training.bench.summary import summarise, write_summary
from rl_training.cli import main
from rl_training.config import list_presets, preset_path

SHORT = LearningCell(
    "ppo/cartpole",
    5,
    "none",
    (
        "training.total_timesteps=640",
        "algorithm.n_steps=16",
        "algorithm.batch_size=32",
        "env={id: CartPole-v1, n_envs: 2}",
    ),
)


def record(score: float, *, training: float | None = None, env: str = "CartPole-v1") -> dict:
    curve = [[100, 0.5 * score], [200, score]]
    config = {"env": {"id": env}}
    return {"score": score, "training_return_last_100": training, "evaluations": curve, "config": config}


def store(folder: Path, cell: str, scores: list[float], **more: object) -> None:
    """Runs of a cell on CartPole."""
    (folder / cell).mkdir(parents=True)
    for seed, score in enumerate(scores):
        (folder / cell / f"seed{seed}.json").write_text(json.dumps(record(score) | more))


def test_every_cell_has_a_preset_and_a_valid_config() -> None:
    for name, cell in LEARNING.items():
        assert cell.preset in list_presets()
        config = learning.frozen_config(name, seed=3)
        assert config.training.seed == 3
        assert config.evaluation.episodes == cell.episodes
    assert set(BASELINES) <= set(LEARNING)
    for peer in learning.LEARNING_PEERS:
        assert set(read_json(SCRIPTS / f"{peer}_learn.json")) <= set(LEARNING)


def test_presets_are_marked_as_measured_where_results_are_stored() -> None:
    root = Path(__file__).parents[2]
    for name, cell in LEARNING.items():
        stored = f"benchmarks/results/learning/{name}"
        if set(cell.overrides) <= set(COMPILED) and len(list((root / stored).glob("*.json"))) > 1:
            assert f"({stored})" in preset_path(cell.preset).read_text(encoding="utf-8")


def test_suites_hold_every_cell_with_a_gate_once() -> None:
    chosen = [name for names in LEARNING_SUITES.values() for name in names]
    assert len(chosen) == len(set(chosen))
    assert {name for name, cell in LEARNING.items() if cell.gate is not None} <= set(chosen)
    assert "sac-halfcheetah-100k" in LEARNING_SUITES["control"]
    assert "dqn-cartpole" in LEARNING_SUITES["classic"]


def test_seeds_are_how_many_or_which() -> None:
    assert learning.parse_seeds("3") == [0, 1, 2]
    assert learning.parse_seeds("0,7") == [0, 7]
    assert learning.parse_seeds("4,") == [4]
    for wrong in ("", "x", "0", "-1,2", ","):
        with pytest.raises(ValueError, match="--seeds"):
            learning.parse_seeds(wrong)


def test_a_run_is_stored_once_and_skipped_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNING, "short", SHORT)
    said: list[str] = []
    learning.run_one("short", 1, tmp_path, ["training.threads=1"], said.append)
    file = tmp_path / "short" / "seed1.json"
    stored = json.loads(file.read_text())
    assert len(stored["evaluations"]) == 20
    assert stored["score"] == pytest.approx(statistics.fmean(mean for _, mean in stored["evaluations"][-10:]))
    assert (stored["config"]["training"]["seed"], stored["total_timesteps"]) == (1, 640)
    assert stored["metadata"]["hardware"]["cores"] > 0
    assert stored["protocol"] == {"episodes": 10, "deterministic": True, "epsilon": 0.0, "max_steps": 30_000, "env": {}}
    before = file.stat().st_mtime_ns
    learning.run_one("short", 1, tmp_path, say=said.append)
    assert file.stat().st_mtime_ns == before
    assert len(said) == 1
    assert [path.name for path in (tmp_path / "short").iterdir()] == ["seed1.json"]


def test_runs_with_other_settings_than_the_cell_has_now_are_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(LEARNING, "short", SHORT)
    learning.run_one("short", 0, tmp_path, ["training.threads=1"], lambda text: None)
    assert summarise(tmp_path, ["short"]).changed == {}  # threads say how it ran, not what was learned
    monkeypatch.setitem(LEARNING, "short", replace(SHORT, overrides=(*SHORT.overrides, "algorithm.gamma=0.5")))
    summary = summarise(tmp_path, ["short"])
    assert summary.changed == {"short": ["algorithm.gamma 0.98 (now 0.5)"]}
    assert "short has runs with other settings than it has now: algorithm.gamma 0.98 (now 0.5)." in summary.notes


def test_the_rule_of_the_reference() -> None:
    """The gates of section 1.5 at 100k steps, for 3 seeds against 10."""
    author = Baseline(5514, 554, 10, "evaluation", "TD3")
    assert threshold(author, 3) == pytest.approx(4664, abs=1)
    assert threshold(author, 5) == pytest.approx(4807, abs=1)


def test_a_gate_is_met_by_the_mean_unless_a_seed_learned_nothing() -> None:
    good = judge("ppo-cartpole", [record(s, training=495.0) for s in (500.0, 480.0, 470.0)])
    assert (good.met, good.gate, good.at_floor) == (True, 475, 0)
    assert good.rule == pytest.approx(490.04 - 2.33 * 6.12 * math.sqrt(2 / 3))
    assert good.measured == 495.0
    assert good.interval[0] <= good.iqm <= good.interval[1]
    assert judge("ppo-cartpole", [record(s, training=495.0) for s in (400.0, 480.0)]).met is False
    stuck = judge("recurrent-ppo-cartpole-novel", [record(s) for s in [500.0] * 10 + [9.0]])
    assert (stuck.at_floor, stuck.mean > 450, stuck.met) == (1, True, False)


def test_a_seed_that_scores_what_blind_actions_may_has_learned_nothing() -> None:
    assert reached_blindly(Floor(20.0, 10.0, "random")) == pytest.approx(20 + 2.33 * 10 / math.sqrt(10))


def test_without_a_gate_the_published_result_decides_and_without_both_nothing_does() -> None:
    cheetah = {"env": "HalfCheetah-v5"}
    assert judge("ppo-halfcheetah", [record(900.0, training=1500.0, **cheetah)] * 2).met is True
    assert judge("ppo-halfcheetah", [record(2000.0, training=1200.0, **cheetah)] * 2).met is False
    assert judge("ppo-pendulum", [record(-150.0, env="Pendulum-v1")] * 2).met is None


def test_scores_on_a_common_scale() -> None:
    floor = FLOORS["CartPole-v1"].mean
    published = [record(500.0, training=floor), record(0.0, training=490.04)]  # of training episodes, so ours are too
    assert normalised("ppo-cartpole", published) == [0.0, pytest.approx(1.0)]
    assert normalised("a2c-cartpole", [record(475.0)]) == [1.0]  # by the gate
    assert normalised("recurrent-ppo-tmaze", [record(1.0, env="TMaze-v0")]) is None


def test_the_power_note_agrees_with_the_reference() -> None:
    assert [math.ceil(10 * detectable(n) - 1e-6) / 10 for n in (16, 7, 4)] == [1.0, 1.5, 2.0]
    assert power_note(5, 20).startswith("With 5 seeds each, a difference of 1.8 standard deviations")


def test_cells_are_compared_with_their_peers_and_variants_with_dqn(tmp_path: Path) -> None:
    store(tmp_path, "sac-pendulum", [-150.0, -140.0, -145.0])
    store(tmp_path, "sac-pendulum-sb3", [-200.0, -210.0, -190.0])
    store(tmp_path, "dqn-cartpole-100k", [300.0, 290.0])
    store(tmp_path, "iqn-cartpole-100k", [200.0, 210.0])
    store(tmp_path, "rainbow-dqn-cartpole-100k", [500.0])  # one seed says nothing of a spread
    names = sorted(path.name for path in tmp_path.iterdir())
    ours, variant = comparisons(tmp_path, names)
    assert (ours.ours, ours.other, ours.worse) == ("sac-pendulum", "sac-pendulum-sb3", False)
    assert ours.improvement.probability == 1.0
    assert (variant.ours, variant.worse) == ("iqn-cartpole-100k", True)
    assert "**worse** by the rule of 2.33" in variant.sentence


def test_the_summary_passes_only_if_all_is_there_and_met(tmp_path: Path) -> None:
    store(tmp_path / "learning", "a2c-cartpole", [500.0, 490.0])
    store(tmp_path / "learning", "ppo-cartpole", [500.0, 490.0], training_return_last_100=495.0)
    good = summarise(tmp_path / "learning", ["a2c-cartpole", "ppo-cartpole"])
    assert good.passed
    assert good.aggregate is not None
    assert good.aggregate.cells == 2
    assert good.aggregate.iqm_interval[0] <= good.aggregate.iqm <= good.aggregate.iqm_interval[1]
    assert good.aggregate.optimality_gap == 0.0
    assert good.aggregate.profile.share[0] == 1.0
    assert not summarise(tmp_path / "learning", ["a2c-cartpole", "dqn-cartpole"]).passed
    store(tmp_path / "learning", "dqn-cartpole", [400.0, 410.0], training_return_last_100=400.0)
    bad = summarise(tmp_path / "learning", ["a2c-cartpole", "dqn-cartpole"])
    assert not bad.passed
    assert "| 460 | 400.0, at least" in bad.markdown()
    write_summary(bad, tmp_path, "classic")
    stored = json.loads((tmp_path / "learning-classic.json").read_text())
    assert stored["verdicts"][1]["met"] is False
    assert bad.aggregate is not None
    assert stored["aggregate"]["optimality_gap"] == bad.aggregate.optimality_gap
    assert stored["aggregate"]["profile"] == bad.aggregate.profile._asdict()
    gap = 0.5 * (1 - (400 - FLOORS["CartPole-v1"].mean) / (488.69 - FLOORS["CartPole-v1"].mean))
    assert f"if none counts for more: {gap:.3f} (" in (tmp_path / "learning-classic.md").read_text()


def test_the_command_judges_and_its_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(tmp_path / "learning", "a2c-cartpole", [500.0, 490.0])
    command = ["bench", "learn", "--judge", "--out", str(tmp_path), "--cells"]
    assert main([*command, "a2c-cartpole"]) == 0
    assert "no gate is missed" in capsys.readouterr().out
    assert main([*command, "a2c-cartpole", "dqn-cartpole"]) == 1
    said = capsys.readouterr().out
    assert "No runs yet: dqn-cartpole." in said
    assert said.endswith("1 of 2 cells have no runs; no gate is missed\n")
    assert main([*command, "nothing"]) == 2
    assert "--cells 'nothing' is not known" in capsys.readouterr().err
    assert main([*command, "a2c-cartpole", "--peers", "sbx"]) == 2
    assert "--peers 'sbx': 'sbx' is not known here: use sb3" in capsys.readouterr().err


def test_the_command_runs_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setitem(LEARNING, "short", SHORT)
    command = [
        "bench",
        "learn",
        "--cells",
        "short",
        "--seeds",
        "2",
        "--out",
        str(tmp_path),
        "--set",
        "training.threads=1",
    ]
    code = main(command)
    assert code in (0, 1)  # 640 steps may or may not leave the floor
    assert sorted(path.name for path in (tmp_path / "learning" / "short").iterdir()) == ["seed0.json", "seed1.json"]
    first = capsys.readouterr().out
    assert "short seed 1: score" in first
    assert main(command) == code
    assert "short seed 1: score" not in capsys.readouterr().out


def test_a_peer_without_settings_or_environment_is_said_not_raised(tmp_path: Path, monkeypatch) -> None:
    said: list[str] = []

    def refuse(*_: object) -> Path:
        raise PeerUnavailableError("cannot be installed: no network")

    monkeypatch.setattr(learning, "find_python", refuse)
    learning.run_peer("dqn-cartpole", "sb3", [0], tmp_path, {}, said.append)
    learning.run_peer("sac-pendulum", "sb3", [0], tmp_path, {}, said.append)
    assert said == ["dqn-cartpole: no settings for sb3", "sac-pendulum: sb3 cannot be installed: no network"]
    assert not list(tmp_path.iterdir())


def test_the_report_is_one_page_that_needs_nothing_else(tmp_path: Path, capsys) -> None:
    store(tmp_path / "learning", "a2c-cartpole", [500.0, 490.0])
    store(tmp_path / "learning", "dqn-cartpole", [400.0, 410.0], training_return_last_100=400.0)
    row = {"ours_steps_per_second": [2.0], "peer_steps_per_second": [1.0], "peer": "sb3", "compile_and_warm_up_s": 1}
    row |= {"ratio_median": 2.0, "ratio_min": 1.9, "ratio_max": 2.1, "versions": {"torch": "2"}}
    row |= {"machine": {"cores": 2, "processor": "<AMD>"}}
    (tmp_path / "speed.json").write_text(json.dumps({"cell": row, "other": {"peer": "sbx", "unavailable": "no PPO"}}))
    out = tmp_path / "page" / "report.html"
    assert main(["bench", "report", "--results", str(tmp_path), "--out", str(out)]) == 0
    page = out.read_text()
    assert page.count("<svg") == 4  # ratios, runs on one scale, the profile, curves
    assert "share of runs above it" in page
    assert "2 cores of &lt;AMD&gt;" in page
    with pytest.raises(ValueError, match=r"cannot be written .*: choose another file"):
        write_report(tmp_path, tmp_path / "speed.json" / "report.html")
    assert "<td>other</td><td>sbx</td><td>no PPO</td>" in page
    assert "<strong>missed</strong>" in page
    assert not [word for word in ("<script", "<link", "src=", "url(http", "@import") if word in page]


def test_nothing_stored_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no results: run `rl-training bench speed`"):
        write_report(tmp_path, tmp_path / "report.html")


STICKY = {"episodes": 10, "env": {"sticky": 0.25, "max_steps": 27_000}}
STEADY = {"episodes": 10, "env": {"sticky": 0.0, "max_steps": 27_000}}


def test_cells_with_unlike_protocols_are_not_compared_and_a_sentence_says_why(tmp_path: Path) -> None:
    store(tmp_path, "ppo-pendulum", [1.0, 2.0], protocol=STICKY)
    store(tmp_path, "ppo-pendulum-sb3", [1.0, 2.0], protocol=STEADY)
    summary = summarise(tmp_path, ["ppo-pendulum"])
    assert summary.found == []
    said = "ppo-pendulum is not compared with ppo-pendulum-sb3, whose protocol is unlike: env.sticky 0.25 and 0.0."
    assert said in summary.markdown()
    assert summary.to_json()["refused"] == [said]


def test_cells_of_the_same_protocol_or_without_one_are_compared(tmp_path: Path) -> None:
    for folder, ours, other in (("same", STICKY, STICKY), ("older", {"episodes": 10, "env": {}}, {})):
        store(tmp_path / folder, "ppo-pendulum", [1.0, 2.0], protocol=ours)
        store(tmp_path / folder, "ppo-pendulum-sb3", [1.0, 2.0], protocol=other)
        summary = summarise(tmp_path / folder, ["ppo-pendulum"])
        assert (len(summary.found), summary.refused) == (1, [])


def test_seeds_of_unlike_protocols_have_no_mean(tmp_path: Path) -> None:
    store(tmp_path, "ppo-pendulum", [1.0, 2.0], protocol=STICKY)
    (tmp_path / "ppo-pendulum" / "seed2.json").write_text(json.dumps(record(3.0) | {"protocol": STEADY, "seed": 2}))
    with pytest.raises(ValueError, match=r"ppo-pendulum have unlike protocols .*env.sticky 0.25 and 0.0"):
        summarise(tmp_path, ["ppo-pendulum"])

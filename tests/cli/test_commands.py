"""Every command line of the manual, through real processes."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rl_training import RunConfig, __version__, load
from rl_training.cli import main
from rl_training.config import preset_path
from rl_training.config.presets import load_yaml
from rl_training.evaluation import iqm
from rl_training.experiment import run_callbacks
from tests.cli.process import call, call_all, read_jsonl

SMALL = ["--set", "algorithm.batch_size=64", "--set", "algorithm.n_epochs=2"]
COUNTING = """
algorithm: {name: a2c, n_steps: 5}
env: {id: "tests.envs.counting:CountingEnv", n_envs: 2}
training: {total_timesteps: 80}
evaluation: {episodes: 4, n_envs: 2}
"""
RESULT_FIELDS = {
    "status", "algorithm", "env_id", "seed", "total_timesteps", "gradient_steps", "wall_time_s", "steps_per_second",
    "eval_mean_return", "eval_std_return", "eval_episodes", "checkpoint", "resume",
}  # fmt: skip
STABLE_BASELINES_KEYS = {
    "rollout/ep_len_mean", "rollout/ep_rew_mean", "time/fps", "time/iterations", "time/time_elapsed",
    "time/total_timesteps", "train/approx_kl", "train/clip_fraction", "train/clip_range", "train/entropy_loss",
    "train/explained_variance", "train/learning_rate", "train/loss", "train/n_updates", "train/policy_gradient_loss",
    "train/value_loss",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def trained(folder) -> subprocess.CompletedProcess[str]:
    """`rl-training train ppo/cartpole ...` of the manual with a small budget, in `runs/a`."""
    command = "train ppo/cartpole --seed 1 --run-dir runs/a --total-timesteps 1536 --set algorithm.learning_rate=1e-3"
    intervals = "evaluation.interval=512 evaluation.episodes=5 checkpoint.interval=256 checkpoint.keep=2"
    settings = [part for text in f"{intervals} training.log_interval=256".split() for part in ("--set", text)]
    return call(*command.split(), *SMALL, *settings, "--show-curve", cwd=folder)


@pytest.fixture(scope="module")
def run_dir(folder, trained) -> Path:
    assert trained.returncode == 0, trained.stderr
    return folder / "runs" / "a"


def test_train_says_what_happened_and_where(trained, run_dir):
    assert trained.returncode == 0
    assert "finished: 1,536 env steps" in trained.stdout
    assert f"run directory: {run_dir.resolve()}\n" in trained.stdout
    assert "return" in trained.stdout.splitlines()[0]  # --show-curve


def test_progress_is_plain_lines_on_standard_error(trained):
    lines = trained.stderr.splitlines()
    assert [line.split(":")[0] for line in lines if "evaluation return" in line] == [
        "512 env steps",
        "1,024 env steps",
        "1,536 env steps",
    ]
    assert "\x1b" not in trained.stderr
    assert "\r" not in trained.stderr
    assert "evaluation return" not in trained.stdout.splitlines()[0]


def test_run_directory_is_complete(run_dir):
    names = {path.name for path in run_dir.iterdir() if not path.name.startswith("events.out.tfevents")}
    assert names == {
        ".lock", "checkpoints", "config.yaml", "episodes.jsonl", "learning_curve.png", "metadata.json", "metrics.jsonl",
        "result.json",
    }  # fmt: skip
    assert (run_dir / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_config_is_fully_resolved(run_dir):
    values = yaml.safe_load((run_dir / "config.yaml").read_text())
    assert values["training"] == {
        "total_timesteps": 1536, "total_updates": 0, "seed": 1, "device": "cpu", "compile": "auto", "precision": "float32",
        "overlap": False, "threads": 1, "log_interval": 256,
    }  # fmt: skip
    assert values["algorithm"]["learning_rate"] == 1e-3
    assert values["algorithm"]["vf_coef"] == 0.5  # a default that the preset does not mention
    assert RunConfig.from_mapping(values).to_mapping() == values


def test_metadata_says_how_it_was_made(run_dir):
    metadata = json.loads((run_dir / "metadata.json").read_text())
    assert {"torch", "numpy", "gymnasium"} <= set(metadata["versions"])
    assert metadata["command"][1:3] == ["train", "ppo/cartpole"]
    assert metadata["hardware"]["cores"] >= 1
    assert "git" in metadata


def test_metrics_have_stable_baselines_keys(run_dir):
    rows = read_jsonl(run_dir / "metrics.jsonl")
    training = [row for row in rows if "train/loss" in row]
    assert [row["timesteps"] for row in training] == [256, 512, 768, 1024, 1280, 1536]
    assert set(training[-1]) >= STABLE_BASELINES_KEYS
    assert training[-1]["train/n_updates"] == 6 * 2 * 4  # rollouts x epochs x minibatches
    assert training[-1]["train/learning_rate"] == pytest.approx(1e-3)
    assert [row["timesteps"] for row in rows if "eval/mean_reward" in row] == [512, 1024, 1536]


def test_episode_lengths_add_up_to_the_step_they_ended_at(run_dir):
    rows = read_jsonl(run_dir / "episodes.jsonl")
    assert all(row["return"] == row["length"] for row in rows)  # CartPole pays 1 per step
    for env in range(8):
        mine = [row for row in rows if row["env"] == env]
        assert [row["timesteps"] for row in mine] == (8 * np.cumsum([row["length"] for row in mine])).tolist()


def test_tensorboard_has_the_same_numbers(run_dir):
    events = EventAccumulator(str(run_dir))
    events.Reload()
    for row in read_jsonl(run_dir / "metrics.jsonl"):
        for key in ("train/loss", "rollout/ep_rew_mean", "eval/mean_reward"):
            if key in row:
                values = {event.step: event.value for event in events.Scalars(key)}
                assert values[row["timesteps"]] == pytest.approx(row[key], rel=1e-6)


def test_checkpoints_are_rotated_and_the_best_is_kept(run_dir):
    names = sorted(path.name for path in (run_dir / "checkpoints").iterdir())
    evaluations = [row for row in read_jsonl(run_dir / "metrics.jsonl") if "eval/mean_reward" in row]
    best = max(evaluations, key=lambda row: row["eval/mean_reward"])["timesteps"]
    assert names == [f"best-{best:012d}", "step-000000001280", "step-000000001536"]


def test_result_has_every_field(run_dir):
    result = json.loads((run_dir / "result.json").read_text())
    assert set(result) >= RESULT_FIELDS
    assert (result["status"], result["algorithm"], result["env_id"]) == ("finished", "ppo", "CartPole-v1")
    assert (result["seed"], result["total_timesteps"], result["gradient_steps"]) == (1, 1536, 48)
    evaluation = [row for row in read_jsonl(run_dir / "metrics.jsonl") if "eval/mean_reward" in row][-1]
    assert result["eval_mean_return"] == evaluation["eval/mean_reward"] == np.mean(evaluation["eval/returns"])
    assert result["eval_std_return"] == np.std(evaluation["eval/returns"])
    assert result["eval_episodes"] == 5
    assert result["checkpoint"] == str(run_dir.resolve() / "checkpoints" / "step-000000001536")
    assert result["resume"] == "replayed"
    assert result["steps_per_second"] > 0
    assert result["wall_time_s"] > 0


def test_eval_prints_json(folder, run_dir):
    done = call("eval", "runs/a", "--episodes", "7", "--json", cwd=folder)
    record = json.loads(done.stdout)
    assert len(record["returns"]) == record["episodes"] == 7
    assert record["mean"] == np.mean(record["returns"])
    assert record["std"] == np.std(record["returns"])
    assert record["lengths"] == record["returns"]
    assert done.returncode == 0
    assert load(run_dir).evaluate(7).returns == tuple(record["returns"])  # the same in Python


def test_predict_prints_json(folder, run_dir):
    rows = [[0.0, 0.1, 0.2, 0.3], [0.0, 0.0, -0.2, -0.3]]
    (folder / "obs.json").write_text(json.dumps(rows))
    done = call("predict", "runs/a", "--obs", "obs.json", cwd=folder)
    agent = load(run_dir)
    assert json.loads(done.stdout) == agent.predict(rows)[0].tolist() == [int(agent.predict(row)[0]) for row in rows]


def test_predict_reads_standard_input(run_dir, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("[0.0, 0.1, 0.2, 0.3]"))
    assert main(["predict", str(run_dir), "--obs", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == int(load(run_dir).predict([0.0, 0.1, 0.2, 0.3])[0])


def test_presets_configs_and_doctor(folder, run_dir):
    """One process for the commands that only print; each prints its answer in turn."""
    done = call_all(
        [
            ["presets", "list"],
            ["presets", "show", "ppo/cartpole"],
            ["presets", "copy", "ppo/cartpole", "copied.yaml"],
            ["config", "diff", "runs/a", "copied.yaml"],
            ["config", "diff", "runs/a", "runs/a"],
            ["doctor"],
        ],
        folder,
    )
    assert done.returncode == 0, done.stderr
    for name in ("ppo/cartpole", "a2c/pendulum", "ppo/hopper"):
        source = load_yaml(preset_path(name))["about"]["source"]
        assert any(line.startswith(name) and f"[{source}]" in line for line in done.stdout.splitlines())
    copied = (folder / "copied.yaml").read_text()
    assert copied in done.stdout  # what `show` printed
    assert "training.total_timesteps: 1536 -> 100000" in done.stdout
    assert "algorithm.n_epochs: 2 -> 20" in done.stdout
    assert "env.id" not in done.stdout
    assert "no differences" in done.stdout
    assert "ok    trained, saved, loaded and acted" in done.stdout


def test_seeds_are_summarised(folder):
    (folder / "my.yaml").write_text(COUNTING)
    done = call("train", "my.yaml", "--seeds", "1,2,3", "--run-dir", "runs/many", "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr
    # --quiet; the environment counts its episodes, so that no copy of it can go on, which is said once
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["warning"]
    assert "resume: boundary" in done.stderr
    summary = json.loads((folder / "runs/many/summary.json").read_text())
    # Two environments, each plays one terminating episode (1+2+3) and one truncated one (1+2+3+4+5).
    assert summary["seeds"] == [1, 2, 3]
    assert summary["returns"] == [10.5, 10.5, 10.5]
    assert summary["mean"] == summary["iqm"] == iqm(summary["returns"]) == 10.5
    assert summary["interval_95"] == [10.5, 10.5]
    assert "mean 10.5, IQM 10.5, 95 % bootstrap interval 10.5 to 10.5" in done.stdout
    assert (folder / "runs/many/learning_curves.png").read_bytes().startswith(b"\x89PNG")
    assert f"learning curves: {(folder / 'runs/many/learning_curves.png').resolve()}" in done.stdout
    assert done.stdout.endswith(f"report: {(folder / 'runs/many/report.html').resolve()}\n")
    assert "3 runs in 1 group with 3 seeds; 3 finished." in (folder / "runs/many/report.html").read_text()
    for seed in (1, 2, 3):
        rows = read_jsonl(folder / f"runs/many/seed{seed}/episodes.jsonl")
        mine = [(row["length"], row["return"]) for row in rows if row["env"] == 0]
        assert mine == [(3, 6.0), (5, 15.0)] * 5
        assert json.loads((folder / f"runs/many/seed{seed}/result.json").read_text())["seed"] == seed


def test_resume_reads_the_config_of_a_run_once(tmp_path, monkeypatch) -> None:
    (tmp_path / "count.yaml").write_text(COUNTING)
    common = ["--quiet", "--stop-at"]
    assert main(["train", str(tmp_path / "count.yaml"), "--run-dir", str(tmp_path / "run"), *common, "40"]) == 0
    opened: list[tuple[str, str]] = []

    def spy(file: object, mode: str = "r", *rest: object, **options: object) -> object:
        opened.append((str(file), mode))
        return original(file, mode, *rest, **options)

    original = open
    for module in ("io", "builtins"):
        monkeypatch.setattr(f"{module}.open", spy)
    assert main(["resume", str(tmp_path / "run"), "--trust", "tests", "--total-timesteps", "90", *common, "80"]) == 0
    assert [mode for file, mode in opened if file.endswith("run/config.yaml")] == ["r"]


def test_loggers_of_a_run_and_of_what_follows(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "count.yaml").write_text(COUNTING)
    folder, asked = tmp_path / "run", list[tuple[str, ...]]()
    monkeypatch.setattr(run_callbacks, "begin_tracking", lambda config, *_: asked.append(config.tracking.loggers) or [])
    train = ["train", str(tmp_path / "count.yaml"), "--run-dir", str(folder), "--quiet", "--stop-at", "40"]
    assert main([*train, "--logger", "wandb", "--logger", "wandb"]) == 2
    assert "tracking.loggers names 'wandb' twice: name it once" in capsys.readouterr().err
    assert main([*train, "--logger", "wandb", "--logger", "mlflow"]) == 0
    resume = ["resume", str(folder), "--trust", "tests", "--quiet", "--stop-at"]
    assert main([*resume, "60"]) == 0
    assert main([*resume, "80", "--logger", "trackio"]) == 0
    assert asked == [("wandb", "mlflow"), ("wandb", "mlflow"), ("trackio",)]
    assert yaml.safe_load((folder / "config.yaml").read_text())["tracking"]["loggers"] == ["trackio"]


def test_help_does_not_import_torch(folder):
    script = (
        "import sys; from rl_training.cli import main\ntry: main(['--help'])\nfinally: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: rl-training")
    assert done.stdout.splitlines()[-1] == "False"
    for command in ("train", "resume", "eval", "predict", "presets", "config", "doctor"):
        assert f"    {command} " in done.stdout


def test_a_command_imports_what_it_needs() -> None:
    """In one process, the commands that need least first."""
    script = """
import contextlib, io, sys
from rl_training.cli import main
for command in (["presets", "list"], ["data", "info", "nowhere.npz"], ["train", "nowhere.yaml"], ["ope", "x", "--data", "y"]):
    with contextlib.redirect_stdout(io.StringIO()):
        main(command)
    print(*sorted({name.split(".")[1] for name in sys.modules if name.startswith("rl_training.")} & {
        "api", "bench", "distributed", "tuning"}), *(name for name in ("matplotlib", "ray", "optuna") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "", "api distributed", "api distributed"]


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"rl-training {__version__}\n"


def test_installed_script_runs(folder):
    script = Path(sys.executable).with_name("rl-training")
    if not script.exists():
        pytest.skip("needs the script rl-training: make setup")
    done = subprocess.run([script, "--help"], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:18]) == (0, "usage: rl-training")


def test_a_user_mistake_is_one_sentence_and_code_2(folder):
    before = sorted(folder.rglob("*"))
    done = call("train", "ppo/cartpol", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: 'ppo/cartpol' is not a preset: did you mean 'ppo/cartpole'?\n"
    assert sorted(folder.rglob("*")) == before


def test_a_closed_pipe_ends_quietly(folder):
    command = f"'{sys.executable}' -m rl_training presets list | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_default_run_directory_names_algorithm_env_and_seed(folder, monkeypatch):
    from rl_training.config import load_config_values
    from rl_training.experiment import RunDirectory

    monkeypatch.chdir(folder)
    config = RunConfig.from_mapping(load_config_values("ppo/cartpole")).replace("training", seed=7)
    path = RunDirectory.default_path(config)
    assert path.parent == Path("runs/ppo/CartPole-v1")
    assert path.name.endswith("-seed7")
    assert math.isfinite(int(path.name.split("-")[0]))
    assert gym.spec(path.parent.name).id == "CartPole-v1"


@pytest.mark.parametrize(
    "flags",
    [
        ["--seed", "3", "--set", "training.seed=4"],
        ["--seeds", "1,2", "--set", "training.seed=4"],
        ["--set", "training.seed=3", "--set", "training.seed=4"],
        ["--set", "algorithm.n_steps=16", "--set", "experience.n_steps=32"],
        ["--total-timesteps", "64", "--set", "training.total_timesteps=128"],
    ],
)
def test_a_setting_that_is_given_twice_is_refused(flags, tmp_path, capsys):
    assert main(["train", "ppo/cartpole", "--run-dir", str(tmp_path / "run"), *flags]) == 2
    assert "is given twice on the command line: give it once" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()

"""A trained policy as a folder for the Hugging Face Hub."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import rl_training
from rl_training import ConfigError, write_hub_card
from rl_training.api import hub_card
from rl_training.cli import main
from rl_training.export import check_exported

OBSERVATIONS = np.linspace(-0.2, 0.2, 40, dtype=np.float32).reshape(10, 4)


@pytest.fixture(autouse=True)
def quick_export(monkeypatch) -> None:
    """ONNX takes seconds, and has tests of its own."""
    monkeypatch.setattr(hub_card, "EXPORTS", ("policy.npz",))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of DQN, whose checkpoints hold a replay."""
    folder = tmp_path_factory.mktemp("runs") / "dqn"
    agent = rl_training.DQN(
        "CartPole-v1",
        backend="native",
        compile=False,
        learning_starts=32,
        batch_size=8,
        net_arch=[8],
        evaluation={"interval": 60, "episodes": 2},
        run_dir=folder,
    )
    agent.learn(120, progress=False)
    return folder


def front_matter(card: str) -> dict:
    _, head, _ = card.split("---\n", 2)
    return yaml.safe_load(head)


def test_a_card_holds_the_policy_its_results_and_what_the_hub_reads(run: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(hub_card.importlib.util, "find_spec", lambda name: None)  # no package for mp4
    folder = write_hub_card(run, tmp_path / "card", num_episodes=3, seed=5)
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "config.json", "exported", "policy", "replay.gif", "results.json")
    ]
    best = rl_training.load(run)
    expected = best.evaluate(3, seed=5)
    results = json.loads((folder / "results.json").read_text())
    assert (results["mean_reward"], results["std_reward"]) == (expected.mean, expected.std)
    assert (results["n_eval_episodes"], results["is_deterministic"]) == (3, True)
    assert results["returns"] == list(expected.returns)
    assert json.loads((folder / "config.json").read_text()) == best.config.to_mapping()
    assert (folder / "replay.gif").read_bytes().startswith(b"GIF89a")
    text = (folder / "README.md").read_text()
    head = front_matter(text)
    assert head["library_name"] == "rl-training"
    assert {"CartPole-v1", "dqn", "reinforcement-learning"} <= set(head["tags"])
    (entry,) = head["model-index"]
    assert entry["name"] == "dqn-CartPole-v1"
    (result,) = entry["results"]
    assert result["dataset"] == {"name": "CartPole-v1", "type": "CartPole-v1"}
    assert result["metrics"][0]["value"] == f"{expected.mean:.2f} +/- {expected.std:.2f}"
    assert "![One episode](replay.gif)" in text
    assert "| torch | " in text
    assert rl_training.__version__ in text


def test_its_policy_acts_as_the_best_checkpoint_and_begins_a_new_run(run: Path, tmp_path: Path) -> None:
    folder = write_hub_card(run, tmp_path / "card", num_episodes=0, video=False)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "exported", "policy"]
    assert "model-index" not in front_matter((folder / "README.md").read_text())
    assert not list(folder.rglob("rows-*"))  # the replay stays at home
    assert not [path for path in folder.rglob("*") if path.is_file() and str(run.parent).encode() in path.read_bytes()]
    assert check_exported(folder / "exported" / "policy.npz").different == 0
    assert "`exported/policy.npz` runs without rl-training" in (folder / "README.md").read_text()
    shared, best = rl_training.load(folder / "policy"), rl_training.load(run)
    assert (shared.predict(OBSERVATIONS)[0] == best.predict(OBSERVATIONS)[0]).all()
    assert best.num_timesteps > shared.num_timesteps == 0
    assert [origin["timesteps"] for origin in shared.origins] == [best.num_timesteps]
    shared.learn(64, progress=False)
    assert shared.num_timesteps == 64


def test_what_cannot_be_filmed_gets_a_card_without_video(run: Path, tmp_path: Path, monkeypatch, caplog) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConfigError("nothing to see")

    monkeypatch.setattr(rl_training.Agent, "record", refuse)
    folder = write_hub_card(run, tmp_path / "card", num_episodes=0)
    assert not list(folder.glob("replay*"))
    assert "the card gets no video: nothing to see" in caplog.text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--out", "{run}"], "is a folder with content: name one that is new or empty"),
        (["--out", "{run}/config.yaml"], "is a file: name a folder"),
        (["--out", "{new}", "--episodes", "-1"], "num_episodes=-1 must be at least 0"),
        (["--out", "{run}/config.yaml/x", "--episodes", "0", "--no-video"], "cannot be written"),
    ],
)
def test_mistakes_are_refused_and_nothing_is_written(run: Path, tmp_path: Path, capsys, flags, message) -> None:
    before = sorted(run.rglob("*"))
    given = [flag.format(run=run, new=tmp_path / "new") for flag in flags]
    assert main(["hub-card", str(run), *given]) == 2
    assert message in capsys.readouterr().err
    assert sorted(run.rglob("*")) == before
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_it_wrote_and_how_to_upload_it(run: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "my card"
    assert main(["hub-card", str(run), "--out", str(out), "--episodes", "1", "--no-video"]) == 0
    assert capsys.readouterr().out == (
        f"{out}: README.md, config.json, exported, policy, results.json\nupload it with: hf upload YOU/dqn-CartPole-v1 '{out}'\n"
    )


def test_names_for_the_hub_have_no_letters_that_it_refuses() -> None:
    assert hub_card.hub_name("ppo", "ALE/Pong-v5") == "ppo-ALE-Pong-v5"
    assert hub_card.hub_name("my.sac", "package:Env_é") == "my.sac-package-Env_-"

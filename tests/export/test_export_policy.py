"""`agent.export` and the files that it writes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import DDPG, PPO, ConfigError
from rl_training.cli import main
from rl_training.export import check_exported, targets
from rl_training.export.export_policy import WRITERS
from rl_training.export.run_policy import Policy, check
from tests.core.test_policy_decide import REPLAY, make
from tests.export.exports import ENVIRONMENT, PACKAGES, compare, compare_steps, drawn, run_apart

EPISODES = """
import json, sys
import gymnasium
import numpy as np
from run_policy import Policy, main

for name in ("torch", "rl_training", "onnx"):
    try:
        __import__(name)
    except ImportError:
        continue
    sys.exit(f"{name} can be imported")
policy, env = Policy("policy.onnx"), gymnasium.make("CartPole-v1")
(obs, _), actions, over = env.reset(seed=4), [], False
while not over:
    action, _ = policy.predict(obs)
    obs, _, terminated, truncated, _ = env.step(action)
    actions.append(int(action))
    over = terminated or truncated
print(json.dumps(actions))
sys.exit(main(["policy.onnx", "--check"]))
"""
PARTS = ["run_policy.py", "policy.npz", "policy.npz.md", "policy.npz.parity.npz"]


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> tuple[PPO, Path]:
    agent = PPO("CartPole-v1", seed=2, n_envs=4, n_steps=64, batch_size=64, threads=1)
    agent.learn(512, progress=False)
    path = tmp_path_factory.mktemp("cartpole") / "policy.onnx"
    agent.export(path)
    return agent, path


def test_it_plays_where_nothing_else_is_installed(cartpole: tuple[PPO, Path]) -> None:
    import gymnasium

    agent, path = cartpole
    actions, checked = run_apart(EPISODES, path.parent, *PACKAGES, *ENVIRONMENT).splitlines()
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=4)
    for action in json.loads(actions):
        assert action == agent.predict(obs)[0]
        obs, _, terminated, truncated, _ = env.step(action)
    assert terminated or truncated
    assert checked.startswith("1,000 observations: largest difference")


def test_a_graph_takes_any_number_of_rows(cartpole: tuple[PPO, Path]) -> None:
    agent, path = cartpole
    policy = Policy(path)
    for rows in (1, 2, 7, 1000):
        obs = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
        np.testing.assert_array_equal(policy.predict(obs)[0], agent.predict(obs)[0])
        outputs = policy.run({"observation": obs})
        with torch.no_grad():
            wanted = agent.algorithm.policy.distribution(torch.from_numpy(obs))
        np.testing.assert_allclose(outputs["log_probs"], wanted.log_probs, atol=1e-5)


def test_a_single_row_is_computed_in_place_also_by_several_threads(cartpole: tuple[PPO, Path]) -> None:
    policy = Policy(cartpole[1])
    rows = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    together = policy.run({"observation": rows})

    def alone(index: int) -> dict[str, np.ndarray]:
        return policy.run({"observation": rows[index : index + 1]})

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(alone, range(64)))
    assert [one["action"][0] for one in found] == together["action"].tolist()
    assert np.allclose([one["log_probs"][0] for one in found], together["log_probs"], atol=1e-6)
    for wrong in (rows[:1, :3], rows[:1].astype(np.float64)):
        with pytest.raises(Exception, match=r"INVALID_ARGUMENT"):
            policy.run({"observation": wrong})


def test_a_policy_with_memory_pictures_masks_and_choices_in_one_graph(tmp_path: Path) -> None:
    agent = make("RecurrentPPO", {"lstm_hidden_size": 8}, "masked", "choice")
    policy = compare(agent, tmp_path / "policy.onnx", drawn("masked", 200), singles=2)
    compare_steps(agent, policy, drawn("masked", 1000), np.random.default_rng(0).random((200, 5)) < 0.02)


def test_torch_runs_pictures_from_a_file(tmp_path: Path) -> None:
    agent = make("PPO", {}, "picture", "choice")
    compare(agent, tmp_path / "policy.pt2", drawn("picture", 100), singles=1)
    assert not (tmp_path / "run_policy.py").exists()


def test_memory_of_exploration_noise_is_left_out(tmp_path: Path) -> None:
    agent = DDPG("Pendulum-v1", **REPLAY | {"action_noise": "ou"})
    agent.export(tmp_path / "policy.npz")
    policy = Policy(tmp_path / "policy.npz")
    assert (policy.memory, policy.predict(np.zeros(3))[1]) == ([], None)


@pytest.fixture
def small() -> PPO:
    return PPO("CartPole-v1", seed=1, n_envs=2, n_steps=8, batch_size=8)


def test_files_are_refused_and_replaced_when_asked(small: PPO, tmp_path: Path) -> None:
    small.export(tmp_path / "new" / "policy.npz")
    files = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert files == sorted(PARTS)
    with pytest.raises(ConfigError, match=r"policy\.npz exists: choose another name"):
        small.export(tmp_path / "new" / "policy.npz")
    (tmp_path / "new" / "policy.npz").unlink()
    with pytest.raises(ConfigError, match=r"policy.npz.parity.npz exists: choose another name"):
        small.export(tmp_path / "new" / "policy.npz")
    small.export(tmp_path / "new" / "policy.npz", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == files


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("policy.pt", "ends with '.pt': use .onnx, .pt2, or .npz"),
        ("a.parity.npz", "use .onnx"),
        ("policy", "ends with ''"),
    ],
)
def test_other_names_are_refused(small: PPO, name: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        small.export(tmp_path / name)


def test_a_missing_package_is_named_with_its_extra(small: PPO, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(targets, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ConfigError, match=r"needs onnxscript: pip install 'rl-training\[export\]', or write a .pt2"):
        small.export(tmp_path / "policy.onnx")


def test_a_policy_that_computes_other_numbers_is_not_written(small: PPO, tmp_path: Path, monkeypatch) -> None:
    def wrong(path: Path, program, spec: dict) -> None:
        with torch.no_grad():
            bias = program.policy.head.net.bias0
            bias += 0.5
            write(path, program, spec)
            bias -= 0.5

    write = WRITERS[".npz"]
    monkeypatch.setitem(WRITERS, ".npz", wrong)
    with pytest.raises(ValueError, match="computes other numbers than this one"):
        small.export(tmp_path / "policy.npz")
    assert not list(tmp_path.iterdir())


def test_a_check_finds_a_policy_that_was_changed(small: PPO, tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    small.export(path)
    assert check_exported(path).equal
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["bias2"][0] += 1e-3
    np.savez(path, **arrays)
    found = check(Policy(path), tmp_path / "policy.npz.parity.npz")
    assert not found.equal
    assert 1e-5 < found.largest < 1e-2
    arrays["bias2"][0] += 1e3
    np.savez(path, **arrays)
    assert check(Policy(path), tmp_path / "policy.npz.parity.npz").different > 100


def test_the_command_writes_checks_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = PPO("CartPole-v1", seed=1, n_envs=2, n_steps=8, batch_size=8, run_dir=tmp_path / "run")
    agent.learn(16, progress=False)
    assert main(["export", str(tmp_path / "run"), "--format", "numpy", "--check"]) == 0
    said = capsys.readouterr().out
    assert "check: 1,000 observations" in said
    folder = tmp_path / "run" / "export"
    assert sorted(path.name for path in folder.iterdir()) == sorted(PARTS)
    card = (folder / "policy.npz.md").read_text()
    assert "trained with PPO of rl-training for 16 env steps" in card
    assert "| `log_probs` | [rows, 2] | float32 |" in card
    assert main(["export", str(tmp_path / "run"), "--format", "numpy"]) == 2
    assert "exists: choose another name" in capsys.readouterr().err
    assert main(["export", str(folder)]) == 2
    assert "is not a run directory: give one, or say where to write, --out FOLDER" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "missing")]) == 2
    assert "missing does not exist: give a run directory" in capsys.readouterr().err


WRONG = [
    ([0.0, 1.0], "observation has the shape (2,): it must be (4,), or ('rows', 4)"),
    ([0.0, 1.0, float("nan"), 0.0], "observation is not finite"),
    (["a"] * 4, "give numbers"),
]


@pytest.mark.parametrize(("obs", "sentence"), WRONG)
def test_the_program_beside_a_policy_refuses_with_a_sentence(
    small: PPO, tmp_path: Path, obs: list, sentence: str
) -> None:
    small.export(tmp_path / "policy.npz")
    with pytest.raises(ValueError, match="observation") as caught:
        Policy(tmp_path / "policy.npz").predict(obs)
    assert sentence in str(caught.value)
    with pytest.raises(ValueError, match="does not exist: give the file that the export wrote"):
        Policy(tmp_path / "other.npz")


def test_masks_and_keys_are_checked_by_the_program(tmp_path: Path) -> None:
    agent = make("PPO", {}, "masked", "choice")
    agent.export(tmp_path / "policy.npz")
    policy = Policy(tmp_path / "policy.npz")
    with pytest.raises(ValueError, match="allows no action"):
        policy.predict({"x": np.zeros(3), "action_mask": [0, 0, 0]})
    with pytest.raises(ValueError, match=r"lacks \['action_mask'\]"):
        policy.predict({"x": np.zeros(3)})
    with pytest.raises(ValueError, match="give a mapping"):
        policy.predict(np.zeros(3))


def test_a_file_of_ones_own_and_folders_are_not_replaced(small: PPO, tmp_path: Path) -> None:
    (tmp_path / "run_policy.py").write_text("print('mine')")
    with pytest.raises(ConfigError, match=r"run_policy\.py exists: choose another name"):
        small.export(tmp_path / "policy.npz")
    (tmp_path / "run_policy.py").unlink()
    small.export(tmp_path / "policy.npz")
    small.export(tmp_path / "other.npz")  # beside the runner of the first
    (tmp_path / "run_policy.py").unlink()
    (tmp_path / "run_policy.py").mkdir()
    with pytest.raises(ConfigError, match=r"run_policy\.py is a folder: choose another name"):
        small.export(tmp_path / "third.npz", overwrite=True)


def test_an_error_of_the_disk_names_the_file(small: PPO, tmp_path: Path, monkeypatch) -> None:
    def full(path: Path, program, spec: dict) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(WRITERS, ".npz", full)
    with pytest.raises(OSError, match="No space left") as caught:
        small.export(tmp_path / "policy.npz")
    assert caught.value.filename == str(tmp_path / "policy.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\3\4", None], ids=["nothing", "text", "a beginning", "half"])
def test_a_damaged_policy_is_refused_with_a_sentence(small: PPO, tmp_path: Path, capsys, content: bytes | None) -> None:
    from rl_training.export.run_policy import main as run

    path = small.export(tmp_path / "policy.npz").policy
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert run([str(path), "--check"]) == 2
    assert f"error: {path} is damaged or no .npz file: copy it again" in capsys.readouterr().err
    path.with_suffix(".onnx").write_bytes(path.read_bytes())
    assert run([str(path.with_suffix(".onnx")), "--check"]) == 2
    assert "is damaged or no .onnx file: copy it again" in capsys.readouterr().err


def test_a_parity_file_of_another_policy_is_refused(small: PPO, tmp_path: Path) -> None:
    other = PPO("Pendulum-v1", seed=1, n_envs=2, n_steps=8, batch_size=8).export(tmp_path / "other.npz")
    policy = Policy(small.export(tmp_path / "policy.npz").policy)
    for wrong in (other.parity, other.policy):
        with pytest.raises(ValueError, match="belongs to another policy, or is no parity file"):
            check(policy, wrong)
    assert "actions" not in check(Policy(other.policy), other.parity).text  # which are no whole numbers

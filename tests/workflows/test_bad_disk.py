"""Damaged checkpoints, folders that cannot be written, and a disk that fills up."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rl_base.standard_streams import OUTPUT_LOST
from rl_training import PPO, Agent, CheckpointError, load
from rl_training.cli import main
from rl_training.data import Dataset, DatasetError
from rl_training.experiment import load_checkpoint
from tests.bad_environments import SMALL, listing
from tests.data.making import count_up
from tests.experiment.editing import edit_manifest


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    PPO("CartPole-v1", **SMALL, run_dir=path, checkpoint={"interval": 16}, total_timesteps=64).learn(
        stop_at=48, progress=False
    )
    return path


def test_a_damaged_checkpoint_names_the_previous_good_one(run_dir, capsys):
    newest, good = (run_dir / "checkpoints" / f"step-{n:012d}" for n in (48, 32))
    tensors = newest / "tensors.safetensors"
    content = tensors.read_bytes()
    tensors.write_bytes(content[:-10])
    before = listing(run_dir)
    assert main(["resume", str(run_dir)]) == 2
    sentence = f"error: {newest} is damaged: tensors.safetensors does not match its checksum (truncated or changed)"
    out, err = capsys.readouterr()
    assert err.startswith(f"{sentence}; the newest good one is {good}: ")
    assert (out, err.count("\n")) == ("", 1)
    assert listing(run_dir) == before
    tensors.write_bytes(content)
    assert load_checkpoint(newest).timesteps == 48


def test_a_manifest_that_was_edited_by_hand(tmp_path):
    PPO("CartPole-v1", **SMALL).save(tmp_path / "model")

    def narrow(manifest: dict) -> None:
        manifest["config"]["algorithm"]["net_arch"]["pi"] = [32]

    edit_manifest(tmp_path / "model", narrow, signed=False)
    with pytest.raises(CheckpointError, match="does not match its own digest"):
        load(tmp_path / "model")
    edit_manifest(tmp_path / "model", narrow)
    with pytest.raises(CheckpointError, match="does not fit its own config"):
        load(tmp_path / "model")


def test_saving_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file/model could not be written \(Not a directory\)"):
        PPO("CartPole-v1", **SMALL).save(tmp_path / "file" / "model")
    assert list(listing(tmp_path)) == ["file"]


def limit_file_size() -> None:
    """As good as a full disk: no file may grow beyond 20 kB, and writing more fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_full_disk_keeps_the_previous_checkpoint(tmp_path):
    path = tmp_path / "run"
    PPO("CartPole-v1", **SMALL, run_dir=path, checkpoint={"interval": 16}, total_timesteps=160).learn(
        stop_at=32, progress=False
    )
    kept = {n: (path / f"checkpoints/step-{n:012d}/tensors.safetensors").read_bytes() for n in (16, 32)}
    assert len(kept[32]) > 20_000
    done = subprocess.run(
        [sys.executable, "-m", "rl_training", "resume", str(path), "--quiet"],
        preexec_fn=limit_file_size,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {path}/checkpoints/step-000000000048 could not be written (")
    assert done.stderr.endswith("): free space or change the folder\n")
    assert done.stderr.count("\n") == 1
    assert sorted(p.name for p in (path / "checkpoints").iterdir()) == ["step-000000000016", "step-000000000032"]
    for number, content in kept.items():
        assert (path / f"checkpoints/step-{number:012d}/tensors.safetensors").read_bytes() == content
    assert Agent.resume(path).learn(progress=False).total_timesteps == 160  # with space again it goes on


def save_under_limit(data: Dataset, path: Path) -> None:
    limit_file_size()
    with pytest.raises(DatasetError, match=r"could not be written .*: free space or choose another folder"):
        data.save(path)


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet", ".jsonl", ".minari", ""])
def test_a_full_disk_is_a_sentence_in_every_format(tmp_path, suffix: str) -> None:
    """In a process of its own, which HDF5 used to end with a segmentation fault."""
    data = count_up((500, 500), (True, True))
    rows = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    columns = {"action": data.action, "reward": data.reward, "terminated": data.terminated, "truncated": data.truncated}
    large = Dataset.from_arrays(obs=rows, **columns)
    child = multiprocessing.get_context("fork").Process(
        target=save_under_limit, args=(large, tmp_path / f"data{suffix}")
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["presets", "list"], ["config", "diff", "ppo/cartpole", "dqn/cartpole"]])
def test_a_command_ends_whatever_its_output_leads_to(command: list[str], monkeypatch, capsys) -> None:
    assert main(command) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdout", None)  # as after `>&-`
    assert main(command) == 0
    assert sys.stdout is None
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(command) == OUTPUT_LOST
    sentence = "error: standard output: No space left on device; everything else is done\n"
    assert capsys.readouterr().err == sentence


def test_a_finished_run_is_whole_without_streams(tmp_path, monkeypatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    small = ["experience.n_steps=8", "algorithm.batch_size=8", "env.n_envs=1", "evaluation.episodes=1"]
    words = [word for setting in small for word in ("--set", setting)]
    assert main(["train", "ppo/cartpole", "--total-timesteps", "16", "--run-dir", str(tmp_path / "run"), *words]) == 0
    assert (tmp_path / "run" / "result.json").exists()

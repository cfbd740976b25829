"""Checkpoints: complete or not there, never pickled, and damage is named."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch

from rl_training.data import files
from rl_training.experience import RowLog, Segment
from rl_training.experiment import (
    Checkpoint,
    CheckpointError,
    find_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from rl_training.experiment.checkpoint import difference, sha256
from tests.experiment.editing import edit_manifest

TREE = {
    "algorithm": {"a.weight": torch.randn(3, 2), "flag": torch.tensor(True), "count": torch.tensor(7.0).double()},
    "experience": {"steps": None, "order": torch.arange(5, dtype=torch.uint8)},
    "collector": {"list": [torch.zeros(0, 4), {"deep": torch.tensor(1.5)}], "memory": []},
    "progress": {
        "timesteps": 12,
        "best": -1.25,
        "big": 2**127,
        "text": "a/b",
        "none": None,
        "recent": [[1, 0, 2.5, 3]],
    },
    "half": torch.randn(4).bfloat16(),
    "strided": torch.arange(6.0).reshape(2, 3).T,
    "shared": (shared := torch.ones(2)),
    "shared again": shared,
}


def make(number: int = 0, state: dict | None = None) -> Checkpoint:
    return Checkpoint({"number": number}, {"obs": {}}, TREE if state is None else state, timesteps=number)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_round_trip_gives_every_bit_back(tmp_path):
    save_checkpoint(tmp_path / "a" / "model", make(5))
    loaded = load_checkpoint(tmp_path / "a" / "model")
    assert difference(loaded.state, TREE) is None
    assert (loaded.config, loaded.spec, loaded.timesteps) == ({"number": 5}, {"obs": {}}, 5)


def test_what_is_read_lies_in_memory_of_its_own(tmp_path):
    """In the file, tensors begin anywhere; matrix products of such memory round differently."""
    tensors = {f"{size}": torch.randn(size) for size in range(1, 40)}
    log = RowLog(torch.zeros(1, dtype=torch.long), [Segment(torch.zeros(1), torch.ones(1), dict(tensors))])
    save_checkpoint(tmp_path / "model", make(0, {"rows": log, "tensors": tensors}))
    state = load_checkpoint(tmp_path / "model").state
    (segment,) = state["rows"].segments
    loaded = [*state["tensors"].values(), *segment.read().values(), segment.start, segment.stop, state["rows"].oldest]
    assert len(loaded) == 2 * len(tensors) + 3
    for tensor in loaded:
        assert tensor.data_ptr() % 64 == 0
        assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_only_safetensors_and_json(tmp_path):
    save_checkpoint(tmp_path / "model", make())
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["manifest.json", "state.json", "tensors.safetensors"]
    for name in names[:2]:
        json.loads((tmp_path / "model" / name).read_text())


def test_saving_again_replaces_the_whole_directory(tmp_path):
    save_checkpoint(tmp_path / "model", make(1))
    save_checkpoint(tmp_path / "model", make(2, {"x": torch.ones(1)}))
    assert load_checkpoint(tmp_path / "model").timesteps == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_two_directories_swap_names(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").write_text(name)
    if not files.swap(tmp_path / "a", tmp_path / "b"):
        pytest.skip("needs a file system that exchanges names: TMPDIR=/dev/shm make test")
    assert (tmp_path / "a" / "content").read_text() == "b"
    assert (tmp_path / "b" / "content").read_text() == "a"


def test_without_a_swap_the_old_one_is_put_back_if_the_rename_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "swap", lambda a, b: False)
    save_checkpoint(tmp_path / "model", make(1))
    rename = Path.replace

    def fail(path: Path, target: Path) -> Path:
        if ".tmp-" in path.name:
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    with monkeypatch.context() as context:
        context.setattr(Path, "replace", fail)
        with pytest.raises(CheckpointError, match="could not be written"):
            save_checkpoint(tmp_path / "model", make(3))
    assert load_checkpoint(tmp_path / "model").timesteps == 1
    save_checkpoint(tmp_path / "model", make(2))
    assert load_checkpoint(tmp_path / "model").timesteps == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


STAGES = ["experiment.checkpoint.save_file", "experiment.checkpoint.sha256", "data.files.sync", "data.files.swap"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_failure_while_writing_leaves_the_old_one_and_nothing_else(stage, tmp_path, monkeypatch):
    save_checkpoint(tmp_path / "model", make(1))
    before = snapshot(tmp_path)

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"rl_training.{stage}", fail)
    for name in ("model", "new")[: 1 if stage.endswith("swap") else 2]:  # which is for what is there
        with pytest.raises(CheckpointError, match=rf"{name} could not be written \(No space left on device\): free"):
            save_checkpoint(tmp_path / name, make(2))
    assert snapshot(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("precious")
    with pytest.raises(CheckpointError, match="thesis exists and is not a checkpoint: choose another name"):
        save_checkpoint(tmp_path / "thesis", make())
    assert snapshot(tmp_path) == {"thesis/chapter1.tex": b"precious"}


DAMAGE = {
    "sha": (lambda p: flip(p / "tensors.safetensors"), "tensors.safetensors does not match its checksum"),
    "truncated": (lambda p: cut(p / "tensors.safetensors"), "tensors.safetensors does not match its checksum"),
    "state truncated": (lambda p: cut(p / "state.json"), "state.json does not match its checksum"),
    "missing tensors": (lambda p: (p / "tensors.safetensors").unlink(), "tensors.safetensors is missing"),
    "missing state": (lambda p: (p / "state.json").unlink(), "state.json is missing"),
    "missing manifest": (lambda p: (p / "manifest.json").unlink(), "is not a checkpoint: it has no manifest.json"),
    "manifest cut": (lambda p: cut(p / "manifest.json"), "manifest.json cannot be read"),
    "manifest list": (lambda p: (p / "manifest.json").write_text("[1]"), "manifest.json cannot be read"),
    "manifest binary": (lambda p: (p / "manifest.json").write_bytes(b"\xff\xfe\x00"), "manifest.json cannot be read"),
    "manifest deep": (lambda p: (p / "manifest.json").write_text("[" * 100_000), "manifest.json cannot be read"),
    "manifest empty": (lambda p: edit_manifest(p, lambda m: m.pop("spec")), "manifest.json has no spec"),
    "manifest edited": (
        lambda p: edit_manifest(p, lambda m: m["config"].update(number=9), signed=False),
        "manifest.json does not match its own digest (changed or damaged after it was written)",
    ),
    "config text": (lambda p: edit_manifest(p, lambda m: m.update(config="x")), "config in manifest.json is a str"),
    "hashes list": (lambda p: edit_manifest(p, lambda m: m.update(sha256=[])), "sha256 in manifest.json is a list"),
    "steps text": (
        lambda p: edit_manifest(p, lambda m: m.update(timesteps="1")),
        "timesteps in manifest.json is a str",
    ),
    "file elsewhere": (
        lambda p: edit_manifest(p, lambda m: m["sha256"].update({"../step-2/state.json": "0"})),
        "manifest.json names the file '../step-2/state.json', which no checkpoint has",
    ),
    "state deep": (lambda p: rewrite(p, "[" * 100_000), "its files cannot be read together"),
    "state names no tensor": (lambda p: rewrite(p, '{"a": {"__tensor__": []}}'), "its files cannot be read together"),
    "state names a file elsewhere": (
        lambda p: rewrite(p, '{"a": {"__rows__": ["../step-2/tensors.safetensors"], "__tensor__": "half"}}'),
        "its files cannot be read together",
    ),
    "state is a folder": (lambda p: (p / "state.json").unlink() or (p / "state.json").mkdir(), "state.json is missing"),
    "newer": (lambda p: edit_manifest(p, lambda m: m.update(format_version=99)), "has checkpoint format 99"),
    "gone": (lambda p: shutil.rmtree(p), "does not exist"),
}


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def rewrite(path: Path, state: str) -> None:
    """Changes the state and everything that would tell."""
    (path / "state.json").write_text(state)
    edit_manifest(path, lambda m: m["sha256"].update({"state.json": sha256(path / "state.json")}))


def test_only_a_manifest_of_the_first_format_may_have_no_digest(tmp_path):
    save_checkpoint(tmp_path / "model", make(5))
    edit_manifest(tmp_path / "model", lambda m: m.update(format_version=1))
    assert difference(load_checkpoint(tmp_path / "model").state, TREE) is None
    edit_manifest(tmp_path / "model", lambda m: m.pop("digest"), signed=False)
    assert difference(load_checkpoint(tmp_path / "model").state, TREE) is None
    edit_manifest(tmp_path / "model", lambda m: m.update(format_version=2), signed=False)
    for digest in ({}, {"digest": None}):
        edit_manifest(tmp_path / "model", lambda m, digest=digest: m.update(digest), signed=False)
        with pytest.raises(CheckpointError, match=r"manifest.json does not match its own digest"):
            load_checkpoint(tmp_path / "model")


@pytest.mark.parametrize("name", ["n" * 300, "file/x", "file"])
def test_places_that_cannot_be_written_are_named(name, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match=r"could not be written|exists and is not a checkpoint") as caught:
        save_checkpoint(tmp_path / name, make())
    assert str(tmp_path / name) in str(caught.value)
    assert snapshot(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("name", ["n" * 300, "missing", "file", "file/x"])
def test_places_without_a_checkpoint_are_named(name, tmp_path):
    (tmp_path / "file").write_bytes(b"PK\3\4")
    message = "checkpoints are folders, and this is a file" if name == "file" else "does not exist"
    with pytest.raises(CheckpointError, match=message):
        find_checkpoint(tmp_path / name)


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_with_the_newest_good_one(kind, tmp_path):
    damage, message = DAMAGE[kind]
    for number in (1, 2, 3):
        save_checkpoint(tmp_path / f"step-{number}", make(number))
    damage(tmp_path / "step-3")
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path / "step-3")
    assert message in str(caught.value)
    assert f"the newest good one is {tmp_path / 'step-2'}: use it, or delete the damaged one" in str(caught.value)
    cut(tmp_path / "step-2" / "state.json")
    with pytest.raises(CheckpointError, match=r"the newest good one is .*step-1"):
        load_checkpoint(tmp_path / "step-3")


def test_damage_without_a_good_one(tmp_path):
    save_checkpoint(tmp_path / "model", make())
    cut(tmp_path / "model" / "state.json")
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path / "model")
    assert "newest good" not in str(caught.value)


@pytest.mark.parametrize(
    ("other", "where"),
    [
        ({"x": torch.tensor([1.0, 2.0]), "y": [1, {"z": 0.5}]}, None),
        ({"x": torch.tensor([1.0, 2.0000002]), "y": [1, {"z": 0.5}]}, "/x"),
        ({"x": torch.tensor([1.0, 2.0]).double(), "y": [1, {"z": 0.5}]}, "/x"),
        ({"x": torch.tensor([[1.0, 2.0]]), "y": [1, {"z": 0.5}]}, "/x"),
        ({"x": torch.tensor([1.0, 2.0]), "y": [1, {"z": 0.25}]}, "/y/1/z"),
        ({"x": torch.tensor([1.0, 2.0]), "y": [1]}, "/y (length)"),
        ({"x": torch.tensor([1.0, 2.0])}, " (keys)"),
    ],
)
def test_difference_names_the_first_leaf(other, where):
    assert difference({"x": torch.tensor([1.0, 2.0]), "y": [1, {"z": 0.5}]}, other) == where


def test_difference_sees_the_sign_of_zero_and_equal_nans():
    assert difference(torch.tensor(0.0), torch.tensor(-0.0)) == ""  # differs, at the root
    assert difference(torch.tensor(float("nan")), torch.tensor(float("nan"))) is None

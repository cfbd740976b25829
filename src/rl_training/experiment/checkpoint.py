"""Checkpoints: a state tree as a folder of JSON and safetensors, and copies of it in memory."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from rl_training.core import owned
from rl_training.data.files import replacing, sync
from rl_training.experience import RowLog, Segment
from rl_training.experience.segments import read_tensors

FORMAT_VERSION = 2
READABLE = (1, 2)  # manifests of 1 may have no digest
TENSOR = "__tensor__"
ROWS = "__rows__"
FILES = ("tensors.safetensors", "state.json")
MANIFEST = "manifest.json"
ROW_FILE = r"rows-\d+\.safetensors"
DIGEST = "digest"  # of the manifest's other entries


class CheckpointError(ValueError):
    """Error for a checkpoint that cannot be used; the message names the file and the fix."""


@dataclass(frozen=True)
class Checkpoint:
    """A saved agent in memory: config data, spaces, state tree, clock, and the checkpoints that gave it weights."""

    config: dict
    spec: dict
    state: dict
    timesteps: int
    origins: tuple[dict, ...] = ()  # checkpoints whose weights it began with


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint to the folder `path`, which is never incomplete; replaces a checkpoint of that name.

    Raises CheckpointError if `path` is anything but a checkpoint, or cannot be written.
    """
    try:
        if path.exists() and not (path / MANIFEST).exists():
            raise CheckpointError(f"{path} exists and is not a checkpoint: choose another name")
        with replacing(path) as temporary:
            temporary.mkdir(parents=True)
            segments, hashes = write_files(temporary, checkpoint)
        for name, segment in segments.items():
            segment.written_to(path / name, hashes[name])
    except OSError as error:
        raise CheckpointError(
            f"{path} could not be written ({error.strerror or error}): free space or change the folder"
        ) from error


def write_files(folder: Path, checkpoint: Checkpoint) -> tuple[dict[str, Segment], dict[str, str]]:
    """Writes a checkpoint's files to a folder; returns two mappings by file name: its row segments, all files' SHA-256.

    A row segment is a file of rows of a replay. Those that an earlier checkpoint wrote are linked, not written again.
    Raises OSError if a file cannot be written.
    """
    start = time.perf_counter()
    tensors: dict[str, Tensor] = {}
    segments: dict[str, Segment] = {}
    plain = split_tensors(checkpoint.state, "", tensors, segments)
    try:
        save_file(tensors, folder / FILES[0])
        new = {name for name, segment in segments.items() if segment.write(folder / name)}
    except SafetensorError as error:
        raise OSError(f"tensors were not written: {error}") from error
    (folder / FILES[1]).write_text(json.dumps(plain), encoding="utf-8")
    hashes = {name: sha256(folder / name) for name in (*FILES, *new)}
    hashes |= {name: s.sha256 or sha256(folder / name) for name, s in segments.items() if name not in new}
    sizes = {name: (folder / name).stat().st_size for name in (*FILES, *segments)}
    manifest: dict[str, object] = {
        "format_version": FORMAT_VERSION,
        "timesteps": checkpoint.timesteps,
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "config": checkpoint.config,
        "spec": checkpoint.spec,
        "sha256": hashes,
        "bytes": sum(sizes.values()),
        "new_bytes": sum(size for name, size in sizes.items() if name in new or name in FILES),
    }
    if checkpoint.origins:
        manifest["origins"] = list(checkpoint.origins)
    for name in (*FILES, *new):
        sync(folder / name)
    manifest["seconds"] = round(time.perf_counter() - start, 3)
    manifest[DIGEST] = digest_of(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2), encoding="utf-8")
    return segments, hashes


def load_checkpoint(path: Path) -> Checkpoint:
    """Returns the checkpoint in the folder `path` after comparing its files with their checksums.

    Raises CheckpointError if there is none or it is damaged; the message names the file, and the newest good checkpoint
    of the same run.
    """
    try:
        return read_checkpoint(path)
    except CheckpointError as error:
        others = sorted((p for p in path.parent.glob("step-*") if p != path), reverse=True)
        good = next((p for p in others if is_good(p)), None)
        if good is None:
            raise
        raise CheckpointError(
            f"{error}; the newest good one is {good}: use it, or delete the damaged one to continue from there"
        ) from error


def is_good(path: Path) -> bool:
    try:
        read_checkpoint(path)
    except CheckpointError:
        return False
    return True


def read_checkpoint(path: Path) -> Checkpoint:
    manifest = read_manifest(path)
    try:
        for name in (*FILES, *(other for other in manifest["sha256"] if other not in FILES)):
            if not (path / name).is_file():
                raise CheckpointError(f"{path} is damaged: {name} is missing")
            if sha256(path / name) != manifest["sha256"].get(name):
                raise CheckpointError(f"{path} is damaged: {name} does not match its checksum (truncated or changed)")
        state = join_tensors(
            json.loads((path / FILES[1]).read_text(encoding="utf-8")),
            read_tensors(path / FILES[0]),
            lambda name: Segment.open(path / name, manifest["sha256"][name]),
        )
        origins = tuple(manifest.get("origins", ()))
        return Checkpoint(manifest["config"], manifest["spec"], state, manifest["timesteps"], origins)
    except CheckpointError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged: its files cannot be read together ({error})") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror or error})") from error


def read_manifest(path: Path) -> dict:
    """Returns the mapping in the manifest.json of the checkpoint folder `path`.

    It has "config", "spec" (the spaces), "timesteps" (the clock) and "sha256" by file name, among others. Raises
    CheckpointError if `path` is no checkpoint, has an unknown format, or the manifest does not match its digest.
    """
    file = path / MANIFEST
    if not os.path.exists(path):  # not Path.exists, which raises for names that no file can have
        raise CheckpointError(f"{path} does not exist: give a saved model, a checkpoint or a run directory")
    if not path.is_dir():
        raise CheckpointError(
            f"{path} is not a checkpoint: checkpoints are folders, and this is a file; rl_training.import_sb3 opens zips of "
            "Stable-Baselines3, and models of other libraries cannot be read"
        )
    if not file.is_file():
        raise CheckpointError(f"{path} is not a checkpoint: it has no {MANIFEST}")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        version = manifest["format_version"]
        keys = {"config", "spec", "sha256", "timesteps"} - set(manifest)
        digest = digest_of(manifest)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {MANIFEST} cannot be read ({error})") from error
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read ({error.strerror or error})") from error
    if version not in READABLE:
        raise CheckpointError(
            f"{path} has checkpoint format {version}, this version reads {READABLE[0]} to {READABLE[-1]}: use the rl_training "
            "that wrote it"
        )
    if manifest.get(DIGEST, digest if version == 1 else None) != digest:
        raise CheckpointError(
            f"{path} is damaged: {MANIFEST} does not match its own digest (changed or damaged after it was written)"
        )
    if keys:
        raise CheckpointError(f"{path} is damaged: {MANIFEST} has no {', '.join(sorted(keys))}")
    check_entries(path, manifest)
    return manifest


def check_entries(path: Path, manifest: dict) -> None:
    """Raises CheckpointError if a manifest has an entry of the wrong type, or names a file that no checkpoint has."""
    kinds = {"config": dict, "spec": dict, "sha256": dict, "timesteps": int}
    wrong = next((key for key, kind in kinds.items() if not isinstance(manifest[key], kind)), None)
    if wrong is not None:
        raise CheckpointError(f"{path} is damaged: {wrong} in {MANIFEST} is a {type(manifest[wrong]).__name__}")
    for name in manifest["sha256"]:
        if name not in FILES and not re.fullmatch(ROW_FILE, name):
            raise CheckpointError(f"{path} is damaged: {MANIFEST} names the file {name!r}, which no checkpoint has")


@contextmanager
def damage_named(source: Path | None) -> Iterator[None]:
    """Turns KeyError, TypeError and the like, which bad content of a checkpoint raises, into CheckpointError.

    Acts inside the `with` block. `source` is a file of the checkpoint; with None, errors pass unchanged.
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        if source is None:
            raise
        raise CheckpointError(
            f"{source.parent} is damaged: its spaces or its state are not what a run writes ({error!r})"
        ) from error


def digest_of(manifest: dict) -> str:
    """Returns the SHA-256 of all entries of a manifest but "digest"; it reveals damage and edits, but no forgery."""
    rest = {key: value for key, value in manifest.items() if key != DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def split_tensors(node: object, path: str, tensors: dict[str, Tensor], segments: dict[str, Segment]) -> object:
    """Returns a tree of dicts and lists in which names replace tensors and RowLogs; tuples become lists.

    Adds CPU copies of the tensors to `tensors`, and the row segments that the RowLogs consist of to `segments`, both by
    name. `path` is the place of `node` in the whole tree, "" for its root.
    """
    if isinstance(node, Tensor | RowLog):  # keys that hold a slash may lead to a path that is taken
        path = next(name for i in range(len(tensors) + 1) if (name := path + "'" * i) not in tensors)
    if isinstance(node, Tensor):
        tensors[path] = node.detach().to("cpu", copy=True).contiguous()
        return {TENSOR: path}
    if isinstance(node, RowLog):
        names = [f"rows-{len(segments) + i:04d}.safetensors" for i in range(len(node.segments))]
        segments |= dict(zip(names, node.segments, strict=True))
        tensors[path] = node.oldest
        return {ROWS: names, TENSOR: path}
    if isinstance(node, dict):
        return {
            key: split_tensors(value, f"{path}/{key}" if path else str(key), tensors, segments)
            for key, value in node.items()
        }
    if isinstance(node, list | tuple):
        return [split_tensors(value, f"{path}/{i}", tensors, segments) for i, value in enumerate(node)]
    return node


def join_tensors(node: object, tensors: dict[str, Tensor], segment_of: Callable[[str], Segment]) -> dict:
    """Returns a state tree with tensors and RowLogs in place of the names that `split_tensors` put there.

    `tensors` has the tensors by name, and `segment_of` returns the row segment of a name. Tuples that were split come
    back as lists.
    """
    if isinstance(node, dict):
        if ROWS in node:
            return RowLog(tensors[node[TENSOR]], [segment_of(name) for name in node[ROWS]])  # pyrefly: ignore
        if TENSOR in node:
            return tensors[node[TENSOR]]  # pyrefly: ignore
        return {key: join_tensors(value, tensors, segment_of) for key, value in node.items()}
    if isinstance(node, list):
        return [join_tensors(value, tensors, segment_of) for value in node]  # pyrefly: ignore
    return node  # pyrefly: ignore


def checkpoint_difference(a: Path, b: Path) -> str | None:
    """Returns the path of the first leaf in which the states in two checkpoint folders differ; None if they are equal.

    Compares tensors bit by bit and ignores the wall time. Raises CheckpointError if a checkpoint cannot be read.
    """
    mine, other = (load_checkpoint(path).state for path in (a, b))
    return difference(comparable(mine), comparable(other))


def comparable(state: dict) -> dict:
    """Returns a shallow copy of a state tree without `state["progress"]["wall_time"]`, which differs between runs."""
    return state | {"progress": {k: v for k, v in state["progress"].items() if k != "wall_time"}}


def difference(a: object, b: object, path: str = "") -> str | None:
    """Returns the path of the first leaf in which two state trees differ, such as "/algorithm/step"; None if equal.

    Compares tensors bit by bit. The path ends with " (keys)" or " (length)" if a dict or list differs in these. `path`
    is put in front of all paths.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return f"{path} (keys)"
        return next((found for key in a if (found := difference(a[key], b[key], f"{path}/{key}"))), None)
    if isinstance(a, RowLog) and isinstance(b, RowLog):
        return difference(a.live(), b.live(), path)
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{path} (length)"
        return next((found for i in range(len(a)) if (found := difference(a[i], b[i], f"{path}/{i}"))), None)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        same = a.shape == b.shape and a.dtype == b.dtype and torch.equal(as_bits(a), as_bits(b))
        return None if same else path
    return None if a == b else path


def as_bits(x: Tensor) -> Tensor:
    return x.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8) if x.numel() else x


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


NodeT = TypeVar("NodeT")


def copy_state(node: NodeT) -> NodeT:
    """Returns a deep copy of a state tree, with lists for tuples; rows that are in files are read into memory."""
    return cast("NodeT", copied(node))


def copied(node: object) -> object:
    if isinstance(node, Tensor):
        return owned(node.detach())
    if isinstance(node, RowLog):
        return node.in_memory()
    if isinstance(node, dict):
        return {key: copied(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [copied(value) for value in node]
    return copy.deepcopy(node)

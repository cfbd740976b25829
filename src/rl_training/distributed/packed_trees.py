"""Trees of tensors and JSON values as bytes, for messages between processes, and back. No pickle."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor

from rl_training.experience import Segment
from rl_training.experiment.checkpoint import join_tensors, split_tensors

PLAIN = "plain"  # the name under which everything that is no tensor travels


def pack(tree: dict) -> tuple[Tensor, list[Segment]]:
    """Packs a tree of tensors, JSON values and RowLogs into one uint8 tensor; returns it and the RowLogs' segments.

    The rows of a segment are packed, too, unless the segment is in a file: then only the file's path and digest are.
    """
    tensors: dict[str, Tensor] = {}
    segments: dict[str, Segment] = {}
    plain = split_tensors(tree, "tree", tensors, segments)
    files: dict[str, list] = {}
    for name, segment in segments.items():
        tensors |= {f"{name}/start": segment.start, f"{name}/stop": segment.stop}
        if segment.on_disk:
            files[name] = [str(segment.path), segment.sha256]
        else:
            tensors |= {f"{name}/rows/{column}": rows.contiguous() for column, rows in segment.read().items()}
    text = json.dumps({"tree": plain, "files": files}).encode()
    data = save(tensors | {PLAIN: torch.frombuffer(bytearray(text), dtype=torch.uint8)})
    return torch.frombuffer(bytearray(data), dtype=torch.uint8), list(segments.values())


def unpack(message: Tensor) -> tuple[dict, list[Segment]]:
    """Unpacks a message that `pack` made; returns the tree, with lists for tuples, and its row segments.

    Segments that are in files are opened; the others keep the rows that were sent in memory.
    """
    tensors = load(message.numpy().tobytes())
    plain = json.loads(tensors.pop(PLAIN).numpy().tobytes())
    segments: dict[str, Segment] = {}

    def segment_of(name: str) -> Segment:
        if name in plain["files"]:
            path, sha256 = plain["files"][name]
            segments[name] = Segment.open(Path(path), sha256)
        else:
            prefix = f"{name}/rows/"
            rows = {key.removeprefix(prefix): rows for key, rows in tensors.items() if key.startswith(prefix)}
            segments[name] = Segment(tensors[f"{name}/start"], tensors[f"{name}/stop"], rows)
        return segments[name]

    return join_tensors(plain["tree"], tensors, segment_of), list(segments.values())

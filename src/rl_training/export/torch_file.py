"""Policies as graphs: .onnx for onnxruntime and many other programs, .pt2 for torch without this library."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from rl_training.export.program import PolicyProgram
from rl_training.export.run_policy import Arrays, Policy

DESCRIPTION = "policy"  # the key of the description in metadata of a file


def write_onnx(path: Path, program: PolicyProgram, spec: dict) -> None:
    """Writes the policy as one ONNX file with a free number of rows, and its description as metadata."""
    with quiet():
        model = torch.onnx.export(
            trace(program),
            dynamo=True,
            verbose=False,
            input_names=program.input_names,
            output_names=[part["name"] for part in spec["outputs"]] + [f"next_{name}" for name, _ in program.memory],
        )
        assert model is not None
        model.model.metadata_props[DESCRIPTION] = json.dumps(spec)
        model.save(path)


def write_pt2(path: Path, program: PolicyProgram, spec: dict) -> None:
    """Writes the policy as a program for `torch.export.load`, with its description as an extra file."""
    content = io.BytesIO()  # because torch's own writer says of a full disk only that a stream failed
    with quiet():
        torch.export.save(trace(program), content, extra_files={f"{DESCRIPTION}.json": json.dumps(spec)})
    path.write_bytes(content.getbuffer())


@torch.no_grad()
def trace(program: PolicyProgram) -> torch.export.ExportedProgram:
    example = program.example()
    rows = {0: torch.export.Dim("rows")}
    return torch.export.export(program, example, dynamic_shapes={"inputs": (rows,) * len(example)}, strict=False)


def open_pt2(path: Path) -> Policy:
    """Returns a policy that runs a .pt2 file with torch, and takes and returns arrays."""
    extra = {f"{DESCRIPTION}.json": ""}
    with quiet():
        module = torch.export.load(path, extra_files=extra).module()
    spec = json.loads(extra[f"{DESCRIPTION}.json"])
    names = [part["name"] for part in (*spec["inputs"], *spec["memory"])] + (["first"] if spec["memory"] else [])

    @torch.no_grad()
    def compute(inputs: Arrays) -> list[np.ndarray]:
        return [output.numpy() for output in module(*(torch.tensor(inputs[name]) for name in names))]

    policy = Policy.__new__(Policy)
    policy.use(spec, compute)
    return policy


@contextmanager
def quiet() -> Iterator[None]:
    """Hides what torch's exporter says of itself, such as that torchvision is not installed."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)

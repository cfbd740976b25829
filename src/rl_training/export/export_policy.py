"""Export of a policy: the file, verified before it appears, and the parity file, card and runner beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rl_training.core import Policy
from rl_training.data.files import replacing
from rl_training.experiment.run_directory import write_atomically
from rl_training.export import run_policy
from rl_training.export.card import About, card
from rl_training.export.dense_network import write_npz
from rl_training.export.parity import expected_outputs, write_parity
from rl_training.export.program import PolicyProgram
from rl_training.export.run_policy import Parity
from rl_training.export.targets import Targets, check_target
from rl_training.export.torch_file import open_pt2, write_onnx, write_pt2

WRONG = 1e-3  # relative difference that no rounding explains
DRAWS = 3  # of observations: at some, two choices are equally good, or a number lies between two whole ones
WRITERS: dict[str, Callable[[Path, PolicyProgram, dict], None]] = {
    ".onnx": write_onnx,
    ".pt2": write_pt2,
    ".npz": write_npz,
}


@dataclass(frozen=True)
class Exported:
    """An exported policy: its files, and how its outputs compare with those of the policy in this library."""

    policy: Path
    parity: Path
    card: Path
    runner: Path | None  # None: a .pt2, which torch runs
    observations: int
    largest_difference: float  # relative to the output where that is above 1


def export_policy(policy: Policy, path: Path, about: About, *, overwrite: bool = False) -> Exported:
    """Writes a policy to `path`, a .onnx, .pt2 or .npz, and its companions; the policy appears last and complete.

    Raises ConfigError, before anything is written, if the file exists (unless `overwrite`), a package is missing or the
    format cannot hold the policy, and ValueError if the written policy does not compute what this one does.
    """
    targets = check_target(path, overwrite=overwrite)
    program = PolicyProgram(policy)
    spec = program.describe() | {"algorithm": about.algorithm, "env": about.env}
    path.parent.mkdir(parents=True, exist_ok=True)
    with named_errors(path), replacing(targets.policy) as temporary:
        WRITERS[path.suffix](temporary, program, spec)
        written = open_policy(temporary)
        for seed in range(DRAWS):
            expected = expected_outputs(program, spec, seed)
            found = run_policy.compare(written, expected)
            if found.different == 0:
                break
        if found.different or found.largest > WRONG:
            raise ValueError(
                f"the exported policy computes other numbers than this one ({found.text}): use another format"
            )
        write_companions(targets, spec, found, about, expected)
    return Exported(*targets, found.rows, found.largest)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Adds `path` to an OSError that names no file, as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_companions(targets: Targets, spec: dict, found: Parity, about: About, expected: run_policy.Arrays) -> None:
    with replacing(targets.parity) as temporary:
        write_parity(temporary, expected, found._asdict())
    write_atomically(targets.card, card(targets, spec, found, about))
    if targets.runner is not None:
        write_atomically(targets.runner, Path(run_policy.__file__).read_text(encoding="utf-8"))


def open_policy(path: Path) -> run_policy.Policy:
    """Opens an exported policy of any format; raises ValueError if it is none."""
    return open_pt2(path) if path.suffix == ".pt2" else run_policy.Policy(path)


def check_exported(path: Path) -> Parity:
    """Computes the outputs of an exported policy again and compares them with its parity file."""
    return run_policy.check(open_policy(path), Targets.of(path).parity)

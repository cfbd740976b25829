"""A run directory: created once, never overwritten, held by one process at a time."""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

import yaml

from rl_base.file_lock import lock
from rl_training.config.code_objects import with_code
from rl_training.config.presets import load_yaml
from rl_training.config.run_config import RunConfig
from rl_training.core.arguments import ConfigError
from rl_training.data.files import replacing
from rl_training.experiment.checkpoint import Checkpoint, CheckpointError, read_manifest, save_checkpoint
from rl_training.runtime.progress import Progress

VIDEOS = "videos"  # the folder of videos in a run directory
PACKAGES = ("rl-training", "torch", "numpy", "gymnasium", "mujoco", "box2d", "safetensors")


@contextmanager
def held(folder: Path, name: str, otherwise: str) -> Iterator[None]:
    """Locks a folder, which it creates if needed, against other processes inside the `with` block.

    Raises ConfigError if another process holds the lock or the folder cannot be written; the message calls the folder
    `name` and ends with the advice `otherwise`. The lock ends with the process, even if it is killed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{name} cannot be written ({error.strerror}): {otherwise}") from error
    with file:
        try:
            lock(file.fileno(), wait=False)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read().strip() or "?"
            raise ConfigError(f"{name} is in use by process {owner}: wait for it, or {otherwise}") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


class RunDirectory:
    """The directory of one run, with methods to read and write its config, logs, checkpoints and result."""

    def __init__(self, path: Path, config: RunConfig | None = None) -> None:
        self.path, self.known = path, config  # the config as far as it was read or written
        self.checkpoints = path / "checkpoints"

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> RunDirectory:
        """Makes a new run directory with its config and metadata.

        Raises ConfigError if the path is a file or a folder with content, or cannot be written.
        """
        cls.check_free(path)
        run, metadata = cls(path, config), json.dumps(collect_metadata(), indent=2)
        settings = yaml.safe_dump(config.to_mapping(), sort_keys=False)
        existed = path.exists()
        try:
            run.checkpoints.mkdir(parents=True)
            write_atomically(path / "metadata.json", metadata)
            write_atomically(path / "config.yaml", settings)
        except OSError as error:
            if not existed:
                shutil.rmtree(path, ignore_errors=True)
            raise ConfigError(
                f"run directory {path} cannot be written ({error.strerror}): choose another with --run-dir"
            ) from error
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        if not os.path.isfile(path / "config.yaml"):  # not Path.is_file, which raises for names too long
            raise ConfigError(f"{path} {why_not_a_run(path)}")
        return cls(path)

    @staticmethod
    def check_free(path: Path) -> None:
        if path.exists() and not path.is_dir():
            raise ConfigError(f"run directory {path} is a file: choose the name of a folder that is new or empty")
        if path.exists() and any(path.iterdir()):
            raise ConfigError(
                f"run directory {path} exists: choose another, or continue it with `rl-training resume {shlex.quote(str(path))}`"
            )

    @staticmethod
    def default_path(config: RunConfig) -> Path:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        env = config.env.id.replace("/", "-").replace(":", "-")
        base = Path("runs") / config.name / env / f"{stamp}-seed{config.training.seed}"
        return next(p for i in range(10_000) if not (p := base.with_name(base.name + (f"-{i}" if i else ""))).exists())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the directory against other processes inside the `with` block, and first deletes half-written files.

        Raises ConfigError if another process uses the directory.
        """
        with held(self.path, f"run directory {self.path}", "choose another with --run-dir"):
            self.remove_leftovers()
            yield

    def remove_leftovers(self) -> None:
        """Deletes files and checkpoints that a killed process left half-written."""
        for folder in self.checkpoints.glob(".*"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (*self.path.glob(".*.tmp*"), *(self.path / VIDEOS).glob(".*.tmp*")):
            file.unlink()

    def config(self, code: Mapping[str, object] = MappingProxyType({})) -> RunConfig:
        """Returns the run's config, which is read from `config.yaml` on the first call only.

        `code` maps settings to code objects that take the place of their names.
        """
        if self.known is None:
            self.known = RunConfig.from_mapping(with_code(load_yaml(self.path / "config.yaml"), code))
        return self.known

    def steps(self) -> list[Path]:
        """Returns the paths of the interval checkpoints, oldest first, without the best one."""
        return sorted(self.checkpoints.glob("step-*"))

    def best(self) -> Path | None:
        return max(self.checkpoints.glob("best-*"), default=None)

    def save_step(self, checkpoint: Checkpoint, keep: int) -> Path:
        path = self.checkpoints / f"step-{checkpoint.timesteps:012d}"
        if not path.exists() or evaluated_since(path, checkpoint):  # else a run that was resumed and has not moved
            save_checkpoint(path, checkpoint)
        for old in self.steps()[:-keep]:
            remove(old)
        return path

    def save_best(self, checkpoint: Checkpoint) -> Path:
        path = self.checkpoints / f"best-{checkpoint.timesteps:012d}"
        save_checkpoint(path, checkpoint)
        for old in self.checkpoints.glob("best-*"):
            if old != path:
                remove(old)
        return path

    def trim_logs(self, timesteps: int, *, redo_evaluation: bool = False) -> None:
        """Removes log lines later than step `timesteps`, at which the run continues, and a last line cut by a crash.

        `redo_evaluation` also removes the evaluation at that very step, because it is about to be repeated.
        """
        for name in ("metrics.jsonl", "episodes.jsonl"):
            file = self.path / name
            if file.exists():
                rows = [
                    (line, timesteps_of(line))
                    for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
                ]
                kept = [
                    line
                    for line, at in rows
                    if at < timesteps or (at == timesteps and not (redo_evaluation and "eval/mean_reward" in line))
                ]
                write_atomically(file, "".join(f"{line}\n" for line in kept))

    def write_config(self, config: RunConfig) -> None:
        self.known = config
        write_atomically(self.path / "config.yaml", yaml.safe_dump(config.to_mapping(), sort_keys=False))

    def write_result(self, result: dict) -> None:
        write_atomically(self.path / "result.json", json.dumps(result, indent=2))


def evaluated_since(path: Path, checkpoint: Checkpoint) -> bool:
    """Returns True if `checkpoint` has other evaluation results than that saved at `path`, or that cannot be read."""
    try:
        saved = json.loads((path / "state.json").read_text(encoding="utf-8"))["progress"]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    known = {name: getattr(Progress, name) for name in ("best_return", "switch_return", "lowest_since", "num_since")}
    now = checkpoint.state["progress"]
    return any(saved.get(name, none) != now.get(name, none) for name, none in known.items())


def remove(checkpoint: Path) -> None:
    """Deletes a checkpoint; a process that is killed meanwhile leaves no half-deleted one under that name.

    Leaves the checkpoint, without an error, if it cannot be renamed.
    """
    gone = checkpoint.with_name(f".{checkpoint.name}.gone-{os.getpid()}")
    try:
        checkpoint.replace(gone)
    except OSError:  # it stays
        return
    shutil.rmtree(gone, ignore_errors=True)


def find_checkpoint(path: Path) -> Path:
    """Returns the path of the checkpoint to load: `path` itself or, in a run directory, its best, else its last.

    Raises CheckpointError if there is none.
    """
    if os.path.isfile(path / "config.yaml"):
        run = RunDirectory(path)
        found = run.best() or max(run.steps(), default=None)
        if found is None:
            raise CheckpointError(
                f"{path} has no checkpoint yet: resume the run; it writes one at the latest when it pauses or ends"
            )
        return found
    read_manifest(path)
    return path


def result_of(run_dir: Path) -> dict:
    """Returns the mapping in the `result.json` of a run directory; empty if the run has not ended yet."""
    file = run_dir / "result.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def timesteps_of(line: str) -> float:
    """Returns the step of a log line, the text of a JSON record; infinity if the line is cut or has no step."""
    try:
        step = json.loads(line)["timesteps"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return math.inf
    return step if isinstance(step, int | float) else math.inf


def write_atomically(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def collect_metadata() -> dict:
    """Returns a dict with start time, command, versions, git commit and hardware of this process, for metadata.json."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": sys.argv,
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := installed(name))},
        "git": git_commit(),
        "hardware": {"platform": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
    }


def installed(package: str) -> str | None:
    """Returns the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def why_not_a_run(path: Path) -> str:
    """Returns the end of an error message: why a path is no run directory, and what to use instead."""
    if not os.path.exists(path):
        return "does not exist: give the run directory that `train` or learn() with run_dir= wrote"
    if os.path.isfile(path / "manifest.json"):
        return f"is a saved model or a checkpoint, not a run directory: use rl_training.load('{path}')"
    return "is not a run directory: it has no config.yaml"

"""The interpreter of every peer library: a given one, or one of a virtual environment made on first use."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rl_training.runtime.cache_folder import cache_folder

PEERS: dict[str, tuple[str, ...]] = {  # what is installed beside torch and the environments
    "sb3": ("stable-baselines3==2.9.2", "sb3-contrib==2.9.2", "ale-py==0.12.1", "opencv-python-headless==5.0.0.93"),
    "sbx": ("sbx-rl==0.28.0",),
    "cleanrl": (),  # scripts, not a package: benchmarks/peers/cleanrl_speed.py states their training steps
    "tianshou": ("tianshou==2.0.1",),
    "torchrl": ("torchrl==0.14.1",),
    "benchmarl": ("benchmarl==1.5.2", "vmas==1.5.2"),
    "jaxmarl": ("jaxmarl[algs]==0.2.0",),  # and a checkout, whose example is measured
    "d3rlpy": ("d3rlpy==2.8.1",),
}
# In our own versions, so that no peer is slower for an older one; gymnasium's MuJoCo needs the last two.
SHARED = ("torch", "gymnasium", "gymnasium-robotics", "mujoco", "imageio", "packaging")
FROM_DATA = ("d3rlpy",)  # these are measured without an environment, and choose their own gymnasium
INSTALL_LIMIT = 1_200  # seconds


SCRIPTS = Path(__file__).parents[3] / "benchmarks" / "peers"  # in a checkout, not in the wheel


class PeerUnavailableError(ValueError):
    """An error for a peer (another library) that cannot be measured on this machine; the message is the reason."""


def parse_peers(text: str, known: Collection[str] = tuple(PEERS)) -> list[str]:
    """Returns the names in a text such as `sb3,sbx`, each once; [] for an empty text.

    Raises ValueError for an unknown name, or if the programs of peers are missing.
    """
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"--peers {text!r}: {unknown[0]!r} is not known here: use {', '.join(known)}")
    if names and not SCRIPTS.is_dir():
        raise ValueError(
            f"--peers {text!r} needs the programs in benchmarks/peers, which only a checkout of the repository has: "
            "install the package from one with `pip install -e .`"
        )
    return list(dict.fromkeys(names))


def parse_pythons(assignments: list[str]) -> dict[str, Path]:
    """Returns interpreters by peer's name from texts such as `sb3=PATH`; raises ValueError if one does not exist."""
    pythons = {}
    for text in assignments:
        name, equals, path = text.partition("=")
        if not equals or name not in PEERS:
            raise ValueError(f"--peer-python {text!r} must look like sb3=PATH, with one of {', '.join(PEERS)}")
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            raise ValueError(f"--peer-python {text!r}: there is no program at {path}")
        pythons[name] = Path(path)
    return pythons


def requirements(name: str) -> list[str]:
    """Returns the packages to install for a peer, such as "torch==2.9.0+cpu", as many as possible in our versions.

    Torch keeps its local version (`+cpu`), so that a large build never replaces a small one.
    """
    found = []
    for package in SHARED[:1] if name in FROM_DATA else SHARED:
        try:
            found.append(f"{package}=={version(package)}")
        except PackageNotFoundError:  # mujoco is optional: without it those cells fail with its name
            continue
    return [*found, *PEERS[name]]


def find_python(name: str, given: Mapping[str, Path], cache: Path | None = None) -> Path:
    """Returns the path of the peer's interpreter, from `given` or of an environment that is installed on first use.

    `cache` is the folder for such environments (None: the cache folder). Raises PeerUnavailableError if installing
    fails.
    """
    if name in given:
        return given[name]
    wanted = requirements(name)
    digest = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:12]
    folder = (cache or cache_folder("peers")) / f"{name}-{digest}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not (folder / "installed").exists():
        install(folder, python, wanted)
        (folder / "installed").write_text("\n".join(wanted) + "\n", encoding="utf-8")
    return python


def install(folder: Path, python: Path, wanted: list[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # one that was begun
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    uv = shutil.which("uv", path=path)
    make = [uv, "venv", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    fill = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
    links = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS")
    env = os.environ | ({"UV_FIND_LINKS": links} if links else {})
    for command in ([*make, str(folder)], [*fill, *wanted]):
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False)
        except subprocess.TimeoutExpired as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise PeerUnavailableError(f"not installed: nothing after {INSTALL_LIMIT} s") from error
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            raise PeerUnavailableError(f"cannot be installed with {wanted[0]}: {' '.join(done.stderr.split())[-300:]}")

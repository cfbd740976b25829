"""Builds sdist and wheel, looks into the wheel, installs it in an empty environment and tries it there: `make package`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
LIMIT = 2_000_000  # bytes
WANTED = ("rl_training/py.typed", "sage/py.typed", "rl_training/assets/configs/ppo/cartpole.yaml", "licenses/LICENSE")
UNWANTED = ("peers/", "tests/", "benchmarks/results", "docs/")
COMMANDS = (
    "rl-training doctor",
    "rl-training train ppo/cartpole --total-timesteps 2048 --run-dir run --quiet",
    "rl-training eval run --episodes 2",
    "sage doctor",
)
WITHOUT_PEERS = "rl-training bench speed --peers sb3"


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    environment = os.environ | {
        "UV_FIND_LINKS": os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS", "")
    }
    uv = str(Path(sys.executable).parent / "uv")
    run([uv, "build", "-q", "--out-dir", str(DIST)], ROOT, environment)  # the wheel is built from the sdist
    (wheel,) = DIST.glob("*.whl")
    look_into(wheel)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([uv, "venv", "-q", "--python", sys.executable, str(folder / "venv")], folder, environment)
        programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        installing = [uv, "pip", "install", "-q", "--python", str(programs / "python")]
        run([*installing, "-c", str(ROOT / "constraints.txt"), str(wheel)], folder, environment)
        clean = {key: value for key, value in environment.items() if key != "PYTHONPATH"}
        for command in COMMANDS:
            program, *words = command.split()
            said = run([str(programs / program), *words], folder, clean)
            assert "BAD" not in said, f"{command} found something bad"
        program, *words = WITHOUT_PEERS.split()
        refused = run([str(programs / program), *words], folder, clean, code=2)
        assert "checkout of the repository" in refused, refused
    print(f"{wheel.name} ({wheel.stat().st_size:,} bytes) works in an empty environment")


def look_into(wheel: Path) -> None:
    assert wheel.stat().st_size < LIMIT, f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {LIMIT:,}"
    names = zipfile.ZipFile(wheel).namelist()
    missing = [wanted for wanted in WANTED if not any(name.endswith(wanted) for name in names)]
    extra = [name for name in names if any(unwanted in name for unwanted in UNWANTED)]
    assert not missing, f"{wheel.name} lacks {missing}"
    assert not extra, f"{wheel.name} has {extra}"


def run(command: list[str], folder: Path, environment: dict[str, str], code: int = 0) -> str:
    """Shows what a command says; it must end with `code`."""
    print("$", Path(command[0]).name, *command[1:], flush=True)
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, end="", flush=True)
    assert done.returncode == code, f"it ended with {done.returncode}"
    return done.stdout


if __name__ == "__main__":
    main()

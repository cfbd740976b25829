"""Builds the four distributions, looks into the wheels, and tries each in an empty environment: `make package`.

With the name of a file (`check_package.py FILE`), sizes are written to it as JSON.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
MOST_OF_THE_PROXY = 120_000_000  # bytes of the packages that sage-routing[serve] brings, compiled files left out
TABLE = """\
models:
  small: {{input_usd_per_mtok: 1, output_usd_per_mtok: 1, upstream: {{url: "{url}"}}}}
  large: {{input_usd_per_mtok: 9, output_usd_per_mtok: 9, upstream: {{url: "{url}"}}}}
roles:
  default: {{primary: small, fallback: large}}
"""
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}


@dataclass(frozen=True)
class Package:
    """A distribution: its folder, the size of its wheel, and what that must have and must not have."""

    name: str
    folder: str
    most: int  # bytes of the wheel
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


PACKAGES = (
    Package("rl-training-base", "src/rl_base", 100_000, ("rl_base/py.typed",), ("pyproject.toml",)),
    Package(
        "rl-training",
        ".",
        2_000_000,
        ("rl_training/py.typed", "rl_training/assets/configs/ppo/cartpole.yaml"),
        ("peers/", "tests/", "benchmarks/results", "docs/", "sage/", "rl_base/"),
    ),
    Package(
        "sage-routing",
        "src/sage",
        750_000,
        ("sage/py.typed", "sage/assets/models.yaml", "sage/assets/synthetic.npz"),
        ("sage/sim/", "short_tasks", "pyproject.toml"),
    ),
    Package("sage-routing-sim", "src/sage/sim", 1_200_000, ("sage/sim/assets/sim_tables.npz",), ("pyproject.toml",)),
)
OF_RL_TRAINING = (
    "rl-training doctor",
    "rl-training train ppo/cartpole --total-timesteps 2048 --run-dir run --quiet",
    "rl-training eval run --episodes 2",
)
WITHOUT_PEERS = "rl-training bench speed --peers sb3"
OF_THE_PROXY = (
    "sage init",
    "sage doctor",
    "sage lab collect-synth --rows 200",
    "sage log export --out rows.jsonl",
    "sage train --learner table --data rows.jsonl",
    "sage train --learner dr --data rows.jsonl",
    "sage report --out report.html",
    "sage bench --compare-policy",
    "sage lab plan --data rows.jsonl --gain 0.02",
    "sage lab frontier --data rows.jsonl --out frontier.svg",
    "sage status",
)
OF_ALL = (
    "sage doctor",
    "sage train --learner bc --data rows.jsonl --updates 5",
    "sage sim train --steps 2048 --out policy",
)


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    find = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS", "")
    environment = os.environ | {"UV_FIND_LINKS": find, "RL_TRAINING_RELEASE": "1"}
    environment.pop("PYTHONPATH", None)
    wheels: dict[str, int] = {}
    for package in PACKAGES:  # each wheel is built from the sdist
        run([uv(), "build", "-q", "--out-dir", str(DIST), str(ROOT / package.folder)], ROOT, environment)
        wheels[package.name] = look_into(package)
    with tempfile.TemporaryDirectory() as name:
        try_base(Venv(Path(name, "base"), environment))
        proxy = try_proxy(Venv(Path(name, "proxy"), environment))
        try_rl_training(Venv(Path(name, "all"), environment))
    if len(sys.argv) > 1:
        found = {"wheel_bytes": wheels, "proxy_installed_bytes": proxy, "python": platform.python_version()}
        Path(sys.argv[1]).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print("every distribution works in an empty environment")


def uv() -> str:
    return str(Path(sys.executable).parent / "uv")


def look_into(package: Package) -> int:
    """Checks the size and the files of a wheel; returns its size in bytes."""
    (wheel,) = DIST.glob(f"{package.name.replace('-', '_')}-[0-9]*.whl")
    size = wheel.stat().st_size
    assert size < package.most, f"{wheel.name} has {size:,} bytes, more than {package.most:,}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    missing = [wanted for wanted in (*package.wanted, "licenses/LICENSE") if not any(n.endswith(wanted) for n in names)]
    extra = [name for name in names if any(unwanted in name for unwanted in package.unwanted)]
    assert not missing, f"{wheel.name} lacks {missing}"
    assert not extra, f"{wheel.name} has {extra}"
    assert "file:" not in metadata, f"{wheel.name} requires a folder of this machine"
    print(f"{wheel.name}: {size:,} bytes")
    return size


class Venv:
    """An empty environment and a folder to work in."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        folder.mkdir()
        run([uv(), "venv", "-q", "--python", sys.executable, str(folder / "venv")], folder, environment)
        self.programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

    def install(self, what: str) -> None:
        command = [uv(), "pip", "install", "-q", "--python", str(self.programs / "python")]
        run(
            [*command, "-c", str(ROOT / "constraints.txt"), "--find-links", str(DIST), what],
            self.folder,
            self.environment,
        )

    def run(self, command: str, code: int = 0) -> str:
        program, *words = command.split()
        said = run([str(self.programs / program), *words], self.folder, self.environment, code)
        assert "BAD" not in said, f"{command} found something bad"
        return said

    def lacks(self, *modules: str) -> None:
        code = f"import importlib.util as u; assert not [m for m in {modules} if u.find_spec(m)]"
        run([str(self.programs / "python"), "-c", code], self.folder, self.environment)

    def size(self) -> int:
        """Returns the bytes of the installed packages, without compiled files, which installers make or leave to Python."""
        files = (path for path in (self.folder / "venv").rglob("*") if path.is_file() and path.suffix != ".pyc")
        return sum(path.lstat().st_size for path in files if not path.is_symlink())


def try_base(venv: Venv) -> None:
    venv.install("rl-training-base")
    run([str(venv.programs / "python"), "-c", "from rl_base.evaluation import compare_bandit"], venv.folder, {})
    venv.lacks("torch", "sage", "rl_training")


def try_proxy(venv: Venv) -> int:
    """Serves, logs, learns, proves and reports without PyTorch; returns the bytes that are installed."""
    venv.install("sage-routing[serve]")
    venv.lacks("torch", "matplotlib", "rl_training")
    size = venv.size()
    print(f"sage-routing[serve] and what it needs: {size / 1e6:.1f} MB")
    assert size <= MOST_OF_THE_PROXY, f"that is more than {MOST_OF_THE_PROXY / 1e6:.0f} MB"
    for command in OF_THE_PROXY:
        venv.run(command)
    venv.run("sage prove policy_dr.safetensors --data rows.jsonl", code=3)  # the rows are synthetic
    assert "sage-routing[train]" in venv.run("sage train --learner cql --data rows.jsonl", code=2)
    assert "sage-routing[sim]" in venv.run("sage sim audit", code=2)
    with upstream() as url:
        (venv.folder / "models.yaml").write_text(TABLE.format(url=url), encoding="utf-8")
        ask_served(venv)
    return size


def try_rl_training(venv: Venv) -> None:
    venv.install("rl-training")
    venv.lacks("sage")
    for command in OF_RL_TRAINING:
        venv.run(command)
    refused = venv.run(WITHOUT_PEERS, code=2)
    assert "checkout of the repository" in refused, refused
    venv.install("rl-training[sage]")
    for command in (*OF_THE_PROXY, *OF_ALL):
        venv.run(command)


def ask_served(venv: Venv) -> None:
    """Starts `sage serve`, asks it, and finds the request in the log."""
    command = [str(venv.programs / "sage"), "serve", "--port", "0", "--db", "served.db"]
    print("$", *command[1:], flush=True)
    serving = subprocess.Popen(command, cwd=venv.folder, env=venv.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None
        line = serving.stdout.readline()
        print(line, end="", flush=True)
        asked = {"model": "sage", "messages": [{"role": "user", "content": "fix the flaky test"}]}
        address = f"{line.split()[2]}/v1/chat/completions"
        request = urllib.request.Request(address, json.dumps(asked).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)["choices"][0]["message"]["content"]
            print(f"asked: {answer!r} of {response.headers['x-sage-model']}")
        assert answer == "done"
    finally:
        serving.terminate()
        serving.wait(60)
    assert "1 decisions" in venv.run("sage doctor --db served.db")


@contextmanager
def upstream() -> Iterator[str]:
    """A model that always answers the same, on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


class Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Says nothing about requests."""


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

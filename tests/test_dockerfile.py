"""The Dockerfile of `sage serve`, without an engine: `scripts/build_image.sh` builds it where there is one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from packaging.requirements import Requirement

from sage.cli.main import build_parser
from sage.cli.serve_commands import NEEDS

ROOT = Path(__file__).parent.parent
KNOWN = ["ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER", "VOLUME", "WORKDIR"]


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def last(name: str) -> str:
    return [given for word, given in instructions() if word == name][-1]


def test_every_instruction_is_one_and_lists_are_json() -> None:
    assert {word for word, _ in instructions()} == set(KNOWN)
    for word in ("CMD", "ENTRYPOINT"):
        assert all(isinstance(part, str) for part in json.loads(last(word)))
    assert "/healthz" in json.loads(last("HEALTHCHECK").split("CMD ")[1])[-1]


def test_what_it_runs_parses_and_refuses_to_serve_without_keys() -> None:
    words = json.loads(last("CMD"))
    options = build_parser(words).parse_args(words)
    assert (options.host, options.port, last("EXPOSE")) == ("0.0.0.0", 8484, "8484")
    assert options.keys is not None
    assert {options.db.parent, options.keys.parent} == {Path(last("VOLUME"))}


def test_it_is_not_root_at_the_end() -> None:
    words = [word for word, _ in instructions()]
    user, group = last("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert words.index("USER") > max(i for i, word in enumerate(words) if word == "RUN")


def test_what_it_copies_exists_and_is_let_through() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [
        name
        for word, given in instructions()
        if word == "COPY" and "--from" not in given
        for name in given.split()[:-1]
    ]
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in rules
    assert rules[1] == "*"


def test_it_installs_what_serving_needs() -> None:
    installed = last_install()
    assert {"numpy", "pyyaml", "safetensors", *NEEDS} <= installed
    pinned = {
        Requirement(line).name.lower()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if re.match(r"\w", line)
    }
    assert installed <= pinned


def last_install() -> set[str]:
    run = next(given for word, given in instructions() if word == "RUN" and "constraints.txt" in given)
    return set(run.split("constraints.txt")[1].split("&&")[0].split())


def test_without_an_engine_the_script_says_so(tmp_path: Path) -> None:
    for name in ("docker", "podman"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path}
    done = subprocess.run(
        [ROOT / "scripts" / "build_image.sh"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "neither docker nor podman answers" in done.stderr

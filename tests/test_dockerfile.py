"""The Dockerfile of `sage serve`, without an engine: `scripts/build_image.sh` builds it where there is one."""

from __future__ import annotations

import json
import re
import tomllib
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
    run = next(given for word, given in instructions() if word == "RUN" and "constraints.txt" in given)
    assert run.endswith('-c constraints.txt ./src/rl_base "./src/sage[serve]"')
    projects = [tomllib.loads((ROOT / "src" / name / "pyproject.toml").read_text()) for name in ("rl_base", "sage")]
    base, sage = (project["project"] for project in projects)
    listed = base["dependencies"] + sage["dependencies"] + sage["optional-dependencies"]["serve"]
    installed = {Requirement(line).name.lower() for line in listed} - {base["name"]}
    assert {"numpy", "pyyaml", "safetensors", *NEEDS} <= installed
    pinned = {
        Requirement(line).name.lower()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if re.match(r"\w", line)
    }
    assert installed <= pinned

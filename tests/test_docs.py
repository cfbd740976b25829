"""The documentation says what the code does: links resolve, examples run, commands parse."""

import argparse
import importlib
import re
import runpy
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import rl_training
import sage
from rl_training import Agent
from rl_training.algorithms.continuous import ContinuousAlgorithm
from rl_training.cli.main import build_parser
from rl_training.config import list_presets
from rl_training.config.registry import ALGORITHMS
from rl_training.core import Box, Discrete, Spec, Supply
from rl_training.envs import NATIVE
from tests.doc_pages import PAGES, ROOT, algorithm_page, code_blocks, name_of, named_files
from tests.forked import run_script
from tests.test_architecture import MAY_IMPORT

EXECUTED = (  # the README is run by test_readme.py
    "docs/quickstart.md",
    "docs/runs.md",
    "docs/coming-from-sb3.md",
    "docs/improve_an_sb3_policy.md",
    "docs/concepts.md",
    "docs/environments.md",
    "docs/learning_from_data.md",
    "docs/algorithms/recurrent_ppo.md",
    "docs/columns.md",
    "docs/phases.md",
    "docs/configuration.md",
    "docs/encoders.md",
    "docs/replay.md",
    "docs/teams.md",
    "docs/stability.md",
    "docs/scope.md",
    "docs/watching.md",
    "docs/report.md",
    "docs/tracking.md",
    "docs/atari.md",
    "docs/export.md",
    "docs/custom_to_deployed.md",
    "docs/platforms.md",
    "docs/datasets.md",
    "docs/algorithms/index.md",
    "docs/reference/agents.md",
    "docs/reference/algorithms.md",
    "docs/reference/data.md",
    "docs/reference/environments.md",
    "docs/reference/extending.md",
)
BEGUN = ("docs/checkpoints.md", "docs/off_policy_evaluation.md")  # later blocks need runs and files of the reader


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_resolves(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def named_pages(part: list | dict | str) -> Iterator[str]:
    """The pages of the site's navigation, or of a part of it."""
    if isinstance(part, str):
        yield part
    else:
        for inner in part.values() if isinstance(part, dict) else part:
            yield from named_pages(inner)


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(named_pages(settings["project"]["nav"])) == sorted(pages)


def test_the_reference_shows_every_public_name_and_nothing_that_is_gone() -> None:
    text = "".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.md"))
    shown = {find_object(name) for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    public = {getattr(package, name) for package in (rl_training, sage) for name in package.__all__}
    agents = {thing for thing in public if isinstance(thing, type) and issubclass(thing, Agent) and thing is not Agent}
    assert public - agents <= shown


def find_object(dotted: str) -> object:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", EXECUTED + BEGUN)
def test_python_blocks_run_one_after_the_other(name: str, tmp_path: Path) -> None:
    blocks = code_blocks(ROOT / name, "python")[: 1 if name in BEGUN else None]
    assert blocks
    script = tmp_path / "blocks.py"
    script.write_text("\n".join(blocks))
    for file, content in named_files(ROOT / name).items():
        (tmp_path / file).write_text(content)
    for file in (ROOT / "tests/golden/sb3").glob("ppo_cartpole.*"):  # a zip of Stable-Baselines3, as a reader has one
        shutil.copy(file, tmp_path)
    done = run_script(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def documented_commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in code_blocks(page, "bash"):
            for line in block.splitlines():
                if line.startswith("rl-training"):
                    yield name_of(page), line


@pytest.mark.parametrize(("page", "command"), list(documented_commands()))
def test_documented_commands_parse(page: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command, comments=True)[1:]
    if "--help" in words:
        return
    try:
        options = build_parser().parse_args(words)
    except SystemExit:
        pytest.fail(f"{page}: {command}\n{capsys.readouterr().err}")
    named = getattr(options, "config", None) or getattr(options, "name", None)
    if named and "/" in named:
        own = (ROOT / page).parent.glob(f"*/presets/{named}.yaml")  # of a package that is not installed here
        assert named in list_presets() or list(own)


def parsers(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    subcommands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not subcommands:
        yield path, parser
    for action in subcommands:
        for name, sub in action.choices.items():
            yield from parsers(sub, f"{path} {name}".strip())


def test_the_cli_page_names_every_command_flag_and_choice_and_no_other_flag() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    flags: dict[str, set[str]] = {}
    for command, parser in parsers(build_parser(), ""):
        assert f"rl-training {command}" in text
        found = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
        flags.setdefault(command.split()[0], set()).update(found - {"--help"})
        choices = {choice for action in parser._actions for choice in action.choices or ()}
        assert {choice for choice in choices if f"`{choice}`" not in sections[command.split()[0]]} == set(), command
    for section, wanted in flags.items():
        assert set(re.findall(r"^\| `(--[a-z-]+)", sections[section], re.MULTILINE)) == wanted, section


def test_the_page_of_algorithms_lists_the_registry() -> None:
    text = (ROOT / "docs/algorithms/index.md").read_text()
    expected = {
        f"| [{e.title}]({algorithm_page(name)}) | `{name}` | {e.tier} | {e.about} |" for name, e in ALGORITHMS.items()
    }
    assert {line for line in text.splitlines() if line.startswith("| [")} == expected


def test_the_readme_marks_the_algorithms_that_are_not_core() -> None:
    table = re.search(r"^## Choose an algorithm\n(.*?)^## ", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert table is not None
    marked = dict(re.findall(r"\]\(docs/algorithms/(\w+)\.md\)( \(contrib\))?", table[1]))
    marked.pop("index")
    assert len(marked) > 10
    assert {name: bool(mark) for name, mark in marked.items()} == {n: ALGORITHMS[n].tier == "contrib" for n in marked}


def test_the_readme_does_not_promise_more_algorithms_than_there_are() -> None:
    promised = re.search(r"more than (\d+) algorithms", (ROOT / "README.md").read_text())
    assert promised is not None
    assert len(ALGORITHMS) - 10 <= int(promised[1]) < len(ALGORITHMS)


def test_every_native_environment_is_documented() -> None:
    text = (ROOT / "docs/environments.md").read_text()
    assert [name for name in NATIVE if name not in text] == []


def test_the_table_of_layers_equals_the_rule() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    documented: dict[str, set[str]] = {}
    for layer, imports in re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", text, re.MULTILINE):
        documented[layer] = set(documented) if imports == "all above" else set(re.findall(r"`(\w+)`", imports))
    assert documented == {layer: used for layer, used in MAY_IMPORT.items() if not layer.startswith("__")}


def test_the_worked_example_is_the_one_that_runs_and_is_short() -> None:
    (shown,) = code_blocks(ROOT / "docs/architecture.md", "python")
    assert shown in (ROOT / "examples/awr_package/awr_corridor/__init__.py").read_text()


@pytest.mark.parametrize("name", ["architecture", "learning_curves"])
def test_a_picture_is_what_its_script_draws(name: str) -> None:
    draw = runpy.run_path(str(ROOT / f"scripts/draw_{name}.py"))["draw"]
    assert (ROOT / f"docs/{name}.svg").read_text() == draw(), f"run python scripts/draw_{name}.py"


def test_the_architecture_page_names_files_that_exist() -> None:
    named = set(re.findall(r"`([a-z_]+/[a-z_]+\.py)`", (ROOT / "docs/architecture.md").read_text()))
    assert named
    places = (ROOT, ROOT / "src/rl_training")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def test_the_page_on_phases_names_the_methods_of_every_algorithm() -> None:
    text = (ROOT / "docs/phases.md").read_text()
    table = re.search(r"^\| algorithms \| methods \|\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    assert table is not None
    rows = re.findall(r"^\| (\w.+?) \| (`.+?) \|$", table[1], re.MULTILINE)
    documented = {
        name.removesuffix(" and its variants"): re.findall(r"`(\w+)`", methods)
        for names, methods in rows
        for name in names.split(", ")
    }
    box, choice = Box((2,), (-1.0, -1.0), (1.0, 1.0)), Discrete(2)
    for entry in ALGORITHMS.values():
        if entry.algorithm.teams:  # which learn by env steps alone
            continue
        action = box if issubclass(entry.algorithm, ContinuousAlgorithm) else choice
        settings = entry.config().fitted(Supply(2**20, "all", "nothing", num_steps=2**20))
        passes = entry.algorithm(settings, Spec(box, action)).passes()
        methods = [method for p in passes for method in (p.method, *(extra.method for extra in p.periodic))]
        assert documented[entry.algorithm.__name__.removesuffix("Algorithm")] == methods

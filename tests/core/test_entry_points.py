"""Code that a config names is imported, from the working directory too where nothing else has it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rl_training.core.entry_points import find, import_named


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which is not searched for modules, as for an installed command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_module_of_the_working_directory_is_found_last(folder: Path) -> None:
    (folder / "only_here.py").write_text("VALUE = 7\n")
    before = list(sys.path)
    assert find("only_here:VALUE", {}, "env.id") == 7
    assert sys.path == [*before, str(folder)]


def test_an_installed_package_is_not_replaced_by_a_file_of_the_working_directory(folder: Path) -> None:
    (folder / "colorsys.py").write_text("raise AssertionError('ran code of the working directory')\n")
    sys.modules.pop("colorsys", None)
    before = list(sys.path)
    assert hasattr(import_named("colorsys"), "rgb_to_hsv")
    assert sys.path == before  # nothing in the folder was named


def test_a_module_that_is_nowhere_is_answered_with_where_to_start(folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"No module named 'my_nets'\): install it, or start in the folder of my_nets\.py"
    ):
        find("my_nets:Encoder", {}, "algorithm.encoder")

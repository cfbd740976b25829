"""The README of a folder is how people find a file: it names all of them, and none that is gone."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src"
READMES = sorted(SOURCES.rglob("README.md"))


@pytest.mark.parametrize("page", READMES, ids=lambda page: str(page.relative_to(SOURCES)))
def test_it_names_all_files_of_its_folder_and_no_other(page: Path) -> None:
    named = set(re.findall(r"`(\w+\.py)`", page.read_text()))
    assert named == {path.name for path in page.parent.glob("*.py")} - {"__init__.py", "__main__.py"}

"""`sage doctor`: other packages of the same name, and what the extras of the distribution bring."""

from __future__ import annotations

import tomllib
from pathlib import Path

import sage
from sage.cli.doctor import check_namesakes
from sage.cli.extras import EXTRAS, extra_with

HERE = Path(sage.__file__).parent


def test_another_package_of_this_name_is_found(tmp_path: Path) -> None:
    ours, plain, math = (tmp_path / name / "sage" for name in ("ours", "plain", "math"))
    for folder in (ours, plain, math):
        folder.mkdir(parents=True)
    (ours / "__init__.py").touch()
    path = [str(folder.parent) for folder in (ours, plain)]
    assert check_namesakes(ours, [*path, str(tmp_path)]) == []
    (math / "all.py").touch()  # of SageMath, whose newer versions have no __init__.py
    ((state, name, text),) = check_namesakes(ours, [*path, str(math.parent)])
    assert (state, name) == ("--", "the name sage")
    assert text.startswith(str(math))
    (ours / "all.py").touch()
    assert check_namesakes(ours, path)[0][0] == "BAD"


def test_every_extra_that_a_message_names_exists() -> None:
    extras = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) <= set(extras)
    assert [extra_with(name) for name in ("sage.sim.tasks", "sage.simulated", "torch.nn", "numpy")] == [
        "sim",
        None,
        "train",
        None,
    ]

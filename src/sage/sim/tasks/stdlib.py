"""Modules of this Python's standard library that have tests of their own, copied under another name.

Python, pytest and the sandbox use the original, so the copy that a task breaks lives in a package, and the tests import
it from there. Their tasks can be rebuilt with the same version of Python only.
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

PACKAGE = "stdlib_copy"
MODULES = (
    *("calendar", "colorsys", "configparser", "copy", "difflib", "fnmatch", "fractions", "getopt", "graphlib"),
    *("ipaddress", "mimetypes", "optparse", "plistlib", "quopri", "reprlib", "shlex", "string", "textwrap"),
)


class NoTestsError(ValueError):
    """A Python without the tests of its library; the message names the module."""


def stdlib_files(module: str, folder: Path | None = None) -> tuple[dict[str, bytes], str]:
    """Returns the files of a module and its tests, and the path of the test file; raises NoTestsError if this Python
    lacks them."""
    library = folder or Path(sysconfig.get_path("stdlib"))
    code, tests = library / f"{module}.py", library / "test" / f"test_{module}.py"
    if not code.is_file() or not tests.is_file():
        raise NoTestsError(f"this Python has no tests of {module} ({tests} is not there): Debian packages them apart")
    path = f"tests/test_{module}.py"
    files = {
        f"{PACKAGE}/__init__.py": b"",
        f"{PACKAGE}/{module}.py": code.read_bytes(),
        path: renamed_imports(tests.read_text(encoding="utf-8"), module).encode(),
    }
    return files, path


def renamed_imports(text: str, module: str) -> str:
    """Returns the text of tests with imports of the copy instead of the module."""
    name = re.escape(module)
    text = re.sub(rf"^(\s*)import {name}$", rf"\1from {PACKAGE} import {module}", text, flags=re.MULTILINE)
    return re.sub(rf"^(\s*)from {name} import ", rf"\1from {PACKAGE}.{module} import ", text, flags=re.MULTILINE)

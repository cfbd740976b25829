"""Programs with their own tests: pinned source archives (unpacked in memory and never built), synthetic families, and
modules of this Python."""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sage.sim.tasks.families import FAMILIES
from sage.sim.tasks.families.composition import compose
from sage.sim.tasks.families.configs import settings_files
from sage.sim.tasks.package_index import fetch
from sage.sim.tasks.sdists import SDISTS
from sage.sim.tasks.stdlib import MODULES, PACKAGE, stdlib_files

LARGEST_FILE = 400_000  # bytes; larger ones are data that tests seldom need
LARGEST_SOURCE = 6_000_000
HIDDEN_SHARE = 0.45


class UnknownSourceError(ValueError):
    """A source that this machine cannot rebuild; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A way in which a synthetic source is broken: its kind, and the changed files."""

    operator: str
    changes: Mapping[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A tree of files: modules that may be broken, tests, and what the tests need."""

    name: str
    version: str
    licence: str
    family: str  # "package", "stdlib", or the name of a synthetic family
    files: Mapping[str, bytes]
    modules: tuple[str, ...]  # paths that a bug may be put into
    tests: tuple[str, ...]  # paths of test files
    test_roots: tuple[str, ...]  # folders and files that belong to the tests
    editable: tuple[str, ...]  # folders and files that a repair may change
    hidden_share: float = 0.0  # of the test functions; files named test_hidden... are hidden anyway
    faults: tuple[Fault, ...] = ()

    @property
    def sha256(self) -> str:
        return tree_hash(self.files)

    def is_test(self, path: str) -> bool:
        return below(path, self.test_roots)


def below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def tree_hash(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{len(path)} {path} {len(files[path])} ".encode())
        digest.update(files[path])
    return digest.hexdigest()


def is_test_file(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith(".py") and (
        name.startswith("test_") or name.endswith("_test.py") or name in ("tests.py", "test.py")
    )


def package_source(name: str, cache: Path, indexes: list[str] | None = None) -> Source:
    """Returns a package of SDISTS, with the paths of its archive without `src/`, and without files that are neither
    code nor tests; raises UnknownSourceError or FetchError if it cannot be had."""
    if name not in SDISTS:
        raise UnknownSourceError(f"there is no package {name!r} in the table: it has {', '.join(sorted(SDISTS))}")
    sdist = SDISTS[name]
    archive = fetch(name, sdist.file, sdist.sha256, cache / "sdists", indexes)
    files = {path: content for path, content in members(archive) if below(path, (*sdist.roots, *sdist.tests))}
    modules = [path for path in sorted(files) if below(path, sdist.roots) and path.endswith(".py")]
    return Source(
        name=name,
        version=sdist.version,
        licence=sdist.licence,
        family="package",
        files=files,
        modules=tuple(path for path in modules if not below(path, sdist.tests)),
        tests=tuple(path for path in sorted(files) if below(path, sdist.tests) and is_test_file(path)),
        test_roots=sdist.tests,
        editable=sdist.roots,
        hidden_share=HIDDEN_SHARE,
    )


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields path and content of the plain files of a source archive below its top folder, without links, devices,
    large files, and paths that leave it; raises UnknownSourceError if they are too many bytes."""
    size = 0
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if not member.isreg() or member.size > LARGEST_FILE or path.is_absolute() or ".." in path.parts:
                continue
            inner = path.parts[1:]
            inner = inner[1:] if inner[:1] == ("src",) else inner
            content = tar.extractfile(member)
            if inner and content is not None:
                size += member.size
                if size > LARGEST_SOURCE * 4:
                    raise UnknownSourceError(f"the archive with {path.parts[0]} is too large for a task")
                yield "/".join(inner), content.read()


def synthetic_source(family: str, seed: int) -> Source:
    """Returns the program of a synthetic family with this seed; raises UnknownSourceError if there is no such
    family."""
    if family not in FAMILIES:
        raise UnknownSourceError(f"there is no family {family!r}: there are {', '.join(FAMILIES)}")
    faults: tuple[Fault, ...] = ()
    if family == "configs":
        code, tests, kinds = settings_files(seed)
        faults = tuple(Fault(operator=name, changes=encoded(changes)) for name, changes in kinds)
        modules, editable = [path for path in code if path.startswith("config/")], ("config",)
    else:
        program = compose(family, seed)
        code, tests, editable = program.modules, program.tests, (program.package,)
        modules = [path for path in code if not path.endswith("__init__.py")]
    return Source(
        name=f"{family}:{seed}",
        version="1",
        licence="Apache-2.0",
        family=family,
        files=encoded(code | tests),
        modules=tuple(sorted(modules)),
        tests=tuple(sorted(tests)),
        test_roots=("tests",),
        editable=editable,
        faults=faults,
    )


def stdlib_source(module: str) -> Source:
    """Returns a module of this Python's library under another name, with its tests; raises UnknownSourceError if it is
    not in the table, NoTestsError if Python has no tests of it."""
    if module not in MODULES:
        raise UnknownSourceError(f"the module {module!r} is not in the table: it has {', '.join(MODULES)}")
    files, tests = stdlib_files(module)
    return Source(
        name=f"stdlib/{module}",
        version=platform.python_version(),
        licence="PSF-2.0",
        family="package",
        files=files,
        modules=(f"{PACKAGE}/{module}.py",),
        tests=(tests,),
        test_roots=("tests",),
        editable=(PACKAGE,),
        hidden_share=HIDDEN_SHARE,
    )


def encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


class Sources:
    """All sources by name, each read once: `toolz`, `stdlib/textwrap`, or `intervals:7`, a program of a family."""

    def __init__(self, cache: Path, indexes: list[str] | None = None) -> None:
        self.cache = cache
        self.indexes = indexes
        self.known: dict[str, Source] = {}

    def get(self, name: str) -> Source:
        if name not in self.known:
            family, separator, seed = name.partition(":")
            if separator:
                self.known[name] = synthetic_source(family, int(seed))
            elif name.startswith("stdlib/"):
                self.known[name] = stdlib_source(name.removeprefix("stdlib/"))
            else:
                self.known[name] = package_source(name, self.cache, self.indexes)
        return self.known[name]

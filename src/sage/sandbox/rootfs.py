"""The files of the image: this machine's Python with pytest and hypothesis, a shell, and the programs of `/sage`.

Nothing is downloaded: paths come from the interpreter, packages from their metadata, libraries from the loader. `/usr`
is merged as in distributions, so that Python finds its library by itself.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from sage.sandbox import inside
from sage.sandbox.contract import SandboxError

PACKAGES = ("pytest", "hypothesis")  # and what they require
PROGRAMS = (
    *("awk", "basename", "cat", "chmod", "cmp", "cp", "cut", "date", "diff", "dirname", "echo", "env", "expr", "false"),
    *(
        "find",
        "grep",
        "head",
        "ln",
        "ls",
        "mkdir",
        "mktemp",
        "mv",
        "nl",
        "od",
        "paste",
        "printf",
        "pwd",
        "readlink",
        "rm",
    ),
    *(
        "rmdir",
        "sed",
        "seq",
        "sleep",
        "sort",
        "stat",
        "tail",
        "tee",
        "test",
        "touch",
        "tr",
        "true",
        "uniq",
        "wc",
        "which",
    ),
    "xargs",
)
WITHOUT = {
    *("__pycache__", "site-packages", "dist-packages", "sitecustomize.py", "usercustomize.py"),  # of this machine
    *(
        "_tkinter",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "tkinter",
        "turtle.py",
        "turtledemo",
        "pydoc_data",
        "distutils",
    ),  # unused
}
METADATA_FILES = re.compile(r"METADATA|entry_points\.txt|top_level\.txt|(licenses/.*|LICEN[CS]E.*|COPYING.*|NOTICE.*)")
LOADED_LATER = ("libgcc_s.so.1", "libnss_files.so.2")  # by glibc itself, so that the loader does not list them
NOT_COMPILED = r"/pygments/lexers/(?!__init__|_mapping|python|diff)"  # pytest uses two of the 250 lexers
FOLDERS = ("dev", "etc", "proc", "run", "sage", "sys", "tmp", "var/tmp", "work")
ETC = {
    "passwd": "root:x:0:0:root:/work:/bin/sh\nsage:x:1000:1000:sage:/work:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/work:/bin/sh\n",
    "group": "root:x:0:\nsage:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def fill(root: Path) -> None:
    """Writes the image's files below `root`, an empty folder; raises SandboxError if this is not Linux."""
    if not sys.platform.startswith("linux"):
        raise SandboxError(
            f"the image is made from a Linux machine's own programs, and this is {sys.platform}: build it in a Linux VM "
            "(WSL2, Lima, Docker Desktop's), or use a backend that runs there"
        )
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for name, text in ETC.items():
        (root / "etc" / name).write_text(text, encoding="utf-8")
    for source in sage_files():
        copy(source, root / "sage" / "inside" / source.name)
    modules, binaries = place_python(root)
    binaries |= place_packages(root / modules)
    binaries |= place_programs(root / "usr/bin")
    place_libraries(root, binaries)
    for name in ("bin", "lib", "lib64"):
        if (root / "usr" / name).is_dir():
            (root / name).symlink_to(f"usr/{name}")
    compile_modules(root)
    normalise(root)


def sage_files() -> list[Path]:
    """Returns the source files of the program that runs inside, which imports only the standard library."""
    return sorted(Path(inside.__file__).parent.glob("*.py"))


def place_python(root: Path) -> tuple[str, set[Path]]:
    """Copies the interpreter and its library; returns the folder of packages and the files that need shared libraries.

    Raises SandboxError if they are not where the interpreter says.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    interpreter = (Path(sys.base_prefix) / "bin" / f"python{version}").resolve()
    library = Path(sysconfig.get_path("stdlib"))
    if not interpreter.exists() or not (library / "os.py").exists():
        raise SandboxError(f"no Python was found at {interpreter} with its library in {library}: use another Python")
    copy(interpreter, root / "usr/bin" / f"python{version}")
    for name in ("python3", "python"):
        (root / "usr/bin" / name).symlink_to(f"python{version}")
    modules = {place: library / place for place in files_below(library) if is_used(place)}
    extensions = with_libraries(path for path in modules.values() if path.suffix == ".so")
    for place, source in modules.items():
        if source.suffix != ".so" or source in extensions:
            copy(source, root / "usr" / sys.platlibdir / library.name / place)
    return site.getsitepackages(["/usr"])[-1].lstrip("/"), {interpreter, *extensions}


def is_used(place: PurePosixPath) -> bool:
    """Returns True if the image needs this file of the standard library.

    It has neither the library's tests, except for what tests import, nor tools that build extensions.
    """
    folder, *rest = place.parts
    if folder == "test" and rest[:1] in (["__init__.py"], ["support"]):
        return True
    names = {*place.parts, place.name.split(".")[0]}
    return not (names & WITHOUT or {"test", "tests"} & {*place.parts[:-1]} or folder.startswith("config-"))


def place_packages(modules: Path) -> set[Path]:
    """Copies pytest, hypothesis and all that they require; returns the files that need shared libraries."""
    binaries = set()
    for package in packages().values():
        for place, source in package_files(package):
            copy(source, modules / place)
            if source.suffix == ".so":
                binaries.add(source)
    return binaries


def packages() -> dict[str, importlib.metadata.Distribution]:
    """Returns the packages of the image by name, with all that they require.

    Raises SandboxError if one is not installed.
    """
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted = list(PACKAGES)
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise SandboxError(f"the image needs the package {name}: pip install {name}") from None
        from packaging.requirements import Requirement  # pytest requires it, so that it is here by now

        needs = map(Requirement, found[name].requires or ())
        wanted += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return dict(sorted(found.items()))


def package_files(package: importlib.metadata.Distribution) -> Iterator[tuple[PurePosixPath, Path]]:
    """Yields the files of a package as (path in the folder of packages, source): modules, data, metadata and licences.

    The record of files is left out; without it, pytest takes plugins as they are compiled.
    """
    for place in package.files or unrecorded_files(package):
        if ".." in place.parts or "__pycache__" in place.parts:
            continue  # scripts, and what is compiled anew
        if not is_metadata(place) or METADATA_FILES.fullmatch("/".join(place.parts[1:])):
            yield PurePosixPath(place), Path(str(package.locate_file(place)))


def is_metadata(place: PurePosixPath) -> bool:
    return place.parts[0].endswith((".dist-info", ".egg-info"))


def unrecorded_files(package: importlib.metadata.Distribution) -> list[PurePosixPath]:
    """Returns the files of a package that a distribution installed without a record: its modules and its metadata.

    Raises SandboxError if the metadata does not name the modules.
    """
    name, folder = package.metadata["Name"], Path(str(package.locate_file("")))
    places = files_below(folder)
    own = [place for place in places if is_metadata(place) and place.parts[0].startswith(f"{name}-")]
    names = [place for place in own if place.name == "top_level.txt"]
    if not names:
        raise SandboxError(f"the files of {name} in {folder} are not recorded: pip install {name}")
    modules = {*(folder / names[0]).read_text(encoding="utf-8").split()}
    return own + [place for place in places if place.parts[0].removesuffix(".py") in modules]


def place_programs(folder: Path) -> set[Path]:
    """Copies a shell, and the small tools that this machine has; returns the files that need shared libraries."""
    binaries = set()
    for name in ("sh", *PROGRAMS):
        found = shutil.which(name, path="/usr/bin:/bin")
        if found is None and name == "sh":
            raise SandboxError("there is no /bin/sh to put into the image")
        if found is not None:
            copy(Path(found), folder / name)
            binaries.add(Path(found).resolve())
    return binaries


def place_libraries(root: Path, binaries: set[Path]) -> None:
    """Copies all shared libraries that the binaries need to where the loader looks first: the C library's folder."""
    libraries: dict[str, Path] = {}
    for needed in needed_libraries(binaries).values():
        for name, path in needed.items():
            libraries.setdefault(name, path)
    [home] = {path.parent for name, path in libraries.items() if re.match(r"libc\.", name)}
    for name in LOADED_LATER:
        if (home / name).exists():
            libraries.setdefault(name, home / name)
    for name, path in libraries.items():
        place = PurePosixPath(name) if name.startswith("/") else PurePosixPath(home) / name
        copy(path, root / "usr" / place.relative_to("/usr" if place.is_relative_to("/usr") else "/"))


def with_libraries(binaries: Iterable[Path]) -> set[Path]:
    """Returns the binaries whose shared libraries are all on this machine."""
    return {path for path, needed in needed_libraries(binaries).items() if all(map(Path.exists, needed.values()))}


def needed_libraries(binaries: Iterable[Path]) -> dict[Path, dict[str, Path]]:
    """Returns for every file the libraries that it loads, by the name it asks for; the loader itself by its path."""
    paths = [str(path) for path in sorted(binaries)]
    words = ["ldd", *paths, sys.executable]  # one more, so that the answers have headings
    answer = subprocess.run(
        words, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    needed: dict[Path, dict[str, Path]] = {}
    libraries: dict[str, Path] = {}
    for line in answer.stdout.splitlines():
        if heading := re.fullmatch(r"(/.*):", line):
            libraries = needed.setdefault(Path(heading[1]), {})
        elif found := re.match(r"\s+(\S+) => (/\S+|not found)", line):
            libraries[found[1]] = Path(found[2])
        elif loader := re.match(r"\s+(/\S+) \(", line):
            libraries[loader[1]] = Path(loader[1])
    return {path: needed.get(path, {}) for path in map(Path, paths)}


def compile_modules(root: Path) -> None:
    """Compiles the image's modules to bytecode that Python uses without looking at dates, which differ between images.

    Raises SandboxError if that fails.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-S", "-s", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", root, "-p", "/", "-x", NOT_COMPILED, root / "usr", root / "sage"),
        ],
        env={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SandboxError(f"the image's modules could not be compiled: {(done.stdout + done.stderr)[-500:]}")


def normalise(root: Path) -> None:
    """Sets the same modes and dates in every image: everybody may read all files, and none changes its user."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            os.utime(path, (0, 0))
    for name in ("tmp", "var/tmp", "work"):
        (root / name).chmod(0o1777)


def copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)
    to.chmod(source.stat().st_mode & 0o700)


def files_below(folder: Path) -> list[PurePosixPath]:
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in WITHOUT]
        found += [PurePosixPath(Path(parent, name).relative_to(folder)) for name in names]
    return sorted(found)

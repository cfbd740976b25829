"""The image: it has what a run needs, nothing of this machine's state, and the same bytes whenever it is built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path, PurePosixPath

import pytest

from sage.cli import main
from sage.sandbox import SandboxError, rootfs
from sage.sandbox import image as images
from sage.settings import cache_folder
from tests import needs

IN_THE_IMAGE = """
import ctypes, hypothesis, json, os, pwd, pygments.formatters.terminal, pygments.lexers.python, pytest, sys, test.support
loaded = [module.__cached__ for module in sys.modules.values() if getattr(module, "__cached__", None)]
print(json.dumps({
    "prefix": sys.prefix, "path": sys.path, "version": sys.version, "user": pwd.getpwuid(1000).pw_name,
    "without_bytecode": [path for path in loaded if not os.path.exists(path)],
}))
"""


def can_change_root() -> bool:
    words = ["unshare", "--map-root-user", "chroot", "/", "true"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(words, capture_output=True, check=False).returncode
    )


def test_python_runs_in_the_image_with_its_packages_and_from_bytecode(image: images.Image) -> None:
    if not can_change_root():
        pytest.skip(needs.USER_NAMESPACES)
    words = ["unshare", "--map-root-user", "chroot", image.root, "/usr/bin/python3", "-B", "-c", IN_THE_IMAGE]
    done = subprocess.run(
        words, env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["prefix"] == "/usr"
    assert all(path == "" or path.startswith("/usr/lib") for path in seen["path"])
    assert (seen["version"], seen["user"]) == (sys.version, "sage")
    assert seen["without_bytecode"] == []


def test_everybody_may_read_it_and_nothing_in_it_is_of_this_machine(image: images.Image) -> None:
    with tarfile.open(image.tar) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted(
        (member.name for member in members), key=lambda name: PurePosixPath(name).parts
    )
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "", 0)}
    assert {oct(member.mode) for member in members if member.isfile()} == {"0o644", "0o755"}
    assert {member.name for member in members if member.isdir() and member.mode != 0o755} == {"tmp", "var/tmp", "work"}
    assert not any(member.isdev() or member.islnk() for member in members)
    links = {member.name: member.linkname for member in members if member.issym()}
    assert not any(target.startswith("/") for target in links.values())
    names = {member.name for member in members}
    assert {"usr/bin/python3", "usr/bin/python", "usr/bin/sh", "proc", "work", "etc/passwd"} <= names
    assert not any(name.endswith(("/RECORD", "direct_url.json")) or "/torch/" in name for name in names)


def test_what_is_unpacked_is_what_is_in_the_tar(image: images.Image) -> None:
    with tarfile.open(image.tar) as tar:
        packed = {member.name: member.size for member in tar.getmembers() if member.isfile()}
    unpacked = {
        path.relative_to(image.root).as_posix(): path.stat().st_size
        for path in image.root.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and not {"bin", "lib", "lib64"} & {path.relative_to(image.root).parts[0]}
    }
    assert unpacked == packed


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    """Of a part that has all there is: folders, modes, dates, a link, and bytecode."""
    digests = set()
    for name, mask in (("a", 0o022), ("b", 0o077)):
        before = os.umask(mask)
        try:
            root = tmp_path / name / "rootfs"
            for module in ("json", "email", "logging"):
                for place in rootfs.files_below(Path(json.__file__).parents[1] / module):
                    rootfs.copy(Path(json.__file__).parents[1] / module / place, root / "usr/lib" / module / place)
            for folder in ("sage", "tmp", "work", "var/tmp"):
                (root / folder).mkdir(parents=True)
            (root / "lib").symlink_to("usr/lib")
            rootfs.compile_modules(root)
            rootfs.normalise(root)
            images.write_tar(root, tmp_path / f"{name}.tar")
        finally:
            os.umask(before)
        digests.add(images.digest(tmp_path / f"{name}.tar"))
        with tarfile.open(tmp_path / f"{name}.tar") as tar:
            assert any(member.name.endswith(f"decoder.{sys.implementation.cache_tag}.pyc") for member in tar)
    assert len(digests) == 1


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """An image of one file, and the roots that were filled."""
    filled: list[Path] = []

    def fill(root: Path) -> None:
        filled.append(root)
        (root / "a").write_text("a")

    monkeypatch.setattr(rootfs, "fill", fill)
    return filled


def test_an_image_is_built_once(tiny: list[Path], tmp_path: Path) -> None:
    first, second = images.ensure(tmp_path), images.ensure(tmp_path)
    assert first == second
    assert len(tiny) == 1
    assert (first.root / "a").read_text() == "a"
    assert first.root.parent.name == first.sha256 == images.digest(first.tar)
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) == [".lock", first.sha256]


def test_another_recipe_is_another_image(tiny: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images.ensure(tmp_path)
    monkeypatch.setattr(images, "package_versions", lambda: {"pytest": "0"})
    assert images.ensure(tmp_path).packages == {"pytest": "0"}
    assert len(tiny) == 2


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(root: Path) -> None:
        (root / "half").mkdir()
        raise SandboxError("no")

    monkeypatch.setattr(rootfs, "fill", fail)
    with pytest.raises(SandboxError, match="no"):
        images.ensure(tmp_path)
    assert [path.name for path in (tmp_path / "images").iterdir()] == [".lock"]


def test_a_changed_image_is_refused(tiny: list[Path], tmp_path: Path) -> None:
    found = images.ensure(tmp_path)
    found.tar.write_bytes(b"other")
    with pytest.raises(SandboxError, match="was changed after it was built: remove the folder"):
        images.ensure(tmp_path)


def test_another_system_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="this is darwin: build it in a Linux VM"):
        rootfs.fill(tmp_path)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(rootfs.importlib.metadata, "distribution", missing)
    with pytest.raises(SandboxError, match=r"needs the package hypothesis: pip install hypothesis"):
        rootfs.packages()


def test_a_package_of_a_distribution_has_no_record_of_its_files(tmp_path: Path) -> None:
    files = {
        "a/__init__.py",
        "a/data.txt",
        "b.py",
        "other.py",
        "A-1.dist-info/METADATA",
        "A-1.dist-info/entry_points.txt",
    }
    for name in (*files, "a/__pycache__/x.pyc", "A-1.dist-info/INSTALLER"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Name: A\n")
    package = Distribution.at(tmp_path / "A-1.dist-info")
    with pytest.raises(SandboxError, match=f"the files of A in {tmp_path} are not recorded: pip install A"):
        dict(rootfs.package_files(package))
    (tmp_path / "A-1.dist-info" / "top_level.txt").write_text("a\nb\n")
    taken = {place.as_posix(): source for place, source in rootfs.package_files(package)}
    assert set(taken) == files - {"other.py"} | {"A-1.dist-info/top_level.txt"}
    assert all(source == tmp_path / place for place, source in taken.items())


@pytest.mark.parametrize(
    ("place", "used"),
    [
        ("os.py", True),
        ("unittest/mock.py", True),
        ("unittest/test/test_case.py", False),
        ("test/support/os_helper.py", True),
        ("test/__init__.py", True),
        ("test/test_os.py", False),
        ("config-3.11-x86_64-linux-gnu/Makefile", False),
        ("sitecustomize.py", False),
        ("lib-dynload/_tkinter.cpython-311-x86_64-linux-gnu.so", False),
        ("lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", True),
        ("site-packages/six.py", False),
    ],
)
def test_which_of_the_standard_library_is_in_it(place: str, used: bool) -> None:
    assert rootfs.is_used(PurePosixPath(place)) is used


def test_the_cache_is_where_the_environment_says() -> None:
    assert cache_folder({"SAGE_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/sage")
    own = Path("/var/cache/sage") if os.geteuid() == 0 else Path.home() / ".cache" / "sage"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == own


def test_the_command_tells_where_it_is(
    tiny: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAGE_CACHE_DIR", str(tmp_path))
    assert main(["sim", "image", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert Path(facts["root"]).parent.name == facts["sha256"]
    assert main(["sim", "image"]) == 0
    assert facts["sha256"] in capsys.readouterr().out

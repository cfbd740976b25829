"""Sources: archives are pinned, taken from pip's index and unpacked in memory; programs of families are the same each time."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from sage.grading.test_reports import run_tests
from sage.sandbox import Backend, Limits
from sage.sim.tasks import package_index
from sage.sim.tasks.families import FAMILIES
from sage.sim.tasks.package_index import FetchError, fetch
from sage.sim.tasks.sdists import SDISTS
from sage.sim.tasks.sources import Sources, UnknownSourceError, members, synthetic_source
from sage.sim.tasks.stdlib import NoTestsError, stdlib_files

PERMISSIVE = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "BSD-3-Clause OR Apache-2.0"}


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("demo-1/demo/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


@pytest.fixture
def index(tmp_path: Path) -> tuple[str, bytes]:
    """A simple index (PEP 503) in a folder, and the archive in it."""
    content = archive({"demo-1/src/demo/a.py": b"x = 1\n"})
    (tmp_path / "simple" / "de-mo").mkdir(parents=True)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "demo-1.tar.gz").write_bytes(content)
    page = '<a href="../../files/demo-1.tar.gz#sha256=0">demo-1.tar.gz</a>'
    (tmp_path / "simple" / "de-mo" / "index.html").write_text(page)
    return f"{(tmp_path / 'simple').as_uri()}/", content


def test_an_archive_comes_from_the_index_once(
    index: tuple[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, content = index
    pinned = hashlib.sha256(content).hexdigest()
    page = f"{address}de-mo/"
    opened = package_index.urlopen
    monkeypatch.setattr(
        package_index,
        "urlopen",
        lambda url, timeout: opened(url + "index.html" if url == page else url, timeout=timeout),
    )
    assert fetch("De.mo", "demo-1.tar.gz", pinned, tmp_path / "kept", [address]) == content
    assert fetch("De.mo", "demo-1.tar.gz", pinned, tmp_path / "kept", []) == content
    with pytest.raises(FetchError, match="another hash"):
        fetch("de_mo", "demo-1.tar.gz", "0" * 64, tmp_path / "kept", [address])
    with pytest.raises(FetchError, match=r"does not list demo-2.tar.gz\): are you offline"):
        fetch("de_mo", "demo-2.tar.gz", "0" * 64, tmp_path / "kept", [address])
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [f"{pinned}.tar.gz"]


def test_a_kept_archive_that_was_changed_is_not_used(tmp_path: Path) -> None:
    (tmp_path / f"{'0' * 64}.tar.gz").write_bytes(b"other")
    with pytest.raises(FetchError, match="could not be fetched"):
        fetch("demo", "demo-1.tar.gz", "0" * 64, tmp_path, [])


def test_pip_says_which_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        package_index,
        "pip",
        lambda *words: "global.index-url='https://a.test/x'\n:env:.extra-index-url='file:///b file:///c'\n",
    )
    assert package_index.index_addresses() == ["https://a.test/x/", "file:///b/", "file:///c/"]
    answers = {"config": "", "download": "  -i, --index-url <url>  Base URL (default\n   https://d.test/simple). More"}
    monkeypatch.setattr(package_index, "pip", lambda *words: answers[words[0]])
    assert package_index.index_addresses() == ["https://d.test/simple/"]


def test_only_plain_files_inside_the_archive_are_taken() -> None:
    files = {
        "demo-1/src/demo/a.py": b"a",
        "demo-1/tests/b.py": b"b",
        "demo-1/../../etc/x": b"",
        "/abs/x": b"",
        "top": b"",
    }
    assert dict(members(archive(files))) == {"demo/a.py": b"a", "tests/b.py": b"b"}


def test_the_table_has_permissive_licences_and_hashes() -> None:
    assert {sdist.licence for sdist in SDISTS.values()} <= PERMISSIVE
    for sdist in SDISTS.values():
        assert len(bytes.fromhex(sdist.sha256)) == 32
        assert sdist.file.endswith(f"-{sdist.version}.tar.gz")


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_of_a_family_pass_their_tests_and_differ(zygote: Backend, family: str) -> None:
    source = synthetic_source(family, 3)
    assert source.files == synthetic_source(family, 3).files
    assert len({synthetic_source(family, seed).sha256 for seed in range(4)}) == 4
    report = run_tests(zygote, source.files, source.tests, Limits(wall_s=30))
    assert {outcome.outcome for outcome in report.tests.values()} == {"passed"}
    assert {test.split("::")[0] for test in report.tests} == set(source.tests)


def test_an_unknown_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownSourceError, match="no family 'poems'"):
        Sources(tmp_path).get("poems:1")
    with pytest.raises(UnknownSourceError, match="no package 'poems'"):
        Sources(tmp_path).get("poems")


def test_a_module_of_python_is_copied_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "shlex.py").write_text("x = 1\n")
    tests = "import io\nimport shlex\nimport shlexer\ndef test_x():\n    from shlex import x\n"
    (tmp_path / "test" / "test_shlex.py").write_text(tests)
    files, path = stdlib_files("shlex", tmp_path)
    assert files["stdlib_copy/shlex.py"] == b"x = 1\n"
    copied = (
        "import io\nfrom stdlib_copy import shlex\nimport shlexer\ndef test_x():\n    from stdlib_copy.shlex import x\n"
    )
    assert files[path].decode() == copied
    with pytest.raises(NoTestsError, match="no tests of textwrap"):
        stdlib_files("textwrap", tmp_path)

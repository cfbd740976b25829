"""Files of a session: what commands change stays, what is wrong is refused before anything runs."""

import pytest

from sage.sandbox import Command, Files, Limits, Result, SandboxError, Session
from sage.sandbox.contract import checked_files, checked_path


class Writer:
    """A backend whose commands write or delete the file they name."""

    name = "writer"

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        verb, path = command.argv
        changed = {path: None if verb == "delete" else f"{limits.wall_s} {len(files)}".encode()}
        return Result(code=0, ended_by="exit", changed=changed)

    def close(self) -> None: ...


def test_what_a_command_changed_is_there_for_the_next() -> None:
    with Session(Writer(), {"a.py": b"1\n"}) as session:
        session.exec("write", "b.py", wall_s=2.0)
        assert session.read("b.py") == b"2.0 1"
        session.exec("delete", "a.py")
        assert sorted(session.files) == ["b.py"]


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    session = Session(Writer(), {"a.py": b"1\n"})
    first = session.snapshot()
    session.write("a.py", b"2\n")
    second = session.snapshot()
    session.restore(first)
    assert session.read("a.py") == b"1\n"
    session.restore(second)
    assert session.read("a.py") == b"2\n"
    with pytest.raises(SandboxError, match="there is no snapshot 2: the session has 2"):
        session.restore(2)


def test_the_difference_is_since_the_beginning() -> None:
    session = Session(Writer(), {"a.py": b"x = 1\n", "old": b"y", "same": b"\xff", "data": b"\xff"})
    session.write("a.py", b"x = 2\n")
    session.write("data", b"\xfe")
    session.write("empty", b"")
    session.exec("delete", "old")
    assert session.diff() == (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
        "Binary file data changed\n"
        "/dev/null -> b/empty\n"
        "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../a", "a/../b", "a//b", "a/", "./a", "a\0b"])
def test_a_path_that_could_leave_the_work_folder_is_refused(path: str) -> None:
    with pytest.raises(SandboxError, match="must be relative and plain"):
        checked_path(path)


@pytest.mark.parametrize(
    "paths", [["a", "a/b/c"], ["a/b/c", "a/b"], ["x" * 256], ["é" * 130], ["a/" * 600 + "b"], ["\ud800"]]
)
def test_files_that_no_sandbox_can_make_are_refused(paths: list[str]) -> None:
    with pytest.raises(SandboxError, match=r"which is a file: choose another|it is too long or is no text"):
        checked_files(dict.fromkeys(paths, b""), Limits())
    checked_files({"a/b": b"", "a/c/d": b"", "é" * 127: b""}, Limits())


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    session = Session(Writer(), {}, Limits(disk_mb=1))
    with pytest.raises(SandboxError, match="disk_mb=1 allows less"):
        session.write("a", bytes(2**20 + 1))
    assert session.files == {}
    session.close()
    with pytest.raises(SandboxError, match="the session is closed"):
        session.exec("write", "a")


@pytest.mark.parametrize("argv", [(), ("a\0b",), (1,)])
def test_a_command_is_words(argv: tuple) -> None:
    with pytest.raises(SandboxError, match="must be words"):
        Command(argv=argv)


@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan"), float("inf")])
def test_a_limit_is_a_positive_number(value: object) -> None:
    with pytest.raises(SandboxError, match="the limit wall_s="):
        Limits(wall_s=value)

"""What every backend promises: files go in and come back, limits end a run, and a failure is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sage.sandbox import Backend, Command, Limits, Result, SandboxError, Session, bubblewrap
from sage.sandbox.image import Image
from sage.sandbox.zygote import Zygote
from tests.sage.sandbox.backends import KINDS, opened


@pytest.fixture(scope="module", params=KINDS)
def backend(request: pytest.FixtureRequest, image: Image) -> Iterator[Backend]:
    yield from opened(request.param, image, request)


@pytest.fixture(scope="module")
def zygote(image: Image) -> Iterator[Backend]:
    yield from opened("zygote", image)


def run(
    backend: Backend, *argv: str, files: dict[str, bytes] | None = None, stdin: bytes = b"", **limits: float
) -> Result:
    return backend.run(files or {}, Command(argv=argv, stdin=stdin), Limits(**limits))


def python(backend: Backend, code: str, **more: object) -> Result:
    return run(backend, "python", "-c", code, **more)


def test_a_session_keeps_files_from_command_to_command(backend: Backend) -> None:
    with Session(backend, {"a.py": b"print(6 * 7)", "package/old": b"\xff"}) as session:
        assert session.exec("python", "a.py").out == b"42\n"
        session.exec("sh", "-c", "cat a.py > new; mkdir -p x/y; echo hi > x/y/z; rm package/old; echo 1 >> a.py")
        assert session.files == {"a.py": b"print(6 * 7)1\n", "new": b"print(6 * 7)", "x/y/z": b"hi\n"}
        assert session.exec("sh", "-c", "cat x/y/z").out == b"hi\n"


def test_nothing_changed_means_nothing_comes_back(backend: Backend) -> None:
    result = python(backend, "open('a').read()", files={"a": b"1", "b/c": b"2"})
    assert (result.changed, result.skipped) == ({}, ())


def test_a_file_whose_times_were_set_back_is_still_found(backend: Backend) -> None:
    code = "import os; s = os.stat('a'); open('a', 'r+').write('2'); os.utime('a', ns=(s.st_atime_ns, s.st_mtime_ns))"
    assert python(backend, code, files={"a": b"1"}).changed == {"a": b"2"}


SEARCH = """
import re
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        place, rights = line.split()[:2]
        if rights.startswith("rw"):
            start, end = (int(number, 16) for number in place.split("-"))
            memory.seek(start)
            for found in re.finditer(b"HIDDEN[0-9a-f]{32}", memory.read(end - start)):
                print(found[0])
"""


def test_nothing_of_an_earlier_run_is_in_memory(backend: Backend) -> None:
    """As the hidden tests of a grading would be."""
    for size in (100, 3000, 30_000):
        hidden = {f"hidden_{i}.py": b"HIDDEN" + os.urandom(16).hex().encode() + b"x" * size for i in range(20)}
        assert python(backend, "pass", files=hidden, stdin=next(iter(hidden.values()))).succeeded
        result = python(backend, SEARCH)
        assert (result.code, result.out, result.err) == (0, b"", b"")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('no')", 1),
        ("import sys; sys.exit()", 0),
        ("1 / 0", 1),
        ("import os; os._exit(7)", 7),
        ("raise SystemExit(256 + 5)", 5),
        ("import atexit; atexit.register(print, 'end')", 0),
        ("import threading, time; threading.Thread(target=lambda: (time.sleep(0.05), print('end'))).start()", 0),
    ],
)
def test_python_ends_as_python_does(backend: Backend, code: str, expected: int) -> None:
    result = python(backend, code)
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (result.ended_by, result.code, result.out) == ("exit", expected, alone.stdout)
    assert result.err.splitlines()[-1:] == alone.stderr.splitlines()[-1:]


def test_standard_input_output_and_errors(backend: Backend) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('é', file=sys.stderr)"
    result = python(backend, code, stdin="straße".encode())
    assert (result.out, result.err) == (b"STRASSE\n", "é\n".encode())


def test_modules_scripts_and_arguments(backend: Backend) -> None:
    files = {
        "p/__main__.py": b"import sys; print(__name__, sys.argv[1:])",
        "s/a.py": b"import b; print(b.x)",
        "s/b.py": b"x = 5",
    }
    assert run(backend, "python", "-m", "p", "1", "2", files=files).out == b"__main__ ['1', '2']\n"
    assert run(backend, "python", "s/a.py", files=files).out == b"5\n"
    assert run(backend, "python", "-I", "-c", "import p", files=files).code == 1


def test_files_of_the_work_folder_shadow_what_is_loaded(backend: Backend) -> None:
    files = {"pluggy.py": b"x = 1", "json/__init__.py": b"y = 2"}
    assert python(backend, "import pluggy, json; print(pluggy.x, json.y)", files=files).out == b"1 2\n"


def test_two_runs_draw_different_numbers_and_hash_the_same(backend: Backend) -> None:
    numbers, hashes = zip(
        *(python(backend, "import random; print(random.random(), hash('a'))").out.split() for _ in range(2)),
        strict=True,
    )
    assert len(set(numbers)) == 2
    assert len(set(hashes)) == 1


def test_what_is_not_there_is_said(backend: Backend) -> None:
    result = run(backend, "no-such-program")
    assert (result.code, result.err) == (127, b"no-such-program: No such file or directory\n")


@pytest.mark.parametrize(
    ("code", "ended_by", "limits"),
    [
        ("import time; time.sleep(30)", "wall_s", {"wall_s": 0.3}),
        ("while True: pass", "cpu_s", {"cpu_s": 1, "wall_s": 60}),
        (
            "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
            "cpu_s",
            {"cpu_s": 1, "wall_s": 60},
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal", {}),
    ],
)
def test_how_a_run_was_ended(backend: Backend, code: str, ended_by: str, limits: dict[str, float]) -> None:
    result = python(backend, code, **limits)
    assert (result.code, result.ended_by) == (None, ended_by)


def test_the_beginning_and_the_end_of_long_output_are_kept(backend: Backend) -> None:
    result = python(backend, "print('first'); print('x' * 10**6); print('last')", output_bytes=1000)
    assert result.truncated
    assert len(result.out) == 1000
    assert result.out.startswith(b"first\n")
    assert result.out.endswith(b"last\n")


def test_a_large_tree_comes_back_whole(backend: Backend) -> None:
    files = {f"f{i}/g": os.urandom(5000) for i in range(300)}
    result = run(backend, "sh", "-c", "for f in f*; do mv $f/g $f/h; done", files=files)
    assert result.changed == dict.fromkeys(files) | {p.replace("/g", "/h"): c for p, c in files.items()}


def test_pytest_runs(backend: Backend) -> None:
    files = {"a.py": b"def f(): return 1", "test_a.py": b"import a\ndef test(): assert a.f() == 2"}
    result = run(backend, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", files=files, wall_s=30)
    assert result.code == 1
    assert b"assert 1 == 2" in result.out
    assert result.changed == {}


def test_another_thread_can_end_a_run(backend: Backend) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run, backend, "sleep", "60", wall_s=90)
        while not waiting.done():  # also if it had not begun yet
            time.sleep(0.1)
            backend.interrupt()
    assert waiting.result().ended_by == "broken"
    assert run(backend, "true").succeeded


def test_a_zygote_that_was_killed_is_replaced(zygote: Zygote) -> None:
    assert zygote.process is not None
    zygote.process.kill()
    zygote.process.wait()  # the zygote has been sent its own end by then
    assert run(zygote, "true").ended_by == "broken"
    assert run(zygote, "true").succeeded


def test_a_bubblewrap_that_stands_still_is_ended(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing, and the request is longer than a pipe."""
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/bin/sleep")
    monkeypatch.setattr(bubblewrap.Bubblewrap, "words", lambda self, limits: ["/bin/sleep", "60"])
    monkeypatch.setattr(bubblewrap.exchange, "GRACE_S", 0.1)
    result = run(bubblewrap.Bubblewrap(image), "true", files={"a": bytes(2**20)}, wall_s=0.1)
    assert result.ended_by == "broken"


def test_nothing_outlives_its_owner(image: Image, zygote: Zygote, tmp_path: Path) -> None:
    """The owner is killed in the middle of a run; the command, which sleeps for a minute, ends too."""
    program = tmp_path / "owner.py"
    program.write_text(
        "import sys\nfrom pathlib import Path\nfrom sage.sandbox import Command, Limits\n"
        "from sage.sandbox.image import ensure\nfrom sage.sandbox.zygote import Zygote\n"
        "zygote = Zygote(ensure(Path(sys.argv[1])))\nzygote.boot()\nprint('ready', flush=True)\n"
        f"zygote.run({{}}, Command(argv=('sleep', '{61 + os.getpid() / 1e8}')), Limits(wall_s=60))\n"
    )
    owner = subprocess.Popen([sys.executable, program, image.root.parents[2]], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    owner.stdout.readline()
    until(lambda: sleeping() == 1)
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    until(lambda: sleeping() == 0)


def sleeping() -> int:
    """How many processes of this machine are the command above."""
    wanted = f"sleep\0{61 + os.getpid() / 1e8}\0".encode()
    return sum(wanted == command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_host_without_namespaces_is_told_the_reason(image: Image, zygote: Zygote, tmp_path: Path) -> None:
    nowhere = Zygote(Image(tmp_path / "nothing", image.tar, image.sha256, image.python, image.packages))
    with pytest.raises(SandboxError, match="No such file or directory"):
        nowhere.boot()

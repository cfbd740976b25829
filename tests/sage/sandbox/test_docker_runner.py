"""Docker as a sandbox: what a run leaves behind, how it ends, and that what is not enforced is refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sage.sandbox import Command, Limits, Result, SandboxError, docker_runner, exchange, leases
from sage.sandbox.choose import contained
from sage.sandbox.docker_rules import IN_CONTROL_GROUPS, ContainerShape, call_profile, not_enforced
from sage.sandbox.docker_runner import Docker, Engine, remove_abandoned
from sage.sandbox.image import Image
from tests import needs
from tests.sage.sandbox import docker_daemon

needs_locks = pytest.mark.skipif(not leases.LOCKS_WORK, reason=needs.FCNTL)
LIMITS = Limits(memory_mb=256, processes=32, disk_mb=16, wall_s=20.0)


@pytest.fixture(scope="module")
def backend(docker_engine: tuple[str, ...], image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    found = Docker(image, engine=docker_engine, cache=tmp_path_factory.mktemp("cache"))
    yield found
    found.close()


def python(backend: Docker, program: str, limits: Limits = LIMITS) -> Result:
    return backend.run({"a.py": program.encode()}, Command(argv=("python", "a.py")), limits)


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def test_a_run_answers_with_what_it_wrote(backend: Docker) -> None:
    program = "import sys, pytest; print(sys.stdin.read()); open('b', 'w').write('1'); sys.exit(3)"
    files = {"a.py": program.encode(), "folder/same": b"x"}
    result = backend.run(files, Command(argv=("python", "a.py"), stdin=b"said"), LIMITS)
    assert (result.code, result.ended_by, result.out, result.err) == (3, "exit", b"said\n", b"")
    assert result.changed == {"b": b"1"}


def test_one_container_serves_many_runs_and_nothing_of_them_stays(backend: Docker) -> None:
    leave = """
import os, subprocess
for folder in ("/work", "/tmp", "/dev/shm"):
    os.makedirs(f"{folder}/deep/er", exist_ok=True)
    open(f"{folder}/deep/er/file", "w").write("x")
    os.chmod(f"{folder}/deep", 0)
subprocess.Popen(["sleep", "1000"], start_new_session=True)
"""
    look = """
import os
print(sorted(os.listdir("/work")), os.listdir("/tmp"), os.listdir("/dev/shm"))
print(sum(name.isdigit() for name in os.listdir("/proc")), oct(os.stat("/work").st_mode), os.getuid())
"""
    python(backend, "pass")
    container = backend.container
    assert python(backend, leave).succeeded
    assert python(backend, look).out == b"['a.py'] [] []\n2 0o41777 1000\n"  # supervisor and command
    assert backend.container is container


def test_a_command_cannot_end_or_stop_its_supervisor(backend: Docker) -> None:
    python(backend, "pass")
    container = backend.container
    every = "import os, signal\nfor s in signal.valid_signals(): os.kill(1, s)\nprint(1)\n"
    assert python(backend, every).out == b"1\n"
    assert b"ProcessLookupError" in python(backend, "import os; os.kill(-1, 9)").err  # nobody else that it may kill
    assert backend.container is container


def test_a_container_that_fails_or_stands_still_is_replaced(
    backend: Docker, docker_engine: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that lost its sandbox is called broken, and the next one has another."""
    monkeypatch.setattr(exchange, "GRACE_S", 0.5)
    engine = Engine(docker_engine)
    for deed in ("kill", "pause"):
        python(backend, "pass")
        assert backend.container is not None
        name = backend.container.name
        engine.ask(deed, name)
        result = python(backend, "print(1)", replace(LIMITS, wall_s=0.5))
        assert (result.code, result.ended_by, result.changed) == (None, "broken", {})
        assert name not in engine.containers("name=sage-sandbox")
        assert python(backend, "print(1)").out == b"1\n"


def test_limits_hold(backend: Docker) -> None:
    started = (
        "import os, time\nn = 0\ntry:\n    while n < 100:\n        if os.fork() == 0: time.sleep(100)\n        n += 1\n"
    )
    assert python(backend, started + "except OSError: print(n)").out == b"31\n"  # with the command itself 32
    assert b"MemoryError" in python(backend, "x = bytearray(300 * 2**20)").err
    assert b"No space left" in python(backend, "open('/tmp/x', 'wb').write(bytes(17 * 2**20))").err
    quick = Limits(memory_mb=256, processes=32, disk_mb=16, wall_s=0.3)
    assert python(backend, "import time; time.sleep(60)", quick).ended_by == "wall_s"
    assert b"Read-only file system" in python(backend, "open('/usr/x', 'w')").err
    assert b"unreachable" in python(backend, "import socket; socket.create_connection(('192.0.2.1', 80))").err
    unshare = "import ctypes; ctypes.CDLL(None, use_errno=True).unshare(0x10000000); print(ctypes.get_errno())"
    assert python(backend, unshare).out == b"1\n"  # EPERM


def test_other_limits_and_many_runs_get_another_container(backend: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    python(backend, "pass")
    first = backend.container
    python(backend, "pass", Limits(memory_mb=256, processes=32, disk_mb=16, wall_s=7.0, output_bytes=10))
    assert backend.container is first
    assert python(backend, "pass", Limits(memory_mb=200, processes=32, disk_mb=16)).succeeded
    second = backend.container
    assert second is not first
    monkeypatch.setattr(docker_runner, "MOST_RUNS", 1)
    assert python(backend, "pass", Limits(memory_mb=200, processes=32, disk_mb=16)).succeeded
    assert backend.container is not second


@needs_locks
def test_a_container_ends_with_the_process_that_started_it(
    docker_engine: tuple[str, ...], backend: Docker, image: Image, tmp_path: Path
) -> None:
    program = f"""
import os, signal
from pathlib import Path
from sage.sandbox.docker_runner import Docker
from sage.sandbox import Command, Limits
from sage.sandbox.choose import contained
from sage.sandbox.image import Image
from tests.sage.sandbox import docker_daemon
image = Image(Path({str(image.root)!r}), Path({str(image.tar)!r}), {image.sha256!r}, "", {{}})
docker = Docker(image, engine={docker_engine!r}, cache=Path({str(tmp_path)!r}))
docker.run({{}}, Command(argv=("true",)), Limits())
print(docker.container.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    engine = Engine(docker_engine)
    assert eventually(lambda: died.stdout.strip() not in engine.containers("name=sage-sandbox"))
    assert [path for path in (tmp_path / "leases").iterdir() if path.is_dir()]  # nobody has cleaned up yet
    remove_abandoned(engine, tmp_path / "leases")
    assert not [path for path in (tmp_path / "leases").iterdir() if path.is_dir()]


@needs_locks
def test_an_abandoned_container_is_removed_at_the_next_start_and_others_are_not(
    docker_engine: tuple[str, ...], backend: Docker, tmp_path: Path
) -> None:
    engine = Engine(docker_engine)
    held = leases.Lease(tmp_path)
    label = f"sage.leases={docker_runner.label_of(tmp_path)}"
    names = {
        "dead": ("sage-sandbox-dead", label),
        "held": (f"sage-sandbox-{held.name}", label),
        "foreign": ("sage-sandbox-foreign", "sage.leases=other"),
    }
    for name, of in names.values():
        engine.ask("create", "--network", "none", "--name", name, "--label", of, backend.image, "true")
    remove_abandoned(engine, tmp_path)
    try:
        left = engine.containers("name=sage-sandbox")
        assert {key for key, (name, _) in names.items() if name in left} == {"held", "foreign"}
    finally:
        held.release()
        engine.remove("sage-sandbox-foreign")
        remove_abandoned(engine, tmp_path)


def test_an_engine_that_ignores_a_limit_is_refused(
    docker_engine: tuple[str, ...], backend: Docker, image: Image, tmp_path: Path
) -> None:
    """As rootless engines do where control groups are not theirs: they warn, and start the container."""
    careless = tmp_path / "careless"
    careless.write_text(f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
if words[0] == "run":
    place = words.index("--pids-limit")
    del words[place : place + 2]
    words.remove("--read-only")
os.execvp({docker_engine[0]!r}, [*{docker_engine!r}, *words])
""")
    careless.chmod(0o755)
    docker = Docker(image, engine=(str(careless),), cache=tmp_path)
    with pytest.raises(
        SandboxError, match=r"does not enforce a read-only image .*; processes=32 \(it has None, not 33\)"
    ):
        python(docker, "pass")
    assert Engine(docker_engine).containers(f"label=sage.leases={docker_runner.label_of(tmp_path / 'leases')}") == []


FACTS = {
    "process": 1,
    "user": 1000,
    "capabilities": 0,
    "no_new_privileges": 1,
    "seccomp": 2,
    "interfaces": ["lo"],
    "read_only": True,
    "disk": [64 * 2**20, 64 * 2**20, 16 * 2**20],
    "sees_control_groups": True,
    "processes": 65,
    "memory": ContainerShape.of(Limits()).memory,
    "swap": 0,
    "cpus": 1.0,
}


@pytest.mark.parametrize("key", FACTS)
def test_every_fact_counts(key: str) -> None:
    shape = ContainerShape.of(Limits())
    hidden = FACTS | {"sees_control_groups": False} | dict.fromkeys(IN_CONTROL_GROUPS)
    for facts, bare in ((FACTS, False), (hidden, True)):
        assert not_enforced(facts, shape, cpus=1.0, bare=bare) == []
        for wrong in () if bare and key in IN_CONTROL_GROUPS else (None, 17):
            [sentence] = not_enforced(facts | {key: wrong}, shape, cpus=1.0, bare=bare)
            assert f"(it has {wrong}, not" in sentence


def test_podman_holds_too(image: Image, tmp_path: Path) -> None:
    if shutil.which("podman") is None or os.geteuid() != 0:
        pytest.skip(needs.PODMAN)
    with docker_daemon.folder() as storage:
        engine = ("podman", "--root", str(storage / "root"), "--runroot", str(storage / "run"))
        backend = contained(Docker(image, engine=engine, cache=tmp_path))
        assert backend.name == "podman"
        backend.close()
        assert Engine(engine).containers("name=sage-sandbox") == []


def test_a_host_without_an_engine_is_told(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no-such-engine is not installed: install Docker or Podman"):
        Docker(engine=("no-such-engine",), cache=tmp_path)
    with pytest.raises(SandboxError, match="`false ps` failed"):
        Docker(engine=("false",), cache=tmp_path)


def test_too_few_processes_are_refused() -> None:
    with pytest.raises(SandboxError, match=r"processes=3 is less than an engine needs .*: set it to 14 or more"):
        ContainerShape.of(Limits(processes=3))


def test_the_profile_of_a_container_denies_what_the_table_denies() -> None:
    names = {name for rule in call_profile()["syscalls"] for name in rule["names"]}
    assert {"ptrace", "io_uring_setup", "unshare", "clone", "clone3", "bpf", "keyctl"} <= names
    assert "memfd_create" not in names  # the supervisor needs it; the command's own filter denies it

"""Sandboxes by Docker or Podman: one warm container per backend, whose first process answers run after run.

The container has no network and no capability, and only three folders in memory can be written. Before it is used it
reports what the engine enforces: a missing restriction raises SandboxError, and nothing ever runs outside of a
container.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shutil
import subprocess
import time
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sage.files import write_json
from sage.sandbox import exchange, leases
from sage.sandbox.contract import Command, Files, Limits, Result, SandboxError
from sage.sandbox.docker_rules import ContainerShape, call_profile, not_enforced, run_words
from sage.sandbox.image import Image, ensure
from sage.sandbox.inside import frames
from sage.settings import cache_folder

REPOSITORY = "sage-sandbox"
ANY_NUMBER = 10**6
PATIENCE_S = 60.0  # for the engine, on a busy machine
MOST_RUNS = 500  # of one container


class Engine:
    """The command-line program of Docker or Podman."""

    def __init__(self, words: Sequence[str] = ("docker",)) -> None:
        self.words = tuple(words)

    def ask(self, *words: str, patience_s: float = PATIENCE_S) -> str:
        """Runs the engine with these arguments and returns its standard output without blanks around it.

        Raises SandboxError if the engine is missing, fails, or takes longer than `patience_s` seconds.
        """
        try:
            done = subprocess.run(
                [*self.words, *words], capture_output=True, text=True, check=False, timeout=patience_s, errors="replace"
            )
        except FileNotFoundError:
            raise SandboxError(
                f"{self.words[0]} is not installed: install Docker or Podman, or use another backend"
            ) from None
        except subprocess.TimeoutExpired:
            raise SandboxError(
                f"`{self.words[0]} {words[0]}` did not answer in {patience_s:.0f} s: is the daemon well?"
            ) from None
        if done.returncode:
            raise SandboxError(f"`{self.words[0]} {words[0]}` failed: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    def remove(self, container: str) -> None:
        """Removes a container with everything in it; does nothing if it is gone already.

        Raises SandboxError if it is still there after a minute.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(SandboxError):  # it may be about to end by itself
                self.ask("rm", "--force", container)
            if container not in self.containers(f"name={container}"):
                return
            if time.monotonic() > deadline:
                raise SandboxError(f"the container {container} could not be removed and may still run: remove it")
            time.sleep(0.1)

    def containers(self, which: str) -> list[str]:
        return self.ask("ps", "--all", "--filter", which, "--format", "{{.Names}}").split()

    def import_image(self, image: Image) -> str:
        """Imports an image into the engine, if it is not there yet, and returns its name there."""
        name = f"{REPOSITORY}:{image.sha256}"
        if not self.ask("images", "--quiet", name):
            self.ask("import", str(image.tar), name)
        return name


class Container:
    """A container and the connection to its first process; it ends when the connection does."""

    def __init__(
        self, engine: Engine, image: str, shape: ContainerShape, *, cpus: float, folder: Path, bare: bool
    ) -> None:
        self.shape, self.runs = shape, 0
        lease = leases.Lease(folder)
        self.name = f"{REPOSITORY}-{lease.name}"
        profile = lease.folder / "seccomp.json"
        write_json(profile, call_profile())
        words = run_words(engine.words[0], self.name, shape, cpus=cpus, profile=profile, bare=bare)
        words += ["--label", f"sage.lease={lease.name}", "--label", f"sage.leases={label_of(folder)}", image]
        self.process = subprocess.Popen(
            [*engine.words, *words, "/usr/bin/python3", "-m", "inside.container"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=lease.folder,  # where Podman leaves a file `oom`
            start_new_session=True,  # an interrupt is for us, and we end the container
        )
        self.end = weakref.finalize(self, end_container, engine, self.name, self.process, lease)
        try:
            facts, _ = frames.unpack(self.reader(time.monotonic() + PATIENCE_S), 0)
        except frames.FrameError as error:
            reason = self.last_words() or str(error)
            self.end()
            raise SandboxError(f"`{engine.words[0]} run` did not start a container: {reason}") from error
        if missing := not_enforced(facts, shape, cpus=cpus, bare=bare):
            self.end()
            raise SandboxError(f"{engine.words[0]} does not enforce {'; '.join(missing)}: use another backend or host")

    def ask(self, request: bytes, files: Files, limits: Limits) -> Result:
        self.runs += 1
        deadline = time.monotonic() + limits.wall_s + exchange.GRACE_S
        try:
            self.send(request, deadline)
            return exchange.result(self.reader(deadline), files, limits)
        except (OSError, frames.FrameError) as error:
            return exchange.broken(str(error))

    def send(self, request: bytes, deadline: float) -> None:
        assert self.process.stdin is not None
        number = self.process.stdin.fileno()
        os.set_blocking(number, False)
        waiting = select.poll()
        waiting.register(number, select.POLLOUT)
        view = memoryview(request)
        while view:
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise frames.FrameError("the container did not take the request in time")
            view = view[os.write(number, view) :]

    def last_words(self) -> str:
        """Kills the engine's process and returns the last 500 characters of its error output."""
        self.process.kill()
        return self.process.communicate()[1].decode(errors="replace").strip()[-500:]

    def reader(self, deadline: float) -> frames.Read:
        assert self.process.stdout is not None
        number = self.process.stdout.fileno()
        return frames.exact_reader(frames.until_deadline(deadline, number, lambda size: os.read(number, size)))


class Docker:
    """Backend for hosts with Docker or Podman, one run at a time; a container that fails is replaced at the next run.

    Example:
        >>> with Session(Docker(), {"a.py": b"print(6 * 7)"}) as session:
        ...     session.exec("python", "a.py").out
        b'42\\n'
    """

    def __init__(
        self,
        image: Image | None = None,
        *,
        engine: Sequence[str] = ("docker",),
        cpus: float = 1.0,
        cache: Path | None = None,
    ) -> None:
        self.name = Path(engine[0]).name
        self.engine = Engine(engine)
        self.cpus = cpus
        self.folder = (cache or cache_folder()).resolve() / "leases"
        self.container: Container | None = None
        self.checked: set[ContainerShape] = set()
        remove_abandoned(self.engine, self.folder)
        with leases.locked(self.folder / ".import"):
            self.image = self.engine.import_image(image or ensure(cache))

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        shape = ContainerShape.of(limits)
        request = exchange.request(files, command, replace(limits, processes=ANY_NUMBER))  # the container counts them
        if self.container is not None and (self.container.shape != shape or self.container.runs >= MOST_RUNS):
            self.close()
        if self.container is None:
            self.container = self.start(shape)
        result = exchange.broken("interrupted")
        try:
            result = self.container.ask(request, files, limits)
        finally:
            if result.ended_by == "broken":  # nothing else can be asked where an answer is missing
                self.close()
        return result

    def start(self, shape: ContainerShape) -> Container:
        """Returns a new container with these limits; raises SandboxError if one of them is not enforced.

        The first time, another container is started before it: one that can see its control groups, and reports them.
        """
        if shape not in self.checked:
            Container(self.engine, self.image, shape, cpus=self.cpus, folder=self.folder, bare=False).end()
            self.checked.add(shape)
        return Container(self.engine, self.image, shape, cpus=self.cpus, folder=self.folder, bare=True)

    def interrupt(self) -> None:
        """Cuts the connection, so that the run in another thread ends as 'broken'."""
        if (container := self.container) is not None:
            container.process.kill()

    def close(self) -> None:
        """Ends the container and everything in it."""
        if self.container is not None:
            self.container.end()
        self.container = None


def label_of(folder: Path) -> str:
    """Returns the label of containers whose leases are in the folder; containers of other users have other labels."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def remove_abandoned(engine: Engine, folder: Path) -> None:
    """Removes the containers and leases of processes that have ended."""
    with leases.locked(folder / ".lock"):
        for name in engine.containers(f"label=sage.leases={label_of(folder)}"):
            if not leases.is_held(folder / name.removeprefix(f"{REPOSITORY}-")):
                engine.remove(name)
        for lease in folder.iterdir():
            if lease.is_dir() and not leases.is_held(lease):
                shutil.rmtree(lease, ignore_errors=True)


def end_container(engine: Engine, name: str, process: subprocess.Popen[bytes], lease: leases.Lease) -> None:
    """Cuts the connection, removes the container if that did not end it, and releases its lease."""
    process.kill()
    process.communicate()
    try:
        engine.remove(name)
    finally:
        lease.release()  # whoever starts next removes what is left

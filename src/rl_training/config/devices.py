"""What a config's devices mean on this machine."""

from __future__ import annotations

import torch

from rl_training.core.arguments import ConfigError


def resolve_device(device: str) -> str:
    """What `auto` means on this machine."""
    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def on_device(values: dict, device: str) -> dict:
    """The data of a config for use on another device; what only a GPU can do is left behind with it."""
    if not isinstance(values.get("training", {}), dict):
        return values  # which is refused where it is read
    if not isinstance(device, str):
        raise ConfigError(f"training.device={device!r} must be text: use 'cpu', 'cuda' or 'auto'")
    training = values.get("training", {}) | {"device": device}
    if not resolve_device(device).startswith("cuda"):
        training["overlap"] = False
    return values | {"training": training}


def check_device(device: str, field: str) -> None:
    if device == "auto" and field == "training.device":
        return
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = "unknown"
    if kind not in ("cpu", "cuda"):
        choices = "'cpu', 'cuda' or 'auto'" if field == "training.device" else "'cpu' or 'cuda'"
        raise ConfigError(f"{field}={device!r} is not a device to train on: use {choices}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"{field}={device!r}, but this machine has no usable GPU: use 'cpu'")

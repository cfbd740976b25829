"""The extra of sage-routing that brings a module which is not installed."""

from __future__ import annotations

EXTRAS = {
    "serve": ("aiohttp", "httptools", "jsonschema", "starlette", "uvicorn"),
    "train": ("pyarrow", "rl_training", "torch"),
    "sim": ("gymnasium", "rich", "sage.sim"),
    "local": ("xllamacpp",),
    "embed": ("onnxruntime", "tokenizers"),
}


def extra_with(module: str) -> str | None:
    """Returns the extra with this module or a package that it is in; None if no extra has it."""
    found = (extra for extra, names in EXTRAS.items() for name in names if f"{module}.".startswith(f"{name}."))
    return next(found, None)

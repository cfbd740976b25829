"""What the scripts that watch other libraries share: numbers as text, watched calls, and the golden file."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def numbers(values: Tensor | np.ndarray) -> list:
    """Nested lists of floats with nine digits."""
    values = values.detach().numpy() if isinstance(values, Tensor) else values
    return [float(f"{x:.9g}") for x in values] if values.ndim == 1 else [numbers(row) for row in values]


def watch(place: object, name: str, seen: list) -> Callable[[], None]:
    """Keeps the arguments and the result of every call; returns what ends that."""
    original = getattr(place, name)

    def call(*arguments: object, **keywords: object) -> object:
        result = original(*arguments, **keywords)
        seen.append((arguments, result))
        return result

    setattr(place, name, call)
    return lambda: setattr(place, name, original)


def write_golden(
    default: Path, description: str | None, versions: dict[str, str], cases: dict[str, Callable[[], dict]]
) -> dict[str, dict]:
    """Runs the cases and writes what they saw, with the versions, one row of numbers a line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=default)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    seen = {name: run() for name, run in cases.items()}
    text = json.dumps({"versions": versions | {"torch": torch.__version__}} | seen, separators=(",", ":"))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text.replace("],[", "],\n[").replace('],"', '],\n"') + "\n")
    print(f"wrote {out.name}: {len(text):,} bytes")
    return seen

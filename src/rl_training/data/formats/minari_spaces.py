"""Spaces as Minari writes them."""

from __future__ import annotations

import numpy as np

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from rl_training.data.columns import DatasetError


def space_from_minari(record: dict) -> Space:
    """Returns our space for Minari's description of one; raises a DatasetError if it is not supported."""
    try:
        match record["type"]:
            case "Box":
                shape = tuple(record["shape"])
                image = record["dtype"] == "uint8" and len(shape) == 3
                low, high = (tuple(np.ravel(record[side]).astype(float).tolist()) for side in ("low", "high"))
                return Box(shape, low, high, "uint8" if image else "float32")
            case "Discrete":
                return Discrete(int(record["n"]), int(record.get("start", 0)))
            case "MultiDiscrete":
                return MultiDiscrete(tuple(map(int, record["nvec"])))
            case "MultiBinary":
                return MultiBinary(int(record["n"]))
            case "Dict":
                return Dict({key: space_from_minari(leaf) for key, leaf in record["subspaces"].items()})  # pyrefly: ignore (one level)
            case other:
                raise DatasetError(f"the space {other!r} in metadata.json is not supported: flatten it when recording")
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"a space in metadata.json cannot be understood ({error!r}): copy the dataset again"
        ) from error


def space_to_minari(space: Space) -> dict:
    match space:
        case Box():
            low, high = (np.reshape(bound, space.shape).tolist() for bound in (space.low, space.high))
            return {"type": "Box", "dtype": space.dtype, "shape": list(space.shape), "low": low, "high": high}
        case Discrete():
            return {"type": "Discrete", "dtype": "int64", "start": space.start, "n": space.num}
        case MultiDiscrete():
            return {"type": "MultiDiscrete", "dtype": "int64", "nvec": list(space.nums)}
        case MultiBinary():
            return {"type": "MultiBinary", "n": space.num}
        case Dict():
            return {"type": "Dict", "subspaces": {key: space_to_minari(leaf) for key, leaf in space.spaces.items()}}

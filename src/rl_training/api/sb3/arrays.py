"""NumPy arrays, numbers and dtypes out of the records that `inert_pickle` makes of them."""

from __future__ import annotations

import math
import re

import numpy as np

from rl_training.api.sb3.inert_pickle import Call, Name, PickleError

MULTIARRAY = r"numpy\.(_?core)\.multiarray\."
DTYPES = (
    "bool",
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)),
)


def dtype_of(record: object) -> np.dtype:
    """Returns the dtype that a record stands for; raises PickleError if it is no plain dtype of numbers."""
    match record:
        case Name(module="numpy", name=name) if name.removesuffix("_") in DTYPES:
            return np.dtype(name.removesuffix("_"))
        case Call(path="numpy.dtype", args=(str(code), *_), state=state):
            order = state[1] if isinstance(state, tuple) and len(state) > 1 else "|"
            if re.fullmatch(r"[fiub][1248]|bool", code) and order in ("<", ">", "|", "=") and not has_fields(state):
                return np.dtype(code).newbyteorder(order if order != "|" else "=")
        case Call(args=(Name() as name,), path="numpy.dtype"):
            return dtype_of(name)
        case str() if record in DTYPES:
            return np.dtype(record)
    raise PickleError(f"has a dtype that is none of {', '.join(DTYPES)}")


def has_fields(state: object) -> bool:
    return isinstance(state, tuple) and any(part is not None for part in state[2:5])


def array_of(record: object) -> np.ndarray:
    """Returns the array that a record stands for; plain numbers and lists of numbers become arrays, too.

    Raises PickleError for anything else, and if the array's size is not that of its bytes.
    """
    match record:
        case int() | float():
            return np.asarray(record)
        case list() | tuple() if all(isinstance(x, int | float) for x in record):
            return np.asarray(record)
        case Call(path=path, args=(_, _, _), state=(_, tuple(shape), dtype, bool(fortran), bytes(data))) if (
            re.fullmatch(MULTIARRAY + "_reconstruct", path)
        ):
            return filled(data, dtype_of(dtype), shape, "F" if fortran else "C")
        case Call(path=path, args=(bytes(data) | bytearray(data), dtype, tuple(shape), str(order))) if re.fullmatch(
            r"numpy\.(_?core)\.numeric\._frombuffer", path
        ):
            return filled(bytes(data), dtype_of(dtype), shape, order)
        case Call(path=path, args=(dtype, bytes(data))) if re.fullmatch(MULTIARRAY + "scalar", path):
            return filled(data, dtype_of(dtype), (), "C")
    raise PickleError(f"has {described(record)} where an array of numbers belongs")


def filled(data: bytes, dtype: np.dtype, shape: tuple, order: str) -> np.ndarray:
    """Returns an array of `shape` with the content `data`; raises PickleError if they do not have the same size."""
    known = order in ("C", "F") and all(type(length) is int and length >= 0 for length in shape) and len(shape) <= 8
    if not known or math.prod(shape) * dtype.itemsize != len(data):
        raise PickleError(f"has an array of shape {tuple(map(str, shape))} and {dtype} in {len(data):,} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if order == "F" else "C")


def number_of(record: object) -> float:
    """Returns the number that a record stands for; raises PickleError if it is not one finite number."""
    array = array_of(record)
    if array.size != 1 or not np.isfinite(array).all():
        raise PickleError("has something else where one finite number belongs")
    return array.reshape(-1)[0].item()


def described(record: object) -> str:
    """Returns a short text for an error message: the kind of a record, or a number or text itself.

    Lists are not written out: one that holds another twice, which holds another twice, and so on, would have no end.
    """
    if isinstance(record, Name | Call):
        return record.path or "a call"
    return repr(record)[:60] if isinstance(record, str | int | float) else f"a {type(record).__name__}"

"""Schedules of Stable-Baselines3, as far as they can be read without running them."""

from __future__ import annotations

from rl_training.api.sb3.arrays import number_of
from rl_training.api.sb3.inert_pickle import Call, Pickle, PickleError

UTILS = "stable_baselines3.common.utils"
WRAPPER = "get_schedule_fn.<locals>.<lambda>"
CONSTANT, LINEAR = "constant_fn.<locals>.func", "get_linear_fn.<locals>.func"  # functions, up to version 2.6


def schedule_of(found: object) -> object:
    """Returns a setting that may be a schedule as a config has it: a number, a mapping, text or None.

    Raises PickleError if it is a function of the user's own, of which only the code was saved.
    """
    if not isinstance(found, Pickle):
        return found
    record = found.value
    for _ in range(3):
        if isinstance(record, Call) and record.path == f"{UTILS}.FloatSchedule":
            record = state_of(record).get("value_schedule")
    match record:
        case int() | float():
            return record
        case Call(path=path) if path == f"{UTILS}.ConstantSchedule":
            return number_of(state_of(record).get("val"))
        case Call(path=path) if path == f"{UTILS}.LinearSchedule":
            state = state_of(record)
            return linear(*(state.get(name) for name in ("start", "end", "end_fraction")))
    return from_closures(found) if found.calls and "numpy" not in found.calls[-1].path else number_of(record)


def state_of(record: Call) -> dict:
    return record.state if isinstance(record.state, dict) else {}


def linear(start: object, end: object, fraction: object) -> dict[str, float]:
    return {"initial": number_of(start), "final": number_of(end), "fraction": number_of(fraction)}


def from_closures(found: Pickle) -> object:
    """Returns the schedule of a function that Stable-Baselines3 itself made, from the numbers that it closes over."""
    functions = {}
    for call in found.calls:
        match call:
            case Call(path=path, args=(_, (_, dict(state)))) if path.endswith("._function_setstate"):
                own = state.get("__module__") == UTILS
                functions[state.get("__qualname__") if own else None] = state.get("__closure__")
    functions.pop(WRAPPER, None)
    match [(name, cells(closure)) for name, closure in functions.items()]:
        case [(name, (value,))] if name == CONSTANT:
            return number_of(value)
        case [(name, (end, fraction, start))] if name == LINEAR:
            return linear(start, end, fraction)
    raise PickleError("is a function")


def cells(closure: object) -> tuple:
    """Returns what the cells of a pickled function hold; () if it has none that can be read."""
    listed = closure if isinstance(closure, tuple) else ()
    return tuple(cell.args[0] for cell in listed if isinstance(cell, Call) and len(cell.args) == 1)

"""A reader of pickles that executes nothing: what a pickle would import and call comes back as a record of its name.

It goes through the opcodes that `pickletools` lists. Numbers, text, lists and dicts become themselves; everything else
becomes a `Name` (of a class or function) or a `Call` (what it would be called with), for others to recognise.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_OPCODES = 200_000  # of all pickles of an archive; a model has a few thousand
MOST_DIGITS = 64  # bytes of a whole number
MOST_KEY_BITS = 32  # of a whole number that is a key
# What a pickle calls to run commands or code. Nothing here would be called, but whoever wrote it meant harm.
HARMFUL_MODULES = {
    "asyncio",
    "code",
    "commands",
    "ctypes",
    "http",
    "importlib",
    "multiprocessing",
    "nt",
    "os",
    "pip",
    "posix",
}
HARMFUL_MODULES |= {
    "pty",
    "requests",
    "runpy",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "timeit",
    "urllib",
    "webbrowser",
}
HARMFUL_BUILTINS = {"__import__", "breakpoint", "compile", "eval", "exec", "input", "open"}
BUILTINS = {"builtins", "__builtin__", "__builtins__"}


class PickleError(ValueError):
    """Error for a pickle that cannot be read, or that was written to do harm; the message is the end of a sentence."""


@dataclass(frozen=True)
class Name:
    """The name of a class or function that a pickle would import, such as "numpy.dtype"."""

    module: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def is_harmful(self) -> bool:
        """Says if it runs commands or code, which nothing does that Stable-Baselines3 saves."""
        root = self.module.partition(".")[0]
        return root in HARMFUL_MODULES or (root in BUILTINS and self.name.partition(".")[0] in HARMFUL_BUILTINS)


@dataclass(eq=False)
class Call:
    """An object that a pickle would make: the path of what it calls, the arguments, and the state it sets afterwards."""

    path: str
    args: tuple
    state: object = None
    items: dict = field(default_factory=dict)  # that it would set, as in a dict
    entries: list = field(default_factory=list)  # that it would append, as in a list


@dataclass(frozen=True)
class Pickle:
    """The content of a pickle: its value, all names in it, and all calls in order, also those that it drops again."""

    value: object
    names: tuple[Name, ...]
    calls: tuple[Call, ...]
    opcodes: int


def read_pickle(data: bytes, most: int = MOST_OPCODES) -> Pickle:
    """Returns the content of a pickle without importing or calling anything that it names.

    Raises PickleError if it is cut or damaged, has more than `most` opcodes, or names what runs commands or code.
    """
    reader, count = Reader(), 0
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data), 1):
            if count > most:
                raise PickleError(f"has too many opcodes: all pickles of a file may have {MOST_OPCODES:,}")
            reader.take(opcode.name, argument)
        value = reader.stack[-1]
    except PickleError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise PickleError(
            f"is a damaged pickle ({type(error).__name__}: {' '.join(str(error).split())[:80]})"
        ) from error
    return Pickle(value, tuple(reader.names), tuple(reader.calls), count)


class Reader:
    """The stack machine of pickles, with records in place of imports and calls."""

    def __init__(self) -> None:
        self.stack: list = []
        self.marks: list[list] = []
        self.memo: dict[int, object] = {}
        self.names: list[Name] = []
        self.calls: list[Call] = []

    def take(self, opcode: str, argument: object) -> None:
        if opcode in PLAIN:
            if isinstance(argument, int) and argument.bit_length() > 8 * MOST_DIGITS:
                raise PickleError(f"has a whole number of {argument.bit_length():,} bits")
            self.stack.append(argument)
        elif opcode in CONSTANTS:
            self.stack.append(CONSTANTS[opcode]())
        elif opcode in ACTIONS:
            ACTIONS[opcode](self, argument)
        elif opcode not in ("PROTO", "FRAME", "STOP"):
            raise PickleError(f"has the opcode {opcode}, which Stable-Baselines3 does not write")

    def push(self, value: object) -> None:
        self.stack.append(value)

    def pop(self, count: int) -> list:
        if not 0 < count <= len(self.stack):
            raise IndexError("the stack is empty")
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def since_mark(self) -> list:
        values, self.stack = self.stack, self.marks.pop()
        return values

    def begin(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def remember(self, index: int | None = None) -> None:
        self.memo[len(self.memo) if index is None else index] = self.stack[-1]

    def add_name(self, module: object, name: object) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a name that is no text")
        found = Name(module, name)
        if found.is_harmful:
            raise PickleError(
                f"would run {found.path}: it was made to harm whoever loads it; nothing of it was executed"
            )
        self.names.append(found)
        self.stack.append(found)

    def call(self, function: object, args: object) -> None:
        if not isinstance(args, tuple):
            raise TypeError("arguments that are no tuple")
        path = function.path if isinstance(function, Name | Call) else ""
        if isinstance(function, Call):
            path = path.removesuffix("()") + "()"  # f()()() is written f(), so that it does not grow with every call
        made = Call(path, args)
        self.calls.append(made)
        self.stack.append(made)

    def set_items(self, pairs: list) -> None:
        for key, value in pairs_of(pairs):
            if not isinstance(key, str | int | bytes | None):  # others may take for ever to hash
                raise TypeError(f"a key of the type {type(key).__name__}")
            if isinstance(key, int) and key.bit_length() > MOST_KEY_BITS:  # of which many may have one hash
                raise TypeError(f"a key of {key.bit_length()} bits")
            target = self.stack[-1]
            (target.items if isinstance(target, Call) else target)[key] = value

    def append(self, values: list) -> None:
        target = self.stack[-1]
        (target.entries if isinstance(target, Call) else target).extend(values)

    def build(self) -> None:
        (state,) = self.pop(1)
        target = self.stack[-1]
        if not isinstance(target, Call):
            raise TypeError(f"a state for a {type(target).__name__}")
        target.state = state


def pairs_of(values: list) -> Iterator[tuple]:
    if len(values) % 2:
        raise ValueError("a key without a value")
    return zip(values[::2], values[1::2], strict=True)


def make_dict(reader: Reader) -> None:
    values = reader.since_mark()
    reader.stack.append({})
    reader.set_items(values)


def make_instance(reader: Reader, values: list) -> None:
    reader.call(values[0], tuple(values[1:]))


PLAIN = {"INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"}
PLAIN |= {"STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
PLAIN |= {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
CONSTANTS: dict[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}
ACTIONS: dict[str, Callable[[Reader, Any], object]] = {
    "MARK": lambda r, _: r.begin(),
    "POP": lambda r, _: r.pop(1) if r.stack else r.since_mark(),
    "POP_MARK": lambda r, _: r.since_mark(),
    "DUP": lambda r, _: r.push(r.stack[-1]),
    "TUPLE": lambda r, _: r.push(tuple(r.since_mark())),
    "TUPLE1": lambda r, _: r.push(tuple(r.pop(1))),
    "TUPLE2": lambda r, _: r.push(tuple(r.pop(2))),
    "TUPLE3": lambda r, _: r.push(tuple(r.pop(3))),
    "LIST": lambda r, _: r.push(r.since_mark()),
    "FROZENSET": lambda r, _: r.push(r.since_mark()),
    "DICT": lambda r, _: make_dict(r),
    "APPEND": lambda r, _: r.append(r.pop(1)),
    "APPENDS": lambda r, _: r.append(r.since_mark()),
    "ADDITEMS": lambda r, _: r.append(r.since_mark()),
    "SETITEM": lambda r, _: r.set_items(r.pop(2)),
    "SETITEMS": lambda r, _: r.set_items(r.since_mark()),
    "PUT": lambda r, index: r.remember(index),
    "BINPUT": lambda r, index: r.remember(index),
    "LONG_BINPUT": lambda r, index: r.remember(index),
    "MEMOIZE": lambda r, _: r.remember(),
    "GET": lambda r, index: r.push(r.memo[index]),
    "BINGET": lambda r, index: r.push(r.memo[index]),
    "LONG_BINGET": lambda r, index: r.push(r.memo[index]),
    "GLOBAL": lambda r, both: r.add_name(*str(both).split(" ", 1)),
    "STACK_GLOBAL": lambda r, _: r.add_name(*r.pop(2)),
    "REDUCE": lambda r, _: r.call(*r.pop(2)),
    "NEWOBJ": lambda r, _: r.call(*r.pop(2)),
    "NEWOBJ_EX": lambda r, _: r.call(*r.pop(3)[:2]),
    "OBJ": lambda r, _: make_instance(r, r.since_mark()),
    "INST": lambda r, both: (r.add_name(*str(both).split(" ", 1)), make_instance(r, r.pop(1) + r.since_mark())),
    "BUILD": lambda r, _: r.build(),
    "BINPERSID": lambda r, _: r.call(Name("", "persistent"), tuple(r.pop(1))),
}

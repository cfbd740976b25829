"""Shortcuts in torch's compiler for the CPU: it writes the same code, in three quarters of the time that its Python takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any


@cache
def take_shortcuts() -> None:
    """Replaces two functions of torch's compiler by faster ones with the same results, where this torch has them."""
    common: Any = import_module("torch._inductor.codegen.common")
    if hasattr(common, "DtypePropagationOpsHandler"):  # a table that it builds anew for every operation
        common.DtypePropagationOpsHandler = cache(common.DtypePropagationOpsHandler)
    code: Any = import_module("torch._inductor.codegen.cpp")
    if hasattr(code, "stride_at_vec_range"):
        code.stride_at_vec_range = faster_stride(code.stride_at_vec_range)


def faster_stride(stride: Callable) -> Callable:
    """Returns a function with the results of torch's `stride_at_vec_range`, which simplifies what is simple already.

    It says how far an index moves with a variable. Indices made of sums and products have no divisions to look for.
    """
    sympy: Any = import_module("sympy")
    simple = (sympy.Add, sympy.Mul, sympy.Symbol, sympy.Integer)

    @cache
    def faster(index: Any, variable: Any, length: int | None = None) -> Any:
        if all(isinstance(part, simple) for part in sympy.preorder_traversal(index)):
            return sympy.expand(index.xreplace({variable: variable + 1}) - index)
        return stride(index, variable, length)

    return faster


@contextmanager
def nothing_to_save() -> Iterator[None]:
    """Lets torch compile ahead of time without what it needs to save the result, where this torch can.

    It would collect the source of every traced function, and build and pickle checks of every call, which are not made.
    """
    package: Any = import_module("torch._dynamo.package")
    frames: Any = import_module("torch._dynamo.convert_frame")
    replaced = [
        (getattr(package, "SourceInfo", None), "add_code", lambda self, code: None),
        (getattr(frames, "GraphCaptureOutput", None), "build_guards", lambda *_, **__: UNCHECKED),
    ]
    with replacing([(owner, name, new) for owner, name, new in replaced if hasattr(owner, name)]):
        yield


@contextmanager
def replacing(attributes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Sets attributes, (owner, name, value), in the block; afterwards each owner has what it had, or inherits it again."""
    before = [(owner, name, vars(owner).get(name, MISSING)) for owner, name, _ in attributes]
    for owner, name, value in attributes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            if value is MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


MISSING = object()
UNCHECKED = SimpleNamespace(guards_state=b"", guard_manager=SimpleNamespace())  # checks of calls that are not made

"""The shortcuts in torch's compiler give what torch itself gives."""

import pytest
import sympy
from torch._inductor.sizevars import stride_at_vec_range
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from rl_training.runtime.compiler_shortcuts import faster_stride

D0, D1, SIZE = (sympy.Symbol(name, integer=True) for name in ("d0", "d1", "s0"))
INDICES = (
    D0,
    17 * D0 + D1 + 4,
    256 * (D0 + 2 * D1) - D1,
    SIZE * D0 + D1,
    D0 * D1,
    D0 * D0 + 3,
    sympy.Integer(5),
    FloorDiv(D1, 16) + D0,
    ModularIndexing(D1, 1, 32) + 64 * D0,
)


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("length", [None, 16])
def test_strides_are_those_of_torch(index: sympy.Expr, length: int | None) -> None:
    faster = faster_stride(stride_at_vec_range)
    for variable in (D0, D1):
        assert faster(index, variable, length) == stride_at_vec_range(index, variable, length)


def test_divisions_alone_are_left_to_torch() -> None:
    asked = []
    faster = faster_stride(lambda *arguments: asked.append(arguments))
    for index in INDICES:
        faster(index, D0, 16)
    assert [index for index, *_ in asked] == [one for one in INDICES if one.has(sympy.Pow, FloorDiv, ModularIndexing)]

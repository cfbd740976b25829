"""A compiler pass that has oneDNN compute large products of matrices, on processors where that is faster."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from rl_training.functional import onednn_products
from rl_training.functional.onednn_products import lies_in_lines, multiply, pays

MOST = 16  # products in a row that replace one batch of them
aten = torch.ops.aten
ir, mkldnn_ir, lowering, virtualized = (
    import_module(f"torch._inductor.{name}") for name in ("ir", "mkldnn_ir", "lowering", "virtualized")
)


@torch.library.custom_op("rl_training::onednn_product", mutates_args=())
def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns `x @ weight.T + bias` for float32 matrices on the CPU."""
    return multiply(x, weight, bias)


@onednn_product.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@lowering.register_lowering(torch.ops.rl_training.onednn_product.default, type_promotion_kind=None)
def lower(x: Any, weight: Any, bias: Any) -> Any:
    """Returns the call of torch's own C function for it; torch's lowering takes constant weights alone."""
    x, weight = (ir.ExternKernel.realize_input(factor) for factor in (x, weight))
    if not lies_in_lines(weight.get_size(), weight.get_stride()):
        weight = ir.ExternKernel.require_contiguous(weight)
    inputs = [ir.ExternKernel.require_contiguous(x), weight]  # the operator would copy rows with gaps on one thread
    constants: list[Any] = ["none", [-1], ""]
    if bias is None:
        constants.insert(0, None)
    else:
        inputs.append(ir.ExternKernel.require_contiguous(ir.ExternKernel.realize_input(bias)))
    size = [x.get_size()[0], weight.get_size()[0]]
    layout = ir.FixedLayout(device=x.get_device(), dtype=x.get_dtype(), size=size)
    call = mkldnn_ir.LinearUnary(layout=layout, inputs=inputs, constant_args=constants)
    return ir.TensorBox.create(mkldnn_ir._create_output_node(call))


class OneDNNProducts(torch._inductor.custom_graph_pass.CustomGraphPass):
    """A compiler pass that replaces large float32 products, single ones and small batches, by calls of oneDNN."""

    def __call__(self, graph: Graph) -> None:
        for node in list(graph.nodes):
            if node.target in (aten.mm.default, aten.addmm.default, aten.bmm.default) and replaceable(node):
                with graph.inserting_before(node):
                    node.replace_all_uses_with(replacement(node))
                graph.erase_node(node)

    def uuid(self) -> bytes:
        """Returns a hash of the code that decides, which is a part of the key under which compiled code is kept."""
        return torch._inductor.custom_graph_pass.get_hash_for_files((__file__, onednn_products.__file__))


def replaceable(node: Node) -> bool:
    result, factor = node.meta["val"], node.args[-2].meta["val"]  # pyrefly: ignore (a node)
    *batch, rows, outputs = result.shape
    return (
        result.dtype == torch.float32
        and result.device.type == "cpu"
        and not node.kwargs  # scales of addmm
        and all(number <= MOST for number in batch)
        and pays(rows, factor.shape[-1], outputs)
    )


def replacement(node: Node) -> Node:
    """Returns a new node with the value of a product, `mm`, `addmm` or `bmm`."""
    *bias, left, right = node.args
    if node.target is not aten.bmm.default:
        outputs = node.meta["val"].shape[1:]
        if not bias or node.args[0].meta["val"].shape == outputs:  # pyrefly: ignore (a node)
            return product(node.graph, left, right, *bias or [None])
        # Torch makes addmm of other sums, too: of matrices, and of what is one number.
        return add(node.graph, aten.add.Tensor, product(node.graph, left, right, None), *bias)
    parts = []
    for index in range(node.meta["val"].shape[0]):
        one, other = (add(node.graph, aten.select.int, factor, 0, index) for factor in (left, right))
        parts.append(add(node.graph, aten.unsqueeze.default, product(node.graph, one, other, None), 0))
    return add(node.graph, aten.cat.default, parts)


def product(graph: Graph, left: Any, right: Any, bias: Any) -> Node:
    turned = add(graph, aten.permute.default, right, [1, 0])
    return add(graph, torch.ops.rl_training.onednn_product.default, left, turned, bias)


def add(graph: Graph, target: Callable, *arguments: Any) -> Node:
    """Adds a call to the graph; returns its node, with the shape and type that others read from it."""
    node = graph.call_function(target, arguments)
    with virtualized.V.fake_mode:
        node.meta["val"] = target(*torch.fx.map_arg(arguments, lambda given: given.meta["val"]))
    return node

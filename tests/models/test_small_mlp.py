"""The operator for small networks: its definition against layers, its wiring, and, where there is a GPU, its kernels."""

import copy
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from rl_training.core.members import stack
from rl_training.core.vmap import vmap
from rl_training.models import MLP, fuse_networks
from rl_training.models.small_mlp import FEW, fits, num_parts, run_here, small_mlp, small_mlp_backward
from rl_training.runtime import compilation
from tests.gpu import needs_gpu

ROUNDING = {"float32": 1e-6, "tf32": 1e-3, "bf16": 1e-2}
SHAPES = [
    (4, [64, 64], 2, 32_768, "tanh"),
    (4, [64, 64], 1, 4_096, "tanh"),
    (17, [32, 64], 6, 1_000, "relu"),
    (16, [16, 32], 16, 33, "tanh"),
    (111, [64, 64], 64, 5_000, "relu"),
    (3, [64, 16], 1, 1, "tanh"),
]


def network(inputs: int, hidden: list[int], outputs: int, activation: str) -> MLP:
    torch.manual_seed(0)
    net = MLP(inputs, hidden, outputs, activation_fn=activation)
    for parameter in net.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))  # biases that are not zero
    return net


def members_of(number: int, inputs: int, hidden: list[int], outputs: int, activation: str) -> list[Tensor]:
    """Returns the parameters of several networks, [member, ...]."""
    nets = [network(inputs, hidden, outputs, activation) for _ in range(number)]
    for index, net in enumerate(nets):
        for parameter in net.parameters():
            parameter.data.mul_(1 + 0.1 * index)
    return list(stack(nets).parameters())


def differentiated(output: Tensor, wanted: list[Tensor]) -> list[Tensor]:
    torch.manual_seed(1)
    weight = torch.randn(output.shape).to(output)
    return [output, *torch.autograd.grad((output * weight).sum(), wanted)]


@pytest.mark.parametrize(("inputs", "hidden", "outputs", "num_rows", "activation"), SHAPES)
def test_definition_equals_layers(inputs: int, hidden: list[int], outputs: int, num_rows: int, activation: str) -> None:
    net = network(inputs, hidden, outputs, activation).double()
    x = torch.randn(num_rows, inputs, dtype=torch.float64, requires_grad=True)
    wanted = [x, *net.parameters()]
    operator = small_mlp(x, *net.parameters(), activation, "tf32")
    for ours, layers in zip(differentiated(operator, wanted), differentiated(net(x), wanted), strict=True):
        torch.testing.assert_close(ours, layers, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("number", [None, 3])
def test_traced_with_its_gradient(number: int | None) -> None:
    assert_one_graph_with_its_gradient(number)


@pytest.mark.compiled
@pytest.mark.slow  # layers run one by one on the CPU, so that no run compiles the operator there
@pytest.mark.parametrize("number", [None, 3])
def test_compiled_with_its_gradient(number: int | None) -> None:
    assert_one_graph_with_its_gradient(number)


def assert_one_graph_with_its_gradient(number: int | None) -> None:
    """With members as a stack does it: losses under `vmap`, and the gradient of their sum outside."""
    shape = (4, [64, 64], 2, "tanh")
    parameters = list(network(*shape).parameters()) if number is None else members_of(number, *shape)

    def loss(parameters: list[Tensor], x: Tensor) -> Tensor:
        return small_mlp(x, *parameters, "tanh", "tf32").square().mean()

    def loss_gradient(x: Tensor) -> Tensor:
        value = loss(parameters, x) if number is None else vmap(number, loss, parameters, x).sum()
        return torch.cat([grad.flatten() for grad in torch.autograd.grad(value, parameters)])

    x = torch.randn(50, 4) if number is None else torch.randn(number, 50, 4)
    compiled = compilation.compile_graph(loss_gradient, torch.device("cpu"))
    torch.testing.assert_close(compiled(x), loss_gradient(x))
    assert not compiled.failed


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(("inputs", "hidden", "outputs", "num_rows", "activation"), SHAPES[2:4] + SHAPES[5:])
def test_members_equal_a_loop(
    inputs: int, hidden: list[int], outputs: int, num_rows: int, activation: str, number: int
) -> None:
    parameters = members_of(number, inputs, hidden, outputs, activation)
    x = torch.randn(number, num_rows, inputs, requires_grad=True)

    def one(parameters: list[Tensor], x: Tensor) -> Tensor:
        return small_mlp(x, *parameters, activation, "tf32")

    def loop() -> Tensor:
        each = ([parameter[member] for parameter in parameters] for member in range(number))
        return torch.stack([one(own, x[member]) for member, own in enumerate(each)])

    expected = differentiated(loop(), [x, *parameters])
    for together in (torch.vmap(one)(parameters, x), vmap(number, one, parameters, x)):
        for ours, theirs in zip(differentiated(together, [x, *parameters]), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shared", range(7))
def test_members_may_share_any_tensor(shared: int) -> None:
    """It then has the sum of their gradients; a dimension of members may be any."""
    number = 3
    parameters = members_of(number, 4, [16, 32], 2, "tanh")
    tensors = [torch.randn(number, 5, 4, requires_grad=True), *parameters]
    tensors[shared] = tensors[shared][0].detach().requires_grad_()
    in_dims = [None if index == shared else -1 for index in range(7)]
    moved = [tensor if dim is None else tensor.movedim(0, dim) for tensor, dim in zip(tensors, in_dims, strict=True)]
    together = torch.vmap(lambda *given: small_mlp(*given, "tanh", "tf32"), tuple(in_dims))(*moved)
    each = [[t if i == shared else t[member] for i, t in enumerate(tensors)] for member in range(number)]
    alone = torch.stack([small_mlp(*given, "tanh", "tf32") for given in each])
    for ours, theirs in zip(differentiated(together, tensors), differentiated(alone, tensors), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("wants_x", [True, False])
def test_gradients_of_members_equal_a_loop(wants_x: bool) -> None:
    parameters = members_of(3, 4, [16, 32], 2, "tanh")
    given = [torch.randn(3, 5, 2), torch.randn(3, 5, 4), *(parameter.detach() for parameter in parameters)]

    def one(*given: Tensor) -> tuple[Tensor, ...]:
        partial, grad_x = small_mlp_backward(*given, "tanh", "tf32", wants_x)
        return (partial, grad_x) if wants_x else (partial,)

    together, loop = torch.vmap(one)(*given), [one(*(tensor[member] for tensor in given)) for member in range(3)]
    for ours, theirs in zip(together, map(torch.stack, zip(*loop, strict=True)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("members", [(), (3,)])
def test_operators_are_well_formed(members: tuple[int, ...]) -> None:
    shape = (4, [16, 16], 2, "tanh")
    parameters = members_of(*members, *shape) if members else list(network(*shape).parameters())
    x, grad = torch.randn(*members, 5, 4, requires_grad=True), torch.randn(*members, 5, 2)
    torch.library.opcheck(small_mlp, (x, *parameters, "tanh", "tf32"))
    parameters = [parameter.detach() for parameter in parameters]
    for wants_x in (True, False):
        torch.library.opcheck(small_mlp_backward, (grad, x.detach(), *parameters, "tanh", "tf32", wants_x))


@pytest.mark.parametrize(
    ("shape", "parts"),
    [((32_768, 4), 264), ((100, 4), 4), ((1, 32_768, 4), 264), ((3, 100, 4), 4), ((64, 512, 4), 4), ((512, 40, 4), 1)],
)
def test_programs_are_shared_by_members(shape: tuple[int, ...], parts: int) -> None:
    """Enough for all multiprocessors, and no more."""
    rows = SimpleNamespace(is_cuda=True, shape=shape)
    assert num_parts(cast("Tensor", rows)) == parts


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        (MLP(4, [64, 64], 2), "tf32"),
        (MLP(4, [64, 64], 2, activation_fn="relu"), "tf32"),
        (MLP(4, [64, 64], 2, activation_fn="elu"), None),
        (MLP(4, [64, 64], 2, layer_norm=True), None),
        (MLP(4, [64, 64]), None),
        (MLP(4, [64], 2), None),
        (MLP(4, [64, 64, 64]), None),
        (MLP(4, [64, 100], 2), None),
        (MLP(4, [256, 256], 2), None),
        (MLP(127, [64, 64], 64), "tf32"),
        (MLP(128, [64, 64], 2), None),
        (MLP(4, [64, 64], 65), None),
    ],
)
def test_only_networks_that_fit_are_fused(net: MLP, expected: str | None) -> None:
    fuse_networks(torch.nn.Sequential(net), "tf32")
    assert net.products == expected


def test_exact_products_have_less_room() -> None:
    small, large = MLP(31, [64, 64], 16), MLP(32, [64, 64], 16)
    fuse_networks(torch.nn.ModuleList([small, large]), "float32")
    assert (small.products, large.products) == ("float32", None)


def test_a_fused_network_runs_layer_by_layer_on_the_cpu() -> None:
    net = network(4, [64, 64], 2, "tanh")
    x = torch.randn(7, 3, 4)
    plain = net(x)
    net.fuse("bf16")
    assert torch.equal(net(x), plain)


def test_kernels_that_cannot_be_built_are_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("out of resource: shared memory\nwith details")

    networks = [(list(network(4, [64, 64], 2, "tanh").parameters()), "tanh", "tf32")]
    assert run_here(networks)
    assert caplog.text == ""
    monkeypatch.setattr("rl_training.models.small_mlp.small_mlp_backward", fail)
    assert not run_here(networks)
    assert "layer by layer" in caplog.text
    assert caplog.text.strip().endswith("out of resource: shared memory")


def test_kernels_of_a_stack_are_built_for_its_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    monkeypatch.setattr(
        "rl_training.models.small_mlp.small_mlp_backward", lambda grad, x, *others: built.append((x.shape, others[-1]))
    )
    parameters = members_of(10, 4, [16, 16], 2, "tanh")
    assert run_here([(parameters, "tanh", "tf32")])
    assert {(shape[0], shape[2]) for shape, _ in built} == {(10, 4)}
    assert all(shape[1] % 16 == 0 for shape, _ in built)  # as rows of batches usually are
    assert {(shape[:2].numel() > FEW, wants_x) for shape, wants_x in built} == {
        (few, wants_x) for few in (True, False) for wants_x in (True, False)
    }


def test_a_stack_is_fused_where_its_members_are() -> None:
    for products, expected in (("tf32", True), ("float32", False)):
        whole = stack([MLP(32, [64, 64], 16) for _ in range(2)])
        assert fuse_networks(whole, products) is expected


def distance(parts: list[Tensor], exact: list[Tensor]) -> list[float]:
    """Of the output, the input's gradient and all parameters' together, relative to the exact ones."""

    def flat(tensors: list[Tensor]) -> list[Tensor]:
        output, input_grad, *grads = tensors
        return [output.double(), input_grad.double(), torch.cat([grad.flatten() for grad in grads]).double()]

    return [float((a - b).norm() / b.norm()) for a, b in zip(flat(parts), flat(exact), strict=True)]


@needs_gpu
@pytest.mark.parametrize("products", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize(("inputs", "hidden", "outputs", "num_rows", "activation"), SHAPES)
def test_kernels_are_as_exact_as_layers(
    inputs: int, hidden: list[int], outputs: int, num_rows: int, activation: str, products: str
) -> None:
    net = network(inputs, hidden, outputs, activation).cuda()
    fused, exact = copy.deepcopy(net), copy.deepcopy(net).double()
    fused.fuse(products)
    if fused.products is None:
        pytest.skip("needs kernels for networks of this size: there are none")
    x = torch.randn(num_rows, inputs, device="cuda", requires_grad=True)
    exact_x = x.detach().double().requires_grad_()
    reference = differentiated(exact(exact_x), [exact_x, *exact.parameters()])
    torch.set_float32_matmul_precision("high" if products == "tf32" else "highest")
    try:
        with torch.autocast("cuda", torch.bfloat16, enabled=products == "bf16"):
            layers = differentiated(net(x).float(), [x, *net.parameters()])
    finally:
        torch.set_float32_matmul_precision("highest")
    kernels = differentiated(fused(x), [x, *fused.parameters()])
    for ours, theirs in zip(distance(kernels, reference), distance(layers, reference), strict=True):
        assert ours < max(3 * theirs, ROUNDING[products])  # torch does not round the factors of a single row


@needs_gpu
def test_kernels_give_the_same_bits_every_time() -> None:
    net = network(4, [64, 64], 2, "tanh").cuda()
    net.fuse("tf32")
    x = torch.randn(32_768, 4, device="cuda")
    once, again = (differentiated(net(x), list(net.parameters())) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


@needs_gpu
@pytest.mark.parametrize("products", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize(("inputs", "hidden", "outputs", "num_rows", "activation"), SHAPES)
def test_kernels_of_members_are_those_of_each(
    inputs: int, hidden: list[int], outputs: int, num_rows: int, activation: str, products: str
) -> None:
    parameters = [p.detach().cuda().requires_grad_() for p in members_of(3, inputs, hidden, outputs, activation)]
    if not fits(parameters[::2], activation, products):
        pytest.skip("needs kernels for networks of this size: there are none")
    x = torch.randn(3, num_rows, inputs, device="cuda", requires_grad=True)
    weight = torch.randn(3, num_rows, outputs, device="cuda")
    tensors = [x, *parameters]
    together = torch.vmap(lambda *given: small_mlp(*given, activation, products))(*tensors)
    grads = torch.autograd.grad((together * weight).sum(), tensors)
    for member in range(3):
        own = [tensor[member].detach().requires_grad_() for tensor in tensors]  # biases are not aligned
        alone = small_mlp(*own, activation, products)
        expected = torch.autograd.grad((alone * weight[member]).sum(), own)
        ours = [together[member], *(grad[member] for grad in grads)]
        assert max(distance(ours, [alone, *expected])) < ROUNDING[products]

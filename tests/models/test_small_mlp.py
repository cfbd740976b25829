"""The operator for small networks: its definition against layers, its wiring, and, where there is a GPU, its kernels."""

import copy

import pytest
import torch
from torch import Tensor

from rl_training.models import MLP, fuse_networks
from rl_training.models.small_mlp import run_here, small_mlp, small_mlp_backward
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
def test_traced_with_its_gradient() -> None:
    assert_one_graph_with_its_gradient()


@pytest.mark.compiled
@pytest.mark.slow  # layers run one by one on the CPU, so that no run compiles the operator there
def test_compiled_with_its_gradient() -> None:
    assert_one_graph_with_its_gradient()


def assert_one_graph_with_its_gradient() -> None:
    net = network(4, [64, 64], 2, "tanh")
    parameters = list(net.parameters())

    def loss_gradient(x: Tensor) -> Tensor:
        loss = small_mlp(x, *parameters, "tanh", "tf32").square().mean()
        return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, parameters)])

    x = torch.randn(50, 4)
    compiled = compilation.compile_graph(loss_gradient, torch.device("cpu"))
    torch.testing.assert_close(compiled(x), loss_gradient(x))
    assert not compiled.failed


def test_operators_are_well_formed() -> None:
    net = network(4, [16, 16], 2, "tanh")
    x = torch.randn(5, 4, requires_grad=True)
    torch.library.opcheck(small_mlp, (x, *net.parameters(), "tanh", "tf32"))
    parameters = [parameter.detach() for parameter in net.parameters()]
    for wants_x in (True, False):
        torch.library.opcheck(small_mlp_backward, (torch.randn(5, 2), x.detach(), *parameters, "tanh", "tf32", wants_x))


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

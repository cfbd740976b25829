from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from rl_training.core import Adam, Optimizer, RMSprop, Schedule

SHAPES = ((4, 3), (4,), (), (2, 1, 3))
ENABLED = torch.tensor(True)
BUILDERS = {"adam": Adam, "rmsprop": RMSprop, "rmsprop_tf": lambda groups: RMSprop(groups, tf_like=True)}


def constant(rate: float) -> Schedule:
    return Schedule(rate, rate)


def make_parameters() -> list[nn.Parameter]:
    gen = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=gen)) for shape in SHAPES]


def gradients(step: int) -> list[Tensor]:
    """Different at every step, over several orders of magnitude."""
    gen = torch.Generator().manual_seed(1000 + step)
    return [torch.randn(shape, generator=gen) * 10.0 ** (step % 7 - 4) for shape in SHAPES]


def snapshot(optimizer: Optimizer, parameters: Sequence[Tensor]) -> list[Tensor]:
    return [x.detach().clone() for x in (*parameters, *optimizer.state_dict().values())]


def assert_same_path(
    optimizer: Optimizer,
    ours: list[nn.Parameter],
    reference: torch.optim.Optimizer,
    theirs: list[nn.Parameter],
    max_grad_norm: float | None = None,
) -> None:
    start = [p.detach().clone() for p in ours]
    for step in range(150):
        assert optimizer.step(gradients(step), ENABLED)
        for parameter, grad in zip(theirs, gradients(step), strict=True):
            parameter.grad = grad
        if max_grad_norm is not None:
            nn.utils.clip_grad_norm_(theirs, max_grad_norm)
        reference.step()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert all((now - then).abs().max() > 1e-4 for now, then in zip(ours, start, strict=True))


@pytest.mark.parametrize("max_grad_norm", [None, 0.5])
@pytest.mark.parametrize("eps", [1e-8, 1e-5])
def test_adam_equals_torch(max_grad_norm: float | None, eps: float) -> None:
    ours, theirs = make_parameters(), make_parameters()
    optimizer = Adam([(ours, constant(3e-3))], eps=eps, betas=(0.8, 0.99), max_grad_norm=max_grad_norm)
    reference = torch.optim.Adam(theirs, lr=3e-3, eps=eps, betas=(0.8, 0.99))
    assert_same_path(optimizer, ours, reference, theirs, max_grad_norm)


def test_adam_equals_torch_for_parameters_in_another_order_of_memory() -> None:
    ours, theirs = make_parameters(), make_parameters()
    ours[0].data = ours[0].data.t().contiguous().t()
    assert not ours[0].is_contiguous()
    assert_same_path(Adam([(ours, constant(3e-3))]), ours, torch.optim.Adam(theirs, lr=3e-3), theirs)


def test_adam_on_the_host_takes_the_step_that_it_selects_on_a_device() -> None:
    """Numbers of the fused kernel are those of the formula, which compiled code and GPUs run, to rounding."""
    paths = [make_parameters(), make_parameters()]
    host, device = (Adam([(p[:2], constant(3e-3)), (p[2:], constant(1e-3))], max_grad_norm=0.5) for p in paths)
    for step in range(20):
        host.step(gradients(step), ENABLED)
        grad = torch.cat([g.flatten() for g in gradients(step)])
        grad *= (0.5 / (grad.norm() + 1e-6)).clamp(max=1.0)
        with torch.no_grad():
            device.subtract(device.learning_rate() * device.direction(grad, ENABLED))
    torch.testing.assert_close(paths[0], paths[1], rtol=0, atol=1e-7)
    torch.testing.assert_close(host.state_dict(), device.state_dict())


@pytest.mark.parametrize("max_grad_norm", [None, 0.5])
def test_rmsprop_equals_torch(max_grad_norm: float | None) -> None:
    ours, theirs = make_parameters(), make_parameters()
    optimizer = RMSprop([(ours, constant(1e-3))], alpha=0.95, eps=1e-5, max_grad_norm=max_grad_norm)
    reference = torch.optim.RMSprop(theirs, lr=1e-3, alpha=0.95, eps=1e-5)
    assert_same_path(optimizer, ours, reference, theirs, max_grad_norm)


@pytest.mark.parametrize("kind", ["adam", "rmsprop"])
def test_two_groups_have_their_own_learning_rates_and_one_norm(kind: str) -> None:
    ours, theirs = make_parameters(), make_parameters()
    build, reference_class = {"adam": (Adam, torch.optim.Adam), "rmsprop": (RMSprop, torch.optim.RMSprop)}[kind]
    optimizer = build([(ours[:2], constant(1e-3)), (ours[2:], constant(5e-3))], eps=1e-5, max_grad_norm=0.5)
    groups = [{"params": theirs[:2], "lr": 1e-3}, {"params": theirs[2:], "lr": 5e-3}]
    assert_same_path(optimizer, ours, reference_class(groups, eps=1e-5), theirs, max_grad_norm=0.5)


@pytest.mark.parametrize(("tf_like", "delta"), [(True, 1.0 / (1 + 1e-5) ** 0.5), (False, 1.0 / (0.1 + 1e-5))])
def test_first_step_of_both_kinds_of_rmsprop(tf_like: bool, delta: float) -> None:
    # TF-like: the average starts at one, so the first step is about lr; torch's is about 10 lr.
    parameter = nn.Parameter(torch.zeros(()))
    optimizer = RMSprop([([parameter], constant(0.01))], alpha=0.99, eps=1e-5, tf_like=tf_like)
    optimizer.step([torch.ones(())], ENABLED)
    assert parameter.item() == pytest.approx(-0.01 * delta, rel=1e-5)


def test_tf_like_rmsprop_has_eps_inside_the_root() -> None:
    parameter = nn.Parameter(torch.zeros(()))
    optimizer = RMSprop([([parameter], constant(1.0))], alpha=0.5, eps=0.25, tf_like=True)
    optimizer.step([torch.tensor(2.0)], ENABLED)
    assert parameter.item() == pytest.approx(-2 / (0.5 * 1 + 0.5 * 4 + 0.25) ** 0.5)


def test_a_small_gradient_is_not_clipped() -> None:
    limited, free = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    grad = torch.tensor([0.1, 0.2, 0.2])  # norm 0.3
    for parameter, limit in ((limited, 0.5), (free, None)):
        RMSprop([([parameter], constant(1.0))], tf_like=True, max_grad_norm=limit).step([grad], ENABLED)
    assert torch.equal(limited, free)


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize("warm_steps", [0, 3])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(
    build: Callable[..., Optimizer], warm_steps: int, bad: float
) -> None:
    parameters = make_parameters()
    optimizer = build([(parameters, constant(0.1))])
    for step in range(warm_steps):
        optimizer.step(gradients(step), ENABLED)
    before = snapshot(optimizer, parameters)
    grads = gradients(9)
    grads[0][1, 2] = bad
    assert not optimizer.step(grads, ENABLED)
    assert all(map(torch.equal, before, snapshot(optimizer, parameters)))


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize("warm_steps", [0, 3])
def test_a_disabled_step_changes_nothing_and_says_the_gradient_was_finite(
    build: Callable[..., Optimizer], warm_steps: int
) -> None:
    parameters = make_parameters()
    optimizer = build([(parameters, constant(0.1))])
    for step in range(warm_steps):
        optimizer.step(gradients(step), ENABLED)
    before = snapshot(optimizer, parameters)
    assert optimizer.step(gradients(9), torch.tensor(False))
    assert all(map(torch.equal, before, snapshot(optimizer, parameters)))


def test_a_skipped_step_leaves_no_trace_in_later_ones() -> None:
    with_skip, without = make_parameters(), make_parameters()
    for parameters, skips in ((with_skip, True), (without, False)):
        optimizer = Adam([(parameters, constant(0.01))])
        for step in range(4):
            optimizer.step(gradients(step), ENABLED)
            if skips:
                optimizer.step([torch.full_like(g, torch.nan) for g in gradients(50)], ENABLED)
    assert all(map(torch.equal, with_skip, without))


def test_the_learning_rate_is_read_at_every_step() -> None:
    parameter = nn.Parameter(torch.zeros(()))
    optimizer = RMSprop([([parameter], Schedule(1.0, 0.0))], tf_like=True, eps=1e-8)
    optimizer.learning_rates[0].set_progress(0.75)
    optimizer.step([torch.ones(())], ENABLED)
    assert parameter.item() == pytest.approx(-0.25)


def test_the_state_holds_averages_count_and_learning_rate() -> None:
    source, target = make_parameters(), make_parameters()
    optimizer = Adam([(source, Schedule(0.1, 0.0))])
    for step in range(3):
        optimizer.step(gradients(step), ENABLED)
    optimizer.learning_rates[0].set_progress(0.5)
    with torch.no_grad():
        for there, here in zip(target, source, strict=True):
            there.copy_(here)
    restored = Adam([(target, Schedule(0.1, 0.0))])
    restored.load_state_dict(optimizer.state_dict())
    for which in (optimizer, restored):
        which.step(gradients(3), ENABLED)
    assert all(map(torch.equal, source, target))

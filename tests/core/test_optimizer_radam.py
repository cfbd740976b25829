import pytest
import torch
from torch import Tensor, nn

from rl_training.core import RAdam, Schedule

SHAPES = ((4, 3), (4,), ())


def make_parameters() -> list[nn.Parameter]:
    gen = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=gen)) for shape in SHAPES]


def gradients(step: int) -> list[Tensor]:
    gen = torch.Generator().manual_seed(100 + step)
    return [torch.randn(shape, generator=gen) for shape in SHAPES]


@pytest.mark.parametrize(("betas", "num_steps"), [((0.9, 0.999), 20), ((0.8, 0.9), 60)])
def test_radam_equals_torch(betas: tuple[float, float], num_steps: int) -> None:
    ours, theirs = make_parameters(), make_parameters()
    optimizer = RAdam([(ours, Schedule(2.5e-4, 2.5e-4))], betas=betas)
    reference = torch.optim.RAdam(theirs, lr=2.5e-4, betas=betas)
    start = [p.detach().clone() for p in ours]
    for step in range(num_steps):
        optimizer.step(gradients(step), torch.tensor(True))
        for parameter, grad in zip(theirs, gradients(step), strict=True):
            parameter.grad = grad
        reference.step()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert all((now - then).abs().max() > 1e-4 for now, then in zip(ours, start, strict=True))


def test_radam_begins_with_plain_momentum() -> None:
    # For beta2 = 0.999 the squared average is first trusted at the sixth step: until then steps grow with gradients.
    small, large = (nn.Parameter(torch.zeros(())) for _ in range(2))
    optimizers = [RAdam([([p], Schedule(1e-2, 1e-2))]) for p in (small, large)]
    for step in range(1, 9):
        before = [p.item() for p in (small, large)]
        for optimizer, gradient in zip(optimizers, (1.0, 10.0), strict=True):
            optimizer.step([torch.tensor(gradient)], torch.tensor(True))
        moves = [p.item() - b for p, b in zip((small, large), before, strict=True)]
        assert moves[1] / moves[0] == pytest.approx(10.0 if step < 6 else 1.0, rel=1e-3)
        if step < 6:
            assert moves[0] == pytest.approx(-1e-2, rel=1e-4)


def test_a_step_that_is_not_enabled_changes_nothing() -> None:
    parameters = make_parameters()
    optimizer = RAdam([(parameters, Schedule(1e-2, 1e-2))])
    for step in range(2):  # at the very start, where the averages are empty, and later
        state = [x.detach().clone() for x in (*parameters, *optimizer.state_dict().values())]
        optimizer.step(gradients(step), torch.tensor(False))
        assert all(
            torch.equal(a, b) for a, b in zip(state, (*parameters, *optimizer.state_dict().values()), strict=True)
        )
        optimizer.step(gradients(step), torch.tensor(True))


def test_the_rectified_steps_are_those_of_the_paper() -> None:
    ours, theirs = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer, reference = RAdam([([ours], Schedule(1.0, 1.0))]), torch.optim.RAdam([theirs], lr=1.0)
    for _ in range(12):
        before = ours.item(), theirs.item()
        optimizer.step([torch.ones(())], torch.tensor(True))
        theirs.grad = torch.ones((), dtype=torch.float64)
        reference.step()
        assert ours.item() - before[0] == pytest.approx(theirs.item() - before[1], rel=1e-3)

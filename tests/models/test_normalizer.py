import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, MultiBinary
from rl_training.models import ObservationNormalizer
from rl_training.models.normalizer import RunningNorm

VECTOR = Box((2,), (-100.0,) * 2, (100.0,) * 2)


def rollout(seed: int, num_steps: int = 30) -> Tensor:
    """[time, env] observations with different means and deviations per column."""
    gen = torch.Generator().manual_seed(seed)
    return torch.tensor([5.0, -50.0]) + torch.tensor([0.1, 20.0]) * torch.randn(num_steps, 4, 2, generator=gen)


def everything(x: Tensor) -> Tensor:
    return torch.ones(x.shape[:2], dtype=torch.bool)


def test_disabled_returns_the_observation_itself() -> None:
    normalizer, obs = ObservationNormalizer(VECTOR, enabled=False), rollout(0)
    normalizer.update(obs, everything(obs))
    assert normalizer(obs) is obs
    assert not normalizer.state_dict()


def test_statistics_are_frozen_until_update() -> None:
    normalizer, obs = ObservationNormalizer(VECTOR, enabled=True, clip=1e6), rollout(0)
    torch.testing.assert_close(normalizer(obs), obs)  # mean 0 and variance 1 at first
    normalizer.update(obs, everything(obs))
    state = {name: value.clone() for name, value in normalizer.state_dict().items()}
    once = normalizer(rollout(1))
    assert torch.equal(normalizer(rollout(1)), once)
    assert all(torch.equal(value, state[name]) for name, value in normalizer.state_dict().items())


def test_equals_the_moments_of_everything_seen() -> None:
    normalizer = ObservationNormalizer(VECTOR, enabled=True)
    chunks = [rollout(seed, num_steps) for seed, num_steps in enumerate((1, 50, 7))]
    for chunk in chunks:
        normalizer.update(chunk, everything(chunk))
    rows = torch.cat([chunk.flatten(0, 1) for chunk in chunks]).double()
    expected = (rows - rows.mean(0)) / rows.std(0, correction=0)
    torch.testing.assert_close(normalizer(rows.float()), expected.float(), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(normalizer.norms[0].mean, rows.mean(0))
    torch.testing.assert_close(normalizer.norms[0].var, rows.var(0, correction=0))


def test_rows_that_are_not_valid_are_left_out() -> None:
    obs = rollout(0)
    valid = torch.rand(obs.shape[:2], generator=torch.Generator().manual_seed(1)) < 0.7
    seen, polluted = (ObservationNormalizer(VECTOR, enabled=True) for _ in range(2))
    seen.update(obs[valid].unsqueeze(0), torch.ones(1, int(valid.sum()), dtype=torch.bool))
    polluted.update(torch.where(valid.unsqueeze(-1), obs, 1e5), valid)
    torch.testing.assert_close(dict(polluted.state_dict()), dict(seen.state_dict()))


def test_a_rollout_without_valid_rows_changes_nothing() -> None:
    normalizer, obs = ObservationNormalizer(VECTOR, enabled=True), rollout(0)
    normalizer.update(obs, everything(obs))
    before = normalizer(obs)
    normalizer.update(obs + 100, ~everything(obs))
    assert torch.equal(normalizer(obs), before)


def test_result_is_clipped() -> None:
    normalizer, obs = ObservationNormalizer(VECTOR, enabled=True, clip=2.0), rollout(0)
    normalizer.update(obs, everything(obs))
    far = normalizer(torch.tensor([[1e6, -1e6], [5.0, -50.0]]))
    assert far[0].tolist() == [2.0, -2.0]
    assert far[1].abs().max() < 1


def test_a_constant_column_stays_finite() -> None:
    normalizer, obs = ObservationNormalizer(VECTOR, enabled=True), torch.full((3, 2, 2), 7.0)
    normalizer.update(obs, everything(obs))
    assert normalizer(obs).tolist() == torch.zeros(3, 2, 2).tolist()


def test_only_arrays_of_numbers_are_normalised() -> None:
    image = Box((1, 2, 2), (0.0,) * 4, (255.0,) * 4, "uint8")
    mask = Box((2,), (0.0,) * 2, (1.0,) * 2)
    space = Dict({"speed": VECTOR, "camera": image, "gear": Discrete(3), "bits": MultiBinary(2), "action_mask": mask})
    normalizer = ObservationNormalizer(space, enabled=True)
    obs = {
        "speed": rollout(0, 3),
        "camera": torch.full((3, 4, 1, 2, 2), 9, dtype=torch.uint8),
        "gear": torch.ones(3, 4, dtype=torch.int64),
        "bits": torch.ones(3, 4, 2),
        "action_mask": torch.ones(3, 4, 2),
    }
    normalizer.update(obs, everything(obs["speed"]))
    normalized = normalizer(obs)
    assert list(normalized) == list(obs)
    for key in ("camera", "gear", "bits", "action_mask"):
        assert normalized[key] is obs[key]
    assert normalized["speed"].mean((0, 1)).tolist() == pytest.approx([0, 0], abs=1e-3)


def test_an_image_alone_is_not_normalised() -> None:
    image = Box((1, 2, 2), (0.0,) * 4, (255.0,) * 4, "uint8")
    normalizer, obs = ObservationNormalizer(image, enabled=True), torch.full((3, 4, 1, 2, 2), 9, dtype=torch.uint8)
    normalizer.update(obs, everything(obs))
    assert normalizer(obs) is obs


def test_the_statistics_travel_with_the_state() -> None:
    one, other = (ObservationNormalizer(VECTOR, enabled=True) for _ in range(2))
    one.update(rollout(0), everything(rollout(0)))
    other.load_state_dict(one.state_dict())
    for normalizer in (one, other):
        normalizer.update(rollout(1), everything(rollout(1)))
    assert torch.equal(one(rollout(2)), other(rollout(2)))


@pytest.mark.parametrize("num_rows", [1, 64])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e4])
def test_statistics_never_stall(scale: float, num_rows: int) -> None:
    """Small steps of a mean far from zero must not get lost, however many updates there were before."""
    num_updates = 1_500
    gen = torch.Generator().manual_seed(0)
    drift = torch.linspace(0, 1, num_updates * num_rows, dtype=torch.float64)
    rows = (scale + drift + 0.1 * torch.randn(len(drift), generator=gen)).float().unsqueeze(-1)
    norm = RunningNorm((1,), clip=10.0)
    for chunk in rows.split(num_rows):
        norm.update(chunk)
    exact = rows.double()
    assert norm.mean.item() == pytest.approx(exact.mean().item(), rel=1e-12)
    assert norm.var.item() == pytest.approx(exact.var(correction=0).item(), rel=1e-7)
    assert norm(rows).dtype == torch.float32


def test_statistics_of_older_checkpoints_still_load() -> None:
    """They were kept in float32."""
    norm = RunningNorm((2,), clip=10.0)
    norm.update(rollout(0).flatten(0, 1))
    old = {name: value.float() if name != "count" else value for name, value in norm.state_dict().items()}
    loaded = RunningNorm((2,), clip=10.0)
    loaded.load_state_dict(old)
    assert loaded.mean.dtype == torch.float64
    assert torch.equal(loaded(rollout(1)), norm(rollout(1)))

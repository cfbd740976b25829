"""What a step of TRPO leaves alone: parameters of others, rows without weight, everything if a number is not finite."""

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms.on_policy import NetArch
from rl_training.algorithms.trpo import flatten
from rl_training.core import (
    Dict,
    Discrete,
    MultiBinary,
    Space,
    Spec,
    tree_map,
)
from tests.algorithms.trpo_batches import (
    OBS,
    SHARED,
    SMALL,
    distribution_now,
    divergence,
    make,
    make_batch,
    moved,
    state_of,
    with_advantage,
)
from tests.rollouts import act_out, flat


@pytest.mark.parametrize("arch", [SMALL, SHARED], ids=["separate", "shared trunk"])
def test_the_two_steps_touch_only_their_own(arch: NetArch) -> None:
    algorithm = make(net_arch=arch)
    batch = make_batch(algorithm)
    before = state_of(algorithm)
    metrics = algorithm.update_policy(batch).metrics
    assert metrics["is_line_search_success"]
    changed = moved(before, algorithm)
    # What both share is registered under two names and belongs to the policy.
    assert {name for name in changed if not name.startswith("value_trunk")} == {
        name for name in before if name.startswith("policy.")
    }
    between = state_of(algorithm)
    loss = [algorithm.update(batch).metrics["value_loss"] for _ in range(20)]
    changed = moved(between, algorithm)
    assert {name for name in changed if not name.startswith("optimizers.")} == {
        name for name in before if name.startswith("value_head")
    }
    assert loss[-1] < loss[0]


def test_a_shared_trunk_is_inside_the_trust_region() -> None:
    algorithm = make(net_arch=SHARED)
    for seed in range(5):
        batch = make_batch(algorithm, seed=seed)
        old, value = distribution_now(algorithm, batch), algorithm.value(batch.obs).detach()
        algorithm.update_policy(batch)
        assert 0 < divergence(algorithm, batch, old).item() <= 0.01
        assert not torch.equal(algorithm.value(batch.obs), value)  # it reads the trunk that moved


def partly_used_encoder(space: Space) -> nn.Module:
    """An encoder with a parameter that nothing depends on."""
    encoder = nn.Linear(3, 5)
    encoder.features_dim = 5
    encoder.spare = nn.Parameter(torch.ones(2))
    return encoder


def test_a_parameter_that_nothing_depends_on_stays() -> None:
    algorithm = make(encoder=f"{__name__}:partly_used_encoder")
    metrics = algorithm.update_policy(make_batch(algorithm)).metrics
    assert metrics["is_line_search_success"]
    assert torch.equal(algorithm.policy.trunk.own.spare, torch.ones(2))


@pytest.mark.parametrize("column", ["advantage", "log_prob", "obs"])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_batch_that_is_not_finite_sets_failed_and_changes_nothing(column: str, number: float) -> None:
    algorithm = make(normalize_advantage=False)
    batch = make_batch(algorithm)
    broken = tree_map(Tensor.clone, batch)
    if column == "obs":
        broken.obs[3, 1] = number
    else:
        getattr(broken, column)[3] = -number if column == "log_prob" else number
    before = state_of(algorithm)
    metrics = algorithm.update_policy(broken).metrics
    assert algorithm.failed
    assert algorithm.stop
    assert metrics["is_line_search_success"].item() == 0
    algorithm.update(batch)  # the rest of the iteration
    assert not moved(before, algorithm)


def test_a_value_target_that_is_not_finite_sets_failed_and_changes_nothing() -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    batch.target[5] = torch.nan
    before = state_of(algorithm)
    algorithm.update(batch)
    assert algorithm.failed
    assert not moved(before, algorithm)


def test_rows_of_weight_zero_never_count() -> None:
    steps = []
    counts = torch.arange(64) % 3 > 0
    for garbage in (0.0, 50.0):
        algorithm = make()
        batch = make_batch(algorithm)
        batch = batch._replace(weight=counts.float(), obs=torch.where(counts.unsqueeze(-1), batch.obs, garbage))
        batch = with_advantage(batch, torch.where(counts, batch.advantage, garbage))
        algorithm.update_policy(batch)
        algorithm.update(batch)
        steps.append(flatten(list(algorithm.parameters())).detach())
    torch.testing.assert_close(*steps, rtol=1e-4, atol=1e-5)


def test_a_batch_without_weight_changes_no_policy() -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    before = state_of(algorithm)
    metrics = algorithm.update_policy(batch._replace(weight=torch.zeros(64))).metrics
    assert not moved(before, algorithm)
    assert not algorithm.failed
    assert metrics["is_line_search_success"].item() == 0


def test_forbidden_actions_stay_forbidden() -> None:
    spec = Spec(Dict({"x": OBS, "action_mask": MultiBinary(4)}), Discrete(4))
    algorithm = make(spec, target_kl=0.05)
    obs = {"x": torch.randn(16, 4, 3), "action_mask": torch.tensor([1, 0, 1, 1]).expand(16, 4, 4)}
    batch = flat(algorithm.prepare(act_out(algorithm, obs, obs))[0])
    old = distribution_now(algorithm, batch)
    last_bias = list(algorithm.policy.head.net.parameters())[-1]
    bias = last_bias.detach().clone()
    metrics = algorithm.update_policy(batch).metrics
    assert metrics["is_line_search_success"]
    assert 0 < divergence(algorithm, batch, old).item() <= 0.05
    assert distribution_now(algorithm, batch).log_probs.exp()[:, 1].max() == 0
    assert ((last_bias != bias) == torch.tensor([True, False, True, True])).all()

import math

import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, MultiBinary, Schedule, Space, Spec
from rl_training.models import MeanHead, ObservationNormalizer, QNetwork, QPolicy, QuantileHead, forbid
from rl_training.models.q_networks import FEW, epsilon_greedy

OBS = Box((2,), (-1.0,) * 2, (1.0,) * 2)
MASKED = Dict({"x": OBS, "action_mask": MultiBinary(3)})
MANY = 30_000


def make(q: tuple[float, ...], space: Space = OBS, *, noisy: bool = False, **settings: object) -> QPolicy:
    """A policy whose network says `q` of every observation."""
    network = QNetwork(space, len(q), (), MeanHead("huber"), noisy=noisy)
    with torch.no_grad():
        network.advantage.weight0.zero_()
        network.advantage.bias0.copy_(torch.tensor(q))
    options: dict = {"exploration": "epsilon", "epsilon": Schedule(0.3, 0.3), "temperature": Schedule(0.5, 0.5)}
    normalizer = ObservationNormalizer(space, enabled=False, clip=10.0)
    return QPolicy(Spec(space, Discrete(len(q))), normalizer, network, **options | settings)


def masked_obs(mask: list[int], num: int = MANY) -> dict[str, Tensor]:
    return {"x": torch.zeros(num, 2), "action_mask": torch.tensor(mask, dtype=torch.int8).expand(num, -1)}


def assert_log_probs_fit(action: Tensor, log_prob: Tensor, wanted: list[float]) -> None:
    """Every action is taken as often as wanted, and its log-probability says so."""
    share = torch.bincount(action, minlength=len(wanted)) / len(action)
    torch.testing.assert_close(share, torch.tensor(wanted), rtol=0, atol=0.012)
    for index, probability in enumerate(wanted):
        said = log_prob[action == index]
        if probability == 0:
            assert said.numel() == 0
        else:
            torch.testing.assert_close(said.exp(), torch.full_like(said, probability))


@pytest.mark.parametrize(
    ("epsilon", "mask", "wanted"),
    [
        (0.3, None, [0.1, 0.8, 0.1]),
        (1.0, None, [1 / 3, 1 / 3, 1 / 3]),
        (0.0, None, [0.0, 1.0, 0.0]),
        (0.3, [1, 0, 1], [0.15, 0.0, 0.85]),  # the best action is forbidden
        (0.3, [1, 1, 0], [0.15, 0.85, 0.0]),
        (1.0, [0, 0, 1], [0.0, 0.0, 1.0]),
    ],
)
def test_epsilon_greedy(epsilon: float, mask: list[int] | None, wanted: list[float]) -> None:
    torch.manual_seed(0)
    policy = make((0.0, 2.0, 1.0), OBS if mask is None else MASKED, epsilon=Schedule(epsilon, epsilon))
    act = policy.act(torch.zeros(MANY, 2) if mask is None else masked_obs(mask))
    assert sum(wanted) == pytest.approx(1)
    assert_log_probs_fit(act.action, act.log_prob, wanted)


@pytest.mark.parametrize("masked", [False, True])
def test_epsilon_greedy_draws_for_every_row_anew(masked: bool) -> None:
    torch.manual_seed(0)
    best, mask = torch.randint(4, (MANY,)), torch.ones(MANY, 4, dtype=torch.int8) if masked else None
    action, log_prob = epsilon_greedy(best, torch.tensor(0.4), 4, mask)
    greedy = action == best
    assert greedy.float().mean().item() == pytest.approx(0.7, abs=0.012)
    torch.testing.assert_close(log_prob.exp(), torch.where(greedy, 0.7, 0.1))
    torch.testing.assert_close(torch.bincount(action, minlength=4) / MANY, torch.full((4,), 0.25), rtol=0, atol=0.012)


@pytest.mark.parametrize("num", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.37, 1.0])
def test_few_rows_get_the_numbers_of_many_to_the_last_bit(epsilon: float, num: int) -> None:
    """Rows are stepped in blocks of any size: how many there are must not change what is chosen or logged."""
    best = torch.randint(num, (FEW,), generator=torch.Generator().manual_seed(1))
    for seed in range(40):
        torch.manual_seed(seed)
        few = epsilon_greedy(best, torch.tensor(epsilon), num, None)
        torch.manual_seed(seed)
        chance, pick = torch.rand(2, FEW)
        action = torch.where(chance < epsilon, (pick * num).long(), best)
        share = torch.tensor(epsilon)
        log_prob = (share / num + (1 - share) * (action == best)).log()
        assert torch.equal(few[0], action)
        assert torch.equal(few[1], log_prob)


@pytest.mark.parametrize("mask", [None, [1, 0, 1]])
def test_boltzmann_follows_the_values(mask: list[int] | None) -> None:
    torch.manual_seed(0)
    policy = make((0.0, 1.0, 0.5), OBS if mask is None else MASKED, exploration="boltzmann")
    weights = [math.exp(q / 0.5) * allowed for q, allowed in zip((0.0, 1.0, 0.5), mask or [1, 1, 1], strict=True)]
    act = policy.act(torch.zeros(MANY, 2) if mask is None else masked_obs(mask))
    assert_log_probs_fit(act.action, act.log_prob, [w / sum(weights) for w in weights])


def test_schedules_are_used() -> None:
    torch.manual_seed(0)
    policy = make((0.0, 1.0), epsilon=Schedule(1.0, 0.0, 0.5), temperature=Schedule(1.0, 1e-3))
    assert 0.4 < policy.act(torch.zeros(1000, 2)).action.float().mean() < 0.6
    policy.epsilon.set_progress(0.5)
    assert policy.act(torch.zeros(1000, 2)).action.all()
    policy.exploration = "boltzmann"
    assert not policy.act(torch.zeros(1000, 2)).action.all()
    policy.temperature.set_progress(1.0)
    assert policy.act(torch.zeros(1000, 2)).action.all()


@pytest.mark.parametrize("exploration", ["epsilon", "boltzmann", "noisy"])
def test_without_exploring_the_best_allowed_action_is_certain(exploration: str) -> None:
    policy = make((0.0, 2.0, 1.0), MASKED, exploration=exploration, noisy=True, epsilon=Schedule(1.0, 1.0))
    act = policy.act(masked_obs([1, 0, 1], 100), explore=False)
    assert (act.action == 2).all()
    assert not act.log_prob.any()
    assert torch.equal(act.log_prob, policy.act(masked_obs([1, 1, 1], 100), explore=False).log_prob)


def test_noise_explores_and_its_probability_is_unknown() -> None:
    torch.manual_seed(0)
    policy = make((0.0, 0.1, 0.0), MASKED, exploration="noisy", noisy=True)
    acts = [policy.act(masked_obs([1, 1, 0], 2)) for _ in range(200)]
    actions = torch.stack([act.action for act in acts])
    assert set(actions.flatten().tolist()) == {0, 1}  # noise decides, the mask holds
    assert (actions[:, 0] == actions[:, 1]).all()  # one noise for all rows
    assert all(act.log_prob.isnan().all() for act in acts)


@pytest.mark.parametrize("exploration", ["epsilon", "boltzmann"])
def test_with_noise_the_probability_of_other_exploration_is_unknown_too(exploration: str) -> None:
    torch.manual_seed(0)
    policy = make((0.0, 0.1, 0.0), MASKED, exploration=exploration, noisy=True)
    act = policy.act(masked_obs([1, 1, 0], 100))
    assert set(act.action.tolist()) == {0, 1}
    assert act.log_prob.isnan().all()
    assert not make((0.0, 0.1, 0.0), MASKED, exploration=exploration).act(masked_obs([1, 1, 0])).log_prob.isnan().any()


def test_the_value_is_that_of_the_best_allowed_action() -> None:
    policy = make((1.0, 3.0, 2.0), MASKED)
    assert policy.values(masked_obs([1, 1, 1], 2)).tolist() == [3.0, 3.0]
    assert policy.values(masked_obs([1, 0, 1], 2)).tolist() == [2.0, 2.0]
    assert make((1.0, 3.0)).values(torch.zeros(2, 2)).tolist() == [3.0, 3.0]


def test_forbidden_actions_are_below_all_others() -> None:
    q = torch.tensor([[1.0, -1e30, 2.0]])
    assert forbid(q, torch.tensor([[1, 1, 0]])).tolist() == [[1.0, q[0, 1].item(), -math.inf]]
    assert forbid(q, None) is q


def test_values_are_without_noise_unless_asked_for() -> None:
    policy, obs = make((0.0, 1.0), noisy=True), torch.zeros(3, 2)
    torch.testing.assert_close(policy.q_values(obs), torch.tensor([0.0, 1.0]).expand(3, -1))
    assert not torch.equal(policy.q_values(obs, noise=True), policy.q_values(obs))


@pytest.mark.parametrize("num_fractions", [1, 5])
def test_quantiles_are_averaged_over_the_fractions_to_act_on(num_fractions: int) -> None:
    torch.manual_seed(0)
    network = QNetwork(MASKED, 3, (16, 16), QuantileHead(64, 1.0), num_cosines=6)
    torch.nn.init.zeros_(network.advantage.bias1)  # lest one action is the best everywhere
    normalizer = ObservationNormalizer(MASKED, enabled=False, clip=10.0)
    settings = {"epsilon": Schedule(0.0, 0.0), "temperature": Schedule(0.0, 0.0), "num_fractions": num_fractions}
    policy = QPolicy(Spec(MASKED, Discrete(3)), normalizer, network, exploration="epsilon", **settings)
    obs = {"x": 5 * torch.randn(50, 2), "action_mask": torch.ones(50, 3, dtype=torch.int8)}
    fractions = (torch.arange(num_fractions) + 0.5) / num_fractions
    expected = torch.stack([network(obs, f.expand(50, 1)).squeeze(-1) for f in fractions]).mean(0)
    torch.testing.assert_close(policy.q_values(obs), expected)
    assert torch.equal(policy.act(obs, explore=False).action, expected.argmax(-1))
    assert len(set(expected.argmax(-1).tolist())) > 1

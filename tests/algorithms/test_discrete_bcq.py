"""What DiscreteBCQ allows: actions that the data take often enough, in targets and when it acts."""

import math

import pytest
import torch

from rl_training import ConfigError, DiscreteBCQ
from rl_training.algorithms import DiscreteBCQAlgorithm, DiscreteBCQConfig, DQNAlgorithm, DQNConfig
from rl_training.core import Box, Dict, Discrete, Space, Spec, StepBatch

OBS = Box((2,), (-1.0,) * 2, (1.0,) * 2)
MASKED = Dict({"observation": OBS, "action_mask": Box((3,), (0.0,) * 3, (1.0,) * 3)})
OFTEN = (0.8, 0.15, 0.05)  # how often the data take each action


def make(space: Space = OBS, **settings: object) -> DiscreteBCQAlgorithm:
    """Its model of the data says OFTEN everywhere, its values are 1, 3 and 2."""
    torch.manual_seed(0)
    algorithm = DiscreteBCQAlgorithm(DiscreteBCQConfig(**{"net_arch": ()} | settings), Spec(space, Discrete(3)))
    with torch.no_grad():
        for net in (algorithm.plausible.imitator.net, algorithm.policy.network.advantage, algorithm.target.advantage):
            net.weight0.zero_()
        algorithm.plausible.imitator.net.bias0.copy_(torch.tensor(OFTEN).log() + 7)  # any constant
        algorithm.policy.network.advantage.bias0.copy_(torch.tensor([1.0, 3.0, 2.0]))
        algorithm.target.advantage.bias0.copy_(torch.tensor([10.0, 30.0, 20.0]))
    return algorithm


def a_batch(num: int = 4, **changes: object) -> StepBatch:
    obs, ones = torch.zeros(num, 2), torch.ones(num)
    return StepBatch(obs, torch.tensor([0, 1, 2, 0]), ones, 0.5 * ones, obs, ones, {})._replace(**changes)


@pytest.mark.parametrize(
    ("threshold", "allowed", "best"),
    [(0.3, [True, False, False], 0), (0.1, [True, True, False], 1), (0.05, [True, True, True], 1)],
)
def test_actions_are_allowed_by_their_share_of_the_likeliest(threshold: float, allowed: list[bool], best: int) -> None:
    algorithm, obs = make(threshold=threshold), torch.zeros(2, 2)
    assert algorithm.policy.allowed(obs).tolist() == [allowed] * 2
    assert algorithm.policy.act(obs, explore=False).action.tolist() == [best] * 2
    target = algorithm.next_value(a_batch())  # chosen by the online network, valued by the target
    assert target.flatten().tolist() == [(10.0, 30.0, 20.0)[best]] * 4


def test_threshold_0_is_double_dqn_to_the_bit_and_1_is_cloning() -> None:
    settings = {"net_arch": (8,), "batch_size": 4, "learning_rate": DQNConfig().learning_rate}
    torch.manual_seed(0)
    ours = DiscreteBCQAlgorithm(DiscreteBCQConfig(threshold=0.0, **settings), Spec(OBS, Discrete(3)))
    theirs = DQNAlgorithm(DQNConfig(double=True, **settings), Spec(OBS, Discrete(3)))
    theirs.policy.network.load_state_dict(ours.policy.network.state_dict())
    theirs.target.load_state_dict(ours.target.state_dict())
    for _ in range(3):
        ours.update(a_batch())
        theirs.update(a_batch())
    for a, b in zip(ours.policy.network.parameters(), theirs.policy.network.parameters(), strict=True):
        assert torch.equal(a, b)
    obs = torch.randn(16, 2)
    with torch.no_grad():
        cloning = DiscreteBCQAlgorithm(DiscreteBCQConfig(threshold=1.0, **settings), Spec(OBS, Discrete(3)))
        assert torch.equal(cloning.policy.act(obs, explore=False).action, cloning.plausible.logits(obs).argmax(-1))


def test_the_imitators_loss_is_the_unlikelihood_and_the_squared_logits() -> None:
    algorithm = make(logits_penalty=0.1)
    loss, metrics, _ = algorithm.imitation_loss(a_batch())
    unlikely = -sum(math.log(OFTEN[action]) for action in (0, 1, 2, 0)) / 4
    squares = sum((math.log(share) + 7) ** 2 for share in OFTEN) / 3
    assert loss.item() == pytest.approx(unlikely + 0.1 * squares, rel=1e-5)
    assert metrics["imitator_loss"].item() == pytest.approx(unlikely, rel=1e-5)
    half = algorithm.imitation_loss(a_batch(weight=torch.tensor([1.0, 0.0, 0.0, 1.0])))
    assert half.metrics["imitator_loss"].item() == pytest.approx(-math.log(0.8), rel=1e-5)


def test_forbidden_actions_are_not_plausible_and_the_likeliest_is_among_the_others() -> None:
    algorithm = make(MASKED, threshold=0.3)
    obs = {"observation": torch.zeros(2, 2), "action_mask": torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])}
    assert algorithm.policy.allowed(obs).tolist() == [[False, True, True], [True, False, False]]
    assert algorithm.policy.act(obs, explore=False).action.tolist() == [1, 0]


def test_it_explores_among_all_actions() -> None:
    algorithm = make(exploration_initial_eps=1.0)
    assert set(algorithm.policy.act(torch.zeros(200, 2)).action.tolist()) == {0, 1, 2}


def test_the_q_network_and_the_imitator_have_their_own_steps() -> None:
    algorithm = make()
    before = [p.detach().clone() for p in algorithm.plausible.parameters()]
    algorithm.minimize(algorithm.loss, a_batch(), "q")
    assert all(map(torch.equal, algorithm.plausible.parameters(), before))
    algorithm.update(a_batch())
    assert not all(map(torch.equal, algorithm.plausible.parameters(), before))


@pytest.mark.parametrize(
    ("env", "settings", "sentence"),
    [
        ("CartPole-v1", {"threshold": 1.2}, r"algorithm.threshold=1.2 must be at most 1"),
        ("CartPole-v1", {"logits_penalty": -1}, r"algorithm.logits_penalty=-1(.0)? must be at least 0"),
        ("Pendulum-v1", {}, r"needs Discrete actions, but this environment has Box"),
    ],
)
def test_what_is_refused(env: str, settings: dict, sentence: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=sentence):
        DiscreteBCQ(env, **settings)

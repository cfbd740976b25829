"""What DiscreteIQL learns: as IQL, of choices."""

import pytest
import torch

from rl_training import DiscreteIQL
from rl_training.algorithms import DiscreteIQLAlgorithm, DiscreteIQLConfig
from rl_training.core import Box, Discrete, Schedule, Spec, StepBatch
from tests.algorithms.boxes import asked_gradients, moved

SPEC = Spec(Box((3,), (-1.0,) * 3, (1.0,) * 3), Discrete(3))


def make(**settings: object) -> DiscreteIQLAlgorithm:
    torch.manual_seed(0)
    return DiscreteIQLAlgorithm(DiscreteIQLConfig(**{"net_arch": ()} | settings), SPEC)


def make_batch(action: list[int], discount: float = 0.5) -> StepBatch:
    num = len(action)
    ones, obs = torch.ones(num), torch.zeros(num, 3)
    return StepBatch(obs, torch.tensor(action), ones, torch.full((num,), discount), obs, ones, {})


def say(network: torch.nn.Module, values: list[float]) -> None:
    """Makes a network without hidden layers say these of every observation."""
    weight, bias = list(network.parameters())
    with torch.no_grad():
        weight.zero_()
        bias.copy_(torch.tensor(values))


def told(algorithm: DiscreteIQLAlgorithm) -> DiscreteIQLAlgorithm:
    for critic, values in zip(algorithm.critics, ([2.0, 0, 0], [4.0, 0, 0]), strict=True):
        say(critic, values)
    for target, values in zip(algorithm.targets, ([5.0, 1, 9], [3.0, 2, 9]), strict=True):
        say(target, values)
    say(algorithm.value[1], [1.0])
    return algorithm


def test_critics_and_value_learn_from_the_datas_actions_alone() -> None:
    algorithm = told(make())
    loss, metrics, rows = algorithm.critic_loss(make_batch([0, 0]))
    target = 1 + 0.5 * 1.0
    assert metrics["critic_loss"].item() == pytest.approx((2 - target) ** 2 + (4 - target) ** 2)
    assert metrics["value_loss"].item() == pytest.approx(0.7 * (3 - 1) ** 2)
    assert loss.item() == pytest.approx(metrics["critic_loss"].item() + metrics["value_loss"].item())
    torch.testing.assert_close(rows["priority"], torch.full((2,), 1.5))
    with torch.no_grad():
        for parameter in algorithm.policy.parameters():
            parameter.normal_()
    assert torch.equal(algorithm.critic_loss(make_batch([0, 0])).value, loss)  # the policy is never asked


def test_the_policy_is_the_datas_times_the_exponential_advantage() -> None:
    algorithm = told(make(beta=0.5, learning_rate=Schedule(0.1, 0.1)))
    batch = make_batch([0, 0, 1, 1, 1, 1])
    for _ in range(200):
        algorithm.minimize(algorithm.actor_loss, batch, "actor")
    probs = algorithm.policy.distribution(batch.obs).log_probs[0].exp()
    weights = torch.tensor([2.0, 4.0]) * (0.5 * torch.tensor([3.0 - 1, 1.0 - 1])).exp()
    torch.testing.assert_close(probs[:2], weights / weights.sum(), atol=0.01, rtol=0)
    assert probs[2] < 0.01  # valued highest, and never tried


def test_each_step_moves_its_own_part() -> None:
    algorithm, batch = make(net_arch=(8,)), make_batch([0, 1, 2])
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics", "value", "policy"}
    assert moved(algorithm, lambda: algorithm.update_target(batch)) == {"targets"}
    actor = lambda: algorithm.minimize(algorithm.actor_loss, batch, "actor")  # noqa: E731
    assert asked_gradients(algorithm.critics, actor) == asked_gradients(algorithm.value, actor) == 0


def test_other_actions_and_expectiles_are_refused() -> None:
    with pytest.raises(ValueError, match="DiscreteIQL needs Discrete actions, but this environment has Box"):
        DiscreteIQL("Pendulum-v1")
    with pytest.raises(ValueError, match=r"algorithm.expectile=1 never lowers a value"):
        DiscreteIQL("CartPole-v1", expectile=1.0)

"""What Cal-QL changes of CQL: the policy's actions are never held to be worse than what the data earned."""

import pytest
import torch
from torch import Tensor

from rl_training import CalQL, Dataset
from rl_training.algorithms import CalQLAlgorithm, CalQLConfig, CQLAlgorithm, CQLConfig
from rl_training.core import StepBatch
from tests.algorithms.boxes import SPEC, make_batch, say
from tests.offline import REPLAY, steps_of

SMALL = {"net_arch": (8,), "n_actions": 4, "ent_coef": 0.3}


def make(**settings: object) -> CalQLAlgorithm:
    torch.manual_seed(0)
    return CalQLAlgorithm(CalQLConfig(**SMALL | settings), SPEC)


def bounded(value: float) -> StepBatch:
    return make_batch(columns={"return_to_go": torch.full((6,), value)})


def loss_of(algorithm: CQLAlgorithm, batch: StepBatch) -> tuple[Tensor, dict[str, Tensor], tuple[Tensor, ...]]:
    torch.manual_seed(3)
    loss, metrics, _ = algorithm.critic_loss(batch)
    return loss, metrics, torch.autograd.grad(loss, list(algorithm.critics.parameters()))


def test_without_a_bound_it_is_cql_to_the_bit() -> None:
    torch.manual_seed(0)
    cql = CQLAlgorithm(CQLConfig(**SMALL), SPEC)
    loss, metrics, gradients = loss_of(make(), bounded(-torch.inf))
    expected, _, others = loss_of(cql, make_batch())
    assert torch.equal(loss, expected)
    assert metrics["bound_rate"].item() == 0
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(gradients, others, strict=True))


def test_bounded_values_get_no_gradient_and_uniform_ones_are_not_bounded() -> None:
    algorithm = make()
    q = torch.randn(2, 6, 12, requires_grad=True)
    compared, metrics = algorithm.compared(q, bounded(torch.inf))
    (gradient,) = torch.autograd.grad(compared[..., 8:].sum() + compared[..., :8].clamp(max=1e6).sum(), q)
    assert torch.equal(gradient[..., :8], torch.zeros(2, 6, 8))
    assert torch.equal(gradient[..., 8:], torch.ones(2, 6, 4))
    assert torch.equal(compared[..., 8:], q[..., 8:])
    assert metrics["bound_rate"].item() == 1


def test_the_rate_is_the_share_of_the_policys_values_below_the_returns() -> None:
    algorithm = make(net_arch=())
    say(algorithm.critics, 1.0, 3.0)
    assert loss_of(algorithm, bounded(2.0))[1]["bound_rate"].item() == 0.5  # one critic of two
    batch = bounded(2.0)._replace(weight=torch.tensor([1.0, 1, 0, 0, 0, 0]))
    batch.columns["return_to_go"][1] = 0.0
    assert loss_of(algorithm, batch)[1]["bound_rate"].item() == 0.25
    low, high = (loss_of(algorithm, bounded(value))[1]["conservative_loss"] for value in (0.0, 10.0))
    assert high > low + 5  # the soft maximum rises to the returns


@pytest.fixture(scope="module")
def pendulum() -> Dataset:
    return steps_of("Pendulum-v1")


def test_data_and_own_episodes_give_their_returns(pendulum: Dataset) -> None:
    settings = {key: value for key, value in REPLAY.items() if key != "train_freq"} | {"buffer_size": 1_000}
    agent = CalQL("Pendulum-v1", dataset=pendulum, n_actions=2, train_freq=20, **settings)
    agent.learn(total_updates=4, progress=False)
    data = agent.trainer.plan.stores["data"].sample(50)
    assert data.columns["return_to_go"].max() < 0  # Pendulum only pays costs
    agent.learn(total_timesteps=440, progress=False)  # 220 steps of 2 environments: one episode each, and 20 more
    mixture = agent.trainer.experience
    batch = mixture.gather(mixture.prepare(agent.algorithm)[0], mixture.draw(4_000))
    own = batch.columns["return_to_go"][(batch.columns["logged"] == 0) & (batch.weight > 0)]
    assert own.isinf().float().mean() == pytest.approx(20 / 220, abs=0.03)  # the rest is of open episodes
    assert own[own.isfinite()].max() < 0

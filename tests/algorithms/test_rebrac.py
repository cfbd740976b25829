"""What ReBRAC's actor and critics learn: both stay near the data, each by its own weight."""

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training import Dataset, ReBRAC
from rl_training.algorithms import ReBRACAlgorithm, ReBRACConfig, TD3Algorithm, TD3BCAlgorithm, TD3BCConfig, TD3Config
from rl_training.api.training import build_run
from rl_training.core import Box, Spec, StepBatch
from tests.algorithms.boxes import SPEC, make_batch, say
from tests.algorithms.test_td3 import stand_still

PLAIN = {"net_arch": (), "target_policy_noise": 0.0, "critic_layer_norm": False}


def make(**settings: object) -> ReBRACAlgorithm:
    torch.manual_seed(0)
    return ReBRACAlgorithm(ReBRACConfig(**PLAIN | settings), SPEC)


def a_batch() -> StepBatch:
    next_action = torch.full((6, 2), 0.5)
    return make_batch(columns={"next_action": next_action})


def gradient(algorithm: TD3Algorithm) -> Tensor:
    loss = algorithm.actor_loss(a_batch()).value
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(algorithm.policy.parameters()))])


def test_targets_are_lower_by_the_distance_from_the_datas_next_actions() -> None:
    algorithm = make(critic_beta=0.1)
    stand_still(algorithm)  # the target actor does 0
    say(algorithm.targets, 5.0, 3.0)
    expected = 3 - 0.1 * (0.5**2 + 0.5**2)  # a sum over the numbers of an action
    torch.testing.assert_close(algorithm.next_value(a_batch()), torch.full((6,), expected))


def test_the_actors_loss() -> None:
    algorithm, batch = make(actor_beta=0.3), a_batch()
    say(algorithm.critics, -4.0, -2.0)  # the smallest counts
    far = (algorithm.policy.action(batch.obs) - batch.action).square().sum(-1).mean()
    loss, metrics, _ = algorithm.actor_loss(batch)
    assert loss.item() == pytest.approx(1 + 0.3 * far.item())  # 4 / |-4|
    assert metrics["bc_loss"].item() == pytest.approx(far.item())
    plain = make(actor_beta=0.3, normalize_q=False)
    say(plain.critics, -4.0, -2.0)
    assert plain.actor_loss(batch).value.item() == pytest.approx(4 + 0.3 * far.item())


def test_with_the_weights_of_td3_bc_it_is_td3_bc() -> None:
    alpha = 2.5
    same = {"net_arch": (), "n_critics": 1, "target_policy_noise": 0.0}
    ours = make(n_critics=1, critic_beta=0.0, actor_beta=1 / (alpha * 2))  # of 2 numbers, whose mean TD3+BC takes
    torch.manual_seed(0)
    theirs = TD3BCAlgorithm(TD3BCConfig(alpha=alpha, normalize_observation=False, **same), SPEC)
    torch.testing.assert_close(alpha * gradient(ours), gradient(theirs))
    assert torch.equal(ours.critic_loss(a_batch()).value, theirs.critic_loss(a_batch()).value)


def test_without_weights_and_scale_it_is_td3() -> None:
    ours = make(n_critics=1, critic_beta=0.0, actor_beta=0.0, normalize_q=False)
    torch.manual_seed(0)
    theirs = TD3Algorithm(TD3Config(net_arch=(), n_critics=1, target_policy_noise=0.0), SPEC)
    assert torch.equal(gradient(ours), gradient(theirs))
    assert torch.equal(ours.critic_loss(a_batch()).value, theirs.critic_loss(a_batch()).value)


def test_next_actions_are_the_datas_and_cut_episodes_end_before_their_last_step() -> None:
    steps = np.arange(8, dtype=np.float32)
    spec = Spec(Box((1,), (0.0,), (10.0,)), Box((1,), (0.0,), (10.0,)))
    ends = {"terminated": steps == 3, "truncated": steps == 7}
    data = Dataset.from_arrays(
        obs=steps[:, None], action=steps[:, None], reward=steps, next_obs=steps[:, None] + 1, spec=spec, **ends
    )
    agent = ReBRAC(dataset=data, net_arch=[8], batch_size=4, seed=0, compile=False, total_updates=4)
    store = build_run(agent).trainer.plan.stores["data"]
    batch = store.take(store.columns, torch.arange(8))
    assert batch.weight.tolist() == [1.0] * 7 + [0.0]  # after a cut nobody knows the next action
    following = batch.columns["next_action"][:, 0] * 5 + 5  # in [-1, 1], of [0, 10]
    torch.testing.assert_close(following[[0, 1, 2, 4, 5, 6]], torch.tensor([1.0, 2.0, 3.0, 5.0, 6.0, 7.0]))
    assert batch.discount.tolist()[3] == 0  # where an episode terminates, what comes next does not count


def test_critics_have_layer_norm_and_the_papers_numbers() -> None:
    c = ReBRACConfig()
    assert (c.learning_rate.initial, c.batch_size, c.net_arch, c.critic_layer_norm) == (1e-3, 1024, (256,) * 3, True)

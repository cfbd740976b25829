import pytest
import torch

from rl_training import PQN, ConfigError
from rl_training.algorithms import PQNAlgorithm, PQNConfig
from rl_training.algorithms.pqn import Targets
from rl_training.core import Box, Dict, Discrete, MultiBinary, RAdam, Schedule, Spec, Tree
from rl_training.functional import lambda_returns
from tests.conformance.probes import Masked
from tests.rollouts import act_out, flat

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
PLAIN = Spec(OBS, Discrete(3))
MASKED = Spec(Dict({"x": OBS, "action_mask": MultiBinary(3)}), Discrete(3))


def make(spec: Spec = PLAIN, **settings: object) -> PQNAlgorithm:
    torch.manual_seed(0)
    return PQNAlgorithm(PQNConfig(**{"net_arch": (8, 8), "gamma": 0.9} | settings), spec)


def observations(spec: Spec, seed: int) -> Tree:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 4, 3, generator=gen)
    if spec is PLAIN:
        return x
    mask = torch.rand(6, 4, 3, generator=gen) < 0.5
    mask[..., 1] |= ~mask.any(-1)
    return {"x": x, "action_mask": mask.to(torch.int8)}


@pytest.mark.parametrize("spec", [PLAIN, MASKED], ids=["plain", "masked"])
@pytest.mark.parametrize("q_lambda", [0.0, 0.65, 1.0])
def test_targets_are_lambda_returns_over_the_best_allowed_action(spec: Spec, q_lambda: float) -> None:
    algorithm = make(spec, q_lambda=q_lambda)
    rollout = act_out(algorithm, observations(spec, 0), observations(spec, 1))
    rollout.valid[2, 1] = False
    batch, _ = algorithm.prepare(rollout)
    q = algorithm.policy.q_values(rollout.next_obs).detach()
    if spec is MASKED:
        q = torch.where(rollout.next_obs["action_mask"].bool(), q, -torch.inf)
    flags = (rollout.terminated, rollout.truncated)
    expected = lambda_returns(rollout.reward, q.amax(-1), *flags, gamma=0.9, lam=q_lambda)
    torch.testing.assert_close(batch.target, expected)
    assert torch.isfinite(batch.target).all()
    assert torch.equal(batch.weight, rollout.valid.float())
    if q_lambda == 0:
        one_step = rollout.reward + 0.9 * torch.where(rollout.terminated, 0.0, q.amax(-1))
        torch.testing.assert_close(batch.target, one_step)


def test_nothing_need_be_allowed_after_the_end() -> None:
    algorithm = make(MASKED)
    rollout = act_out(algorithm, observations(MASKED, 0), observations(MASKED, 1))
    assert rollout.terminated.any()
    expected = algorithm.prepare(rollout)[0].target
    rollout.next_obs["action_mask"][rollout.terminated] = 0
    torch.testing.assert_close(algorithm.prepare(rollout)[0].target, expected)


def test_loss_is_the_squared_error_of_the_taken_action() -> None:
    algorithm = make()
    batch = flat(algorithm.prepare(act_out(algorithm, observations(PLAIN, 0), observations(PLAIN, 1)))[0])
    weight = torch.ones(24)
    weight[::3] = 0
    poisoned = batch.target.masked_fill(weight == 0, 1e6)
    loss, metrics, _ = algorithm.loss(batch._replace(weight=weight, target=poisoned))
    taken = algorithm.policy.q_values(batch.obs)[torch.arange(24), batch.action]
    error = (taken - batch.target)[weight.bool()].detach()
    assert loss.item() == pytest.approx(error.square().mean().item(), rel=1e-5)
    assert metrics["td_error"].item() == pytest.approx(error.abs().mean().item(), rel=1e-5)


def test_there_is_one_network_and_it_is_normalised() -> None:
    algorithm = make()
    parameters = dict(algorithm.named_parameters())
    assert {id(p) for p in algorithm.policy.network.parameters()} == {id(p) for p in parameters.values()}
    assert not any("target" in name for name in algorithm.state_dict())
    assert sum("scale" in name for name in parameters) == 2  # of both hidden layers
    assert not any("scale" in name for name, _ in make(layer_norm=False).named_parameters())
    assert algorithm.passes()[0].periodic == ()  # nothing is copied
    assert type(algorithm.optimizers["q"]) is RAdam


def test_layer_norm_bounds_the_values_of_far_observations() -> None:
    with_it, without = make(), make(layer_norm=False)
    far = 1e6 * torch.ones(1, 3)
    assert with_it.policy.q_values(far).abs().max() < 20
    assert without.policy.q_values(far).abs().max() > 1e3


def test_an_update_moves_towards_the_returns() -> None:
    algorithm = make(learning_rate=Schedule(0.01, 0.01))
    obs = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
    batch = Targets(obs, torch.arange(32) % 3, obs.sum(-1), torch.ones(32))
    losses = [algorithm.update(batch).metrics["loss"].item() for _ in range(200)]
    assert losses[-1] < 0.1 * losses[0]


def test_epsilon_and_learning_rate_follow_their_schedules() -> None:
    algorithm = make(exploration_fraction=0.5)
    algorithm.set_progress(0.25)
    _, metrics = algorithm.prepare(act_out(algorithm, observations(PLAIN, 0), observations(PLAIN, 1)))
    assert metrics["epsilon"].item() == pytest.approx(1 - 0.95 / 2)
    assert metrics["learning_rate"].item() == pytest.approx(0.75 * 2.5e-4)


def test_observation_statistics_are_those_of_valid_rows() -> None:
    algorithm = make(normalize_observation=True)
    assert algorithm.observes
    assert not make().observes
    valid = torch.ones(6, 4, dtype=torch.bool)
    valid[0] = False
    obs = observations(PLAIN, 0)
    algorithm.observe(obs, valid)
    torch.testing.assert_close(algorithm.policy.normalizer.norms[0].mean, obs[1:].double().mean((0, 1)))


def test_forbidden_actions_are_never_taken() -> None:
    agent = PQN(Masked, seed=0, n_envs=4, compile=False, n_steps=8, batch_size=16, net_arch=(8,))  # which would raise
    assert agent.learn(320, progress=False).gradient_steps == 10 * 4 * 2
    agent.close()


def test_a_batch_larger_than_the_rollout_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"algorithm.batch_size=64 is larger than a rollout .* = 32\): lower batch_size"
    ):
        PQN("CartPole-v1", n_envs=4, n_steps=8, batch_size=64)

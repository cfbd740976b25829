"""What DQN learns: targets, the choice of the next action, target networks, weights, and three small problems."""

from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training import DQN, Callback
from rl_training.algorithms import DQNAlgorithm, DQNConfig
from rl_training.core import Box, Dict, Discrete, MultiBinary, Schedule, Spec, StepBatch, Tree
from rl_training.models import QNetwork

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
PLAIN = Spec(OBS, Discrete(2))
MASKED = Spec(Dict({"x": OBS, "action_mask": MultiBinary(2)}), Discrete(2))
SMALL = {"n_atoms": 11, "v_min": 0.0, "v_max": 10.0, "n_quantiles": 4, "n_samples": 4, "n_cosines": 4}
every_head = pytest.mark.parametrize("head", ["mean", "c51", "quantile", "iqn"])


def make(spec: Spec = PLAIN, **settings: object) -> DQNAlgorithm:
    torch.manual_seed(0)
    return DQNAlgorithm(DQNConfig(**{"net_arch": ()} | SMALL | settings), spec)


def say(network: QNetwork, q: tuple[float, ...]) -> None:
    """Makes a network without hidden layers say `q` of every observation, in the terms of its head."""
    values = torch.tensor(q)
    if isinstance(network.head.outputs, int) and hasattr(network.head, "atoms"):
        values = torch.where(network.head.atoms == values.unsqueeze(-1), 100.0, 0.0)  # all mass on one atom
    elif network.embedding is None:
        values = values.unsqueeze(-1).expand(-1, network.outputs)
    with torch.no_grad():
        network.advantage.weight0.zero_()
        network.advantage.bias0.copy_(values.flatten())


def make_batch(num: int = 6, obs: Tree | None = None, **changes: object) -> StepBatch:
    gen = torch.Generator().manual_seed(0)
    obs = torch.randn(num, 3, generator=gen) if obs is None else obs
    reward, discount = torch.ones(num), torch.full((num,), 0.5)
    action = torch.randint(2, (num,), generator=gen)
    return StepBatch(obs, action, reward, discount, obs, torch.ones(num), {})._replace(**changes)


@every_head
@pytest.mark.parametrize(("double", "bootstrap"), [(False, 5.0), (True, 3.0)])
def test_who_chooses_and_who_values_the_next_action(head: str, double: bool, bootstrap: float) -> None:
    algorithm = make(head=head, double=double)
    say(algorithm.policy.network, (1.0, 2.0))
    say(algorithm.target, (5.0, 3.0))
    batch = make_batch(action=torch.tensor([0, 1] * 3))
    value = algorithm.policy.network.head.mean(algorithm.next_value(batch))
    torch.testing.assert_close(value, torch.full((6,), bootstrap))
    _, metrics, rows = algorithm.loss(batch)
    assert metrics["q_mean"].item() == pytest.approx(1.5)
    if head != "c51":  # there it is the cross-entropy
        expected = 1 + 0.5 * bootstrap - torch.tensor([1.0, 2.0] * 3)
        torch.testing.assert_close(rows["priority"], expected.abs())


@pytest.mark.parametrize("double", [False, True])
def test_implicit_quantiles_are_drawn_apart_and_evenly_spread_ones_choose(double: bool) -> None:
    algorithm = make(head="iqn", double=double, net_arch=(8,), n_quantiles=4, n_samples=3, n_target_samples=5)
    calls: list[tuple[str, Tensor, Tensor]] = []
    for name, network in (("online", algorithm.policy.network), ("target", algorithm.target)):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_()
        network.register_forward_hook(lambda module, inputs, z, name=name: calls.append((name, inputs[1], z.detach())))
    batch = make_batch(200)
    algorithm.loss(batch)
    assert [name for name, *_ in calls] == ["online", "target", "online" if double else "target"]
    (_, ours, _), (_, theirs, valued), (_, even, chooser) = calls
    assert ours.shape == (200, 3)
    assert theirs.shape == (200, 5)
    assert len(torch.cat([ours, theirs], 1).unique()) > 1500  # drawn for every row, and not the same ones
    assert torch.equal(even, torch.tensor([0.125, 0.375, 0.625, 0.875]).expand(200, -1))
    choice = chooser.mean(-1).argmax(-1)
    assert not torch.equal(choice, valued.mean(-1).argmax(-1))  # the drawn ones would choose otherwise
    calls.clear()
    next_z = algorithm.next_value(batch)
    valued = calls[0][2]
    assert torch.equal(next_z, valued[torch.arange(200), choice])


@every_head
@pytest.mark.parametrize(("double", "bootstrap"), [(False, 3.0), (True, 5.0)])
def test_forbidden_next_actions_are_not_chosen(head: str, double: bool, bootstrap: float) -> None:
    algorithm = make(MASKED, head=head, double=double)
    say(algorithm.policy.network, (1.0, 2.0))
    say(algorithm.target, (5.0, 3.0))
    mask = torch.tensor([[0, 1] if bootstrap == 3.0 else [1, 0]], dtype=torch.int8)  # what was chosen, is forbidden
    next_obs = {"x": torch.zeros(6, 3), "action_mask": mask.expand(6, -1)}
    z = algorithm.next_value(make_batch(obs=next_obs))
    torch.testing.assert_close(algorithm.policy.network.head.mean(z), torch.full((6,), bootstrap))


def test_the_value_of_a_state_is_that_of_an_allowed_action() -> None:
    algorithm = make(MASKED)
    say(algorithm.policy.network, (5.0, 3.0))
    obs = {"x": torch.zeros(1, 3), "action_mask": torch.tensor([[0, 1]], dtype=torch.int8)}
    assert algorithm.values(obs).item() == 3.0


@every_head
def test_only_the_online_network_of_the_taken_action_learns(head: str) -> None:
    algorithm = make(head=head)
    batch = make_batch(action=torch.zeros(6, dtype=torch.long))
    before = {name: p.clone() for name, p in algorithm.named_parameters()}
    step = algorithm.update(batch)
    assert step.rows["priority"].shape == (6,)
    assert "priority" not in step.metrics
    moved = {name: (p - before[name]).abs() for name, p in algorithm.named_parameters()}
    assert not any(change.any() for name, change in moved.items() if name.startswith("target"))
    bias = moved["policy.network.advantage.bias0"].reshape(2, -1)
    assert bias[0].any()
    assert not bias[1].any()
    assert all(not p.requires_grad for p in algorithm.target.parameters())


def test_online_and_target_draw_noise_of_their_own() -> None:
    algorithm = make(noisy=True, net_arch=(8,))
    seen: dict[str, Tensor] = {}
    for name, network in (("online", algorithm.policy.network), ("target", algorithm.target)):
        network.register_forward_hook(lambda module, inputs, z, name=name: seen.update({name: z.detach()}))
    batch = make_batch(obs=torch.ones(6, 3))
    algorithm.loss(batch)
    noisy, quiet = dict(seen), algorithm.policy.network(batch.obs, noise=False)
    assert not torch.allclose(noisy["online"], noisy["target"])  # of the same parameters
    for z in noisy.values():
        assert not torch.allclose(z, quiet)
        torch.testing.assert_close(z, z[:1].expand_as(z))
    sigma = algorithm.policy.network.advantage.weight_sigma0
    (gradient,) = torch.autograd.grad(algorithm.loss(batch).value, sigma)
    assert gradient.any()


def test_rows_of_weight_zero_do_not_count() -> None:
    algorithm = make(net_arch=(8,))
    weight = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    batch = make_batch(weight=weight)
    poisoned = batch._replace(reward=torch.where(weight.bool(), 1.0, 1e6))
    losses = [algorithm.loss(b).value for b in (batch, poisoned)]
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)
    kept = StepBatch(*(x[weight.bool()] if isinstance(x, Tensor) else x for x in batch))
    torch.testing.assert_close(algorithm.loss(kept).value, losses[0])
    empty = algorithm.loss(batch._replace(weight=torch.zeros(6))).value
    assert empty.item() == 0


def test_importance_weights_multiply_the_rows() -> None:
    algorithm = make(per_beta=Schedule(0.4, 1.0))
    probability = torch.tensor([0.1, 0.2, 0.4, 0.1, 0.1, 0.1], dtype=torch.float64)
    batch, rows = make_batch(columns={"probability": probability}), torch.arange(1.0, 7.0)
    weight = (0.1 / probability.float()) ** 0.4
    assert algorithm.weighted_loss(rows, batch).item() == pytest.approx((rows * weight).mean().item(), rel=1e-5)
    algorithm.set_progress(1.0)  # beta 1
    full = (rows * 0.1 / probability).mean().item()
    assert algorithm.weighted_loss(rows, batch).item() == pytest.approx(full, rel=1e-5)
    half = batch._replace(weight=torch.tensor([1.0, 0, 1, 0, 0, 0]))
    assert algorithm.weighted_loss(rows, half).item() == pytest.approx((1 + 3 * 0.25) / 2)


class Targets(Callback):
    """Writes down online and target parameters after every chunk of steps."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[list[Tensor], list[Tensor]]] = {}

    def on_steps(self, trainer, episodes) -> None:
        both = (trainer.algorithm.policy.network, trainer.algorithm.target)
        now = tuple([p.detach().clone() for p in network.parameters()] for network in both)
        self.seen[trainer.progress.timesteps] = now


def watch(**settings: object) -> dict[int, tuple[list[Tensor], list[Tensor]]]:
    common = {"seed": 0, "n_envs": 2, "compile": False, "learning_starts": 8, "train_freq": 4, "batch_size": 4}
    agent, targets = DQN("CartPole-v1", **common | {"net_arch": (4,), "learning_rate": 0.01} | settings), Targets()
    agent.learn(40, progress=False, callbacks=targets)
    agent.close()
    assert list(targets.seen) == list(range(8, 41, 4))
    return targets.seen


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("interval", "due"), [(12, {12, 24, 36}), (10, {12, 20, 32, 40}), (4, set(range(8, 41, 4))), (100, set())]
)
@pytest.mark.parametrize("gradient_steps", [1, 3])
def test_target_is_copied_when_due_and_then_equals_the_online_network(
    interval: int, due: set[int], gradient_steps: int
) -> None:
    seen = watch(target_update_interval=interval, gradient_steps=gradient_steps)
    # Of several updates the one at the multiple copies: the last one does where the steps end on a multiple.
    equal = due if gradient_steps == 1 else {timesteps for timesteps in due if timesteps % interval == 0}
    before = None
    for timesteps, (online, target) in seen.items():
        assert same(online, target) == (timesteps in equal), timesteps
        if before is not None:
            assert not same(online, before[0])  # it learns all the time
            assert same(target, before[1]) == (timesteps not in due)
        before = (online, target)


def test_target_is_averaged_with_tau_below_one() -> None:
    seen = watch(target_update_interval=8, tau=0.25)
    times = list(seen)
    for earlier, now in pairwise(times):
        online, target = seen[now]
        expected = [old.lerp(new, 0.25) for old, new in zip(seen[earlier][1], online, strict=True)]
        if now % 8 == 0:
            torch.testing.assert_close(target, expected, rtol=0, atol=1e-7)
            assert not same(target, seen[earlier][1])
        else:
            assert same(target, seen[earlier][1])


def test_the_distance_to_a_still_network_shrinks_by_one_minus_tau() -> None:
    algorithm = make(tau=0.1, net_arch=(8,))
    with torch.no_grad():
        for parameter in algorithm.target.parameters():
            parameter.normal_()
    pairs = list(zip(algorithm.target.parameters(), algorithm.policy.network.parameters(), strict=True))
    start = [(old - new).detach() for old, new in pairs]
    for _ in range(5):
        algorithm.update_target(make_batch())
    for (old, new), distance in zip(pairs, start, strict=True):
        torch.testing.assert_close((old - new).detach(), distance * 0.9**5, rtol=1e-4, atol=1e-6)


class Chain(gym.Env):
    """Two states, two actions; in state 1 action 1 ends it. Cut after five steps, which is not an end."""

    reward = ((0.0, 1.0), (2.0, 3.0))
    successor = ((0, 1), (0, None))

    def __init__(self) -> None:
        self.observation_space, self.action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.state, self.count = int(self.np_random.integers(2)), 0
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        reward, after = self.reward[self.state][action], self.successor[self.state][action]
        self.count += 1
        self.state = self.state if after is None else after
        return self.state, reward, after is None, self.count >= 5, {}


class Forever(Chain):
    """One state, reward 1, never ends but is cut after five steps."""

    reward = ((1.0, 1.0), (1.0, 1.0))
    successor = ((0, 0), (0, 0))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.state = 0
        return 0, {}


def value_iteration(env: type[Chain], gamma: float) -> np.ndarray:
    q = np.zeros((2, 2))
    for _ in range(1000):
        after = [[0.0 if s is None else q[s].max() for s in row] for row in env.successor]
        q = np.array(env.reward) + gamma * np.array(after)
    return q


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (Chain, {}),
        (Chain, {"double": True, "dueling": True, "prioritized": True}),
        (Forever, {}),
        (Forever, {"loss": "mse"}),
    ],
)
def test_a_linear_network_converges_to_the_optimal_values(env: type[Chain], settings: dict) -> None:
    common = {"seed": 0, "n_envs": 4, "compile": False, "gamma": 0.9, "net_arch": (), "exploration_final_eps": 1.0}
    schedule = {"learning_rate": {"initial": 0.3, "final": 0.002}, "batch_size": 32, "max_grad_norm": None}
    pace = {"learning_starts": 100, "train_freq": 4, "gradient_steps": 5, "target_update_interval": 4}
    agent = DQN(env, **common | schedule | pace | settings)
    agent.learn(700, progress=False)
    q = agent.algorithm.policy.q_values(torch.arange(2)).detach().numpy()
    agent.close()
    wanted = value_iteration(env, 0.9)
    if env is Forever:
        assert wanted[0] == pytest.approx(10)
        q, wanted = q[:1], wanted[:1]  # a truncation taken for an end would give 3.571
    assert np.abs(q - wanted).max() < 1e-2


def test_implicit_quantiles_learn_a_uniform_return() -> None:
    settings = {
        "learning_rate": Schedule(5e-3, 1e-4),
        "kappa": 0.0,
        "net_arch": (32,),
        "n_samples": 16,
        "n_cosines": 16,
    }
    algorithm = make(head="iqn", n_quantiles=32, **settings)
    gen, obs, zeros = torch.Generator().manual_seed(0), torch.ones(128, 3), torch.zeros(128)
    for step in range(400):
        algorithm.set_progress(step / 400)
        action = torch.randint(2, (128,), generator=gen)
        reward = torch.where(action == 0, torch.rand(128, generator=gen), 0.25)
        algorithm.update(StepBatch(obs, action, reward, zeros, obs, torch.ones(128), {}))
    fractions = torch.tensor([[0.1, 0.5, 0.9]])
    with torch.no_grad():
        z = algorithm.policy.network(obs[:1], fractions)[0]
    torch.testing.assert_close(z[0], fractions[0], rtol=0, atol=0.03)
    torch.testing.assert_close(z[1], torch.full((3,), 0.25), rtol=0, atol=0.03)
    assert algorithm.policy.act(obs[:1], explore=False).action.item() == 0  # the mean of 0.5, not the lowest quantile
    torch.testing.assert_close(algorithm.values(obs[:1]).detach(), torch.tensor([0.5]), rtol=0, atol=0.03)

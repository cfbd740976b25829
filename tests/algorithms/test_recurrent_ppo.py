"""RecurrentPPO: replaying a rollout gives back what collecting it gave, whatever ended inside it."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.algorithms import RecurrentPPOAlgorithm, RecurrentPPOConfig
from rl_training.algorithms.on_policy import NetArch
from rl_training.core import Box, Pass, RolloutBatch, Spec, Transition, tree_leaves, tree_map
from rl_training.envs import NATIVE, NativeEnv, VectorEnv
from rl_training.experience import Rollout
from rl_training.models import forget
from rl_training.runtime import collector_for
from tests.envs.counting import CountingDynamics
from tests.envs.fakes import build


class Walk(gym.Env):
    """A random walk; episodes of random length terminate or are truncated, and some actions are forbidden."""

    observation_space: gym.Space = gym.spaces.Box(-100.0, 100.0, (3,), np.float32)
    action_space: gym.Space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 12))
        self.place = self.np_random.normal(size=3)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.left -= 1
        self.place = self.place + self.np_random.normal(size=3)
        terminates = bool(self.np_random.random() < 0.5)
        return (
            self.observe(),
            float(self.place[0]),
            self.left == 0 and terminates,
            self.left == 0 and not terminates,
            {},
        )

    def observe(self) -> Any:
        return self.place.astype(np.float32)


class MaskedWalk(Walk):
    """The walk with a choice beside the place, and a mask that changes at every step."""

    observation_space = gym.spaces.Dict(
        {
            "place": gym.spaces.Box(-100.0, 100.0, (3,), np.float32),
            "room": gym.spaces.Discrete(4),
            "action_mask": gym.spaces.MultiBinary(3),
        }
    )

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.mask[action], "a forbidden action was taken"
        return super().step(action)

    def observe(self) -> dict[str, Any]:
        self.mask = np.ones(3, np.int8)
        self.mask[self.np_random.integers(3)] = 0
        return {"place": super().observe(), "room": np.int64(self.np_random.integers(4)), "action_mask": self.mask}


class ContinuousWalk(Walk):
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


NUM_ENVS = 4
ENVS = {
    "walk": lambda: build(Walk, "local", NUM_ENVS),
    "masked": lambda: build(MaskedWalk, "local", NUM_ENVS),
    "continuous": lambda: build(ContinuousWalk, "local", NUM_ENVS),
    "rows that only reset": lambda: build(Walk, "strict", NUM_ENVS),
    "native": lambda: NativeEnv(NATIVE["CartPoleNoVel-v1"](), NUM_ENVS, max_episode_steps=11),
    "native counting": lambda: NativeEnv(CountingDynamics(5, 9), NUM_ENVS),
}
CORES = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "lstm of two layers": {"n_lstm_layers": 2},
    "gru of two layers": {"cell": "gru", "n_lstm_layers": 2},
    "shared lstm": {"shared_lstm": True},
    "shared gru of two layers": {"cell": "gru", "n_lstm_layers": 2, "shared_lstm": True},
}
every_core = pytest.mark.parametrize("core", CORES.values(), ids=CORES)
every_env = pytest.mark.parametrize("name", ENVS)


def make(spec: Spec, **settings: object) -> RecurrentPPOAlgorithm:
    """An algorithm whose actions and values depend on its memory from the first step on."""
    torch.manual_seed(0)
    small = {"net_arch": NetArch((8,), (8,)), "lstm_hidden_size": 12, "batch_size": 40}
    algorithm = RecurrentPPOAlgorithm(RecurrentPPOConfig(**small | {"ortho_init": False} | settings), spec)
    with torch.no_grad():
        for parameter in algorithm.parameters():
            parameter.mul_(3)
        if isinstance(spec.action, Box):
            algorithm.policy.head.log_std.fill_(-0.5)
    return algorithm


class Collected(NamedTuple):
    """Two rollouts that follow each other, the second beginning within episodes."""

    algorithm: RecurrentPPOAlgorithm
    rollouts: list[Transition]


def collect(env: VectorEnv, num_rollouts: int = 2, **settings: object) -> Collected:
    algorithm = make(env.spec, **settings)
    collector = collector_for(env, algorithm.policy, seed=5, columns=algorithm.columns)
    torch.manual_seed(1)
    return Collected(algorithm, [collector.collect(algorithm.policy, 40) for _ in range(num_rollouts)])


def prepared(algorithm: RecurrentPPOAlgorithm, rollout: Transition) -> tuple[Rollout, RolloutBatch]:
    experience = Rollout(rollout.reward.shape[0], seed=0)
    experience.add(rollout)
    storage, _ = experience.prepare(algorithm)
    return experience, storage


def batches(
    algorithm: RecurrentPPOAlgorithm, rollout: Transition, size: int | None = 40
) -> list[tuple[Tensor, RolloutBatch]]:
    experience, storage = prepared(algorithm, rollout)
    (epoch,) = experience.draws(Pass(1, size, sequences=True))
    return [(index, experience.gather(storage, index)) for index in epoch]


def has_ends_of_both_kinds(rollout: Transition) -> bool:
    terminated, truncated = int(rollout.terminated.sum()), int(rollout.truncated.sum())
    return min(terminated, truncated) > 0 and terminated + truncated > 8


@every_env
@every_core
@torch.no_grad()
def test_replay_reproduces_the_log_probabilities_of_collection(name: str, core: dict) -> None:
    algorithm, rollouts = collect(ENVS[name](), **core)
    assert not rollouts[1].columns["first"][0].all()  # the second one goes on within episodes
    assert has_ends_of_both_kinds(rollouts[0])
    for rollout in rollouts:
        rows = 0
        for index, batch in batches(algorithm, rollout):
            log_prob = algorithm.batch_distribution(batch).log_prob(batch.action)
            there = index >= 0
            torch.testing.assert_close(log_prob[there], batch.log_prob[there], rtol=0, atol=1e-5)
            rows += int(there.sum())
        assert rows == rollout.reward.numel()
        algorithm.observe(rollout.obs, rollout.valid)


@every_core
@torch.no_grad()
def test_memory_matters_and_must_be_the_right_one(core: dict) -> None:
    """The replay above would show a memory that is dropped, kept over a boundary, or another environment's."""
    algorithm, rollouts = collect(ENVS["walk"](), **core)
    rollout = rollouts[1]

    def worst(change: Transition) -> float:
        pairs = batches(algorithm, change)
        gaps = [(algorithm.batch_distribution(b).log_prob(b.action) - b.log_prob)[i >= 0].abs() for i, b in pairs]
        return torch.cat(gaps).max().item()

    memory = {key: part for key, part in rollout.columns.items() if key != "first"}
    first = rollout.columns["first"]
    changes = {
        "dropped": {key: torch.zeros_like(part) for key, part in memory.items()} | {"first": first},
        "kept": memory | {"first": torch.zeros_like(first)},
        "others": {key: part.roll(1, 1) for key, part in memory.items()} | {"first": first},
    }
    assert worst(rollout) < 1e-5
    for kind, columns in changes.items():
        assert worst(rollout._replace(columns=columns)) > 1e-3, kind


@torch.no_grad()
def test_a_mask_forbids_in_the_replay_too() -> None:
    algorithm, rollouts = collect(ENVS["masked"]())
    for _, batch in batches(algorithm, rollouts[0]):
        assert isinstance(batch.obs, dict)
        probability = algorithm.batch_distribution(batch).log_probs.exp()
        assert probability[batch.obs["action_mask"] == 0].max() == 0


def naive_values(algorithm: RecurrentPPOAlgorithm, rollouts: list[Transition]) -> list[tuple[Tensor, Tensor]]:
    """Every value from its whole episode, run from an empty memory; nothing is carried along."""

    def value(history: list) -> Tensor:
        obs = tree_map(lambda *rows: torch.stack(rows).unsqueeze(1), *history)
        outputs = algorithm.value_core(algorithm.features(obs), algorithm.value_core.initial(1))
        return algorithm.value_head(outputs[-1, 0]).squeeze()

    histories: list[list] = [[] for _ in range(NUM_ENVS)]
    results = []
    for rollout in rollouts:
        values, successors = torch.zeros_like(rollout.reward), torch.zeros_like(rollout.reward)
        for t in range(rollout.reward.shape[0]):
            for env in range(NUM_ENVS):
                if rollout.columns["first"][t, env]:
                    histories[env] = []
                histories[env].append(tree_map(lambda x, t=t, env=env: x[t, env], rollout.obs))
                values[t, env] = value(histories[env])
                after = tree_map(lambda x, t=t, env=env: x[t, env], rollout.next_obs)
                successors[t, env] = value([*histories[env], after])
        results.append((values, successors))
    return results


@pytest.mark.parametrize("name", ["walk", "masked", "rows that only reset", "native"])
@pytest.mark.parametrize("core", [CORES[k] for k in ("lstm", "gru of two layers", "shared lstm")], ids=str)
@torch.no_grad()
def test_values_equal_a_naive_reference_over_two_rollouts(name: str, core: dict) -> None:
    algorithm, rollouts = collect(ENVS[name](), **core)
    assert has_ends_of_both_kinds(rollouts[0])
    for rollout, (values, successors) in zip(rollouts, naive_values(algorithm, rollouts), strict=True):
        ours, next_ours = algorithm.rollout_values(rollout)
        torch.testing.assert_close(ours, values, rtol=0, atol=1e-5)
        torch.testing.assert_close(next_ours, successors, rtol=0, atol=1e-5)
        algorithm.observe(rollout.obs, rollout.valid)


@torch.no_grad()
def test_the_value_after_a_truncation_comes_from_the_memory_of_the_old_episode() -> None:
    algorithm, (rollout, _) = collect(ENVS["walk"]())
    values, successors = algorithm.rollout_values(rollout)
    goes_on = ~(rollout.terminated | rollout.truncated)[:-1]
    torch.testing.assert_close(successors[:-1][goes_on], values[1:][goes_on], rtol=0, atol=1e-5)
    cut = rollout.truncated[:-1]
    assert (successors[:-1][cut] - values[1:][cut]).abs().min() > 1e-4  # not the new episode's first value
    batch, _ = algorithm.prepare(rollout)
    target = rollout.reward + algorithm.config.gamma * successors - values
    torch.testing.assert_close(batch.advantage[rollout.truncated], target[rollout.truncated])


@torch.no_grad()
def test_the_critics_memory_goes_on_in_the_next_rollout_and_not_before() -> None:
    algorithm, rollouts = collect(ENVS["walk"]())
    goes_on = ~rollouts[1].columns["first"][0]
    assert goes_on.any()
    assert not goes_on.all()
    fresh = algorithm.rollout_values(rollouts[1])[0]
    assert algorithm.critic_memory == ()
    first_time = algorithm.rollout_values(rollouts[0])[0]
    assert torch.equal(algorithm.rollout_values(rollouts[0])[0], first_time)  # asking changes nothing
    algorithm.observe(rollouts[0].obs, rollouts[0].valid)
    continued = algorithm.rollout_values(rollouts[1])[0]
    assert (continued[0] - fresh[0])[goes_on].abs().min() > 1e-4
    assert torch.equal(continued[0][~goes_on], fresh[0][~goes_on])  # an episode that begins there forgets


@every_core
@torch.no_grad()
def test_the_critics_values_are_reproduced_by_its_sequences(core: dict) -> None:
    algorithm, rollouts = collect(ENVS["masked"](), **core)
    for rollout in rollouts:
        for index, batch in batches(algorithm, rollout):
            there = index >= 0
            value = algorithm.batch_value(batch)
            torch.testing.assert_close(value[there], batch.value[there], rtol=0, atol=1e-5)
        algorithm.observe(rollout.obs, rollout.valid)


def loss_gradients(algorithm: RecurrentPPOAlgorithm, batch: RolloutBatch) -> tuple[Tensor, ...]:
    loss = algorithm.loss(batch).value
    return torch.autograd.grad(loss, list(algorithm.parameters()), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("name", ["walk", "masked", "continuous"])
@every_core
def test_padding_has_no_gradient_whatever_it_holds(name: str, core: dict) -> None:
    algorithm, (rollout, _) = collect(ENVS[name](), **core)
    generator = torch.Generator().manual_seed(0)
    padded = 0
    for index, batch in batches(algorithm, rollout):
        padding = index < 0
        padded += int(padding.sum())
        wanted = loss_gradients(algorithm, batch)

        def noise(column: Tensor, padding: Tensor = padding) -> Tensor:
            if not column.is_floating_point():
                return column
            garbage = torch.randn(column.shape, generator=generator, dtype=column.dtype)
            return torch.where(padding.view(*padding.shape, *[1] * (column.ndim - 2)), garbage, column)

        other = tree_map(noise, batch)._replace(weight=batch.weight)
        assert not torch.equal(other.advantage, batch.advantage)
        assert all(map(torch.equal, loss_gradients(algorithm, other), wanted))
    assert padded > 40


def test_observations_of_padding_have_gradient_zero_and_others_have_not() -> None:
    algorithm, (rollout, _) = collect(ENVS["walk"]())
    for index, batch in batches(algorithm, rollout):
        obs = batch.obs.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(algorithm.loss(batch._replace(obs=obs)).value, obs)
        assert not gradient[index < 0].any()
        assert gradient[index >= 0].any(-1).all()


@every_core
def test_gradients_equal_a_loop_over_time(core: dict) -> None:
    """All sequences as one batch, against stepping the whole rollout and forgetting where episodes begin."""
    algorithm, rollouts = collect(ENVS["walk"](), **core)
    algorithm.prepare(rollouts[0])
    algorithm.observe(rollouts[0].obs, rollouts[0].valid)
    rollout = rollouts[1]
    ((_, batch),) = batches(algorithm, rollout, None)

    class Unrolled(RecurrentPPOAlgorithm):
        def batch_distribution(self, batch: RolloutBatch):
            memory = tuple(part[0] for name, part in rollout.columns.items() if name != "first")
            return self.policy.head(self.unroll(self.policy.core, self.policy.trunk(batch.obs), memory), None)

        def batch_value(self, batch: RolloutBatch) -> Tensor:
            memory = self.rollout_memory(rollout)
            return self.value_head(self.unroll(self.value_core, self.features(batch.obs), memory)).squeeze(-1)

        def unroll(self, core, features: Tensor, memory) -> Tensor:
            outputs = []
            for x, first in zip(features, rollout.columns["first"], strict=True):
                output, memory = core.advance(x, forget(memory, first))
                outputs.append(output)
            return torch.stack(outputs)

    unrolled = Unrolled(algorithm.config, algorithm.spec)
    unrolled.load_state_dict(algorithm.state_dict())
    whole = unrolled.prepare(rollout)[0]
    torch.testing.assert_close(loss_gradients(algorithm, batch), loss_gradients(unrolled, whole), rtol=1e-4, atol=1e-5)


@every_core
def test_the_order_of_the_environments_changes_nothing(core: dict) -> None:
    algorithm, rollouts = collect(ENVS["masked"](), **core)
    order = [2, 0, 3, 1]
    twin = copy.deepcopy(algorithm)
    permuted = [tree_map(lambda x: x[:, order], rollout) for rollout in rollouts]
    for a, b in zip(rollouts, permuted, strict=True):
        ours, theirs = algorithm.prepare(a)[0], twin.prepare(b)[0]
        for name in ("advantage", "target", "value"):
            torch.testing.assert_close(getattr(theirs, name), getattr(ours, name)[:, order], rtol=0, atol=1e-5)
        ((_, batch),), ((_, other),) = batches(algorithm, a, None), batches(twin, b, None)
        torch.testing.assert_close(loss_gradients(algorithm, batch), loss_gradients(twin, other), rtol=1e-4, atol=1e-5)
        algorithm.observe(a.obs, a.valid)
        twin.observe(b.obs, b.valid)


def test_first_update_has_ratio_one() -> None:
    algorithm, (rollout, _) = collect(ENVS["walk"](), normalize_advantage=False)
    (_, batch), *_ = batches(algorithm, rollout)
    counts = batch.weight.bool()
    metrics = algorithm.update(batch).metrics
    expected = -batch.advantage[counts].mean()
    torch.testing.assert_close(metrics["policy_gradient_loss"], expected, rtol=1e-5, atol=1e-5)
    assert metrics["approx_kl"].item() == pytest.approx(0, abs=1e-6)
    assert metrics["clip_fraction"].item() == 0
    assert algorithm.update(batch).metrics["approx_kl"].item() > 1e-8


def test_rows_that_only_reset_have_no_weight() -> None:
    algorithm, (rollout, _) = collect(ENVS["rows that only reset"]())
    assert not rollout.valid.all()
    weight = sum(batch.weight.sum() for _, batch in batches(algorithm, rollout))
    assert weight == rollout.valid.sum()


def ids(module: torch.nn.Module) -> set[int]:
    return {id(parameter) for parameter in module.parameters()}


def test_what_is_shared_is_shared_and_what_is_not_is_not() -> None:
    spec = ENVS["walk"]().spec
    separate, shared = make(spec), make(spec, shared_lstm=True)
    assert not ids(separate.policy.core) & ids(separate.value_core)
    assert ids(shared.policy.core) == ids(shared.value_core)
    for algorithm in (separate, shared):
        stepped = [id(parameter) for parameter in algorithm.optimizers["all"].targets]
        assert len(stepped) == len(set(stepped))
        assert set(stepped) == ids(algorithm)


@torch.no_grad()
def test_a_saved_algorithm_goes_on_with_its_critics_memory() -> None:
    algorithm, rollouts = collect(ENVS["walk"]())
    algorithm.prepare(rollouts[0])
    algorithm.observe(rollouts[0].obs, rollouts[0].valid)
    state = copy.deepcopy(algorithm.state_dict())
    restored = make(algorithm.spec)
    restored.load_state_dict(state)
    assert all(map(torch.equal, *(tree_leaves(one.prepare(rollouts[1])[0]) for one in (restored, algorithm))))


def test_the_normaliser_learns_after_the_update() -> None:
    algorithm, (rollout, _) = collect(ENVS["masked"](), normalize_observation=True)
    (norm,) = algorithm.policy.normalizer.norms
    for _, batch in batches(algorithm, rollout):
        algorithm.update(batch)
    assert norm.count.item() == 0
    algorithm.observe(rollout.obs, rollout.valid)
    assert norm.count.item() == 160


def test_a_batch_that_is_not_finite_sets_failed_and_changes_nothing() -> None:
    algorithm, (rollout, _) = collect(ENVS["walk"]())
    (_, batch), *_ = batches(algorithm, rollout)
    batch.advantage[0, 0] = torch.nan
    before = {name: parameter.detach().clone() for name, parameter in algorithm.named_parameters()}
    algorithm.update(batch)
    assert algorithm.failed
    assert all(torch.equal(value, before[name]) for name, value in algorithm.named_parameters())


def test_defaults_that_matter() -> None:
    c = RecurrentPPOConfig()
    assert (c.needs.settings["n_steps"], c.batch_size, c.n_epochs, c.gamma, c.gae_lambda) == (128, 128, 10, 0.99, 0.95)
    assert (c.cell, c.lstm_hidden_size, c.n_lstm_layers, c.shared_lstm) == ("lstm", 256, 1, False)
    assert c.learning_rate.at(0) == 3e-4
    assert make(ENVS["walk"]().spec).passes() == (Pass(10, 40, sequences=True, one_graph=False),)

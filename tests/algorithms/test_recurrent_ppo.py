"""RecurrentPPO: replaying a rollout gives back what collecting it gave, whatever ended inside it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from rl_training.algorithms import RecurrentPPOAlgorithm, RecurrentPPOConfig
from rl_training.core import Pass, Transition, tree_leaves, tree_map
from tests.algorithms.walks import (
    CORES,
    ENVS,
    NUM_ENVS,
    batches,
    collect,
    every_core,
    every_env,
    has_ends_of_both_kinds,
    make,
)


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
        outputs = algorithm.value_core(algorithm.critic_features(obs), algorithm.value_core.initial(1))
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


@every_core
@torch.no_grad()
def test_pieces_that_are_cut_for_small_batches_go_on_from_the_memory_of_their_step(core: dict) -> None:
    algorithm, rollouts = collect(ENVS["walk"](), **core)
    for rollout in rollouts:
        found = batches(algorithm, rollout, size=4)
        assert len(found) == round(rollout.reward.numel() / 4)  # as many updates as sb3-contrib takes
        for index, batch in found:
            assert index.shape[0] <= 4
            there, log_prob = index >= 0, algorithm.batch_distribution(batch).log_prob(batch.action)
            torch.testing.assert_close(log_prob[there], batch.log_prob[there], rtol=0, atol=1e-5)
            torch.testing.assert_close(algorithm.batch_value(batch)[there], batch.value[there], rtol=0, atol=1e-5)
        assert sum(int((index >= 0).sum()) for index, _ in found) == rollout.reward.numel()
        algorithm.observe(rollout.obs, rollout.valid)


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


def test_defaults_that_matter() -> None:
    c = RecurrentPPOConfig()
    assert (c.needs.settings["n_steps"], c.batch_size, c.n_epochs, c.gamma, c.gae_lambda) == (128, 128, 10, 0.99, 0.95)
    assert (c.cell, c.lstm_hidden_size, c.n_lstm_layers, c.shared_lstm) == ("lstm", 256, 1, False)
    assert c.learning_rate.at(0) == 3e-4
    assert make(ENVS["walk"]().spec).passes() == (Pass(10, 40, sequences=True, one_graph=False),)

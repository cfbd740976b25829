"""`Policy.decide`: from an environment's observation to its action, in one call that can leave the library."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import rl_training
from rl_training import Agent
from rl_training.core import Policy, Spec, UniformPolicy, tree_map
from rl_training.envs.spaces import convert_spec

OBS = {
    "numbers": spaces.Box(-2.0, 2.0, (3,), np.float64),
    "table": spaces.Box(-2.0, 2.0, (2, 2), np.float32),
    "choice": spaces.Discrete(4, start=3),
    "choices": spaces.MultiDiscrete([2, 3]),
    "masked": spaces.Dict({"x": spaces.Box(-2.0, 2.0, (3,), np.float32), "action_mask": spaces.MultiBinary(3)}),
    "picture": spaces.Dict({"eye": spaces.Box(0, 255, (36, 36, 1), np.uint8), "gear": spaces.Discrete(3, start=-1)}),
}
ACTIONS = {
    "floats": spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64),
    "matrix": spaces.Box(-1.0, 3.0, (2, 2), np.float32),
    "whole": spaces.Box(0, 9, (2,), np.int16),
    "choice": spaces.Discrete(3, start=5),
    "short choice": spaces.Discrete(3, dtype=np.int32),
    "choices": spaces.MultiDiscrete([2, 3], dtype=np.int32),
    "bits": spaces.MultiBinary(3),
}
REPLAY = {"buffer_size": 64, "batch_size": 8, "learning_starts": 8, "net_arch": [8]}
CASES = [
    *[("PPO", {}, "numbers", action) for action in ACTIONS],
    *[("PPO", {}, obs, "choice") for obs in OBS],
    ("RecurrentPPO", {"lstm_hidden_size": 8}, "numbers", "choices"),
    ("DQN", REPLAY, "masked", "choice"),
    ("IQN", REPLAY | {"n_quantiles": 4, "n_samples": 4}, "choice", "short choice"),
    ("RainbowDQN", REPLAY, "choices", "choice"),
    ("PQN", {"net_arch": [8], "layer_norm": False}, "numbers", "short choice"),
    ("DiscreteSAC", REPLAY, "masked", "choice"),
    ("SAC", REPLAY, "numbers", "floats"),
    ("SAC", REPLAY, "choice", "matrix"),
    ("TQC", REPLAY, "table", "whole"),
    ("CrossQ", REPLAY | {"critic_net_arch": [8]}, "numbers", "floats"),
    ("TD3", REPLAY, "table", "floats"),
    ("DDPG", REPLAY | {"action_noise": "ou"}, "numbers", "whole"),
]
ROWS = 40


class Sampled(gym.Env):
    """Observes at random."""

    def __init__(self, obs: str, action: str) -> None:
        self.observation_space, self.action_space = OBS[obs], ACTIONS[action]

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return sample(self.observation_space), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        return sample(self.observation_space), 0.0, False, True, {}


def sample(space: gym.Space) -> Any:
    obs = space.sample()
    if isinstance(obs, dict) and "action_mask" in obs:
        obs["action_mask"][0] = 1  # at least one is allowed
    return obs


def make(name: str, settings: dict, obs: str, action: str, *, even: bool = False) -> Agent:
    """An agent whose decisions depend on what it sees; `even` keeps the size of numbers from layer to layer."""
    rollout = {} if "buffer_size" in settings else {"n_steps": 8, "batch_size": 8}
    small = {"seed": 3, "normalize_observation": True, **rollout, **settings}
    agent = getattr(rl_training, name)(lambda: Sampled(obs, action), **small)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in agent.algorithm.policy.parameters():
            inputs = parameter.numel() / len(parameter) if even and parameter.ndim > 1 else 1
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / inputs**0.5)
    seen = tree_map(torch.from_numpy, observations(obs, seed=9))
    policy = agent.algorithm.policy
    agent.algorithm.policy.normalizer.update(policy.from_env(seen), torch.ones(ROWS, dtype=torch.bool))
    return agent


def observations(name: str, seed: int = 2) -> Any:
    """[ROWS, ...] as environments give them."""
    space = OBS[name]
    space.seed(seed)
    rows = [sample(space) for _ in range(ROWS)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([row[key] for row in rows]) for key in space.spaces}
    return np.stack(rows)


def ids(case: tuple) -> str:
    return f"{case[0]} {case[2]} to {case[3]}"


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_decide_is_what_predict_says_and_the_environment_can_take(case: tuple) -> None:
    agent, space = make(*case), ACTIONS[case[3]]
    raw = observations(case[2])
    predicted, state = agent.predict(raw)
    action, memory = agent.algorithm.policy.decide(tree_map(torch.from_numpy, raw))
    assert action.numpy().dtype == predicted.dtype == space.dtype
    np.testing.assert_array_equal(action.numpy(), predicted)
    assert len(memory) == len(state or ())
    assert all(space.contains(row) for row in predicted)
    assert len(np.unique(predicted, axis=0)) > 1
    if isinstance(raw, dict) and "action_mask" in raw:
        assert raw["action_mask"][np.arange(ROWS), predicted - space.start].all()
        assert not raw["action_mask"].all()
    one = {key: leaf[3] for key, leaf in raw.items()} if isinstance(raw, dict) else raw[3]
    np.testing.assert_allclose(agent.predict(one)[0], predicted[3], rtol=1e-4)  # one row may round differently


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[13], CASES[17]], ids=ids)
def test_exploring_decisions_are_those_of_act(case: tuple) -> None:
    policy = make(*case).algorithm.policy
    raw = tree_map(torch.from_numpy, observations(case[2]))
    with torch.no_grad():
        torch.manual_seed(0)
        action = policy.decide(raw, explore=True).action
        torch.manual_seed(0)
        act = policy.act(policy.from_env(raw), policy.initial_memory(ROWS))
    assert torch.equal(action, policy.to_env(act.action))
    assert not torch.equal(action, policy.decide(raw).action)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_what_a_policy_prefers_is_its_action_without_exploration(case: tuple) -> None:
    policy = make(*case).algorithm.policy
    seen = policy.from_env(tree_map(torch.from_numpy, observations(case[2])))
    with torch.no_grad():
        preferred = policy.prefer(seen, policy.initial_memory(ROWS))
        act = policy.act(seen, policy.initial_memory(ROWS), explore=False)
    assert torch.equal(preferred.action, act.action)
    assert all(torch.equal(a, b) for a, b in zip(preferred.memory, act.memory, strict=True))


def set_output(policy: Policy, output: list[float]) -> None:
    """The policy's last layer says this whatever it sees."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
        last = list(policy.parameters())[-1]
        last.copy_(torch.tensor(output).view(last.shape))


KNOWN = [  # what the last layer says, and what the environment is told
    ("PPO", "numbers", "floats", [7.0, -3.0], [2.0, 0.0]),  # clipped
    ("PPO", "numbers", "whole", [2.6, 40.0], [3, 9]),  # rounded, clipped
    ("PPO", "numbers", "choice", [0.0, 3.0, 1.0], 6),
    ("PPO", "choice", "short choice", [0.0, 3.0, 4.0], 2),
    ("PPO", "numbers", "choices", [0.0, 1.0, 5.0, 4.0, 3.0], [1, 0]),
    ("PPO", "numbers", "bits", [1.0, -1.0, 2.0], [1, 0, 1]),
    ("SAC", "numbers", "floats", [0.0, 99.0, 0.0, 0.0], [0.0, 10.0]),  # mean and deviation; the middle, the bound
    ("TD3", "numbers", "floats", [-99.0, 0.0], [-2.0, 5.0]),
    ("DDPG", "numbers", "matrix", [0.0, 99.0, -99.0, 0.0], [[1.0, 3.0], [-1.0, 1.0]]),
    ("DQN", "choice", "choice", [1.0, 0.0, 5.0], 7),
]


@pytest.mark.parametrize(("name", "obs", "action", "output", "told"), KNOWN)
def test_known_decisions(name: str, obs: str, action: str, output: list[float], told: Any) -> None:
    settings = {} if name == "PPO" else REPLAY
    policy = make(name, settings, obs, action).algorithm.policy
    set_output(policy.head.net if name == "PPO" else policy.network, output)
    raw = tree_map(torch.from_numpy, observations(obs))
    decided = policy.decide(raw).action
    assert decided.tolist() == [told] * ROWS


@pytest.mark.parametrize(("mask", "told"), [([1, 1, 1], 6), ([1, 0, 1], 7), ([1, 0, 0], 5)])
@pytest.mark.parametrize("name", ["PPO", "DQN", "DiscreteSAC"])
def test_a_mask_forbids(name: str, mask: list[int], told: int) -> None:
    policy = make(name, {} if name == "PPO" else REPLAY, "masked", "choice").algorithm.policy
    set_output(policy.network if name == "DQN" else policy.head.net, [0.0, 3.0, 1.0])
    raw = {"x": torch.zeros(1, 3), "action_mask": torch.tensor([mask], dtype=torch.int8)}
    assert policy.decide(raw).action.tolist() == [told]


def test_random_actions_are_in_the_environments_units() -> None:
    space = ACTIONS["floats"]
    spec = convert_spec(OBS["numbers"], space)
    torch.manual_seed(0)
    action = UniformPolicy(spec).decide(torch.zeros(500, 3)).action.numpy()
    assert all(space.contains(row) for row in action)
    np.testing.assert_allclose(action.mean(0), [0.0, 5.0], atol=0.3)
    choice = UniformPolicy(Spec(spec.obs, convert_spec(OBS["numbers"], ACTIONS["choice"]).action))
    assert set(choice.decide(torch.zeros(100, 3)).action.tolist()) == {5, 6, 7}


WRONG = [  # space, what is handed over, what is said
    ("numbers", np.zeros((1, 3)), "the observation is a ndarray: give a tensor"),
    ("numbers", [[0.0, 0.0, 0.0]], "the observation is a list: give a tensor"),
    ("numbers", torch.zeros(2, 4), "the observation has the shape (2, 4): it must be (rows, 3)"),
    ("numbers", torch.zeros(3), "the observation has the shape (3,): it must be (rows, 3); obs[None] makes one row"),
    ("choice", torch.tensor(3), "the observation has the shape (): it must be (rows); obs[None] makes one row"),
    ("numbers", torch.tensor([[0.0, float("nan"), 0.0]]), "the observation is not finite"),
    ("masked", torch.zeros(1, 3), "the observation must be a dict with the keys ['action_mask', 'x'], not Tensor"),
    ("masked", {"x": torch.zeros(1, 3)}, "must be a dict with the keys ['action_mask', 'x'], not ['x']"),
    ("masked", {"x": torch.full((1, 3), torch.inf), "action_mask": torch.ones(1, 3)}, "observation['x'] is not finite"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_no_observation_is_answered_with_a_sentence(number: int) -> None:
    space, given, sentence = WRONG[number]
    policy = UniformPolicy(convert_spec(OBS[space], ACTIONS["choice"]))
    with pytest.raises(ValueError, match=re.escape(sentence)):
        policy.decide(given)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_memory_goes_round(cell: str) -> None:
    policy = make("RecurrentPPO", {"lstm_hidden_size": 8, "cell": cell}, "numbers", "choices").algorithm.policy
    rows = torch.from_numpy(observations("numbers")).view(8, 5, 3)
    memory: tuple = ()
    ours = policy.initial_memory(5)
    starts = torch.tensor([False, True, False, False, True])
    for step, obs in enumerate(rows):
        first = starts if step == 4 else None
        action, memory = policy.decide(obs, memory, first)
        act = policy.act(obs.float(), ours, first, explore=False)
        ours = act.memory
        assert torch.equal(action, act.action.int())
        assert all(torch.equal(a, b) for a, b in zip(memory, ours, strict=True))
    afresh = policy.decide(rows[0])
    assert not torch.equal(afresh.memory[0], policy.decide(rows[0], memory).memory[0])


EXPORTED = [CASES[0], CASES[11], CASES[15], CASES[19]]
MORE = [pytest.param(case, marks=pytest.mark.slow) for case in (CASES[5], CASES[14], CASES[22], CASES[24])]


@pytest.mark.parametrize("case", [*EXPORTED, *MORE], ids=ids)
def test_a_policy_is_exported_as_one_graph(case: tuple) -> None:
    policy = make(*case).algorithm.policy
    raw = tree_map(torch.from_numpy, observations(case[2]))
    few = tree_map(lambda leaf: leaf[:5], raw)
    rows = torch.export.Dim("rows", min=2, max=1000)
    program = torch.export.export(policy, (few,), dynamic_shapes=(tree_map(lambda _: {0: rows}, few),), strict=True)
    decided = program.module()(raw)
    assert torch.equal(decided[0], policy.decide(raw).action)
    torch.export.save(program, io.BytesIO())


WITHOUT_THE_LIBRARY = """
import sys, torch
sys.modules["rl_training"] = None  # an import of it fails
for folder in sys.argv[1:]:
    decided = torch.export.load(f"{folder}/policy.pt2").module()(*torch.load(f"{folder}/arguments.pt"))
    torch.save(decided, f"{folder}/decided.pt")
"""


def test_an_exported_policy_runs_where_the_library_is_not(tmp_path: Path) -> None:
    cases = {"dict observations": CASES[11], "memory": CASES[13]}
    folders, wanted = [tmp_path / name for name in cases], []
    for folder, case in zip(folders, cases.values(), strict=True):
        folder.mkdir()
        policy = make(*case).algorithm.policy
        raw = tree_map(torch.from_numpy, observations(case[2]))
        arguments = (raw, policy.initial_memory(ROWS))
        torch.export.save(torch.export.export(policy, arguments), folder / "policy.pt2")
        torch.save(arguments, folder / "arguments.pt")
        wanted.append(policy.decide(*arguments))
    subprocess.run([sys.executable, "-c", WITHOUT_THE_LIBRARY, *map(str, folders)], check=True)
    for folder, (action, memory) in zip(folders, wanted, strict=True):
        found = torch.load(folder / "decided.pt")
        assert torch.equal(found[0], action)
        assert all(torch.equal(a, b) for a, b in zip(found[1], memory, strict=True))


@pytest.mark.parametrize("case", CASES[::3], ids=ids)
def test_a_policy_moves_as_a_whole(case: tuple) -> None:
    policy = make(*case).algorithm.policy
    assert policy.device == torch.device("cpu")
    policy.to("meta")
    everything = [*policy.parameters(), *policy.buffers()]
    assert policy.device.type == "meta"
    assert {tensor.device.type for tensor in everything} == {"meta"}
    raw = tree_map(lambda leaf: torch.from_numpy(leaf).to("meta"), observations(case[2]))
    assert policy.decide(raw).action.device.type == "meta"


def test_a_converter_elsewhere_does_not_move_the_policy() -> None:
    policy = make(*CASES[0]).algorithm.policy
    moved = policy.to_env.on("meta")
    assert moved.low.device.type == "meta"
    assert policy.to_env.low.device.type == policy.device.type == "cpu"


STORED = {  # what checkpoints of version 0.1 hold of a policy
    "PPO": "head.log_std head.net.weight0 head.net.bias0 head.net.weight1 head.net.bias1 head.net.weight2 head.net.bias2",
    "SAC": "network.net.weight0 network.net.bias0 network.net.weight1 network.net.bias1",
    "TD3": "network.net.weight0 network.net.bias0 network.net.weight1 network.net.bias1",
}
NORM = "normalizer.norms.0.mean normalizer.norms.0.var normalizer.norms.0.count"


@pytest.mark.parametrize("name", STORED)
def test_conversion_adds_nothing_to_a_stored_policy(name: str) -> None:
    policy = make(name, {} if name == "PPO" else REPLAY, "numbers", "floats").algorithm.policy
    assert set(policy.state_dict()) == set(f"{STORED[name]} {NORM}".split())


def test_a_policy_is_called_as_it_decides() -> None:
    policy = make(*CASES[0]).algorithm.policy
    raw = torch.from_numpy(observations("numbers"))
    assert isinstance(policy, nn.Module)
    action, memory = policy(raw)
    assert torch.equal(action, policy.decide(raw).action)
    assert memory == ()

"""`obs_groups`: what the policy sees and what the critic sees, from the settings to a saved policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

import rl_training
from rl_training import PPO, SAC, Agent, Callback, ConfigError, Dataset, EvalResult, load
from rl_training.core import Dict, Groups, Spec
from rl_training.envs.spaces import convert_spec
from rl_training.runtime import Trainer
from tests.conformance import probes

GROUPS = {"policy": ["position"], "critic": ["position", "state"]}
SMALL = {"seed": 1, "n_envs": 2, "threads": 1, "compile": False, "normalize_observation": True, "obs_groups": GROUPS}
ROLLOUT = SMALL | {"n_steps": 16, "batch_size": 16}
REPLAY = SMALL | {"buffer_size": 64, "batch_size": 8, "learning_starts": 16, "train_freq": 4, "net_arch": [8]}
BOX, CHOICE = probes.ContinuousPrivileged, probes.Privileged
METHODS: dict[str, tuple[type, dict]] = {
    "PPO": (CHOICE, ROLLOUT),
    "A2C": (BOX, SMALL | {"n_steps": 16}),
    "TRPO": (BOX, ROLLOUT),
    "RecurrentPPO": (CHOICE, ROLLOUT | {"lstm_hidden_size": 8}),
    "SAC": (BOX, REPLAY),
    "TQC": (BOX, REPLAY),
    "CrossQ": (BOX, REPLAY | {"critic_net_arch": [8]}),
    "TD3": (BOX, REPLAY),
    "DiscreteSAC": (CHOICE, REPLAY),
}
OBS = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]


def make(name: str, **changes: object) -> Agent:
    env, settings = METHODS[name]
    return getattr(rl_training, name)(env, **settings | changes)


QUICK = ("PPO", "RecurrentPPO", "SAC", "DiscreteSAC")
LONG = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *LONG])
def test_a_policy_acts_without_what_the_critic_sees(name: str, tmp_path: Path) -> None:
    agent = make(name)
    agent.learn(48, progress=False)
    for wrong, named in (({"state": OBS}, r"not \['state'\]"), ({}, "not an empty one")):
        with pytest.raises(ConfigError, match=named):
            agent.predict(wrong)
    action, _ = agent.predict({"position": OBS})
    assert np.array_equal(agent.predict({"position": OBS, "state": OBS})[0], action)
    seen = {"position": torch.from_numpy(OBS)}
    policy = agent.algorithm.policy
    with torch.no_grad():
        assert np.array_equal(policy.decide(seen).action.numpy(), action)
        assert len(policy.act(seen, policy.initial_memory(len(OBS))).action) == len(OBS)
    assert set(policy.spec.obs.spaces) == {"position"}
    agent.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.spec.groups == Groups(("position",), ("position", "state"))
    assert np.array_equal(again.predict({"position": OBS})[0], action)
    agent.learn(96, progress=False)
    again.learn(96, progress=False)
    for ours, theirs in zip(agent.algorithm.parameters(), again.algorithm.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_every_leaf_has_one_normaliser_and_the_policy_has_only_its_own(name: str) -> None:
    agent = make(name)
    agent.learn(48, progress=False)
    algorithm = agent.algorithm
    assert algorithm.policy.normalizer.names == ["position"]
    assert algorithm.privileged.names == ["state"]
    obs = {"position": torch.zeros(1, 1), "state": torch.zeros(1, 1)}
    before = algorithm.critic_view(obs)
    algorithm.observe({key: torch.full((99, 1), 0.5) for key in obs}, torch.ones(99, dtype=torch.bool))
    after = algorithm.critic_view(obs)
    assert all(after[key] < before[key] - 0.1 for key in obs)
    assert not any("privileged" in key for key in algorithm.policy.state_dict())


def test_without_groups_nothing_is_added_to_a_state() -> None:
    whole = set(make("SAC", obs_groups={}).algorithm.state_dict())
    assert not any("privileged" in key for key in whole)


def test_groups_of_all_keys_are_no_groups() -> None:
    all_keys = {"policy": ["state", "position"], "critic": ["position", "state"]}
    agents = [make("PPO", obs_groups=groups) for groups in ({}, all_keys)]
    for agent in agents:
        agent.learn(64, progress=False)
    ours, theirs = (dict(agent.algorithm.named_parameters()) for agent in agents)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


class Mean(nn.Module):
    """An encoder that looks at whatever it is given."""

    def __init__(self, space: Dict) -> None:
        super().__init__()
        self.features_dim = len(space.spaces)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return torch.cat(list(obs.values()), -1)


def test_an_encoder_of_ones_own_gets_its_groups_keys() -> None:
    agent = make("PPO", encoder=Mean)
    agent.learn(32, progress=False)
    assert agent.predict({"position": OBS})[0].shape == (len(OBS),)
    assert agent.algorithm.value_trunk.features_dim == 2


def test_the_mask_is_everybodys() -> None:
    groups = {"policy": ["observation"], "critic": ["observation"]}
    agent = PPO(probes.Masked, obs_groups=groups, n_steps=16, batch_size=16)
    agent.learn(32, progress=False)  # a forbidden action is an error there
    assert set(agent.algorithm.policy.spec.obs.spaces) == {"observation", "action_mask"}


class Evaluations(Callback):
    """Keeps what evaluations said of values."""

    def __init__(self, seen: list[dict]) -> None:
        self.seen = seen

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        self.seen.append(result.health)


def test_values_are_not_compared_where_the_critic_cannot_see() -> None:
    """Evaluations during training, in an environment that has the policy's keys only."""
    agent = make(
        "SAC", evaluation={"interval": 32, "episodes": 2, "env": {"id": "tests.conformance.probes:ContinuousUntold"}}
    )
    seen: list[dict] = []
    agent.learn(64, progress=False, callbacks=Evaluations(seen))
    assert len(seen) == 2
    assert not any("q_bias" in health for health in seen)
    assert all("td_error" in health for health in seen)


def test_groups_of_a_dataset() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 1)).astype(np.float32)
    spec = convert_spec(BOX().observation_space, BOX().action_space)
    data = Dataset.from_arrays(
        obs={"position": rows, "state": rows},
        action=rows.clip(-1, 1),
        reward=rows[:, 0],
        terminated=np.ones(60, bool),
        truncated=np.zeros(60, bool),
        spec=spec,
    )
    agent = SAC(dataset=data, obs_groups=GROUPS, net_arch=[8])
    agent.learn(total_updates=5, progress=False)
    assert agent.predict({"position": OBS})[0].shape == (len(OBS), 1)


def refused(env: object, kind: type = PPO, **settings: object) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (its text is what the tests look at)
        kind(env, **settings)
    return str(caught.value)


def test_refusals() -> None:
    unknown = refused(CHOICE, obs_groups={"policy": ["positon"]})
    assert unknown == (
        "env.obs_groups.policy names 'positon', which this environment does not observe: did you mean 'position'?"
    )
    assert "names keys of Dict observations, and this environment observes a Box" in refused(
        "CartPole-v1", obs_groups=GROUPS
    )
    assert "names 'state' twice: name it once" in refused(CHOICE, obs_groups={"critic": ["state", "state"]})
    assert "leaves nothing to see" in refused(probes.Masked, obs_groups={"policy": ["action_mask"]})
    assert "env.obs_groups.actor is not a setting" in refused(CHOICE, obs_groups={"actor": ["position"]})
    assert "net_arch.shared=[8] are layers that policy and critic share" in refused(
        CHOICE, obs_groups=GROUPS, net_arch={"shared": [8]}
    )
    assert "algorithm.shared_lstm=true lets the critic read the policy's memory" in refused(
        CHOICE, rl_training.RecurrentPPO, obs_groups=GROUPS, shared_lstm=True
    )
    elsewhere = refused(CHOICE, evaluation={"env": {"obs_groups": GROUPS}})
    assert "evaluation.env.obs_groups: who sees what is settled in training" in elsewhere


@pytest.mark.parametrize("name", ["DQN", "RainbowDQN", "PQN", "BC", "DiscreteCQL", "BCQ", "BEAR"])
def test_methods_of_one_network_say_why_not(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(ConfigError, match="has no critic apart from its policy, so there is nobody to see more"):
        getattr(rl_training, name)(CHOICE, obs_groups=GROUPS, run_dir=folder)
    assert not folder.exists()


def test_other_groups_are_other_networks(tmp_path: Path) -> None:
    make("PPO").save(tmp_path / "saved")
    with pytest.raises(
        ConfigError, match=r"env.obs_groups: the saved agent's policy sees Dict\(position: Box\(1,\) float32\)"
    ):
        load(tmp_path / "saved", obs_groups={"policy": ["state"]})
    other = make("PPO", obs_groups=GROUPS | {"policy": ["state"]})  # of the same shapes
    with pytest.raises(ConfigError, match=r"and this one's .*state.*: give it the same keys"):
        other.warm_start(tmp_path / "saved")
    make("PPO", seed=5).warm_start(tmp_path / "saved")


def test_a_spec_of_before_has_no_groups() -> None:
    spec = convert_spec(spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(3)}), spaces.Discrete(2))
    record = spec.to_json()
    del record["groups"]
    assert Spec.from_json(record).groups == Groups()
    grouped = Spec(spec.obs, spec.action, Groups(policy=("b",)))
    assert Spec.from_json(grouped.to_json()).groups == Groups(("b",), ())
    assert list(grouped.seen_by("policy").obs.spaces) == ["b"]
    assert grouped.seen_by("critic") is grouped
    assert list(grouped.privileged.spaces) == ["a"]
    assert spec.privileged == Dict({})

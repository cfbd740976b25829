"""Every method for teams is saved, loaded, paused and resumed without a bit changing, in every kind of team."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import rl_training
from rl_training import Agent
from rl_training.core.registry import ALGORITHMS
from rl_training.experiment.checkpoint import difference
from tests.conformance.test_life_cycle import final_state
from tests.relay import Relay

ROLLOUT = {"n_steps": 32, "batch_size": 64, "n_epochs": 2}
MEMORY = {"lstm_hidden_size": 8, "n_lstm_layers": 2}
REPLAY = {
    "buffer_size": 152, "learning_starts": 104, "batch_size": 16, "train_freq": 8, "gradient_steps": 2,
    "target_update_interval": 60, "net_arch": [16], "exploration_fraction": 0.5,
}  # fmt: skip
SPREAD, TALK, RELAY = "mpe/simple_spread", "mpe/simple_speaker_listener", Relay


@dataclass(frozen=True)
class TeamCase:
    """A method with small settings, and environments: those that it shares with others are tried by `make test-all`."""

    name: str
    settings: dict[str, object]
    envs: tuple[object, ...]

    def agent(self, env: object, **settings: object) -> Agent:
        common = {"seed": 0, "n_envs": 4, "threads": 1, "compile": False, "backend": "native"}
        return getattr(rl_training, self.name)(env, **common | self.settings | settings)


CASES = [
    TeamCase("IPPO", ROLLOUT | {"normalize_observation": True}, (RELAY, SPREAD, TALK)),
    TeamCase("MAPPO", ROLLOUT, (TALK, SPREAD, RELAY)),
    TeamCase("RecurrentIPPO", ROLLOUT | MEMORY, (RELAY, SPREAD, TALK)),
    TeamCase("RecurrentMAPPO", ROLLOUT | MEMORY | {"cell": "gru"}, (TALK, SPREAD, RELAY)),
    TeamCase("IndependentQ", REPLAY, (RELAY, SPREAD, TALK)),
    TeamCase("VDN", REPLAY | {"normalize_observation": True}, (TALK, SPREAD, RELAY)),
    TeamCase("QMIX", REPLAY, (RELAY, SPREAD, TALK)),
]
EVERYWHERE = [
    pytest.param(
        case,
        env,
        id=f"{case.name}-{env if isinstance(env, str) else 'relay'}",
        marks=[pytest.mark.slow] if number else [],
    )
    for case in CASES
    for number, env in enumerate(case.envs)
]


def test_every_method_for_teams_is_here() -> None:
    assert {case.name for case in CASES} == {entry.title for entry in ALGORITHMS.values() if entry.algorithm.teams}


@pytest.mark.parametrize(("case", "env"), EVERYWHERE)
def test_pause_save_load_and_go_on_equals_no_pause(case: TeamCase, env: object, tmp_path: Path) -> None:
    # Pauses lie in a rollout or between updates, and mostly in the middle of episodes.
    pause, total = (180, 300) if "buffer_size" in case.settings else (180, 320)
    straight = case.agent(env, total_timesteps=total)
    straight.learn(progress=False)
    paused = case.agent(env, total_timesteps=total)
    paused.learn(stop_at=pause, progress=False)
    paused.save(tmp_path / "model")
    resumed = rl_training.load(tmp_path / "model", trust=["tests"])
    assert type(resumed) is type(paused)
    assert resumed.evaluate(1, seed=5).columns == paused.evaluate(1, seed=5).columns
    obs = {
        key: np.random.default_rng(0).random((2, *space.shape)).round()
        for key, space in paused.algorithm.policy.spec.obs.spaces.items()
    }
    for name, action in paused.predict(obs)[0].items():
        np.testing.assert_array_equal(action, resumed.predict(obs)[0][name])
    assert resumed.learn(progress=False).resume == "exact"
    assert difference(final_state(straight), final_state(resumed)) is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_seed_decides_every_bit_and_evaluations_change_none(case: TeamCase) -> None:
    env = case.envs[0]
    first, other = (case.agent(env, seed=seed) for seed in (3, 4))
    evaluated = case.agent(env, seed=3, evaluation={"interval": 100, "episodes": 1})
    for agent in (first, other, evaluated):
        agent.learn(200, progress=False)
    assert difference(final_state(first), final_state(evaluated)) is None
    assert difference(first.snapshot().state["algorithm"], other.snapshot().state["algorithm"]) is not None


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("name", "settings"),
    [("IndependentQ", {"n_steps": 2, "prioritized": True}), ("QMIX", {"normalize_observation": True})],
)
def test_traced_updates_where_agents_wait_equal_eager_ones(name: str, settings: dict) -> None:
    case = next(case for case in CASES if case.name == name)
    agents = [case.agent(RELAY, compile=how, tau=0.5, **settings) for how in (False, True)]
    for agent in agents:
        agent.learn(128, progress=False)
    expected, found = (dict(agent.algorithm.named_parameters()) for agent in agents)
    for key, value in found.items():
        torch.testing.assert_close(value, expected[key], rtol=1e-4, atol=1e-5)

"""Every algorithm is saved, loaded, paused and resumed without a bit changing."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import rl_training
from rl_training import Agent
from rl_training.experiment.checkpoint import difference
from tests.conformance.cases import CASES, RELATED, SWITCHES, Case, named, parameters


class EnvSetup(NamedTuple):
    """An environment to be paused in; None is the algorithm's own choice."""

    env: str | None
    settings: dict[str, object]
    normalised: bool = False


every_algorithm = pytest.mark.parametrize("case", parameters(CASES, besides=SWITCHES))
ENV_SETUPS = {
    "gymnasium": EnvSetup("CartPole-v1", {}),
    "native": EnvSetup(None, {"backend": "native"}, normalised=True),
    "async": EnvSetup(None, {"vectorization": "async", "n_envs": 2}),
    "vector_entry_point": EnvSetup("CartPole-v1", {"vectorization": "vector_entry_point"}, normalised=True),
    "mujoco": EnvSetup("Hopper-v5", {}, normalised=True),
    "box2d": EnvSetup("LunarLander-v3", {}),
}


def final_state(agent) -> dict:
    """All but what a clock and evaluations write."""
    state = agent.snapshot().state
    written = ("wall_time", "best_return")
    return state | {"progress": {key: value for key, value in state["progress"].items() if key not in written}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loaded_agent_acts_the_same(case: Case, tmp_path: Path) -> None:
    agent = case.agent(case.home, **case.normalised)
    agent.learn(264, progress=False)
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model")
    assert type(loaded) is type(agent)
    obs = np.random.default_rng(0).normal(size=(64, 4 if case.acts_in == "discrete" else 3))
    np.testing.assert_array_equal(agent.predict(obs)[0], loaded.predict(obs)[0])
    assert agent.evaluate(1, seed=5).returns == loaded.evaluate(1, seed=5).returns


def resumes_always(case: Case, kind: str) -> bool:
    """Kinds of environments are about how steps arrive: one algorithm of each family, and the two plain kinds."""
    if case.name in RELATED or case.name in SWITCHES:
        return False
    return kind in ("gymnasium", "native") or case.name in ("PPO", "DQN", "SAC")


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, id=f"{kind}-{case.name}", marks=[] if resumes_always(case, kind) else pytest.mark.slow)
        for case in CASES
        for kind in case.resumes_in
    ],
)
def test_pause_save_load_and_go_on_equals_no_pause(case: Case, kind: str, tmp_path: Path) -> None:
    setup = ENV_SETUPS[kind]
    settings = setup.settings | (case.normalised if setup.normalised else {})
    assert_resumes_exactly(case, setup.env or case.home, settings, tmp_path)


def test_drifting_noise_goes_on_where_it_was(tmp_path: Path) -> None:
    (case,) = named("TD3")
    resumed = assert_resumes_exactly(case, "Pendulum-v1", {"action_noise": "ou", "action_noise_std": 2.0}, tmp_path)
    (noise,) = resumed.trainer.collector.memory
    assert noise.abs().min() > 0


def test_shifts_of_pictures_and_a_shared_encoder_go_on_where_they_were(tmp_path: Path) -> None:
    (case,) = named("SAC")
    pictures = {"backend": "native", "kwargs": {"size": 8}, "random_shift": 1, "share_features_extractor": True}
    resumed = assert_resumes_exactly(case, "PixelPendulum-v1", pictures, tmp_path)
    assert resumed.algorithm.policy.network.encoder is resumed.algorithm.critics.encoder


def assert_resumes_exactly(case: Case, env: str, settings: dict[str, object], folder: Path) -> Agent:
    # In the middle of a rollout or between two updates and, mostly, in the middle of episodes.
    pause, total = 300, 520
    if "buffer_size" in case.settings:
        pause, total, settings = 180, 300, settings | {"buffer_size": 152}  # full at both
    straight = case.agent(env, total_timesteps=total, **settings)
    straight.learn(progress=False)
    paused = case.agent(env, total_timesteps=total, **settings)
    paused.learn(stop_at=pause, progress=False)
    assert paused.trainer is not None
    assert paused.trainer.experience.wanted_steps > 0
    paused.save(folder / "model")
    resumed = type(paused).load(folder / "model")
    result = resumed.learn(progress=False)
    assert result.total_timesteps == total
    assert result.resume in ("exact", "replayed")
    assert difference(final_state(straight), final_state(resumed)) is None
    for agent in (straight, paused, resumed):
        agent.close()
    return resumed


def test_every_kind_of_environment_is_used_by_an_algorithm_of_each_family() -> None:
    for acts_in, impossible in (("any", set()), ("discrete", {"mujoco"}), ("box", {"vector_entry_point"})):
        used = {kind for case in CASES if case.acts_in == acts_in for kind in case.resumes_in}
        assert used == set(ENV_SETUPS) - impossible


def after(steps: int, case: Case, **settings: object) -> Agent:
    agent = case.agent("CartPole-v1", **settings)
    assert agent.learn(steps, progress=False).total_timesteps == steps
    return agent


@every_algorithm
def test_a_seed_decides_every_bit_and_evaluations_change_none_and_steps_are_counted(case: Case) -> None:
    replayed = "buffer_size" in case.settings
    steps, settings = (232, {"buffer_size": 152}) if replayed else (300, {})  # a rollout's updates, or 32
    first, other = (after(steps, case, seed=seed, **settings) for seed in (3, 4))
    evaluated = after(steps, case, seed=3, evaluation={"interval": 100, "episodes": 1}, **settings)
    assert difference(final_state(first), final_state(evaluated)) is None
    assert difference(first.snapshot().state["algorithm"], other.snapshot().state["algorithm"]) is not None
    assert first.learn(60, progress=False).total_timesteps == steps + 60

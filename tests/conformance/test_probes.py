"""Every algorithm solves every probe: a failure names what it gets wrong."""

from functools import partial

import numpy as np
import pytest
import torch

from rl_training import Agent
from rl_training.api.training import build_run
from rl_training.envs import NATIVE
from rl_training.envs.memory_tasks import TMaze
from tests.conformance.cases import CASES, OTHER_LOSSES, SWITCHES, Case, named, parameters, related
from tests.conformance.probes import (
    ActionReward,
    Bits,
    Choices,
    ConstantReward,
    ContinuousActionReward,
    ContinuousMatching,
    DelayedReward,
    Masked,
    Matching,
    ObservationReward,
    PictureReward,
    Pictures,
    Probe,
)

# Without a dataset RLPD is REDQ.
every_algorithm = pytest.mark.parametrize("case", parameters(CASES, besides=("RLPD",)))
# What a simple probe asks, a harder one asks of every algorithm too: the values of `test_reward_is_discounted_backwards`,
# the actions of Matching. Simple ones tell what is wrong; `make test` has them for one algorithm of each kind of actions.
SIMPLER = (ActionReward, ContinuousActionReward)
FAMILIES = ("DQN", "SAC")


def as_simple(case: Case) -> list[pytest.MarkDecorator]:
    return [] if case.name in FAMILIES else [pytest.mark.slow]


every_family = pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=as_simple(case)) for case in CASES],
)
every_chooser = pytest.mark.parametrize(
    "case", parameters([case for case in CASES if case.acts_in != "box"], besides=(*SWITCHES, *OTHER_LOSSES))
)


def takes_long(case: Case, probe: type) -> bool:
    """Tells whether another case shows the same sooner: PPO has the actions of other losses, and TRPO's network for pictures."""
    beside = {ContinuousMatching: "RLPD", Pictures: "TRPO", Bits: None, Choices: None}
    return probe in beside and case.name in (*OTHER_LOSSES, beside[probe])


def where_it_acts(argument: str, probes: tuple[type, ...]) -> pytest.MarkDecorator:
    """Every algorithm with every probe whose actions it can take; pictures where they are not another's."""
    pairs = [
        (case, probe)
        for case in CASES
        for probe in probes
        if (case.picture_steps if probe is Pictures else case.acts_in in ("any", ACTIONS[probe]))
    ]

    def marks(case: Case, probe: type) -> list[pytest.MarkDecorator]:
        if probe in SIMPLER:
            return as_simple(case)
        return [pytest.mark.slow] if takes_long(case, probe) else related(case)

    return pytest.mark.parametrize(
        ("case", argument), [pytest.param(c, p, id=f"{p.__name__}-{c.name}", marks=marks(c, p)) for c, p in pairs]
    )


ACTIONS = {
    ActionReward: "discrete",
    Matching: "discrete",
    ContinuousActionReward: "box",
    ContinuousMatching: "box",
    Bits: "several",
    Choices: "several",
}


def values(agent: Agent, *observations: float) -> np.ndarray:
    """What the critic says of each observation.

    A critic that needs a rollout, and perhaps its memory, is asked as training does: the average over one.
    """
    with torch.no_grad():
        direct = agent.algorithm.values(torch.tensor(observations).view(-1, 1))
    if direct is not None:
        return direct.numpy()
    trainer = build_run(agent).trainer
    experience, algorithm = trainer.experience, agent.algorithm
    experience.add(trainer.collector.collect(algorithm.policy, experience.wanted_steps))
    storage, _ = experience.prepare(algorithm)
    return np.array([storage.value[storage.obs[:, 0] == o].mean() for o in observations])


@every_family
def test_constant_reward_is_valued(case: Case) -> None:
    agent = case.agent(ConstantReward, **case.plain_values)
    agent.learn(case.probe_steps // 2, progress=False)
    np.testing.assert_allclose(values(agent, -1.0, 1.0), [1.0, 1.0], atol=0.1)


@every_family
def test_value_follows_the_observation(case: Case) -> None:
    agent = case.agent(ObservationReward, **case.plain_values)
    agent.learn(case.probe_steps // 2, progress=False)
    np.testing.assert_allclose(values(agent, -1.0, 1.0), [-1.0, 1.0], atol=0.1)


@every_algorithm
def test_reward_is_discounted_backwards(case: Case) -> None:
    agent = case.agent(DelayedReward, **case.plain_values)
    agent.learn(case.probe_steps, progress=False)
    np.testing.assert_allclose(values(agent, -1.0, 0.0, 1.0), [0.25, 0.5, 1.0], atol=0.1)


@where_it_acts("probe", (ActionReward, Matching, ContinuousActionReward, ContinuousMatching))
def test_right_action_is_found(case: Case, probe: type[Probe]) -> None:
    agent = case.agent(probe)
    agent.learn(case.probe_steps, progress=False)
    assert agent.evaluate(50).mean > 0.9 * probe.best


@where_it_acts("probe", (Bits, Choices, Pictures))
def test_every_kind_of_space_is_learned(case: Case, probe: type) -> None:
    agent = case.agent(probe, learning_rate=3e-3 if probe is not Pictures else 3e-4)
    agent.learn(case.probe_steps if probe is not Pictures else case.picture_steps, progress=False)
    assert agent.evaluate(50).mean > 0.95


def test_value_follows_the_picture() -> None:
    """Finding actions by pictures takes an actor and a critic longer than a test may last."""
    (case,) = named("SAC")
    agent = case.agent(PictureReward, learning_rate=1e-3, **case.plain_values)
    agent.learn(360, progress=False)
    pictures = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 36, 36, 1)
    with torch.no_grad():
        found = agent.algorithm.values({"camera": pictures, "side": torch.zeros(2, 1)})
    np.testing.assert_allclose(found, [0.0, 1.0], atol=0.1)


@every_chooser
def test_masked_actions_are_never_taken_and_the_best_allowed_one_is_found(case: Case) -> None:
    agent = case.agent(Masked)
    agent.learn(case.probe_steps, progress=False)  # the probe raises on a forbidden action
    assert agent.evaluate(50).mean > 3.8
    obs = {"observation": np.eye(3, dtype=np.float32)[1], "action_mask": np.array([1, 0, 1], np.int8)}
    chosen = {int(agent.predict(obs, deterministic=False)[0]) for _ in range(50)}
    assert 1 not in chosen


@every_chooser
def test_a_short_maze_is_solved_with_memory_and_only_with_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NATIVE, "ShortTMaze-v0", partial(TMaze, 3))
    agent = case.agent("ShortTMaze-v0", backend="native", gamma=0.9)
    has_memory = bool(agent.algorithm.policy.initial_memory(1))
    agent.learn(case.probe_steps if has_memory else case.probe_steps // 4, progress=False)
    success = agent.evaluate(200).mean
    if has_memory:
        assert success > 0.95
    else:
        assert success < 0.65  # one half at best, by any policy that sees only the present; 4 standard errors above

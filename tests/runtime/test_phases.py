"""Runs as lists of phases: each takes what its budget says, with what it names, and pauses anywhere without a trace."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml

import rl_training
from rl_training import DQN, PPO, RLPD, Agent, Callback, ConfigError
from rl_training.api.build import note_idle_phases
from rl_training.experiment.checkpoint import difference
from rl_training.experiment.lineage import moved_schedules
from rl_training.functional import ENDED
from rl_training.runtime import Progress
from tests.offline import QUICK, REPLAY, RLPD_SETTINGS, cloned, counted, cql, rlpd, steps_of

CRITIC_FIRST = [
    {"updates": 40, "methods": ["update", "update_target"]},
    {"updates": 30},
    {"env_steps": 60},
]
EASIER = {"kwargs": {"g": 2.0}}
LESSONS = [{"env_steps": 50, "env": EASIER}, {"env_steps": 30}, {"env_steps": 20, "env": EASIER}]
ROLLOUT = {"n_steps": 8, "batch_size": 8, "n_epochs": 2, "n_envs": 2} | {
    k: QUICK[k] for k in ("seed", "threads", "compile")
}


def start(name: str) -> Agent:
    match name:
        case "critic first":
            return rlpd(phases=CRITIC_FIRST, normalize_observation=True)
        case "lessons, on-policy":
            return PPO("Pendulum-v1", phases=LESSONS, normalize_reward=True, **ROLLOUT)
    return rl_training.SAC("Pendulum-v1", phases=LESSONS, **REPLAY)


@cache
def finished(name: str) -> dict:
    agent = start(name)
    assert agent.learn(progress=False).status == "finished"
    return counted(agent)


@pytest.mark.parametrize(
    ("name", "pauses"),
    [
        ("critic first", [17, 40, 55, 70, 103]),
        ("lessons, on-policy", [21, 50, 67]),
        ("lessons, on-policy", [80, 91]),
        ("lessons, off-policy", [14, 50, 66, 80, 93]),
    ],
)
def test_a_run_of_phases_pauses_in_each_and_at_every_seam(name: str, pauses: list[int], tmp_path: Path) -> None:
    agent = start(name)
    for stop_at in pauses:
        assert agent.learn(stop_at=stop_at, progress=False).status == "paused"
        assert 0 <= agent.progress.timesteps - stop_at <= 1  # two environments
        agent.save(tmp_path / "model")
        agent.close()
        agent = type(agent).load(tmp_path / "model", dataset=agent.dataset)
    assert agent.learn(progress=False).status == "finished"
    agent.close()
    assert difference(finished(name), counted(agent)) is None


def test_only_the_methods_that_a_phase_names_run() -> None:
    agent = rlpd(phases=CRITIC_FIRST)
    actor, critic = (
        [p.clone() for p in part.parameters()] for part in (agent.algorithm.policy, agent.algorithm.critics)
    )
    agent.learn(stop_at=40, progress=False)
    assert all(torch.equal(a, b) for a, b in zip(actor, agent.algorithm.policy.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(critic, agent.algorithm.critics.parameters(), strict=True))
    agent.learn(stop_at=70, progress=False)
    assert not any(torch.equal(a, b) for a, b in zip(actor, agent.algorithm.policy.parameters(), strict=True))
    assert agent.progress.offline_updates == 70
    assert agent.num_timesteps == 0


class Gravity(Callback):
    """The environments that were stepped, and where phases changed."""

    def __init__(self) -> None:
        self.stepped: list[tuple[float, int]] = []
        self.seams: list[int] = []

    def on_steps(self, trainer, episodes) -> None:
        collector = trainer.plan.phases[self.phase].collector
        self.stepped.append((collector.env.envs[0].unwrapped.g, trainer.progress.env_steps))

    phase = 0

    def on_switch(self, trainer) -> None:
        self.seams.append(trainer.progress.env_steps)
        self.phase += 1


def test_every_phase_steps_its_own_environments() -> None:
    agent, seen = start("lessons, off-policy"), Gravity()
    agent.learn(callbacks=seen, progress=False)
    assert seen.seams == [50, 80]
    assert {g for g, at in seen.stepped if at <= 50 or at > 80} == {2.0}
    assert {g for g, at in seen.stepped if 50 < at <= 80} == {10.0}
    assert agent.trainer.plan.phases[0].collector is agent.trainer.plan.phases[2].collector
    assert [phase.collector.timesteps for phase in agent.trainer.plan.phases[:2]] == [70, 30]


def test_episodes_that_are_left_do_not_go_on_in_the_store() -> None:
    agent = start("lessons, off-policy")
    agent.learn(stop_at=52, progress=False)
    flags = agent.trainer.experience.ring.columns.flags.view(-1, 2)  # 25 steps, the last observation, one step
    assert (flags[:27] & ENDED != 0).any(1).nonzero().flatten().tolist() == [24]


SEAM = [{"env_steps": 60, "env": EASIER}, {"env_steps": 60}]


def at_the_seam(name: str, **settings: object) -> Agent:
    kind, own = (rl_training.SAC, REPLAY) if name == "SAC" else (PPO, ROLLOUT | {"n_steps": 16, "batch_size": 16})
    return kind(
        "Pendulum-v1",
        **{"phases": SEAM, "learning_rate": 1e-3} | {k: own[k] for k in own if k != "learning_rate"} | settings,
    )


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_a_seam_is_one_however_the_run_comes_to_it(name: str, tmp_path: Path) -> None:
    """Checkpoints at its step, a `learn` that goes on after the phases, and a run directory that is extended."""
    whole = at_the_seam(name)
    whole.learn(progress=False)
    saved = at_the_seam(name, run_dir=tmp_path / "saved", checkpoint={"interval": 60})
    saved.learn(stop_at=60, progress=False)
    resumed = type(saved).resume(tmp_path / "saved")
    resumed.learn(progress=False)
    longer = at_the_seam(name, phases=SEAM[:1])
    longer.learn(progress=False)
    longer.learn(60, progress=False)
    at_the_seam(name, phases=SEAM[:1], run_dir=tmp_path / "extended").learn(progress=False)
    extended = type(saved).resume(tmp_path / "extended", total_timesteps=120)
    extended.learn(progress=False)
    for agent in (resumed, longer, extended):
        found = dict(agent.algorithm.named_parameters())
        assert all(torch.equal(found[key], value) for key, value in whole.algorithm.named_parameters())


def test_other_phases_for_what_was_learned_bring_their_budget(tmp_path: Path) -> None:
    agent = at_the_seam("SAC", phases=SEAM[:1])
    agent.learn(progress=False)
    agent.save(tmp_path / "model")
    for steps in (20, 100):
        other = rl_training.load(tmp_path / "model", phases=[{"env_steps": steps}])
        assert other.learn(progress=False).total_timesteps == steps


@pytest.mark.parametrize("given", ["yaml", "python"])
def test_budgets_follow_from_the_phases(given: str, tmp_path: Path) -> None:
    if given == "yaml":
        data = tmp_path / "data.npz"
        steps_of("Pendulum-v1").save(data)
        config = {
            "algorithm": {"name": "rlpd", "net_arch": [8]},
            "env": {"id": "Pendulum-v1"},
            "data": {"path": str(data)},
            "phases": CRITIC_FIRST,
        }
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
        agent = RLPD.from_preset(str(tmp_path / "run.yaml"))
    else:
        agent = rlpd(phases=CRITIC_FIRST)
    training = agent.config.training
    assert (training.total_updates, training.total_timesteps, training.horizon) == (70, 60, 130)
    assert [(phase.unit, phase.budget) for phase in agent.config.phases] == [
        ("updates", 40),
        ("updates", 30),
        ("env_steps", 60),
    ]
    again = rl_training.RunConfig.from_mapping(agent.config.to_mapping())
    assert again == agent.config


def test_only_schedules_that_the_run_has_are_told_of() -> None:
    for settings, told in ({}, ["learning_rate"]), ({"prioritized": True}, ["learning_rate", "per_beta"]):
        old = rl_training.SAC("Pendulum-v1", **REPLAY | settings).config
        moved = moved_schedules(old, old.replace("training", total_timesteps=9), Progress())
        assert [text.partition(":")[0].removeprefix("algorithm.") for text in moved] == told


def test_further_budgets_come_after_the_phases() -> None:
    agent = rlpd(phases=[{"updates": 10}, {"env_steps": 30}])
    agent.learn(progress=False)
    agent.learn(20, progress=False)
    agent.learn(total_updates=5, progress=False)
    assert (agent.progress.offline_updates, agent.num_timesteps) == (15, 50)
    assert [(phase.unit, phase.budget) for phase in agent.trainer.plan.phases] == [
        ("updates", 10), ("env_steps", 30), ("updates", 5), ("env_steps", 20)
    ]  # fmt: skip


REFUSED = {
    "both": (
        {"phases": [{"updates": 5, "env_steps": 5}]},
        r"phases\[0\] has updates=5 and env_steps=5: give it one of them",
    ),
    "neither": ({"phases": [{}]}, r"phases\[0\] has updates=0 and env_steps=0"),
    "unknown": ({"phases": [{"steps": 5}]}, r"phases\[0\].steps is not a setting"),
    "no list": ({"phases": {"updates": 5}}, r"phases=.* must be a list"),
    "method": (
        {"phases": [{"updates": 5, "methods": ["actor"]}]},
        r"phases\[0\].methods: 'actor' is not a method of rlpd",
    ),
    "followers": (
        {"phases": [{"updates": 5, "methods": ["update_actor"]}]},
        r"lacks the method that they follow: add update",
    ),
    "text": (
        {"phases": [{"updates": 5, "methods": "update"}]},
        r"methods='update' must be a list, for example \[update\]",
    ),
    "twice": ({"phases": [{"updates": 5, "methods": ["update"] * 2}]}, r"phases\[0\].methods names 'update' twice"),
    "nothing": ({"phases": [{"updates": 5, "methods": []}]}, r"phases\[0\].methods=\[\] learns nothing"),
    "env of data": ({"phases": [{"updates": 5, "env": {"id": "X"}}]}, r"phases\[0\].env=.* step no environment"),
    "n_envs": (
        {"phases": [{"env_steps": 5, "env": {"n_envs": 3}}]},
        r"phases\[0\].env.n_envs: all phases step as many",
    ),
    "setting": ({"phases": [{"env_steps": 5, "env": {"kwarg": 3}}]}, r"phases\[0\].env.kwarg is not a setting"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        RLPD("Pendulum-v1", dataset=steps_of("Pendulum-v1"), **RLPD_SETTINGS | settings)


def test_a_budget_that_a_method_cannot_use_is_refused_by_its_field() -> None:
    with pytest.raises(
        ConfigError, match=r"phases\[1\].env_steps=5: bc learns from data alone, set phases\[1\].updates"
    ):
        cloned(phases=[{"updates": 5}, {"env_steps": 5}])
    with pytest.raises(ConfigError, match=r"phases\[0\].env_steps=5 needs an environment to step: name one"):
        cql(None, phases=[{"env_steps": 5}])
    with pytest.raises(ConfigError, match=r"phases\[0\].updates=5: ppo .* rollouts, set phases\[0\].env_steps instead"):
        PPO("Pendulum-v1", phases=[{"updates": 5}], **ROLLOUT)
    with pytest.raises(ConfigError, match=r"total_updates=5: ppo .* rollouts, set training.total_timesteps instead"):
        PPO("Pendulum-v1", **ROLLOUT).learn(total_updates=5)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda: dqn([{"env_steps": 96}, {"env_steps": 8}]),
            ["phases[0] takes 96 env steps and learns nothing: updates be"],
        ),
        (
            lambda: dqn([{"env_steps": 100}, {"env_steps": 3}]),
            ["phases[1] takes 3 env steps and learns nothing: updates c"],
        ),
        (lambda: dqn([{"env_steps": 100}, {"env_steps": 4}]), []),
        (
            lambda: dqn(None, total_timesteps=99),
            ["this run takes 99 env steps and learns nothing: updates begin at learn"],
        ),
        (
            lambda: dqn([{"env_steps": 100}], total_timesteps=102),
            ["what follows the phases takes 2 env steps and learns n"],
        ),
        (
            lambda: ppo([{"env_steps": 60}, {"env_steps": 8}]),
            ["phases[0] takes 60 env steps and learns nothing: no rollou"],
        ),
        (lambda: ppo([{"env_steps": 70}, {"env_steps": 70}]), []),
    ],
)
def test_what_takes_steps_and_learns_nothing_is_named(build: Callable[[], Agent], said: list[str], caplog) -> None:
    note_idle_phases(build().config, 0)
    assert [message[: len(start)] for message, start in zip(caplog.messages, said, strict=True)] == said
    caplog.clear()
    note_idle_phases(build().config, 10_000)  # all of it is over
    assert caplog.messages == []


def dqn(phases: list[dict] | None, **settings: object) -> Agent:
    return DQN("CartPole-v1", phases=phases or [], learning_starts=100, train_freq=4, **settings)


def ppo(phases: list[dict]) -> Agent:
    return PPO("CartPole-v1", phases=phases, n_steps=32, n_envs=2, batch_size=64)


def test_idle_phases_are_told_once_when_learning_begins(caplog) -> None:
    agent = dqn([{"env_steps": 8}, {"env_steps": 100}])
    agent.learn(stop_at=4, progress=False)
    agent.learn(stop_at=6, progress=False)
    assert [m for m in caplog.messages if "learns nothing" in m] == [
        "phases[0] takes 8 env steps and learns nothing: updates begin at learning_starts=100, lower it, or take more steps"
    ]


def test_further_steps_in_the_middle_of_phases() -> None:
    agent = rlpd(phases=[{"updates": 10}, {"env_steps": 30}, {"updates": 4}], n_envs=1)
    for asked, reached in (({"total_timesteps": 8}, (14, 8)), ({"total_timesteps": 30}, (14, 38))):
        agent.learn(**asked, progress=False)
        assert (agent.progress.offline_updates, agent.num_timesteps) == reached


def test_other_spaces_are_refused_before_the_first_step() -> None:
    agent = PPO("Pendulum-v1", phases=[{"env_steps": 20, "env": {"id": "CartPole-v1"}}], **ROLLOUT)
    with pytest.raises(
        ConfigError, match=r"phases\[0\].env.id='CartPole-v1' has observations .* use environments with the same spaces"
    ):
        agent.learn(progress=False)


class Counted(Callback):
    """When it is called, on both clocks."""

    def __init__(self, interval: int, unit: str) -> None:
        self.interval, self.unit, self.seen = interval, unit, []  # pyrefly: ignore (one of the units)

    def on_interval(self, trainer) -> None:
        self.seen.append((trainer.progress.offline_updates, trainer.progress.env_steps))


@pytest.mark.parametrize(
    ("unit", "seen"),
    [
        ("auto", [(20, 0), (40, 0), (50, 20), (50, 40)]),
        ("updates", [(20, 0), (40, 0)]),
        ("env_steps", [(50, 20), (50, 40)]),
    ],
)
def test_an_interval_counts_in_its_unit(unit: str, seen: list[tuple[int, int]]) -> None:
    callback = Counted(20, unit)
    cql(total_updates=50, total_timesteps=48).learn(callbacks=callback, progress=False)
    assert callback.seen == seen


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Counted.unit='steps' is not a unit: use 'env_steps', 'updates' or 'auto'"):
        cql(total_updates=5).learn(callbacks=Counted(2, "steps"), progress=False)


def test_what_a_phase_steps_is_named_where_it_stands() -> None:
    lessons = [{"env_steps": 20}, {"env_steps": 20, "env": {"kwargs": {"weight": 1}}}]
    agent = PPO("Pendulum-v1", phases=lessons, **ROLLOUT)
    with pytest.raises(ValueError, match=r"phases\[1\].env.kwargs=\{'weight': 1\} was refused"):
        agent.learn(progress=False)

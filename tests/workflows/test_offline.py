"""Runs from data: one loop, one clock, exact pauses in either phase."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rl_training import Agent, Callback
from rl_training.experiment.checkpoint import difference
from tests.offline import cloned, counted, cql, rlpd, state_of, steps_of


class Watch(Callback):
    """Everything that a callback is told, and when."""

    def __init__(self, interval: int | None = None) -> None:
        self.interval = interval
        self.clock: list[int] = []
        self.intervals: list[int] = []
        self.logs: list[tuple[int, dict]] = []
        self.progress: list[float] = []

    def on_start(self, trainer) -> None:
        set_progress = trainer.algorithm.set_progress

        def remember(progress: float) -> None:
            self.progress.append(progress)
            set_progress(progress)

        trainer.algorithm.set_progress = remember

    def on_steps(self, trainer, episodes) -> None:
        self.clock.append(trainer.progress.timesteps)

    def on_interval(self, trainer) -> None:
        self.intervals.append(trainer.progress.timesteps)

    def on_log(self, trainer, metrics) -> None:
        self.logs.append((trainer.progress.timesteps, metrics))


def test_a_run_from_data_alone_counts_updates_and_keeps_to_events() -> None:
    agent, watch = cloned(None, log_interval=60), Watch(interval=90)
    result = agent.learn(total_updates=250, callbacks=watch, progress=False)
    assert watch.clock == [60, 90, 100, 120, 180, 200, 240, 250]
    assert watch.intervals == [90, 180]
    assert [at for at, _ in watch.logs] == [60, 120, 180, 240, 250]
    assert [metrics["train/n_updates"] for _, metrics in watch.logs] == [60, 120, 180, 240, 250]
    assert {metrics["time/total_timesteps"] for _, metrics in watch.logs} == {0}
    assert (result.status, result.reason, result.resume) == ("finished", "budget", "exact")
    assert (result.total_timesteps, result.offline_updates, result.gradient_steps) == (0, 250, 250)
    assert result.episodes == 0
    trainer = agent.trainer
    assert trainer.collector is None
    assert trainer.experience is None
    assert trainer.progress.env_steps == agent.num_timesteps == 0
    assert trainer.plan.stores["data"].drawn == 250 * 16


def test_schedules_stand_still_between_multiples_of_a_hundred() -> None:
    """Wherever a run is cut: at logs, at intervals, at a pause."""
    agent, watch = cloned(None, log_interval=60), Watch(interval=90)
    agent.learn(total_updates=250, callbacks=watch, progress=False)
    assert watch.progress == pytest.approx([0, 0, 0, 0.4, 0.4, 0.4, 0.8, 0.8])
    assert watch.logs[-1][1]["train/learning_rate"] == pytest.approx(0.2 * 1e-2)


def test_the_two_phases_share_one_clock() -> None:
    agent, watch = cql(total_updates=150, total_timesteps=100), Watch()
    assert agent.config.training.horizon == 250
    result = agent.learn(callbacks=watch, progress=False)
    assert (result.offline_updates, result.total_timesteps) == (150, 100)
    assert agent.progress.timesteps == 250
    assert agent.num_timesteps == 100
    online = 1 + (100 - 24) // 4  # iterations of two updates
    assert result.gradient_steps == 150 + 2 * online
    assert max(watch.progress) == 1.0
    assert watch.progress == sorted(watch.progress)
    assert [at for at, _ in watch.logs][:5] == [30, 60, 90, 120, 150]
    assert [metrics["time/total_timesteps"] for _, metrics in watch.logs][-1] == 100
    offline = [metrics for at, metrics in watch.logs if at <= 150]
    assert all("train/offline_batch_ratio" not in metrics for metrics in offline)
    assert watch.logs[-1][1]["train/offline_batch_ratio"] == 0.5


def test_targets_move_every_so_many_updates_while_there_are_no_env_steps() -> None:
    agent, moved = cql(None, total_updates=100, target_update_interval=7), []
    update_target = agent.algorithm.update_target

    def remember(batch):
        moved.append(agent.trainer.progress.gradient_steps)
        return update_target(batch)

    agent.algorithm.update_target = remember
    agent.learn(progress=False, stop_at=45)
    agent.learn(progress=False)
    assert moved == list(range(7, 101, 7))


MAKE: dict[str, Callable[..., Agent]] = {"RLPD": rlpd, "DiscreteCQL": cql, "BC": cloned}
OFFLINE, TOTAL = 120, 180
PAUSES = {
    "twice in the offline phase": [30, 107],
    "at the switch": [120],
    "while the replay fills": [130],
    "in both phases": [77, 163],
}


def start(name: str) -> Agent:
    """A run in two phases, with a learning rate that falls all the way and statistics of observations."""
    steps = {} if name == "BC" else {"total_timesteps": TOTAL - OFFLINE}
    return MAKE[name](total_updates=OFFLINE if steps else TOTAL, normalize_observation=True, **steps)


@cache
def finished(name: str) -> dict:
    agent = start(name)
    assert agent.learn(progress=False).status == "finished"
    assert agent.progress.timesteps == TOTAL
    return counted(agent)


@pytest.mark.parametrize(
    ("name", "pauses"),
    [
        *(
            pytest.param(name, at, id=f"{name} {where}")
            for name in ("RLPD", "DiscreteCQL")
            for where, at in PAUSES.items()
        ),
        *(pytest.param("BC", [at], id=f"BC at {at}") for at in (1, 100, 137)),
    ],
)
def test_a_run_resumes_exactly(name: str, pauses: list[int], tmp_path: Path) -> None:
    offline, agent = TOTAL if name == "BC" else OFFLINE, start(name)
    for stop_at in pauses:
        assert agent.learn(stop_at=stop_at, progress=False).status == "paused"
        assert agent.progress.offline_updates == min(stop_at, offline)
        assert agent.num_timesteps - max(stop_at - offline, 0) in (0, 1)  # two environments
        agent.save(tmp_path / "model")
        agent.close()
        agent = type(agent).load(tmp_path / "model", dataset=agent.dataset)
    result = agent.learn(progress=False)
    assert (result.status, result.offline_updates, result.total_timesteps) == ("finished", offline, TOTAL - offline)
    assert difference(finished(name), counted(agent)) is None


def test_environments_that_come_later_are_the_same_as_after_loading(tmp_path: Path) -> None:
    """`learn(total_updates=...)`, then `learn(total_timesteps=...)` on one object, or with a load in between."""
    straight, first = cql(), cql()
    for agent in (straight, first):
        agent.learn(total_updates=130, progress=False)
        assert agent.trainer.collector is None
    first.save(tmp_path / "model")
    second = type(first).load(tmp_path / "model", dataset=first.dataset)
    for agent in (straight, second):
        agent.learn(100, progress=False)
        assert agent.trainer.collector is not None
        assert (agent.progress.offline_updates, agent.num_timesteps) == (130, 100)
    assert difference(counted(straight), counted(second)) is None


def test_more_updates_and_more_steps_are_added_to_what_is_done() -> None:
    agent = cql()
    agent.learn(total_updates=40, progress=False)
    agent.learn(total_updates=20, progress=False)
    assert (agent.progress.offline_updates, agent.num_timesteps) == (60, 0)
    agent.learn(60, progress=False)
    agent.learn(total_updates=10, progress=False)
    assert (agent.progress.offline_updates, agent.num_timesteps) == (70, 60)
    agent.learn(20, total_updates=5, progress=False)
    assert (agent.progress.offline_updates, agent.num_timesteps) == (75, 80)


@pytest.mark.parametrize(("steps", "pause"), [(98, 190), (154, 250)], ids=["targets", "learning rate"])
def test_updates_from_data_after_env_steps_resume_exactly(steps: int, pause: int) -> None:
    agents = cql(log_interval=1_000), cql(log_interval=1_000)
    for agent in agents:
        agent.learn(total_updates=46, progress=False)
        agent.learn(steps, progress=False)  # the last update was two steps ago
        assert agent.progress.timesteps == agent.progress.updated_at + 2
    straight, paused = agents
    straight.learn(total_updates=90, progress=False)
    paused.learn(total_updates=90, stop_at=pause, progress=False)
    paused.learn(progress=False)
    assert straight.progress.timesteps == paused.progress.timesteps == 46 + steps + 90
    assert difference(counted(straight), counted(paused)) is None


def test_evaluations_and_logs_leave_a_run_from_data_as_it_is() -> None:
    plain = cloned(total_updates=120)
    watched = cloned(total_updates=120, log_interval=7, evaluation={"interval": 50, "episodes": 2})
    for agent in (plain, watched):
        agent.learn(progress=False)
    assert difference(state_of(plain)["algorithm"], state_of(watched)["algorithm"]) is None
    assert difference(state_of(plain)["data"], state_of(watched)["data"]) is None
    assert watched.progress.best_return is not None


def test_the_seed_decides_and_nothing_else() -> None:
    first, second, other = cloned(None, seed=1), cloned(None, seed=1), cloned(None, seed=2)
    for agent in (first, second, other):
        agent.learn(total_updates=60, progress=False)
    assert difference(state_of(first), state_of(second)) is None
    assert difference(state_of(first)["data"], state_of(other)["data"]) is not None


def test_health_is_measured_on_the_data_until_there_are_steps() -> None:
    seen: list[dict] = []

    class Health(Callback):
        def on_evaluation(self, trainer, result) -> None:
            seen.append(result.health)

    agent = cql(total_updates=60, total_timesteps=60, evaluation={"interval": 60, "episodes": 2})
    agent.learn(callbacks=Health(), progress=False)
    assert len(seen) == 2
    assert seen[0]["data_reuse"] == 60 * 16 / len(steps_of("CartPole-v1"))
    assert "replay_age" not in seen[0]
    assert seen[1]["replay_age"] > 0
    assert seen[1]["data_reuse"] > seen[0]["data_reuse"]


def test_the_number_of_iterations_does_not_depend_on_pauses() -> None:
    straight, paused = cloned(None, total_updates=60), cloned(None, total_updates=60)
    straight.learn(progress=False)
    paused.learn(stop_at=37, progress=False)
    paused.learn(progress=False)
    assert straight.progress.iterations == paused.progress.iterations

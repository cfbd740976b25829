"""With a lag, samplers go on while the learner learns; the run is still the same for any number of them."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import rl_training
from rl_training import Agent, Callback
from rl_training.api.training import build_run
from rl_training.experiment.checkpoint import difference
from tests.distributed.agents import FILES, REPLAY, ROLLOUT, ended
from tests.distributed.test_sampler_pool_faults import kill

CASES = {
    "SAC": ("Pendulum-v1", REPLAY),
    "DQN": ("CartPole-v1", REPLAY | {"train_freq": 8}),
    "IMPALA": ("CartPole-v1", {k: v for k, v in ROLLOUT.items() if k not in ("batch_size", "n_epochs")}),
    "APPO": ("CartPole-v1", ROLLOUT),
}
SECOND = ("DQN", "IMPALA")  # of a replay, and of rollouts: samplers do not know for whom they sample


def make(name: str, run_dir: Path | None = None, **sampling: object) -> Agent:
    env, settings = CASES[name]
    files = FILES if run_dir else {}
    return getattr(rl_training, name)(env, run_dir=run_dir, **settings, **files, sampling=sampling)


class Noted(Callback):
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.rows: list[dict] = []

    def on_log(self, trainer, metrics) -> None:
        self.rows.append(metrics)


class Dawdling(Callback):
    """Lets the learner wait now and then, so that samplers are ahead of it by more or less."""

    interval = 8

    def __init__(self) -> None:
        self.moments = random.Random(0)

    def on_interval(self, trainer) -> None:
        time.sleep(self.moments.choice((0.0, 0.0, 0.05)))


@pytest.mark.parametrize("name", ["SAC", "APPO", *(pytest.param(name, marks=pytest.mark.slow) for name in SECOND)])
def test_a_run_depends_neither_on_how_many_sample_nor_on_when_nor_on_pauses(name: str, tmp_path: Path) -> None:
    one = ended(make(name, tmp_path / "one", workers=1, lag=2))
    agent = make(name, tmp_path / "two", workers=2, lag=2)
    agent.learn(stop_at=52, progress=False, callbacks=[Dawdling()])
    agent.close()
    resumed = Agent.resume(tmp_path / "two", sampling={"workers": 4})
    assert difference(one, ended(resumed)) is None
    assert resumed.progress.gradient_steps > 0


def test_no_step_is_older_than_the_lag_and_the_first_ones_are_less() -> None:
    agent, noted = make("APPO", workers=2, lag=2), Noted()
    agent.learn(callbacks=noted, progress=False)  # four iterations of 8 x 4 steps
    agent.close()
    shares = [{k: v for k, v in row.items() if k.startswith("sampling/")} for row in noted.rows]
    assert shares == [{"sampling/lag_max": float(lag), f"sampling/lag_{lag}_share": 1.0} for lag in (0, 1, 2, 2)]


def test_another_lag_is_another_run() -> None:
    runs = [ended(make("SAC", workers=1, lag=lag))["algorithm"] for lag in (1, 2)]
    assert difference(*runs) is not None


def test_a_sampler_that_is_lost_takes_all_that_was_asked_of_it_again() -> None:
    undisturbed = ended(make("APPO", workers=2, lag=2))
    agent = make("APPO", workers=2, lag=2)
    trainer = build_run(agent).trainer
    trainer.run(40)
    kill(trainer.collector.env.pool.engine.processes[0])
    assert difference(undisturbed, ended(agent)) is None

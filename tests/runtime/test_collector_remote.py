"""A collector in another process: the loop cannot tell it from a local one, and in step it takes the same steps."""

import multiprocessing as mp
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest
import torch

import rl_training
from rl_training import Agent
from rl_training.api.training import build_run
from rl_training.core import Policy, Transition
from rl_training.envs.vector import StateKind
from rl_training.experiment.checkpoint import difference
from rl_training.runtime import Collector, Episode, Phase
from rl_training.runtime.phases import Plan
from tests.offline import REPLAY, state_of

ROLLOUT = {"n_steps": 8, "batch_size": 8, "n_epochs": 2, "n_envs": 2, "net_arch": [8]}
COMMON = {"seed": 0, "threads": 1, "compile": False, "total_timesteps": 96, "learning_rate": "lin_1e-2"}


class PipeCollector(Collector):
    """Sends the policy's parameters and where the random numbers stand, and gets steps back."""

    def __init__(self, build: Callable[[], Agent]) -> None:
        self.pipe, other = mp.Pipe()
        self.process = mp.get_context("fork").Process(target=serve, args=(other, self.pipe, build), daemon=True)
        self.process.start()
        other.close()
        self.num_envs, self.spec, self.kind = self.pipe.recv()
        self.episodes: list[Episode] = []

    @property
    def state_kind(self) -> StateKind:
        return self.kind

    def ask(self, *message: object) -> tuple:
        self.pipe.send(message)
        return self.pipe.recv()

    def collect(self, policy: Policy, num_steps: int) -> Transition:
        uniform = not list(policy.parameters())
        weights = {name: value.detach().clone() for name, value in policy.state_dict().items()}
        self.latest, episodes, after = self.ask("collect", uniform, weights, torch.get_rng_state(), num_steps)
        torch.set_rng_state(after)
        self.episodes += episodes
        return self.latest

    def pop_episodes(self) -> list[Episode]:
        episodes, self.episodes = self.episodes, []
        return episodes

    def state_dict(self) -> dict:
        return self.ask("state")[0]

    def load_state_dict(self, state: dict) -> bool:
        return self.ask("load", state)[0]

    def close(self) -> None:
        self.pipe.close()
        self.process.join(10)
        assert self.process.exitcode == 0


def serve(pipe: Connection, asking: Connection, build: Callable[[], Agent]) -> None:
    """Answers in the other process, with an agent's own environments and a copy of its policy."""
    asking.close()  # the fork has a copy: with it open, this pipe would never end
    torch.set_num_threads(1)
    agent = build()
    trainer = build_run(agent).trainer
    collector, policy = trainer.collector, agent.algorithm.policy
    pipe.send((collector.num_envs, collector.spec, collector.state_kind))
    while True:
        try:
            kind, *arguments = pipe.recv()
        except EOFError:
            return
        if kind == "state":
            pipe.send((collector.state_dict(),))
        elif kind == "load":
            pipe.send((collector.load_state_dict(*arguments),))
        else:
            uniform, weights, random, num_steps = arguments
            torch.set_rng_state(random)
            chosen = rl_training.core.UniformPolicy(agent.spec) if uniform else policy
            if not uniform:
                policy.load_state_dict(weights)
            steps = collector.collect(chosen, num_steps)
            pipe.send((steps, collector.pop_episodes(), torch.get_rng_state()))


MAKE: dict[str, Callable[[], Agent]] = {
    "PPO": lambda: rl_training.PPO("CartPole-v1", **ROLLOUT | COMMON),
    "SAC": lambda: rl_training.SAC("Pendulum-v1", **REPLAY | COMMON),
}


def go_remote(agent: Agent, collector: PipeCollector) -> None:
    """Gives a trainer the other collector: it is named in a phase, and nowhere else."""
    trainer = build_run(agent).trainer
    (phase,) = trainer.plan.phases
    trainer.plan = Plan([Phase(phase.experience, collector, phase.budget)], trainer.plan.stores)


@pytest.mark.parametrize("name", MAKE)
def test_steps_from_another_process_are_the_same_to_the_last_bit(name: str) -> None:
    local, remote = MAKE[name](), MAKE[name]()
    collector = PipeCollector(MAKE[name])
    try:
        trainer = build_run(remote).trainer
        go_remote(remote, collector)
        build_run(local).trainer.run(48)
        trainer.run(48)
        saved = trainer.state_dict()["collector"]
        assert difference(local.trainer.state_dict()["collector"], saved) is None
        assert collector.load_state_dict(saved)  # and goes on from there
        local.trainer.run()
        trainer.run()
        assert difference(state_of(local), state_of(remote)) is None
        assert local.progress.episodes > 0 or name == "SAC"
    finally:
        collector.close()

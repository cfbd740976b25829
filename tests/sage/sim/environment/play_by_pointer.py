"""Saves an agent in a folder and lets it play a live task; prints whether the loaded one does the same, and what is refused."""

import sys
from pathlib import Path

from rl_training.api import PPO, Agent
from sage.sim.environment import players
from sage.sim.environment.growing import begun
from sage.sim.policies import PolicyError, named
from sage.sim.sandboxes.image import ensure
from sage.sim.sandboxes.zygote import Zygote
from tests.sage.sim.conftest import CACHE
from tests.sage.sim.environment.learn_by_pointer import learned
from tests.sage.sim.environment.small_task import TASK


class InMemory:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def predict(self, obs, mask) -> int:
        return int(self.agent.predict(obs)[0])


def main() -> None:
    folder = Path(sys.argv[1])
    agent = learned(1_024)
    agent.save(folder / "agent")
    loaded = named(str(folder / "agent"), seed=1)
    backend = Zygote(ensure(CACHE))
    growth = begun(backend, TASK)
    players.begun = lambda *_: growth  # the second one need not run anything again
    direct = players.playing(lambda _: InMemory(agent), seed=1)
    print(loaded.solve(backend, TASK) == direct.solve(backend, TASK))
    backend.close()
    models = loaded.facts["models"]
    assert isinstance(models, dict)
    print(models["level"])
    PPO("CartPole-v1").save(folder / "other")
    try:
        named(str(folder / "other"), seed=1)
    except PolicyError as error:
        print(error)


if __name__ == "__main__":
    main()

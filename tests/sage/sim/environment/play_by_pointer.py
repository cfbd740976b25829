"""Trains an agent in a folder and lets it play a live task; prints whether the loaded one does the same, and what is refused."""

import sys
from dataclasses import replace
from pathlib import Path

from rl_training.api import PPO
from sage.sandbox.image import ensure
from sage.sandbox.zygote import Zygote
from sage.sim.environment import packed, players
from sage.sim.environment.growing import begun
from sage.sim.policies import PolicyError, named
from sage.sim.training import train
from tests.sage.sandbox.fixtures import CACHE
from tests.sage.sim.environment.learn_by_pointer import QUICK, SETTINGS
from tests.sage.sim.environment.small_task import TASK
from tests.sage.sim.environment.test_dynamics import known_table


def main(folder: Path) -> None:
    packed.save(folder / "tables.npz", [replace(known_table(), split=split) for split in ("train", "val")])
    agent = train(folder / "tables.npz", folder / "run", steps=1_024, settings=[*SETTINGS, *QUICK], progress=False)
    loaded = named(str(folder / "run"), seed=1)
    backend = Zygote(ensure(CACHE))
    growth = begun(backend, TASK)
    players.begun = lambda *_: growth  # the second one need not run anything again
    direct = players.playing(lambda generator: players.Sampled(agent, generator), seed=1)
    first = loaded.solve(backend, TASK)
    print(first == direct.solve(backend, TASK), len(first.actions) > 1)
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
    main(Path(sys.argv[1]))

"""The state of a run as one tree, as a checkpoint holds it, and its restoration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rl_training.core import Ranks
from rl_training.runtime.collector import Episode
from rl_training.runtime.journal import Journal
from rl_training.runtime.progress import Progress

if TYPE_CHECKING:
    from rl_training.runtime.trainer import Trainer


def state_of(trainer: Trainer) -> dict:
    """Returns a dict of all that determines how a run continues, such as parameters, steps and random numbers.

    Does not change the run. Raises ValueError if several ranks share the run and it is not learning.
    """
    collector = trainer.collector
    uncounted = 0 if collector is None else collector.uncounted_episodes
    progress = replace(trainer.progress, wall_time=trainer.elapsed(), episodes=trainer.progress.episodes + uncounted)
    state = {
        "algorithm": dict(trainer.algorithm.state_dict()),
        **own_part(trainer),
        "progress": progress.to_state() | {"recent": [list(episode) for episode in trainer.recent]},
    }
    # Checkpoints call the other ranks "workers".
    return state | {"workers": other_parts(trainer)} if trainer.ranks.number > 1 else state


def other_parts(trainer: Trainer) -> list[dict]:
    """Returns the `own_part` of every other rank; raises ValueError unless the run is learning (they send it then)."""
    if not trainer.running:
        raise ValueError(
            "the state of a run that several ranks share is complete only while they learn: save in a callback, or give the "
            "run a directory and load its last checkpoint"
        )
    return trainer.ranks.other_parts()


def own_part(trainer: Trainer) -> dict:
    """Returns the part of the state that each rank has alone: a dict of its stores, environments and random numbers."""
    collector, collectors = trainer.collector, trainer.plan.collectors
    stores = {name: store.state_dict() for name, store in trainer.plan.stores.items()}
    return {
        "experience": stores.get("experience", {}),
        "data": stores.get("data", {}),
        "collector": collector.state_dict() if collector is not None else {},
        # Checkpoints call the `env_key` of that collector "place".
        "place": next((key for key, one in collectors.items() if one is collector), ""),
        # Of other phases, which may be gone back to.
        "collectors": {key: one.state_dict() for key, one in collectors.items() if one is not collector},
        "rng": trainer.random.state(trainer.device),
    }


def part_for(ranks: Ranks, state: dict) -> dict:
    """Returns this rank's own part of the dict of a checkpoint; {} for rank 0, whose part is the dict itself.

    Raises ValueError if the checkpoint is of another number of ranks.
    """
    others = state.get("workers", [])  # the parts of ranks 1, 2, ...
    if len(others) + 1 != ranks.number:
        raise ValueError(
            f"this run was saved by {number_of(len(others) + 1)}, each with its own steps and environments, and here "
            f"{'is' if ranks.number == 1 else 'are'} {number_of(ranks.number)}: go on with `torchrun --nproc-per-node "
            f"{len(others) + 1} -m rl_training resume`"
            if others
            else f"this run was saved by one process, which has all steps and environments, and here are "
            f"{number_of(ranks.number)}: go on without torchrun"
        )
    return others[ranks.rank - 1] if ranks.rank else {}


def number_of(ranks: int) -> str:
    return "one process" if ranks == 1 else f"{ranks} ranks"


def load_state(trainer: Trainer, state: dict) -> None:
    """Restores a run from the dict of `state_of`; raises ValueError if another number of ranks saved it.

    Where environments cannot continue, new episodes begin, and the open ones in the store are ended.
    """
    state = state | part_for(trainer.ranks, state)
    trainer.algorithm.load_state_dict(state["algorithm"])
    trainer.progress = Progress.from_state(state["progress"])
    for name, store in trainer.plan.stores.items():
        if state.get(name):  # what comes later has no state yet
            store.load_state_dict(state[name])
    saved = {state.get("place", ""): state["collector"], **state.get("collectors", {})}  # by `env_key`
    for key, collector in trainer.plan.collectors.items():
        if not saved.get(key) or collector.load_state_dict(saved[key]):
            continue
        if key == (trainer.progress.env_key or ""):  # its episodes are open in the store, and new ones were started
            trainer.plan.stores["experience"].cut()
    trainer.journal = Journal()
    trainer.recent.clear()
    trainer.recent.extend(Episode.from_state(episode) for episode in state["progress"]["recent"])
    trainer.random.load(state["rng"], trainer.device)

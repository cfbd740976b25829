"""The one state tree of a run: what a checkpoint holds, and how a trainer goes on from it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rl_training.runtime.collector import Episode
from rl_training.runtime.journal import Journal
from rl_training.runtime.progress import Progress

if TYPE_CHECKING:
    from rl_training.runtime.trainer import Trainer


def state_of(trainer: Trainer) -> dict:
    """Everything that determines how a run goes on; asking for it changes nothing."""
    collector, collectors = trainer.collector, trainer.plan.collectors
    uncounted = 0 if collector is None else collector.uncounted_episodes
    progress = replace(trainer.progress, wall_time=trainer.elapsed(), episodes=trainer.progress.episodes + uncounted)
    stores = {name: store.state_dict() for name, store in trainer.plan.stores.items()}
    return {
        "algorithm": dict(trainer.algorithm.state_dict()),
        "experience": stores.get("experience", {}),
        "data": stores.get("data", {}),
        "collector": collector.state_dict() if collector is not None else {},
        "place": next((place for place, one in collectors.items() if one is collector), ""),  # of that collector
        # Of other phases, which may be gone back to.
        "collectors": {place: one.state_dict() for place, one in collectors.items() if one is not collector},
        "progress": asdict(progress) | {"recent": [list(episode) for episode in trainer.recent]},
        "rng": trainer.random.state(trainer.device),
    }


def load_state(trainer: Trainer, state: dict) -> None:
    """Continues exactly where the state was taken, as far as the environments can."""
    trainer.algorithm.load_state_dict(state["algorithm"])
    trainer.progress = Progress.from_state(state["progress"])
    for name, store in trainer.plan.stores.items():
        if state.get(name):  # what comes later has no state yet
            store.load_state_dict(state[name])
    saved = {state.get("place", ""): state["collector"], **state.get("collectors", {})}
    for place, collector in trainer.plan.collectors.items():
        if not saved.get(place) or collector.load_state_dict(saved[place]):
            continue
        if place == (trainer.progress.place or ""):  # its episodes are open in the store, and new ones were started
            trainer.plan.stores["experience"].cut()
    trainer.journal = Journal()
    trainer.recent.clear()
    trainer.recent.extend(Episode.from_state(episode) for episode in state["progress"]["recent"])
    trainer.random.load(state["rng"], trainer.device)

"""The one state tree of a run: what a checkpoint holds, and how a trainer goes on from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rl_training.runtime.collector import Collector
from rl_training.runtime.episodes import Episode
from rl_training.runtime.journal import Journal
from rl_training.runtime.progress import Progress
from rl_training.runtime.seeding import checked_rng, get_rng

if TYPE_CHECKING:
    from rl_training.runtime.trainer import Trainer


def state_of(trainer: Trainer) -> dict:
    """Everything that determines how a run goes on; asking for it changes nothing."""
    collector = trainer.collector
    progress = trainer.progress.to_state() | {"wall_time": trainer.elapsed()}
    if collector is not None:
        progress["episodes"] += collector.uncounted_episodes
    stores = {name: store.state_dict() for name, store in trainer.stores.items()}
    others = {place: one.state_dict() for place, one in trainer.collectors.items() if one is not collector}
    return {
        "algorithm": dict(trainer.algorithm.state_dict()),
        "experience": stores.get("experience", {}),
        "data": stores.get("data", {}),
        "collector": collector.state_dict() if collector is not None else {},
        "collectors": others,  # of other phases, which may be gone back to
        "progress": progress | {"recent": [list(episode) for episode in trainer.journal.recent]},
        "rng": get_rng(trainer.device) if trainer.running else trainer.rng,
    }


def load_state(trainer: Trainer, state: dict) -> None:
    """Continues exactly where the state was taken, as far as the environments can."""
    trainer.algorithm.load_state_dict(state["algorithm"])
    trainer.progress = Progress.from_state(state["progress"])
    for name, store in trainer.stores.items():
        if state.get(name):  # what comes later has no state yet
            store.load_state_dict(state[name])
    for collector, saved in saved_collectors(trainer, state):
        if not collector.load_state_dict(saved) and collector is trainer.collector:
            for phase in trainer.phases:
                if phase.collector is collector:
                    phase.experience.cut()
    trainer.journal = Journal()
    trainer.journal.recent.extend(Episode.from_state(episode) for episode in state["progress"]["recent"])
    trainer.rng = trainer.rng | checked_rng(state["rng"], trainer.device)


def saved_collectors(trainer: Trainer, state: dict) -> Iterator[tuple[Collector, dict]]:
    current = trainer.collector
    if current is not None and state["collector"]:
        yield current, state["collector"]
    for place, collector in trainer.collectors.items():
        if collector is not current and place in state.get("collectors", {}):
            yield collector, state["collectors"][place]

"""The one state tree of a run: what a checkpoint holds, and how a trainer goes on from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    place = next((place for place, one in trainer.collectors.items() if one is collector), "")
    return {
        "algorithm": dict(trainer.algorithm.state_dict()),
        "experience": stores.get("experience", {}),
        "data": stores.get("data", {}),
        "collector": collector.state_dict() if collector is not None else {},
        "place": place,  # of that collector
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
    for place, saved in saved_collectors(state):
        collector = trainer.collectors.get(place)
        if collector is None or collector.load_state_dict(saved):
            continue
        if place == (trainer.progress.place or ""):  # its episodes are open in the store, and new ones were started
            trainer.stores["experience"].cut()
    trainer.journal = Journal()
    trainer.journal.recent.extend(Episode.from_state(episode) for episode in state["progress"]["recent"])
    trainer.rng = trainer.rng | checked_rng(state["rng"], trainer.device)


def saved_collectors(state: dict) -> Iterator[tuple[str, dict]]:
    """What was saved of collectors, by place."""
    if state["collector"]:
        yield state.get("place", ""), state["collector"]
    yield from state.get("collectors", {}).items()

"""What a bandit learned survives restarts and is shared by processes."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from sage.policies.bandits.bandit_store import BanditStore
from sage.policies.bandits.contextual_bandit import ContextualBandit, ContextualBanditConfig
from sage.policies.bandits.ucb_bandit import UCB1


def learned(store: BanditStore, models: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    return store.bandit.statistics.of_models(models)


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    config = ContextualBanditConfig(keep=0.9)
    first = BanditStore(tmp_path / "sage.db", ContextualBandit(config))
    for category, model, reward in (("x", "a", 1.0), ("x", "b", 0.25), ("y", "a", 0.5), ("x", "a", 0.0)):
        first.learn("coder", category, model, reward)
    again = BanditStore(tmp_path / "sage.db", ContextualBandit(config))
    assert again.bandit.statistics.cells == first.bandit.statistics.cells
    np.testing.assert_allclose(learned(again, ("a", "b")), learned(first, ("a", "b")), rtol=1e-12)
    np.testing.assert_allclose(learned(again, ("a", "b"))[0][0], [0.81 + 1, 0.9])


def teach(path: Path, model: str) -> None:
    store = BanditStore(path, UCB1())
    for _ in range(40):
        store.learn("coder", "x", model, 0.5)


def test_processes_learn_together(tmp_path: Path) -> None:
    path = tmp_path / "sage.db"
    store = BanditStore(path, UCB1())
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=teach, args=(path, model)) for model in ("a", "b", "a")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    store.refresh_s = 0.0
    store.refresh()
    counts, totals = learned(store, ("a", "b"))
    assert counts.tolist() == [[80.0, 40.0]]
    assert totals.tolist() == [[40.0, 20.0]]


def test_two_bandits_share_a_file_without_mixing(tmp_path: Path) -> None:
    BanditStore(tmp_path / "sage.db", UCB1()).learn("coder", "x", "a", 1.0)
    assert BanditStore(tmp_path / "sage.db", ContextualBandit()).bandit.statistics.models == {}


def test_a_reward_that_is_not_a_number_is_not_written(tmp_path: Path) -> None:
    store = BanditStore(tmp_path / "sage.db", UCB1())
    with pytest.raises(ValueError, match="must be a finite number"):
        store.learn("coder", "x", "a", float("nan"))
    assert BanditStore(tmp_path / "sage.db", UCB1()).bandit.statistics.models == {}

"""Rows that were put together wrongly are found, with what recognisably happened to them."""

from __future__ import annotations

import numpy as np
import pytest

from rl_training.core import Box, Discrete, Spec
from rl_training.data import Dataset, Finding, Provenance, lint
from tests.data.making import with_stored_successors

SPEC = Spec(Box((2,), (-np.inf,) * 2, (np.inf,) * 2), Discrete(2))


def walks(lengths: tuple[int, ...] = (40, 60, 50, 30, 70, 45), env_id: str | None = None) -> Dataset:
    """Walks away from about zero, so that a new episode begins with a jump."""
    rng, rows, stop = np.random.default_rng(0), sum(lengths), np.cumsum(lengths)
    obs = np.concatenate([np.cumsum(rng.uniform(0, 1, (length + 1, 2)), 0) for length in lengths])
    last = stop + np.arange(len(lengths))
    return Dataset.from_arrays(
        obs=np.delete(obs, last, 0),
        action=rng.integers(0, 2, rows),
        reward=rng.normal(size=rows),
        terminated=np.zeros(rows, bool),
        truncated=np.isin(np.arange(rows), stop - 1),
        last_obs=obs[last],
        spec=SPEC,
        provenance=Provenance(env_id=env_id),
    )


def without_end(dataset: Dataset, number: int) -> Dataset:
    truncated, last = dataset.truncated.copy(), np.delete(dataset.last_obs, number, 0)
    truncated[dataset.episodes().stop[number] - 1] = False
    return Dataset(dataset.columns._replace(truncated=truncated, last_obs=last), dataset.spec, dataset.provenance)


def only(dataset: Dataset, **settings: int) -> Finding:
    (found,) = lint(dataset, **settings)
    return found


def test_an_end_that_is_missing_shows_as_a_jump_to_a_start() -> None:
    assert lint(walks()) == []
    found = only(without_end(walks(), 2))
    assert (found.fault, found.severity, found.rows) == ("missing-end", "warning", (149,))
    assert "first in episode 2" in found.meaning


def test_an_end_that_is_missing_breaks_the_chain_of_stored_successors() -> None:
    stored = with_stored_successors(walks())
    stored.truncated[149] = False
    found = only(stored)
    assert (found.fault, found.rows) == ("broken-chain", (149,))
    assert found.advice == "mark where episodes end, and put the rows of each environment one after the other"


def test_rows_of_several_environments_in_turn_are_recognised() -> None:
    data = with_stored_successors(walks((30, 30, 30)))
    turn = np.arange(90).reshape(3, 30).T.reshape(-1)
    columns = data.columns._replace(
        **{name: getattr(data, name)[turn] for name in ("obs", "next_obs", "action", "reward")}
    )
    found = only(Dataset(columns._replace(truncated=np.arange(90) == 89), data.spec))
    assert (found.fault, found.severity) == ("broken-chain", "error")
    assert found.advice == "it is the observation 3 rows later: put the rows of the 3 environments one after the other"


def test_successors_that_are_the_row_itself_are_recognised() -> None:
    data = with_stored_successors(walks())
    found = only(Dataset(data.columns._replace(next_obs=data.obs.copy()), data.spec))
    assert found.fault == "broken-chain"
    assert found.advice == "it is the row's own observation instead: shift next_obs by one row"


def test_episodes_longer_than_the_time_limit_miss_an_end() -> None:
    found = only(walks((200, 320, 200), env_id="Pendulum-v1"))  # of which gymnasium knows the limit
    assert (found.fault, found.severity, found.rows) == ("missing-end", "error", (200,))
    assert "episode 1 (rows 200 to 519) has 320" in found.meaning
    assert lint(walks((200, 320, 200))) == []
    assert lint(walks((200, 320, 200), env_id="Nobody/Knows-v0")) == []
    assert lint(walks((200, 320, 200), env_id="Pendulum-v1"), time_limit=320) == []
    with pytest.raises(ValueError, match="time_limit=0 must be at least 1"):
        lint(walks(), time_limit=0)


@pytest.mark.parametrize(("lengths", "severity"), [((50, 12, 50, 50), "error"), ((20, 50, 12, 9), "warning")])
def test_terminals_at_a_known_time_limit(lengths: tuple[int, ...], severity: str) -> None:
    data = walks(lengths)
    full = np.cumsum(lengths)[np.array(lengths) == 50] - 1
    data.terminated[full], data.truncated[full] = True, False  # others were cut, so that nothing else gives it away
    found = only(data, time_limit=50)
    assert (found.fault, found.severity, found.rows) == ("timeout-as-terminal", severity, tuple(full))
    assert lint(data) == []
    data.truncated[full[0]] = True  # one that was cut by the limit, too: somebody knew the difference
    assert lint(data, time_limit=50) == []


def test_data_without_any_end_are_one_episode() -> None:
    found = only(walks((2_500,)))
    assert (found.fault, found.severity) == ("one-episode", "warning")
    assert "all 2,500 rows are one" in found.meaning
    assert lint(walks((1_500,))) == []


def test_masks_instead_of_flags() -> None:
    data = with_stored_successors(walks())
    masks = ~data.truncated
    found = [f for f in lint(Dataset(data.columns._replace(terminated=masks), data.spec)) if f.severity == "error"]
    assert [f.fault for f in found] == ["flags-inverted"]
    assert found[0].advice == "this is a mask (1 where the episode goes on): store its opposite"

"""Columns of episodes: the last step's `info`, through every backend, and refusals that name key and type."""

import logging
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.envs import EnvConfig, GymnasiumEnv, NativeEnv, VectorEnv, make_env
from rl_training.envs.env_processes import Guarded
from rl_training.envs.episode_columns import ColumnReader, join_infos, read_columns
from rl_training.envs.episode_log import EpisodeLog
from rl_training.runtime import make_collector
from tests.envs.counting import CountingDynamics, CountingEnv
from tests.envs.fakes import BACKENDS, FixedPolicy, build

TERMINATE_AFTER, TRUNCATE_AFTER = 3, 5
KEYS = ("distance", "sometimes")
NOT_NUMBERS = (("near", "of type str"), ([1, [2, 3]], "of type list"), (np.zeros(3), r"an array of shape \(.*3.*\)"))


class Telling(gym.Wrapper):
    """Says more than anybody asks; only what the last step of an episode says may arrive."""

    def __init__(self, **replaced: object) -> None:
        super().__init__(CountingEnv(TERMINATE_AFTER, TRUNCATE_AFTER))
        self.replaced = replaced

    def reset(self, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        obs, _ = super().reset(**keywords)
        return obs, {"is_success": True, "distance": -1.0, "sometimes": -1.0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = super().step(action)
        said: dict[str, Any] = {
            "is_success": np.bool_(terminated),
            "distance": np.float32(10 * obs[1]),
            "map": np.zeros((9, 9)),
        }
        if truncated:
            said["sometimes"] = int(obs[0])
        return obs, reward, terminated, truncated, said | self.replaced


def ended_episodes(env: VectorEnv, num_steps: int = 18, chunk: int = 18) -> list:
    """The columns of the episodes that end, as (environment, columns)."""
    policy = FixedPolicy()
    collector = make_collector(env, policy, seed=0)
    try:
        for _ in range(0, num_steps, chunk):
            collector.collect(policy, chunk)
        return [(e.env, e.length, e.columns) for e in collector.pop_episodes()]
    finally:
        env.close()


# Processes are slow to start, and their collector and what they read with are the same: one case of each is enough.
@pytest.mark.parametrize(
    ("backend", "chunk"),
    [
        (backend, chunk)
        for backend in (*BACKENDS, "manual")
        for chunk in (1, 6)
        if chunk == 1 or not backend.startswith("async")
    ],
)
def test_the_last_step_of_an_episode_says_its_columns(backend: str, chunk: int) -> None:
    episodes = ended_episodes(build(Telling, backend, 2, KEYS), chunk=chunk)
    assert {env for env, _, _ in episodes} == {0, 1}
    for env in (0, 1):
        seen = [(length, columns) for index, length, columns in episodes if index == env]
        assert seen[:3] == [
            (3, {"is_success": 1.0, "distance": 30.0}),
            (5, {"is_success": 0.0, "distance": 50.0, "sometimes": 1.0}),
            (3, {"is_success": 1.0, "distance": 30.0}),
        ]


@pytest.mark.parametrize("backend", ["local", "async", "sync-SameStep", "strict"])
def test_success_is_taken_without_being_asked_for_and_nothing_else(backend: str) -> None:
    names = {name for _, _, columns in ended_episodes(build(Telling, backend, 2)) for name in columns}
    assert names == {"is_success"}


@pytest.mark.parametrize(
    ("backend", "value", "kind"),
    [
        (backend, value, kind)
        for backend in ("local", "async", "sync-SameStep", "sync-NextStep")
        for value, kind in NOT_NUMBERS
        if backend != "async" or isinstance(value, str)
    ],
)
def test_what_is_no_number_is_refused_by_key_and_type(backend: str, value: object, kind: str) -> None:
    with pytest.raises(ValueError, match=rf"info\['distance'\] at the end of an episode is {kind}, not a number"):
        ended_episodes(build(partial(Telling, distance=value), backend, 2, KEYS))


@pytest.mark.parametrize("backend", ["local", "sync-SameStep", "sync-NextStep"])
def test_a_success_that_is_no_number_is_left_out_unless_it_was_asked_for(backend: str) -> None:
    factory = partial(Telling, is_success="yes")
    assert all(columns == {} for _, _, columns in ended_episodes(build(factory, backend, 2)))
    with pytest.raises(ValueError, match=r"'is_success'.*of type str"):
        ended_episodes(build(factory, backend, 2, ("is_success",)))


def test_numbers_in_all_their_forms_are_read_and_what_is_absent_is_left_out() -> None:
    info = {"a": True, "b": 2, "c": np.float64(0.5), "d": np.array([4]), "e": torch.tensor(5.0), "f": None, "g": np.nan}
    assert read_columns(info, tuple("abcdefgh")) == {"a": 1.0, "b": 2.0, "c": 0.5, "d": 4.0, "e": 5.0}
    assert read_columns({"is_success": -1}, ()) == {"is_success": 0.0}
    assert read_columns({"is_success": 0.7}, ()) == {"is_success": 1.0}
    assert read_columns(None, ("a",)) == {}


def test_a_list_of_last_infos_is_read_like_joined_ones() -> None:
    joined = join_infos([None, {"a": 1.0}, {"a": 2.0, "b": "x"}])
    assert joined["a"].tolist() == [None, 1.0, 2.0]
    assert joined["b"].tolist() == [None, None, "x"]


def test_a_key_of_an_environment_that_begins_with_a_line_hides_no_other() -> None:
    columns = ColumnReader(("speed",)).from_infos([{"speed": 2.0, "_speed": 0}, {}, None], [True, True, True])
    assert columns["speed"].nan_to_num(-1).tolist() == [2.0, -1.0, -1.0]


@pytest.mark.parametrize("backend", ["local", "sync-SameStep", "sync-NextStep"])
def test_a_key_that_never_comes_is_said_once_with_the_nearest_name(
    backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"local": "distence", "sync-SameStep": "distanse", "sync-NextStep": "distanc"}[
        backend
    ]  # said once per process, so each case has its own
    with caplog.at_level(logging.WARNING, logger="rl_training"):
        for _ in range(2):
            ended_episodes(build(Telling, backend, 2, (wrong, "sometimes")))
    assert [r.getMessage() for r in caplog.records] == [
        f"env.info_keys: no episode has ended with info[{wrong!r}] so far: did you mean 'distance'?"
    ]


def test_a_key_that_never_comes_is_said_at_the_end_of_a_short_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="rl_training"):
        ended_episodes(build(Telling, "local", 1, ("zzz",)), num_steps=4, chunk=4)
    assert "no episode has ended with info['zzz'] so far: it has 'distance', 'is_success', 'map'" in caplog.text


def test_a_worker_sends_nothing_but_the_columns() -> None:
    env = Guarded(EpisodeLog(Telling(), 0), ("distance",))
    _, info = env.reset(seed=0)
    infos = [env.step(0)[4] for _ in range(TERMINATE_AFTER)]
    assert [info, *infos] == [{}, {}, {}, {"is_success": 1.0, "distance": 30.0}]


class TellingDynamics(CountingDynamics):
    info_names = ("is_success", "distance")

    def info(self, state: Tensor) -> dict[str, Tensor]:
        kind, count = state.unbind(-1)
        return {"is_success": (kind == 0) & (count >= self.terminate_after), "distance": 10 * count}


@pytest.mark.parametrize(("keys", "names"), [((), {"is_success"}), (("distance",), {"is_success", "distance"})])
def test_native_columns_are_those_of_the_state_before_the_restart(keys: tuple[str, ...], names: set[str]) -> None:
    env = make_env(
        EnvConfig(id="tests.envs.test_episode_columns:TellingDynamics", backend="native", n_envs=4, info_keys=keys)
    )
    episodes = ended_episodes(env, num_steps=24, chunk=6)
    assert {length for _, length, _ in episodes} == {TERMINATE_AFTER, TRUNCATE_AFTER}
    for _, length, columns in episodes:
        assert set(columns) == names
        assert columns["is_success"] == float(length == TERMINATE_AFTER)
        assert columns.get("distance", 10 * length) == 10 * length


def test_native_dynamics_must_have_and_give_what_is_asked_for() -> None:
    class Silent(TellingDynamics):
        def info(self, state: Tensor) -> dict[str, Tensor]:
            return {}

    class Wide(TellingDynamics):
        def info(self, state: Tensor) -> dict[str, Tensor]:
            return {"is_success": state}

    with pytest.raises(
        ValueError, match="'speed' is not a column of TellingDynamics, which gives 'is_success', 'distance'"
    ):
        NativeEnv(TellingDynamics(), 2).ask_columns(("speed",))
    with pytest.raises(ValueError, match="'speed' is not a column of CountingDynamics, which gives none"):
        NativeEnv(CountingDynamics(), 2).ask_columns(("speed",))
    with pytest.raises(ValueError, match="`info` of Silent returned no 'is_success'"):
        ended_episodes(NativeEnv(Silent(), 2))
    with pytest.raises(ValueError, match=r"`info` of Wide returned 'is_success' of shape \(2, 2\)"):
        ended_episodes(NativeEnv(Wide(), 2))


def test_native_environments_without_columns_are_not_asked() -> None:
    class Loud(CountingDynamics):
        def info(self, state: Tensor) -> dict[str, Tensor]:
            raise AssertionError

    assert ended_episodes(NativeEnv(Loud(), 2))


def test_a_vector_environment_may_say_a_column_without_a_mask() -> None:
    env = GymnasiumEnv(build(Telling, "strict", 2).env)  # pyrefly: ignore[missing-attribute]
    env.ask_columns(("distance",))
    columns = env.columns.from_vector(
        {"distance": [1.5, 2.5], "is_success": [[True], [False]]}, np.array([True, False])
    )
    assert columns["distance"].nan_to_num(-1).tolist() == [1.5, -1]
    assert columns["is_success"].nan_to_num(-1).tolist() == [1, -1]

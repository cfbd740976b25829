"""`make_env`: what a config says is what runs; what cannot run is refused with the fix."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rl_training.core import ActionConverter, Box, Discrete, MultiBinary, MultiDiscrete
from rl_training.envs import EnvConfig, GymnasiumEnv, LocalEnv, NativeEnv, VectorEnv, make_env
from rl_training.envs.gymnasium_backend import build_one
from rl_training.envs.make import FACTORIES, find_factory
from rl_training.envs.spaces import convert_spec
from tests.envs.fakes import BACKENDS_IN_PROCESS, build


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (EnvConfig(id="CartPol-v1"), "env.id='CartPol-v1' is not a registered environment: did you mean CartPole-v1"),
        (EnvConfig(id="CartPole-v7"), "not a registered environment: did you mean CartPole-v"),
        (EnvConfig(id="TMaze-v0"), "not a registered environment: it exists as tensor code, use backend='native'"),
        (EnvConfig(id="Nonesuch/Boxing-v5"), "not a registered environment: install the package that registers it"),
        (EnvConfig(id="LunarLander-v2"), "env.id='LunarLander-v2' was refused.*use `LunarLander-v3`"),
        (EnvConfig(id="no id"), "env.id='no id' was refused: Malformed"),
        (
            EnvConfig(id="no_such_module:make"),
            "'no_such_module:make' cannot be imported.*install it, or start in the folder of no_such_module.py",
        ),
        (EnvConfig(id="math:no_such_name"), "'math:no_such_name' cannot be imported.*'package.module:name'"),
        (EnvConfig(id="no_such_module:Name-v0"), "cannot be imported.*install the package that provides it"),
        (EnvConfig(id="collections:OrderedDict"), "returned OrderedDict: a factory must return a gymnasium.Env"),
        (EnvConfig(id="CartPole-v1", kwargs={"gravty": 1}), "env.kwargs={'gravty': 1} was refused by CartPole-v1"),
        (EnvConfig(id="Hopper-v5", backend="native"), "has no native version: use one of CartPole-v1, .*gymnasium"),
        (
            EnvConfig(id="CartPole-v1", backend="native", kwargs={"a": 1}),
            "env.kwargs={'a': 1} was refused by CartPole-v1",
        ),
        (EnvConfig(id="CartPole-v1", backend="native", frame_stack=2), "native environments take no env.frame_stack"),
        (EnvConfig(id="gymnasium:CartPole-v1", backend="native"), "has no native version: use one of CartPole-v1, "),
        (EnvConfig(id="collections:OrderedDict", backend="native"), "returned OrderedDict: .* return a NativeDynamics"),
        (
            EnvConfig(id="rl_training.envs.classic:CartPole"),
            "returned CartPole, which is tensor code: use backend='nat",
        ),
        (
            EnvConfig(id="Acrobot-v1", vectorization="vector_entry_point"),
            "no vector entry point: use env.vectorization='sync' or 'async'",
        ),
        (EnvConfig(id="Nope-v1", vectorization="vector_entry_point"), "'Nope-v1' is not a registered environment"),
        (
            EnvConfig(id="CartPole-v1", vectorization="vector_entry_point", frame_stack=2),
            "takes no frame_stack, max_episode_steps or wrappers: use 'sync'",
        ),
        (EnvConfig(id="CartPol-v1", vectorization="async"), "did you mean CartPole-v1"),
    ],
)
def test_refusals(config: EnvConfig, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_env(config)


@pytest.mark.parametrize(
    ("env_id", "advice"),
    [
        ("Hopper-v5", r"rl-training\[mujoco\]"),
        ("LunarLander-v3", r"rl-training\[box2d\]"),
        ("CartPole-v1", "provides it"),
    ],
)
@pytest.mark.parametrize("error", [gym.error.DependencyNotInstalled("missing"), ImportError("missing")])
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, env_id: str, advice: str, error: Exception
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(gym, "make", refuse)
    with pytest.raises(ValueError, match=advice):
        make_env(EnvConfig(id=env_id))


def test_each_config_gives_its_backend() -> None:
    expected = {"sync": LocalEnv, "async": GymnasiumEnv, "vector_entry_point": GymnasiumEnv}
    for vectorization, kind in expected.items():
        env = make_env(EnvConfig(id="CartPole-v1", n_envs=2, vectorization=vectorization))  # pyrefly: ignore
        assert isinstance(env, kind)
        assert env.num_envs == 2
        env.close()
    assert isinstance(make_env(EnvConfig(id="CartPole-v1", backend="native")), NativeEnv)
    assert make_env(EnvConfig(id="CartPole-v1", n_envs=2), num_envs=5).num_envs == 5


class Recorder(gym.Env):
    """Keeps every action it was given; ends after `length` steps."""

    taken: list[Any] = []

    def __init__(self, action_space: gym.Space | None = None, length: int = 1000) -> None:
        self.observation_space = spaces.Box(-99.0, 99.0, (1,), np.float32)
        self.action_space, self.length = action_space or spaces.Discrete(2), length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        self.count += 1
        return np.full(1, self.count, np.float32), 1.0, False, self.count >= self.length, {}


def lengths(env: VectorEnv, num_steps: int) -> list[bool]:
    env.reset(seed=0)
    return [bool(env.step(torch.zeros(env.num_envs, dtype=torch.int64)).truncated.all()) for _ in range(num_steps)]


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_part_of_the_environments_begins_as_it_does_beside_the_others(vectorization: str) -> None:
    config = EnvConfig(id="CartPole-v1", n_envs=4, vectorization=vectorization)  # pyrefly: ignore (one of those)
    whole, part = make_env(config), make_env(config, num_envs=2, start=2)
    try:
        assert torch.equal(whole.reset(5)[2:], part.reset(5))  # pyrefly: ignore (a tensor)
        state = part.get_state()
        part.step(torch.zeros(2, dtype=torch.int64))
        assert part.set_state(state) is None  # it goes on where it was
        assert torch.equal(part.get_state()["obs"], state["obs"])
    finally:
        whole.close()
        part.close()


def test_parts_of_native_environments_differ() -> None:
    config = EnvConfig(id="CartPole-v1", n_envs=2, backend="native")
    first, second = (make_env(config, start=start).reset(5) for start in (0, 2))
    assert not torch.isclose(first, second).any()  # pyrefly: ignore (tensors)


def test_factories_are_called_with_the_kwargs_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FACTORIES, "recorder", Recorder)
    config = EnvConfig(id="recorder", kwargs={"length": 4})
    assert lengths(make_env(config), 4) == [False, False, False, True]
    limited = EnvConfig(id="recorder", kwargs={"length": 4}, max_episode_steps=2)
    assert lengths(make_env(limited), 4) == [False, True, False, True]
    with pytest.raises(ValueError, match=r"env\.kwargs={'width': 1} was refused by recorder"):
        make_env(EnvConfig(id="recorder", kwargs={"width": 1}))


def test_a_factory_by_its_path() -> None:
    config = EnvConfig(id=f"{__name__}:Recorder", kwargs={"length": 3})
    assert lengths(make_env(config), 3) == [False, False, True]


def test_a_worker_does_not_need_the_registry_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    config = EnvConfig(id="recorder")
    monkeypatch.setitem(FACTORIES, "recorder", Recorder)
    factory = find_factory("recorder")
    monkeypatch.delitem(FACTORIES, "recorder")  # as in a process that was spawned, not forked
    assert isinstance(build_one(config, factory, 0).unwrapped, Recorder)


def test_gymnasiums_ids_may_name_the_module_that_registers_them() -> None:
    assert find_factory("gymnasium:CartPole-v1") is None
    assert make_env(EnvConfig(id="gymnasium:CartPole-v1")).spec.action == Discrete(2)


def test_native_dynamics_by_their_path() -> None:
    config = EnvConfig(id="rl_training.envs.memory_tasks:TMaze", backend="native", n_envs=3, kwargs={"length": 2})
    env = make_env(config)
    assert isinstance(env, NativeEnv)
    assert (env.num_envs, env.dynamics.length, env.max_episode_steps) == (3, 2, 8)  # pyrefly: ignore
    named = make_env(EnvConfig(id="TMaze-v0", backend="native", kwargs={"length": 2}, max_episode_steps=5))
    assert (named.dynamics.length, named.max_episode_steps) == (2, 5)  # pyrefly: ignore


def test_kwargs_reach_the_environment() -> None:
    env = make_env(EnvConfig(id="Pendulum-v1", kwargs={"g": 3.5}))
    assert isinstance(env, LocalEnv)
    assert env.envs[0].unwrapped.g == 3.5  # pyrefly: ignore


def test_a_time_limit_replaces_the_environments_own() -> None:
    assert lengths(make_env(EnvConfig(id="MountainCar-v0", max_episode_steps=3)), 6) == [False, False, True] * 2
    assert lengths(make_env(EnvConfig(id="MountainCar-v0")), 200) == [False] * 199 + [True]


def test_frames_are_stacked_and_start_afresh() -> None:
    env = make_env(EnvConfig(id=f"{__name__}:Recorder", kwargs={"length": 3}, frame_stack=3))
    assert isinstance(env.spec.obs, Box)
    assert env.spec.obs.shape == (3, 1)
    first = env.reset(seed=0)
    steps = [env.step(torch.zeros(1, dtype=torch.int64)) for _ in range(3)]
    frames = [first, *(step.next_obs for step in steps), steps[-1].obs]
    assert [frame.flatten().tolist() for frame in frames if isinstance(frame, torch.Tensor)] == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 1, 2],
        [1, 2, 3],
        [0, 0, 0],
    ]


ACTIONS = [  # the environment's space, ours, a policy's action, and what must arrive
    (spaces.Discrete(3), Discrete(3), torch.tensor([2]), 2),
    (spaces.Discrete(3, start=5), Discrete(3, 5), torch.tensor([2]), 7),
    (spaces.Discrete(3, start=-1), Discrete(3, -1), torch.tensor([0]), -1),
    (spaces.MultiDiscrete([3, 2]), MultiDiscrete((3, 2)), torch.tensor([[2, 1]]), [2, 1]),
    (spaces.MultiBinary(3), MultiBinary(3), torch.tensor([[1, 0, 1]]), [1, 0, 1]),
    (spaces.Box(-1.0, 1.0, (2,), np.float32), None, torch.tensor([[0.5, -3.0]]), [0.5, -1.0]),
    (spaces.Box(-1.0, 1.0, (2, 2), np.float32), None, torch.tensor([[0.1, 2.0, -2.0, 0.0]]), [[0.1, 1.0], [-1.0, 0.0]]),
    (spaces.Box(-1.0, 1.0, (1,), np.float64), None, torch.tensor([[9.0]]), [1.0]),
    (spaces.Box(-1.0, 1.0, (), np.float32), None, torch.tensor([[9.0]]), 1.0),
    (spaces.Box(-np.inf, np.inf, (1,), np.float32), None, torch.tensor([[9.0]]), [9.0]),
    (spaces.Box(0, 5, (3,), np.int32), None, torch.tensor([[1.6, -3.0, 9.0]]), [2, 0, 5]),
    (spaces.Box(0, 255, (2,), np.uint8), None, torch.tensor([[1.2, 300.0]]), [1, 255]),
    (spaces.Box(-7, 7, (2,), np.int64), None, torch.tensor([[-6.6, 0.4]]), [-7, 0]),
    (spaces.Box(0, 9, (), np.int16), None, torch.tensor([[3.7]]), 4),
    (spaces.Box(0, 1, (2,), bool), None, torch.tensor([[0.2, 0.7]]), [False, True]),
    (spaces.Box(-1.0, 0.1, (1,), np.float64), None, torch.tensor([[0.7]]), [0.1]),  # beyond it in float32
]


@pytest.mark.parametrize(("space", "ours", "action", "expected"), ACTIONS)
@pytest.mark.parametrize("backend", BACKENDS_IN_PROCESS)
@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
def test_actions_reach_the_environment_in_its_own_form(
    space: gym.Space, ours: object, action: torch.Tensor, expected: Any, backend: str
) -> None:
    Recorder.taken = []
    env = build(lambda: Recorder(space), backend, 1)
    env.reset(seed=0)
    assert ours is None or env.spec.action == ours
    env.step(ActionConverter(env.spec.action, squashed=False)(action))
    (taken,) = Recorder.taken
    np.testing.assert_allclose(taken, expected)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=1),
        *[spaces.Discrete(3, start=1, dtype=kind) for kind in (np.int8, np.uint8, np.int16, np.int32)],
        *[spaces.MultiDiscrete([3, 2], dtype=kind) for kind in (np.uint8, np.int32, np.int64)],
        spaces.MultiBinary(2),
        *[spaces.Box(0, 3, (2,), kind) for kind in (np.int32, np.float32, np.float64)],
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", ["local", "sync-SameStep", "strict"])
def test_actions_arrive_in_the_spaces_own_data_type(space: gym.Space, backend: str) -> None:
    Recorder.taken = []
    env = build(lambda: Recorder(space), backend, 2)
    env.reset(seed=0)
    chosen = torch.zeros(2, dtype=torch.int64) if isinstance(space, spaces.Discrete) else torch.zeros(2, 2).long()
    env.step(ActionConverter(env.spec.action, squashed=False)(chosen))
    assert {np.asarray(action).dtype for action in Recorder.taken} == {space.dtype}


def test_squashed_actions_are_rescaled() -> None:
    convert = ActionConverter(Box((2,), (-2.0, 0.0), (2.0, 1.0)), squashed=True)
    assert convert(torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])).tolist() == [[-2, 0], [0, 0.5], [2, 1]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("squashed", [False, True])
def test_every_action_lies_in_the_environments_space(dtype: str, squashed: bool) -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        low, high = sorted(generator.uniform(0 if dtype == "uint8" else -9, 9, 2))
        if "int" in dtype:
            low, high = np.floor(low), np.ceil(high)
        space = spaces.Box(np.dtype(dtype).type(low), np.dtype(dtype).type(high), (2,), np.dtype(dtype).type)
        ours = convert_spec(spaces.Discrete(2), space).action
        sent = torch.tensor(
            generator.uniform(-1 if squashed else -20, 1 if squashed else 20, (50, 2)), dtype=torch.float32
        )
        sent[:2] = torch.tensor([[-1.0, 1.0]])
        for action in ActionConverter(ours, squashed=squashed)(sent).numpy():
            assert space.contains(action), (action, space)


class Doubling(Recorder):
    """Changes its action in place."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        action *= 2
        return super().step(action // 2)


@pytest.mark.parametrize("backend", BACKENDS_IN_PROCESS)
def test_an_environment_that_changes_its_action_changes_nothing_else(backend: str) -> None:
    env = build(lambda: Doubling(spaces.MultiDiscrete([5, 5])), backend, 1)
    env.reset(seed=0)
    action = torch.tensor([[1, 2]])
    env.step(action)
    assert action.tolist() == [[1, 2]]
    if backend == "local":
        assert env.get_state()["episodes"][0]["actions"].tolist() == [[1, 2]]

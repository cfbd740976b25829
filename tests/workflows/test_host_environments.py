"""Environments on the host with a learner elsewhere: the same steps and the same updates as without transfers and graphs."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import rl_training
from rl_training import Agent, NonFiniteError
from rl_training.core import tree_map
from rl_training.experiment.checkpoint import difference
from rl_training.runtime import compilation, executors, trainer
from rl_training.runtime.cuda_graph import WARM_UP
from tests.gpu import ROUNDED, TARGETS, needs_gpu

pytestmark = pytest.mark.usefixtures("compiled_indeed")
DROQ = ROUNDED | {"critic_layer_norm": True, "critic_dropout": 0.01, "net_arch": [64, 64]}
CASES = {
    "DQN": ("CartPole-v1", TARGETS),
    "PrioritizedDQN": ("CartPole-v1", TARGETS | {"n_steps": 3}),
    "SAC": ("Pendulum-v1", ROUNDED | {"train_freq": 4, "gradient_steps": 2}),
    "TD3": ("Pendulum-v1", ROUNDED | {"train_freq": 4, "gradient_steps": 3, "action_noise": "ou"}),
    "REDQ": ("Pendulum-v1", DROQ | {"train_freq": 4, "gradient_steps": 4, "policy_delay": 2, "n_critics": 3}),
}
STEPS = 203  # ends within an iteration


def build(name: str, **settings: object) -> Agent:
    env, own = CASES[name]
    common = {"n_envs": 4, "seed": 0, "total_timesteps": STEPS, "learning_rate": "lin_1e-3"}
    return getattr(rl_training, name)(env, **common | {"compile": False, "threads": 1} | own | settings)


def state_of(agent: Agent) -> dict:
    state = agent.snapshot().state
    return state | {"progress": {key: value for key, value in state["progress"].items() if key != "wall_time"}}


class Called:
    """In the place of a recording: calls the function."""

    calls: list[Callable] = []

    def __init__(self, function: Callable, generators: tuple = ()) -> None:
        self.function = function

    def __call__(self, *inputs: object) -> object:
        self.calls.append(self.function)
        return self.function(*inputs)


@pytest.fixture
def as_if_recorded(monkeypatch: pytest.MonkeyPatch) -> type[Called]:
    """The paths that are recorded on a GPU, taken on the CPU."""
    monkeypatch.setattr(compilation, "CudaGraph", Called)
    monkeypatch.setattr(executors, "CudaGraph", Called)
    monkeypatch.setattr(trainer, "executor_for", executors.RecordedUpdates)
    monkeypatch.setattr(Called, "calls", [])
    return Called


@pytest.mark.parametrize("name", CASES)
def test_writing_and_drawing_as_recordings_equals_single_calls_bit_for_bit(
    name: str, request: pytest.FixtureRequest
) -> None:
    plain = build(name)
    plain.learn(progress=False)
    called = request.getfixturevalue("as_if_recorded").calls
    recorded, cut = build(name), build(name)
    recorded.learn(progress=False)
    names = {function.__name__ for function in called}
    assert names == {"write_rows", "run"}
    assert difference(state_of(plain), state_of(recorded)) is None
    cut.learn(stop_at=101, progress=False)  # leaves an iteration half done
    cut.learn(progress=False)
    assert difference(state_of(plain), state_of(cut)) is None


@needs_gpu
@pytest.mark.parametrize("how", [True, "record"])
@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_recorded_runs_equal_eager_ones(name: str, n_envs: int, how: bool | str) -> None:
    agents = [build(name, device="cuda", compile=setting, n_envs=n_envs) for setting in (False, how)]
    for agent in agents:
        agent.learn(progress=False)
    eager, recorded = (agent.trainer for agent in agents)
    assert recorded.executor(recorded.plan.phases[0]).blocks
    assert all(graph.graph is not None for graph in recorded.collector.recordings.values())
    torch.testing.assert_close(
        tree_map(torch.Tensor.cpu, eager.experience.columns),
        tree_map(torch.Tensor.cpu, recorded.experience.columns),
        rtol=1e-3,
        atol=1e-3,
    )
    expected = dict(eager.algorithm.named_parameters())
    for key, value in recorded.algorithm.named_parameters():
        torch.testing.assert_close(value, expected[key], rtol=1e-3, atol=1e-4)


@needs_gpu
def test_stacked_frames_are_written_by_a_recording() -> None:
    settings = {"frame_stack": 3, "max_episode_steps": 11, "device": "cuda", "net_arch": [16]}
    agents = [build("DQN", compile=compiled, **settings) for compiled in (False, True)]
    for agent in agents:
        agent.learn(progress=False)
    eager, recorded = (agent.trainer.experience.columns for agent in agents)
    for name in ("flags", "age", "written"):
        assert torch.equal(getattr(eager, name), getattr(recorded, name))


@needs_gpu
@pytest.mark.parametrize("compiled", [False, "record", True])
def test_a_resumed_run_on_the_gpu_goes_on_where_it_was(compiled: bool | str, tmp_path: Path) -> None:
    whole, part = (build("SAC", device="cuda", compile=compiled) for _ in range(2))
    whole.learn(progress=False)
    part.learn(stop_at=101, progress=False)
    part.save(tmp_path / "saved")
    resumed = rl_training.load(tmp_path / "saved")
    resumed.learn(progress=False)
    assert resumed.progress.gradient_steps == whole.progress.gradient_steps
    replays = (agent.trainer.experience for agent in (whole, resumed))
    expected, found = ((replay.columns.written, replay.added, replay.drawn) for replay in replays)
    assert [str(value) for value in expected] == [str(value) for value in found]
    expected = dict(whole.algorithm.named_parameters())
    for key, value in resumed.algorithm.named_parameters():
        torch.testing.assert_close(value, expected[key], rtol=1e-3, atol=1e-4)


@needs_gpu
@pytest.mark.parametrize("overlap", [False, True])
def test_only_actions_are_waited_for(overlap: bool) -> None:
    settings = {"train_freq": 1, "gradient_steps": 1, "n_envs": 1, "log_interval": 10**6}
    agent = build("SAC", device="cuda", compile=True, overlap=overlap, total_timesteps=10_000, **settings)
    agent.learn(stop_at=64 + 2 * WARM_UP + 4, progress=False)
    loop = agent.trainer
    with loop.session(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            for _ in range(20):
                loop.advance(10_000)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        waits = [str(warning.message) for warning in said if "called a synch" in str(warning.message)]
    assert len(waits) == 20, waits


@needs_gpu
def test_on_a_gpu_a_loss_that_is_not_finite_is_found_at_the_next_log() -> None:
    agent = build("SAC", device="cuda", compile=True, log_interval=100)
    agent.learn(stop_at=100, progress=False)
    agent.trainer.experience.columns.reward.fill_(torch.inf)
    with pytest.raises(NonFiniteError, match=r"became \w+ in update \d+ of the last \d+, up to step 200"):
        agent.learn(progress=False)

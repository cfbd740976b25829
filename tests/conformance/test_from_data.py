"""Learning from data: behaviour cloning on every kind of space, every method with a replay offline and mixed."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import rl_training
from rl_training import BC, Agent, Callback, Dataset, make_data
from rl_training.api.training import build_run
from rl_training.core import Spec
from rl_training.envs import EnvConfig, make_env
from rl_training.experiment.checkpoint import difference
from tests.conformance.cases import CASES, Case, named
from tests.offline import QUICK, state_of, steps_of

REPLAYED = [case for case in CASES if "buffer_size" in case.settings]
every_replay = pytest.mark.parametrize("case", REPLAYED, ids=lambda case: case.name)
SMALL = {"net_arch": [8, 8], "batch_size": 16, "learning_starts": 16, "prioritized": False, "n_critics": 2}


def probe(name: str) -> str:
    return f"tests.conformance.probes:{name}"


@cache
def random_steps(name: str, steps: int = 400) -> Dataset:
    return make_data(EnvConfig(id=probe(name)), ["random"], steps, seed=0)


@cache
def specification(name: str) -> Spec:
    env = make_env(EnvConfig(id=probe(name)), num_envs=1)
    env.close()
    return env.spec


def right_answers(name: str, num: int = 200) -> Dataset:
    """What the best policy of a probe does, one step each."""
    rng, spec = np.random.default_rng(0), specification(name)
    seen = rng.integers(0, 2, num)
    side = (2 * seen - 1).astype(np.float32)[:, None]
    match name:
        case "Matching" | "ContinuousMatching":
            obs, action = side, side if name.startswith("C") else seen
        case "Bits":
            obs, action = seen, np.stack([seen, np.ones(num, int), np.zeros(num, int)], 1)
        case "Choices":
            obs, action = seen, np.stack([seen, np.full(num, 2)], 1)
        case "Pictures":
            camera = np.broadcast_to(255 * seen[:, None, None, None], (num, *spec.obs.spaces["camera"].shape))
            obs, action = {"camera": camera.astype(np.uint8), "side": side}, seen
        case _:
            forbidden = rng.integers(0, 3, num)
            obs = {
                "observation": np.eye(3, dtype=np.float32)[forbidden],
                "action_mask": 1 - np.eye(3, dtype=int)[forbidden],
            }
            action = (forbidden + 1) % 3
    yes = np.ones(num, bool)
    columns = {"obs": obs, "action": action, "reward": np.ones(num), "next_obs": obs, "spec": spec}
    return Dataset.from_arrays(terminated=yes, truncated=~yes, **columns)


BEST = {"Matching": 4.0, "ContinuousMatching": 4.0, "Bits": 1.0, "Choices": 1.0, "Pictures": 1.0, "Masked": 4.0}


@pytest.mark.parametrize("name", BEST)
def test_behaviour_cloning_does_as_the_data_do(name: str, tmp_path: Path) -> None:
    settings = QUICK | {"net_arch": [32], "learning_rate": 1e-2, "batch_size": 32}
    agent = BC(probe(name), dataset=right_answers(name), **settings)
    agent.learn(total_updates=60 if name == "Pictures" else 300, progress=False)
    assert agent.evaluate(20).mean > 0.98 * BEST[name]
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model")
    assert loaded.evaluate(5, seed=2).returns == agent.evaluate(5, seed=2).returns


class Seen(Callback):
    def __init__(self) -> None:
        self.metrics: list[dict] = []

    def on_log(self, trainer, metrics) -> None:
        self.metrics.append({name: value for name, value in metrics.items() if name.startswith("train/")})


def start(case: Case, **settings: object) -> Agent:
    name = "ContinuousMatching" if case.acts_in == "box" else "Matching"
    own = {key: value for key, value in SMALL.items() if key != "n_critics" or key in case.settings}
    own |= {"critic_subset": 2} if "critic_subset" in case.settings else {}
    if case.name == "CrossQ":
        own |= {"critic_net_arch": [8]}
    return case.agent(probe(name), **{"dataset": random_steps(name), "log_interval": 8} | own | settings)


@every_replay
def test_every_method_with_a_replay_learns_offline_and_from_both(case: Case) -> None:
    agent, seen = start(case, n_steps=2, normalize_observation=True), Seen()
    before = {key: p.detach().clone() for key, p in agent.algorithm.named_parameters()}
    agent.learn(total_updates=20, callbacks=seen, progress=False)
    assert (agent.progress.offline_updates, agent.progress.gradient_steps) == (20, 20)
    assert_learned(agent, before)
    assert agent.trainer.plan.stores["data"].drawn == 20 * 16
    assert agent.trainer.collector is None
    assert not any("train/offline_batch_ratio" in metrics for metrics in seen.metrics)
    before = {key: p.detach().clone() for key, p in agent.algorithm.named_parameters()}
    agent.learn(32, callbacks=seen, progress=False)
    assert (agent.progress.offline_updates, agent.num_timesteps) == (20, 32)
    assert_learned(agent, before)
    assert seen.metrics[-1]["train/offline_batch_ratio"] == 0.5
    assert {"train/reward_logged", "train/reward_own", "train/td_error_logged"} <= seen.metrics[-1].keys()
    assert all(np.isfinite(value) for metrics in seen.metrics for value in metrics.values())
    agent.close()


def assert_learned(agent: Agent, before: dict[str, torch.Tensor]) -> None:
    after = dict(agent.algorithm.named_parameters())
    assert all(torch.isfinite(parameter).all() for parameter in after.values())
    online = [key for key in before if not key.startswith("target")]
    still = [key for key in online if torch.equal(before[key], after[key])]
    assert len(still) <= len(online) // 2, still


@every_replay
def test_every_method_with_a_replay_resumes_in_the_middle_of_the_data(case: Case, tmp_path: Path) -> None:
    straight, paused = start(case, total_updates=24), start(case, total_updates=24)
    straight.learn(progress=False)
    paused.learn(stop_at=11, progress=False)
    paused.save(tmp_path / "model")
    resumed = type(paused).load(tmp_path / "model", dataset=paused.dataset)
    resumed.learn(progress=False)
    for part in ("algorithm", "data", "rng"):
        assert difference(state_of(straight)[part], state_of(resumed)[part]) is None, part


QUICKLY: dict[str, dict[str, object]] = {
    "RLPD": {"policy_delay": 1},
    "TD3": {},
    "IQL": {"beta": 10.0},
    "CQL": {},
}  # their targets follow soon enough


@pytest.mark.parametrize(
    "case", named("DQN", "DiscreteCQL", "RLPD", "TD3", "IQL", "CQL", "DiscreteIQL"), ids=lambda case: case.name
)
def test_the_best_actions_are_found_in_random_data(case: Case) -> None:
    name = "ContinuousMatching" if case.acts_in == "box" else "Matching"
    settings = QUICKLY.get(case.name, {"target_update_interval": 20})
    agent = case.agent(probe(name), dataset=random_steps(name), **settings)
    agent.learn(total_updates=250, progress=False)
    assert agent.evaluate(20).mean > 0.9 * BEST[name]
    assert random_steps(name).returns.mean() < 0.7 * BEST[name]


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("BC", "data", marks=pytest.mark.slow),
        pytest.param("DiscreteCQL", "data", marks=pytest.mark.slow),
        ("DiscreteCQL", "mixture"),  # which gathers from the data too
    ],
)
def test_compiled_updates_equal_eager_ones(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results, dataset = [], steps_of("CartPole-v1")
    obs = dataset.next_obs
    read_only = np.frombuffer(obs.tobytes(), obs.dtype).reshape(obs.shape)  # as an array that comes from a file
    monkeypatch.setattr(dataset, "next_obs", read_only)
    for compiled in (False, True):
        settings = QUICK | {"compile": compiled, "normalize_observation": True}
        settings |= {"total_updates": 40} if source == "data" else {"total_timesteps": 40}
        if name == "DiscreteCQL":
            settings |= {"target_update_interval": 1, "tau": 0.3, "learning_starts": 16, "buffer_size": 64}
        agent = getattr(rl_training, name)("CartPole-v1", dataset=dataset, **settings)
        trainer = build_run(agent).trainer
        with trainer.session():
            while trainer.progress.gradient_steps < 3:
                trainer.advance(trainer.progress.timesteps + 4)
        (executor,) = trainer.executors.values()
        assert len(executor.steps) == 1  # for all that is due
        assert (executor.experience is trainer.plan.stores["data"]) == (source == "data")
        results.append((dict(agent.algorithm.named_parameters()), trainer.journal.history))
    (eager, eager_metrics), (compiled_ones, compiled_metrics) = results
    for key, value in eager.items():
        torch.testing.assert_close(compiled_ones[key], value, rtol=1e-4, atol=1e-5, msg=lambda m, n=key: f"{n}: {m}")
    torch.testing.assert_close(compiled_metrics, eager_metrics, rtol=1e-3, atol=1e-4)
    assert ("td_error_logged" in eager_metrics[0]) == (source == "mixture")

"""The compiled path computes what the eager path computes; eager is the reference."""

import pytest
import torch

from rl_training.core import tree_map
from rl_training.experiment.checkpoint import difference
from tests.conformance.cases import CASES, Case

pytestmark = pytest.mark.compiled
every_algorithm = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_algorithm
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_compiled_update_equals_eager(case: Case, env: str) -> None:
    """Every pass of the algorithm as the trainer runs it; one that is not one graph stays eager."""
    parameters = []
    for compiled in (False, True):
        agent = case.agent(env, normalize_observation=True, compile=compiled)
        trainer = agent.prepare_trainer()
        with trainer.session():
            rollout = trainer.collector.collect(agent.algorithm.policy, trainer.experience.wanted_steps)
        trainer.experience.add(rollout)
        storage, _ = trainer.experience.prepare(agent.algorithm)
        metrics = {}
        for a_pass in agent.algorithm.passes():
            for epoch in trainer.experience.rows(a_pass):
                for index in epoch:
                    metrics |= trainer.updates[a_pass.method](storage, index).metrics
        parameters.append((dict(agent.algorithm.named_parameters()), metrics))
    (eager, eager_metrics), (compiled_ones, compiled_metrics) = parameters
    for name, value in eager.items():
        torch.testing.assert_close(compiled_ones[name], value, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    for name, value in eager_metrics.items():
        torch.testing.assert_close(compiled_metrics[name], value, rtol=1e-3, atol=1e-4)


with_and_without_memory = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("PPO", "RecurrentPPO")], ids=lambda case: case.name
)


@with_and_without_memory
def test_compiled_native_collection_equals_eager(case: Case) -> None:
    collected = []
    for compiled in (False, True):
        agent = case.agent("CartPole-v1", backend="native", compile=compiled)
        trainer = agent.prepare_trainer()
        with trainer.session():
            # Two blocks and four single steps.
            collected.append(trainer.collector.collect(agent.algorithm.policy, 20))
    torch.testing.assert_close(collected[0].action, collected[1].action)
    tree_map(lambda a, b: torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5) or a, *collected)


@with_and_without_memory
def test_compiled_run_resumes_exactly(case: Case, tmp_path) -> None:
    settings = {"backend": "native", "compile": True, "total_timesteps": 600}
    straight = case.agent("CartPole-v1", **settings)
    straight.learn(progress=False)
    paused = case.agent("CartPole-v1", **settings)
    paused.learn(stop_at=300, progress=False)  # 75 steps of 4 environments: neither a rollout's end nor a block's
    paused.save(tmp_path / "model")
    resumed = type(paused).load(tmp_path / "model")
    resumed.learn(progress=False)
    ours, theirs = (agent.snapshot().state["algorithm"] for agent in (straight, resumed))
    assert difference(ours, theirs) is None

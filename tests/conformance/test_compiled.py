"""The compiled path computes what the eager path computes; eager is the reference."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch

from rl_training.api.training import build_run
from rl_training.core import tree_map
from rl_training.envs.vector import same_trees
from rl_training.experiment.checkpoint import difference
from tests.conformance.cases import CASES, RELATED, Case, named

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("compiled_indeed")]
COMPILED = [
    *((case, env) for case in CASES if case.acts_in == "any" for env in ("CartPole-v1", "Pendulum-v1")),
    *((case, "CartPole-v1") for case in named("DQN", "RainbowDQN", "IQN", "DiscreteSAC", "PQN")),
    *((case, "Pendulum-v1") for case in named("TD3", "SAC", "REDQ", "TQC", "CrossQ")),
    *((case, case.home) for case in named(*RELATED)),
]
# One of each way in which updates are put together; for DQN's, test_from_data.py compiles DiscreteCQL, which adds a term to
# it. `make test` traces what is left of other algorithms, and of PPO's Box actions; `make test-all` compiles everything.
ALWAYS = {
    ("PPO", "CartPole-v1"),
    ("TRPO", "Pendulum-v1"),
    ("RecurrentPPO", "Pendulum-v1"),
    ("SAC", "Pendulum-v1"),
}
TRACED = [
    *(
        (case, "CartPole-v1")
        for case in named("A2C", "APPO", "IMPALA", "DQN", "RainbowDQN", "IQN", "DiscreteSAC", "PQN")
    ),
    *((case, "Pendulum-v1") for case in named("PPO", "TD3", "REDQ", "TQC", "CrossQ", "CQL")),
]
# What is compiled, once, includes all that follows an update: the actor, the target, which only moves part of the way.
DUE_EVERY_TIME = {"gradient_steps": 1, "target_update_interval": 8, "tau": 0.3}
ONE_GRAPH: dict[str, dict[str, object]] = {
    "discrete": DUE_EVERY_TIME,
    "DiscreteIQL": DUE_EVERY_TIME | {"target_update_interval": 1},  # which counts updates
    "box": {"gradient_steps": 1, "policy_delay": 1},
    # Normalisation makes some gradients zero but for rounding, which Adam would blow up.
    "CrossQ": {"gradient_steps": 1, "policy_delay": 1, "renorm_warmup_steps": 2, "adam_eps": 1e-4},
}


@pytest.mark.parametrize(
    ("case", "env"),
    [
        pytest.param(case, env, id=f"{env}-{case.name}", marks=[] if (case.name, env) in ALWAYS else [pytest.mark.slow])
        for case, env in COMPILED
    ],
)
def test_compiled_update_equals_eager(case: Case, env: str) -> None:
    assert_equals_eager(case, env)


@pytest.mark.parametrize(("case", "env"), [pytest.param(case, env, id=f"{env}-{case.name}") for case, env in TRACED])
@pytest.mark.usefixtures("traced")
def test_traced_update_equals_eager(case: Case, env: str) -> None:
    assert_equals_eager(case, env)


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_traced_update_from_shifted_pictures_equals_eager() -> None:
    (case,) = named("SAC")
    pictures = {"backend": "native", "kwargs": {"size": 8}, "random_shift": 1, "share_features_extractor": True}
    assert_equals_eager(case, "PixelPendulum-v1", **pictures)


def assert_equals_eager(case: Case, env: str, **more: object) -> None:
    """Every pass of the algorithm as the trainer runs it; one that is not one graph stays eager."""
    # Every parameter has operations of its own in the graph: PPO alone has two hidden layers.
    results, small = [], {} if case.name == "PPO" else {"net_arch": [16]}
    for compiled in (False, True):
        replayed = "buffer_size" in case.settings
        settings = ONE_GRAPH.get(case.name, ONE_GRAPH[case.acts_in]) if replayed else {}
        agent = case.agent(
            env, normalize_observation=True, compile=compiled, total_timesteps=1_000, **small | settings | more
        )
        trainer = build_run(agent).trainer
        with trainer.session():
            while trainer.progress.iterations < (5 if replayed else 1):
                trainer.advance(1_000)
        if replayed:
            (a_pass,) = agent.algorithm.passes()
            methods = (a_pass.method, *(extra.method for extra in a_pass.periodic))
            assert list(trainer.executor(trainer.plan.phases[0]).steps) == [methods]  # all in one step
        averages = {name: value for name, value in agent.algorithm.named_buffers() if "norms." in name}
        results.append((dict(agent.algorithm.named_parameters()) | averages, trainer.journal.history))
    (eager, eager_metrics), (compiled_ones, compiled_metrics) = results
    for name, value in eager.items():
        torch.testing.assert_close(compiled_ones[name], value, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    torch.testing.assert_close(compiled_metrics, eager_metrics, rtol=1e-3, atol=1e-4)


def first_always(*names: str) -> pytest.MarkDecorator:
    """These cases; `make test` takes the first."""
    cases = named(*names)
    marks = [[], *([pytest.mark.slow] for _ in cases[1:])]
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=m) for case, m in zip(cases, marks, strict=True)]
    )


@first_always("PPO", "RecurrentPPO")
def test_compiled_native_collection_equals_eager_wherever_it_is_cut(case: Case, short_blocks: None) -> None:
    collected = []
    for compiled in (False, True):
        agent = case.agent("CartPole-v1", backend="native", compile=compiled)
        trainer = build_run(agent).trainer
        collector, policy = trainer.collector, agent.algorithm.policy
        with trainer.session():
            start, random = deepcopy(collector.state_dict()), torch.get_rng_state()
            # Blocks and a single step, during which episodes end and others begin.
            whole = tree_map(torch.clone, collector.collect(policy, 41))
            assert collector.load_state_dict(start)
            torch.set_rng_state(random)
            parts = [tree_map(torch.clone, collector.collect(policy, num)) for num in (21, 20)]
        assert same_trees(whole, tree_map(lambda a, b: torch.cat([a, b]), *parts))  # bit for bit
        collected.append(whole)
    assert collected[0].terminated.any()
    torch.testing.assert_close(collected[0].action, collected[1].action)
    tree_map(lambda a, b: torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5) or a, *collected)


@pytest.mark.slow
@pytest.mark.parametrize("case", named("PPO", "RecurrentPPO", "RainbowDQN"), ids=lambda case: case.name)
def test_compiled_run_resumes_exactly(case: Case, short_blocks: None, tmp_path: Path) -> None:
    assert_resumes_exactly(case, tmp_path)


@pytest.mark.usefixtures("traced")
def test_traced_run_resumes_exactly(short_blocks: None, tmp_path: Path) -> None:
    (case,) = named("PPO")
    assert_resumes_exactly(case, tmp_path)


def assert_resumes_exactly(case: Case, folder: Path) -> None:
    collection = DUE_EVERY_TIME if "buffer_size" in case.settings else {"backend": "native"}  # few compilations
    settings = {"compile": True, "total_timesteps": 600, "net_arch": [16]} | collection
    straight = case.agent("CartPole-v1", **settings)
    straight.learn(progress=False)
    paused = case.agent("CartPole-v1", **settings)
    paused.learn(stop_at=300, progress=False)  # 75 steps of 4 environments: neither a rollout's end nor a block's
    paused.save(folder / "model")
    resumed = type(paused).load(folder / "model")
    resumed.learn(progress=False)
    ours, theirs = (agent.snapshot().state["algorithm"] for agent in (straight, resumed))
    assert difference(ours, theirs) is None


def test_every_algorithm_that_is_compiled_is_compiled_or_traced_each_time() -> None:
    always = {name for name, _ in ALWAYS} | {case.name for case, _ in TRACED}
    assert {case.name for case, _ in COMPILED} - {*RELATED} <= always

"""Health: values beside the returns that followed, silent units, warnings said once, and training left alone."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import rl_training
from rl_training import C51, DQN, PPO, Agent, PrioritizedDQN
from rl_training.api.training import build_run
from rl_training.config.registry import ALGORITHMS
from rl_training.core import Supply, Transition
from rl_training.experience.reward_units import RAW, RewardUnits
from rl_training.experiment.checkpoint import difference
from rl_training.models import dormant_share
from rl_training.runtime import HealthCheck
from rl_training.runtime.health import PATIENCE, WARNINGS, leading_values, remedies
from tests.conformance.cases import Case, named

GAMMA = 0.9
NOTHING = SimpleNamespace(
    sample=lambda num: None, health=dict, rewards=RAW
)  # an experience without anything to look at
GARBAGE = 1e6


def critic(off_by: float = 0.0) -> SimpleNamespace:
    """Observations are their own values; `off_by` is added."""
    return SimpleNamespace(config=None, values=lambda obs: obs[:, 0] + off_by)


def episodes(num_steps: int = 40, *, truncated_rate: float = 0.1, tail: bool = True, seed: int = 0) -> Transition:
    """[time, env] steps whose observations are the exact values; a tail that does not end observes nonsense."""
    gen = torch.Generator().manual_seed(seed)
    shape = (num_steps, 3)
    reward = torch.randn(shape, generator=gen)
    terminated = torch.rand(shape, generator=gen) < 0.1
    truncated = torch.rand(shape, generator=gen) < truncated_rate
    terminated[-2:], truncated[-2:] = not tail, False
    cut_at = torch.randn(shape, generator=gen)  # the value of the last observation of a cut episode
    value, next_value = torch.full(shape, GARBAGE), torch.full(shape, GARBAGE)
    after = torch.full((3,), GARBAGE)
    for t in reversed(range(num_steps)):
        next_value[t] = torch.where(terminated[t], GARBAGE, torch.where(truncated[t], cut_at[t], after))
        exact = reward[t] + GAMMA * torch.where(terminated[t], 0.0, next_value[t])
        value[t] = after = torch.where(next_value[t].eq(GARBAGE) & ~terminated[t], GARBAGE, exact)
    yes = torch.ones(shape, dtype=torch.bool)
    return Transition(
        value[..., None], yes.long(), reward, reward, next_value[..., None], terminated, truncated, yes, {}
    )


def look(check: HealthCheck, algorithm: SimpleNamespace, rewards: RewardUnits = RAW) -> dict[str, float]:
    """Measures with as much of a trainer as is looked at."""
    source = SimpleNamespace(**vars(NOTHING) | {"rewards": rewards})
    plan = SimpleNamespace(source=lambda progress: source)
    parts = {"algorithm": algorithm, "plan": plan, "progress": SimpleNamespace(timesteps=7)}
    return check.measure(SimpleNamespace(device=torch.device("cpu"), **parts), GAMMA, seed=1)  # pyrefly: ignore


def measure(steps: Transition, *, off_by: float = 0.0, chunks: int = 1) -> dict[str, float]:
    check = HealthCheck()
    for part in zip(*(x.chunk(chunks) for x in steps[:-1]), strict=True):
        check.watch(critic(off_by), Transition(*part, {}))  # pyrefly: ignore
    return look(check, critic())


def test_values_are_compared_in_the_units_that_are_learned() -> None:
    check, steps = HealthCheck(), episodes(truncated_rate=0.0, tail=False)
    check.watch(critic(), steps._replace(reward=(steps.reward - 0.5) / 8))  # pyrefly: ignore
    assert look(check, critic(), RewardUnits(8.0, 0.5))["q_bias"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("chunks", [1, 4])
def test_a_critic_that_is_exactly_right_has_no_bias(chunks: int) -> None:
    steps = episodes()
    complete = steps.obs[..., 0] != GARBAGE
    assert (~complete).any(0).all()  # every environment has a tail that does not count
    assert (steps.truncated & ~steps.terminated).any()
    health = measure(steps, chunks=chunks)
    assert health.keys() == {"q_bias", "return_scale"}
    assert health["q_bias"] == pytest.approx(0.0, abs=1e-5)
    assert health["return_scale"] == pytest.approx(steps.obs[..., 0][complete].abs().mean().item(), rel=1e-5)


@pytest.mark.parametrize("off_by", [2.5, -0.75])
@pytest.mark.parametrize("tail", [False, True])
def test_a_critic_that_is_off_by_a_constant_has_it_as_bias(off_by: float, tail: bool) -> None:
    health = measure(episodes(truncated_rate=0.0, tail=tail), off_by=off_by, chunks=4)
    assert health["q_bias"] == pytest.approx(off_by, abs=1e-5)


def test_a_cut_episode_is_continued_by_the_value_of_its_last_observation() -> None:
    """Which is off by 1 too: k steps before the cut the return is off by GAMMA**k."""
    shape = (4, 1)
    no, yes = torch.zeros(shape, dtype=torch.bool), torch.ones(shape, dtype=torch.bool)
    cut = no.clone()
    cut[-1] = True
    value = torch.tensor([[0.0], [0.0], [0.0], [0.0]])  # of rewards that are all zero
    steps = Transition(value[..., None], no.long(), value, value, value[..., None], no, cut, yes, {})
    expected = sum(1 - GAMMA**k for k in (4, 3, 2, 1)) / 4
    assert measure(steps, off_by=1.0)["q_bias"] == pytest.approx(expected, rel=1e-5)
    ended = steps._replace(terminated=cut, truncated=no)
    assert measure(ended, off_by=1.0)["q_bias"] == pytest.approx(1.0)
    both = steps._replace(terminated=cut)  # then it is an end
    assert measure(both, off_by=1.0)["q_bias"] == pytest.approx(1.0)


def test_unfinished_tails_and_steps_that_were_resets_do_not_count() -> None:
    steps = episodes(tail=False)
    valid = steps.valid.clone()
    ends = (steps.terminated | steps.truncated)[:-1]
    valid[1:][ends] = False  # as backends that reset on the next step say it
    spoiled = torch.where(valid[..., None], steps.obs, GARBAGE)
    assert not valid.all()
    assert measure(steps._replace(obs=spoiled, valid=valid))["q_bias"] == pytest.approx(0.0, abs=1e-5)
    assert measure(steps._replace(obs=spoiled))["q_bias"] > 1.0  # had they counted
    never = torch.zeros_like(steps.terminated)
    assert measure(steps._replace(terminated=never, truncated=never)) == {}


def test_nothing_need_be_allowed_after_the_end() -> None:
    steps = episodes(truncated_rate=0.0)
    after = torch.where(steps.terminated[..., None], -math.inf, steps.next_obs)  # as QPolicy.values has it
    assert measure(steps._replace(next_obs=after))["q_bias"] == pytest.approx(0.0, abs=1e-5)


def test_every_measurement_is_of_its_own_evaluation() -> None:
    check, steps = HealthCheck(), episodes(truncated_rate=0.0)
    for off_by in (3.0, -1.0):
        check.watch(critic(off_by), steps)  # pyrefly: ignore
        assert look(check, critic())["q_bias"] == pytest.approx(off_by, abs=1e-5)
    assert look(check, critic()) == {}


def test_without_a_critic_of_observations_nothing_is_compared() -> None:
    check, blind = HealthCheck(), SimpleNamespace(config=None, values=lambda obs: None)
    check.watch(blind, episodes())  # pyrefly: ignore
    assert look(check, blind) == {}


def test_values_keep_time_and_environment_apart() -> None:
    obs = {"b": torch.arange(6.0).view(2, 3, 1), "a": torch.zeros(2, 3, 4)}
    values = leading_values(SimpleNamespace(values=lambda o: o["b"][:, 0]), obs)  # pyrefly: ignore
    assert torch.equal(values, torch.arange(6.0).view(2, 3))


@pytest.mark.parametrize(
    ("layers", "share"),
    [
        ([[1.0, 0.0, 0.0, 3.0]], 2 / 4),
        ([[-1.0, 0.0, 1.0, 1.0]], 1 / 4),  # silent is near zero, not below
        ([[1.0, 1.0], [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]], 2 / 8),  # of all units, not of layers
        ([[100.0, 100.0], [0.01, 0.01]], 0.0),  # beside their own layer
        ([[0.02, 1.0, 1.98]], 1 / 3),
        ([[0.02, 1.0, 1.98]] * 2, 1 / 3),
        ([[0.03, 1.0, 1.97]], 0.0),
        ([[0.0, 0.0, 0.0]], 1.0),  # a layer that is dead
        ([], 0.0),
    ],
)
def test_dormant_share_of_known_layers(layers: list[list[float]], share: float) -> None:
    assert dormant_share(torch.tensor([layer]) for layer in layers).item() == pytest.approx(share)
    rows = [torch.tensor([layer, layer]).unsqueeze(0).expand(3, -1, -1) for layer in layers]  # more leading dimensions
    assert dormant_share(iter(rows)).item() == pytest.approx(share)


def test_a_unit_that_fires_for_some_rows_is_not_dormant() -> None:
    layer = torch.zeros(100, 3)
    layer[0, 0], layer[:, 1] = 50.0, 1.0
    assert dormant_share(iter([layer])).item() == pytest.approx(1 / 3)
    # Sizes of 0.5, 1 and 0 are 1, 2 and 0 times their mean.
    assert dormant_share(iter([layer]), threshold=1.5).item() == pytest.approx(2 / 3)


CROSSINGS: dict[str, tuple[dict[str, float], float, float, str]] = {  # other metrics, at the edge, beyond, what is said
    "q_bias": ({"return_scale": 20.0}, 10.0, 10.1, "Q-values exceed the returns that follow by 10.1, where returns are 20:"),
    "q_bias of small returns": ({"return_scale": 0.1}, 0.5, 0.51, "by 0.51, where returns are 0.1: overestimation; try a lower"),
    "td_error": ({"return_scale": 8.0}, 16.0, 17.0, "TD errors (17) are more than twice the returns (8): values diverge"),
    "dormant_units": ({}, 0.5, 0.75, "75% of the hidden units hardly fire"),
    "replay_reuse": ({}, 10_000.0, 10_001.0, "every step has been learned from 10001 times"),
    "priority_effective_share": ({}, 0.01, 0.005, "priorities concentrate on 0.50% of the buffer"),
}  # fmt: skip


def warn(check: HealthCheck, health: dict[str, float], *, times: int = PATIENCE, until: int = 3000) -> None:
    for left in reversed(range(times)):
        check.warn(health, until - left)


@pytest.mark.parametrize("kind", CROSSINGS)
def test_a_warning_is_said_once_and_only_when_crossed(kind: str, told: Callable[[], str]) -> None:
    others, edge, beyond, sentence = CROSSINGS[kind]
    name, check = kind.split(" ")[0], HealthCheck()
    warn(check, others | {name: edge})
    warn(check, others)
    assert told() == ""
    warn(check, others | {name: beyond}, until=3000)
    said = told()
    assert said.startswith("at step 3000, ")
    assert sentence in said
    assert said.count("\n") == 1
    warn(check, others | {name: edge})
    warn(check, others | {name: beyond})
    assert told() == ""
    warn(HealthCheck(), others | {name: beyond}, until=6000)  # another run says it anew
    assert told().startswith("at step 6000, ")


@pytest.mark.parametrize("between", [{"td_error": 0.0}, {}], ids=["sound", "unknown"])
def test_what_passes_is_not_said(between: dict[str, float], told: Callable[[], str]) -> None:
    check = HealthCheck()
    for _ in range(3):
        warn(check, {"td_error": 9.0}, times=PATIENCE - 1)
        check.warn(between, 1)
    assert told() == ""


def test_warnings_do_not_silence_each_other(told: Callable[[], str]) -> None:
    assert {kind.split(" ")[0] for kind in CROSSINGS} == set(WARNINGS)
    check = HealthCheck()
    warn(check, {"q_bias": 9.0, "dormant_units": 1.0})
    assert len(told().splitlines()) == 2
    warn(check, {"q_bias": 9.0, "td_error": 9.0})
    assert "TD errors" in told()
    warn(check, {"q_bias": -9.0, "td_error": 0.0, "replay_reuse": math.nan})
    assert told() == ""


def test_what_is_measured_is_said(told: Callable[[], str]) -> None:
    check = HealthCheck()
    for _ in range(2 * PATIENCE):
        check.watch(critic(1e3), episodes(truncated_rate=0.0))  # pyrefly: ignore
        look(check, critic())
    assert told().count("at step 7, Q-values exceed") == 1


def evaluation_rows(agent: Agent, folder: Path, steps: int) -> list[dict]:
    agent.learn(steps, progress=False)
    agent.close()
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "eval/returns" in row]
    assert len(rows) == steps // 40
    return rows


SMALL: dict = {"seed": 0, "n_envs": 2, "compile": False, "evaluation": {"interval": 40, "episodes": 3}}
NEVER_LEARNS = SMALL | {"learning_starts": 1000, "net_arch": (), "gamma": 0.0, "buffer_size": 60}


def health_of(row: dict) -> dict[str, float]:
    return {name.removeprefix("health/"): value for name, value in row.items() if name.startswith("health/")}


def test_health_stands_in_the_metrics_of_a_dqn(tmp_path: Path) -> None:
    agent = DQN("CartPole-v1", run_dir=tmp_path / "run", **NEVER_LEARNS)
    for parameter in agent.algorithm.policy.network.parameters():
        parameter.data.zero_()  # the network says 0, and every return is 1 without a future
    rows = evaluation_rows(agent, tmp_path / "run", 80)
    common = {"q_bias": -1.0, "return_scale": 1.0, "td_error": 1.0, "dormant_units": 0.0, "replay_reuse": 0.0}
    assert health_of(rows[0]) == pytest.approx(common | {"replay_age": 20.0})
    assert health_of(rows[1]) == pytest.approx(common | {"replay_age": 30.0})  # 60 rows are kept


def test_health_of_priorities(tmp_path: Path) -> None:
    agent = PrioritizedDQN("CartPole-v1", run_dir=tmp_path / "run", **NEVER_LEARNS)
    (row,) = evaluation_rows(agent, tmp_path / "run", 40)
    assert health_of(row)["priority_effective_share"] == pytest.approx(1.0, abs=0.2)  # all alike; few were cut
    assert health_of(row)["priority_spread"] == pytest.approx(1.0, abs=0.2)


def test_values_without_an_error_do_not_diverge(tmp_path: Path) -> None:
    agent = C51("CartPole-v1", run_dir=tmp_path / "run", v_min=0.0, v_max=2.0, **NEVER_LEARNS)
    for parameter in agent.algorithm.policy.network.parameters():
        parameter.data.zero_()  # all atoms alike: the mean is 1, as every return
    (row,) = evaluation_rows(agent, tmp_path / "run", 40)
    assert health_of(row)["q_bias"] == pytest.approx(0.0, abs=1e-5)
    assert health_of(row)["td_error"] == pytest.approx(0.0, abs=1e-5)  # not the cross-entropy


def test_ppo_has_no_health(tmp_path: Path) -> None:
    agent = PPO("CartPole-v1", run_dir=tmp_path / "run", n_steps=20, batch_size=20, n_epochs=1, **SMALL)
    assert [health_of(row) for row in evaluation_rows(agent, tmp_path / "run", 80)] == [{}, {}]


def random_numbers_used(case: Case) -> bool:
    agent = case.agent("CartPole-v1")
    agent.learn(160, progress=False)
    batch = build_run(agent).trainer.experience.sample(8)
    assert batch is not None
    before: Tensor = torch.get_rng_state()
    agent.algorithm.diagnose(batch)
    return not torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("case", named("RainbowDQN", "IQN"), ids=lambda case: case.name)
def test_measuring_does_not_disturb_training(case: Case, tmp_path: Path) -> None:
    assert random_numbers_used(case)
    states = []
    for interval in (0, 100):
        evaluation = {"interval": interval, "episodes": 2}
        folder = tmp_path / f"run{interval}"
        agent = case.agent("CartPole-v1", evaluation=evaluation, run_dir=folder, total_timesteps=500)
        agent.learn(progress=False)
        state = agent.snapshot().state
        state["progress"] = {k: v for k, v in state["progress"].items() if k not in ("wall_time", "best_return")}
        states.append(state)
        measured = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert sum("health/td_error" in row for row in measured) == (5 if interval else 1)
        agent.close()
    assert difference(*states) is None


def test_a_loaded_agent_evaluates_without_health(tmp_path: Path) -> None:
    agent = DQN("CartPole-v1", **NEVER_LEARNS)
    agent.learn(40, progress=False)
    agent.save(tmp_path / "model")
    agent.close()
    assert rl_training.load(tmp_path / "model").evaluate(2).health == {}


@pytest.mark.parametrize("name", sorted(ALGORITHMS.names()))
def test_only_settings_that_an_algorithm_has_are_recommended(name: str) -> None:
    config = ALGORITHMS[name].config
    words = set(re.findall(r"\b[a-z_]{3,}", " ".join(remedies(config).values()))) - {"slower", "targets", "and", "mse"}
    assert words <= {field.name for field in dataclasses.fields(config)}
    if "loss=" in remedies(config)["double"]:
        config(loss="mse").check(Supply(10**6, "buffer_size", "raise it"))

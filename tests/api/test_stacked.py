"""Stacked seeds: members equal agents that are trained alone, in their weights, results and files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import rl_training
from rl_training import A2C, DQN, PPO, SAC, TD3, TRPO, ConfigError
from rl_training.api.agent import Agent
from rl_training.api.stacked import may_differ
from rl_training.cli import main
from rl_training.config.registry import ALGORITHMS
from rl_training.core import tree_leaves
from rl_training.runtime.executors import WholeIteration
from rl_training.runtime.stack import Stack

SMALL = {"backend": "native", "n_envs": 4, "n_steps": 16, "total_timesteps": 64 * 10 + 24}
REPLAY = {"backend": "native", "n_envs": 2, "total_timesteps": 16 + 4 * 10 + 2, "net_arch": [16], "batch_size": 16}
REPLAY |= {"train_freq": 4, "learning_starts": 16, "buffer_size": 50}
LEARNER = {"batch_size": 24, "n_epochs": 4, "learning_rate": "lin_3e-3", "target_kl": 0.005, "gae_lambda": 0.8}
SHARED = {"shared": [16], "pi": [8], "vf": [8]}
CASES = {
    "PPO": (PPO, "CartPole-v1", SMALL | LEARNER),
    "PPO continuous, shared layers": (PPO, "Pendulum-v1", SMALL | {"batch_size": 32, "net_arch": SHARED}),
    "A2C": (A2C, "CartPole-v1", SMALL),
    "DQN": (DQN, "CartPole-v1", REPLAY | {"target_update_interval": 24, "learning_rate": "lin_1e-2", "double": True}),
    "SAC pictures": (SAC, "PixelPendulum-v1", REPLAY | {"batch_size": 8, "encoder": "small"}),
    "DiscreteSAC": (rl_training.DiscreteSAC, "CartPole-v1", REPLAY),
    "IQN": (rl_training.IQN, "CartPole-v1", REPLAY | {"net_arch": [8, 8], "n_envs": 1, "gradient_steps": 2}),
    "SAC": (SAC, "Pendulum-v1", REPLAY | {"n_steps": 3, "policy_delay": 2, "target_update_interval": 3}),
    "TD3": (TD3, "Pendulum-v1", REPLAY),
    "REDQ": (rl_training.REDQ, "Pendulum-v1", REPLAY | {"n_critics": 3, "gradient_steps": 2, "policy_delay": 2}),
    "TQC": (rl_training.TQC, "Pendulum-v1", REPLAY | {"n_quantiles": 5, "ent_coef": 0.1}),
}


def furthest(agent: Agent, other: Agent) -> float:
    """Returns the largest difference between two agents' tensors, those of optimizers included."""
    tensors = zip(agent.algorithm.state_dict().values(), other.algorithm.state_dict().values(), strict=True)
    return max((a.double() - b.double()).abs().max().item() for a, b in tensors)


def saved_bytes(run: Path) -> int:
    return sum(file.stat().st_size for file in run.glob("checkpoints/**/*") if file.is_file())


def counts(agent: Agent) -> tuple:
    progress = agent.progress
    return (
        progress.env_steps,
        progress.gradient_steps,
        progress.iterations,
        progress.episodes,
        list(agent.trainer.recent),
    )


@pytest.mark.parametrize("name", CASES)
def test_members_equal_single_runs(name: str) -> None:
    kind, env, settings = CASES[name]
    together = rl_training.stacked(kind, env, seeds=(3, 1, 2), **settings)
    results = together.learn(progress=False)
    for agent, result in zip(together.agents, results, strict=True):
        alone = kind(env, seed=agent.config.training.seed, **settings)
        expected = alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5
        assert counts(agent) == counts(alone)
        assert (result.seed, result.status, result.episodes) == (expected.seed, "finished", expected.episodes)
        mine, theirs = agent.full_state(), alone.full_state()
        assert torch.equal(mine["rng"]["cpu"], theirs["rng"]["cpu"])
        assert torch.equal(mine["experience"]["order"], theirs["experience"]["order"])
        assert torch.allclose(mine["collector"]["obs"], theirs["collector"]["obs"], atol=1e-4)
        if settings.keys() >= REPLAY.keys():
            assert mine["experience"]["counts"] == theirs["experience"]["counts"]
            both = (tree_leaves(run.trainer.experience.columns) for run in (agent, alone))
            assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*both, strict=True))


@pytest.mark.compiled
@pytest.mark.usefixtures("compiled_indeed")
def test_a_compiled_stack_equals_single_runs() -> None:
    settings = SMALL | {"n_envs": 2, "n_steps": 8, "total_timesteps": 64, "batch_size": 16, "net_arch": [8]}
    together = rl_training.stacked(PPO, "CartPole-v1", seeds=(3, 1), compile=True, **settings)
    together.learn(progress=False)
    for agent in together.agents:
        alone = PPO("CartPole-v1", seed=agent.config.training.seed, compile=False, **settings)
        alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5


def test_the_kl_stop_is_each_members_own() -> None:
    together = rl_training.stacked(PPO, "CartPole-v1", seeds=range(3), **SMALL, **LEARNER)
    together.learn(progress=False)
    steps = [agent.progress.gradient_steps for agent in together.agents]
    assert len(set(steps)) > 1
    assert max(steps) < 3 * 4 * 10  # minibatches, epochs, iterations


@pytest.mark.parametrize(("name", "changes"), [("PPO", {"target_kl": None}), ("SAC", {})])
def test_an_iteration_as_a_whole_gives_the_same(name: str, changes: dict, monkeypatch) -> None:
    """As it is recorded on a GPU."""
    join = Stack.join

    def whole(self: Stack) -> None:
        join(self)
        self.executor = WholeIteration(self.executor, self.collector, record=False)

    monkeypatch.setattr(Stack, "join", whole)
    kind, env, settings = CASES[name]
    together = rl_training.stacked(kind, env, seeds=range(2), **settings | changes)
    together.learn(progress=False)
    for agent in together.agents:
        alone = kind(env, seed=agent.config.training.seed, **settings | changes)
        alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5
        assert counts(agent)[:4] == counts(alone)[:4]
        mine, theirs = agent.full_state()["collector"], alone.full_state()["collector"]
        assert all(torch.allclose(mine[key], theirs[key], atol=1e-4) for key in ("obs", "returns", "lengths"))
        assert mine["timesteps"] == theirs["timesteps"]


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_a_stack_goes_on_from_within_an_iteration(name: str) -> None:
    kind, env, settings = CASES[name]
    pauses = (64 * 3 + 12, 64 * 3 + 20) if name == "PPO" else (10, 38)
    together = rl_training.stacked(kind, env, seeds=range(2), **settings)
    for stop_at in (*pauses, None):
        together.learn(stop_at=stop_at, progress=False)
    for agent in together.agents:
        alone = kind(env, seed=agent.config.training.seed, **settings)
        alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5
        assert counts(agent) == counts(alone)


def test_a_member_is_resumed_alone_from_its_own_files(tmp_path: Path) -> None:
    settings = SMALL | LEARNER | {"evaluation": {"interval": 256, "episodes": 2}, "checkpoint": {"interval": 128}}
    stack = rl_training.stacked(PPO, "CartPole-v1", seeds=(1, 2), run_dir=tmp_path / "stack", **settings)
    paused = stack.learn(stop_at=384, progress=False)
    assert [result.status for result in paused] == ["paused", "paused"]
    PPO.resume(tmp_path / "stack" / "seed2").learn(progress=False)
    PPO("CartPole-v1", seed=2, run_dir=tmp_path / "alone", **settings).learn(progress=False)
    mine, theirs = (
        json.loads((run / "result.json").read_text()) for run in (tmp_path / "stack/seed2", tmp_path / "alone")
    )
    same = ("total_timesteps", "gradient_steps", "episodes", "status", "eval_mean_return")
    assert {name: mine[name] for name in same} == {name: theirs[name] for name in same}
    agents = [rl_training.load(run) for run in (tmp_path / "stack/seed2", tmp_path / "alone")]
    assert furthest(*agents) < 1e-5
    sizes = [saved_bytes(run) for run in (tmp_path / "stack/seed2", tmp_path / "alone")]
    assert sizes[0] < 1.1 * sizes[1]  # without the other member


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_a_member_whose_numbers_are_not_finite_leaves_the_others(name: str, tmp_path: Path) -> None:
    kind, env, settings = CASES[name]
    together = rl_training.stacked(kind, env, seeds=range(2), run_dir=tmp_path, log_interval=4, **settings)
    next(together.agents[0].algorithm.parameters()).data.fill_(torch.nan)
    with pytest.raises(rl_training.NonFiniteError):
        together.learn(progress=False)
    status = [json.loads((tmp_path / f"seed{seed}" / "result.json").read_text())["status"] for seed in range(2)]
    assert status == ["failed", "finished"]
    alone = kind(env, seed=1, **settings)
    alone.learn(progress=False)
    assert furthest(together.agents[1], alone) < 1e-5
    written = [getattr(agent.trainer.experience, "columns", None) for agent in together.agents]
    assert name != "DQN" or written[0].written.sum() < written[1].written.sum()  # a store of its own


@pytest.mark.parametrize(
    ("kind", "changes", "named"),
    [
        (TRPO, {"batch_size": 16}, "TRPO"),
        (rl_training.RecurrentPPO, {"batch_size": 16}, "RecurrentPPO"),
        (rl_training.CrossQ, {"env": "Pendulum-v1", "n_steps": 1, "train_freq": 4}, "CrossQ"),
        (rl_training.PrioritizedDQN, {"n_steps": 1, "train_freq": 4}, "prioritized"),
        (SAC, {"env": "Pendulum-v1", "n_steps": 1, "train_freq": 4, "critic_dropout": 0.1}, "critic_dropout"),
        (TD3, {"env": "Pendulum-v1", "n_steps": 1, "train_freq": 4, "action_noise": "ou"}, "memory"),
        (PPO, {"normalize_observation": True}, "normalize_observation"),
        (PPO, {"normalize_reward": True}, "normalize_reward"),
    ],
)
def test_what_cannot_be_stacked_is_refused_in_one_sentence(kind, changes: dict, named: str) -> None:
    settings = SMALL | changes
    with pytest.raises(ConfigError, match=named) as refusal:
        rl_training.stacked(kind, settings.pop("env", "CartPole-v1"), seeds=range(2), **settings)
    assert re.search(r": train the seeds one after the other", str(refusal.value))


@pytest.mark.parametrize(
    ("env", "advice"),
    [("CartPole-v1", "set env.backend=native"), ("FrozenLake-v1", "train the seeds one after the other")],
)
def test_environments_on_the_host_are_refused_with_what_to_do(env: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=f"stepped on the host.*: {advice}"):
        rl_training.stacked(PPO, env, seeds=range(2))


RATES = ["lin_1e-2", 1e-3]
OWN = {
    "PPO": {"learning_rate": RATES, "gamma": [0.9, 0.99], "gae_lambda": [0.8, 1.0], "vf_learning_rate": RATES}
    | {"ent_coef": [0.0, 0.05], "vf_coef": [0.3, 1.0], "max_grad_norm": [0.1, 2.0], "clip_range": [0.1, "lin_0.3"]}
    | {"clip_range_vf": [0.1, 0.3], "target_kl": [0.01, 0.003], "adam_eps": [1e-5, 1e-3]},
    "A2C": {"rms_prop_eps": [1e-5, 1e-3]},
    "DQN": {"learning_rate": RATES, "gamma": [0.9, 0.99], "tau": [1.0, 0.5], "exploration_fraction": [0.1, 1.0]}
    | {"exploration_initial_eps": [0.9, 1.0], "exploration_final_eps": [0.1, 0.3]}
    | {"max_grad_norm": [0.1, 10.0], "adam_eps": [1e-8, 1e-3]},
    "IQN": {"temperature": [1.0, 2.0]},
    "SAC": {"gamma": [0.9, 0.99], "tau": [0.5, 0.05], "ent_coef": ["auto", "auto_0.1"], "target_entropy": [-1.0, -2.0]}
    | {"ent_coef_learning_rate": RATES, "actor_learning_rate": RATES},
    "TQC": {"ent_coef": [0.1, 0.3]},
    "DiscreteSAC": {"tau": [0.5, 0.05], "target_entropy_ratio": [0.5, 0.9], "gamma": [0.9, 0.99]},
    "TD3": {"action_noise_std": [0.1, 0.5], "target_noise_clip": [0.1, 0.5], "tau": [0.1, 0.3]},
}


@pytest.mark.parametrize("name", OWN)
def test_members_with_settings_of_their_own_equal_single_runs(name: str) -> None:
    kind, env, settings = CASES[name]
    settings = settings | ({"exploration": "boltzmann"} if name == "IQN" else {})
    together = rl_training.stacked(kind, env, seeds=(4, 5), **settings | OWN[name])
    together.learn(progress=False)
    for number, agent in enumerate(together.agents):
        alone = kind(env, seed=4 + number, **settings | {path: values[number] for path, values in OWN[name].items()})
        alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5
        assert counts(agent) == counts(alone)


def test_every_setting_in_which_members_may_differ_is_tried() -> None:
    tried = {name for settings in OWN.values() for name in settings}
    methods = [ALGORITHMS[CASES[name][0].name].algorithm for name in CASES]
    assert {name for method in methods for name in may_differ(method)} == tried


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"net_arch": ([8], [16])},
            r"algorithm\.net_arch is .*8.*16.* \(seed 1\): besides their seeds, members may differ in clip_range, .*gamma",
        ),
        ({"n_epochs": (3, 4)}, r"algorithm\.n_epochs is 3 for one member of the stack and 4 for another"),
        (
            {"clip_range_vf": (None, 0.1)},
            r"algorithm\.clip_range_vf is None .* and 0\.1 .*: members may differ in numbers",
        ),
    ],
)
def test_members_may_not_differ_in_structure(settings: dict, said: str) -> None:
    own = [{path: values[number] for path, values in settings.items()} for number in range(2)]
    agents = [PPO("CartPole-v1", seed=seed, batch_size=32, **SMALL, **own[seed]) for seed in range(2)]
    with pytest.raises(ConfigError, match=said):
        rl_training.Stacked(agents)


@pytest.mark.parametrize(("told", "expected"), [(None, 2), (1, 1)])
def test_a_large_stack_takes_two_threads_unless_the_user_says_how_many(told, expected, monkeypatch) -> None:
    monkeypatch.setattr("rl_training.runtime.threads.STACKED", 1)
    monkeypatch.setattr("rl_training.runtime.threads.available_cores", lambda: 2)
    monkeypatch.setenv("GOMP_SPINCOUNT", "2000")
    seen: list[int] = []
    learn = Stack.take_one
    monkeypatch.setattr(Stack, "take_one", lambda *given: [seen.append(torch.get_num_threads()), learn(*given)][1])
    stack = rl_training.stacked(PPO, "CartPole-v1", seeds=[0, 1], threads=told, **SMALL | {"total_timesteps": 128})
    stack.learn(64, progress=False)
    stack.learn(64, progress=False)  # the runs' configs know by now how many one of them alone would take
    assert seen == [expected, expected]


@pytest.mark.parametrize(
    ("seeds", "settings", "said"),
    [
        (4, {}, r"seeds=4 must be a list of whole numbers: write range\(4\)"),
        ("0..3", {}, r"seeds='0\.\.3' must be a list"),
        ([1, 2, 1], {}, r"seeds=\[1, 2, 1\] names a seed twice"),
        ([1, 2], {"seed": 3}, r"seed=3 is one member's"),
    ],
)
def test_seeds_that_are_none_are_refused(seeds, settings: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        rl_training.stacked(PPO, "CartPole-v1", seeds=seeds, backend="native", **settings)


def test_an_agent_is_one_member_only() -> None:
    agent = PPO("CartPole-v1", batch_size=32, **SMALL)
    with pytest.raises(ConfigError, match="given twice"):
        rl_training.Stacked([agent, agent])


def test_a_run_that_has_begun_is_told_to_wait_for_the_others() -> None:
    begun, new = (PPO("CartPole-v1", seed=seed, batch_size=32, **SMALL) for seed in range(2))
    begun.learn(stop_at=64, progress=False)  # which fills in its device and threads
    with pytest.raises(ConfigError, match="stand at different steps"):
        rl_training.Stacked([begun, new]).learn(progress=False)


def test_a_list_of_settings_has_a_value_for_each_seed() -> None:
    with pytest.raises(ConfigError, match=r"learning_rate=\[0\.1, 0\.2\] has 2 values for 3 seeds: give one for each"):
        rl_training.stacked(PPO, "CartPole-v1", seeds=range(3), learning_rate=[0.1, 0.2], batch_size=32, **SMALL)


def test_the_command_line_trains_a_stack(tmp_path: Path, capsys) -> None:
    flags = [
        "--set",
        "env.backend=native",
        "--set",
        "training.total_timesteps=512",
        "--quiet",
        "--run-dir",
        str(tmp_path / "runs"),
    ]
    assert main(["train", "ppo/cartpole", "--seeds", "0..2", "--stacked", *flags]) == 0
    said = capsys.readouterr().out
    assert "mean " in said
    seeds = json.loads((tmp_path / "runs" / "summary.json").read_text())["seeds"]
    assert seeds == [0, 1, 2]

"""DQN's improvements are switches: every combination runs or is refused, and every name is a set of switches."""

from itertools import product

import pytest
import torch

import rl_training
from rl_training import C51, DQN, PQN, Agent, Callback, ConfigError, DiscreteSAC, RainbowDQN, RunConfig
from rl_training.experiment.checkpoint import difference
from tests.conformance.probes import Masked

TINY = {"net_arch": (4, 4), "n_atoms": 5, "n_quantiles": 4, "n_samples": 3, "n_cosines": 3, "buffer_size": 64}
PACE = {"n_envs": 2, "learning_starts": 8, "train_freq": 4, "batch_size": 4, "target_update_interval": 8}
COMMON = {"seed": 0, "compile": False, "learning_rate": 1e-2} | TINY | PACE

AXES: dict[str, tuple] = {
    "double": (False, True),
    "dueling": (False, True),
    "n_steps": (1, 3),
    "prioritized": (False, True),
    "tau": (1.0, 0.5),
    "noisy": (False, True),
    "exploration": ("epsilon", "noisy", "boltzmann"),
    "head": ("mean", "c51", "quantile", "iqn"),
    "loss": ("huber", "mse"),
}
PRODUCT = [dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())]


def impossible(row: dict) -> str | None:
    """The sentence that a combination is refused with: field, value and what to do."""
    if row["exploration"] == "noisy" and not row["noisy"]:
        return "algorithm.exploration='noisy' needs noisy layers: set noisy=true, or explore by 'epsilon'"
    if row["loss"] == "mse" and row["head"] != "mean":
        return f"algorithm.loss='mse' is for head='mean': head={row['head']!r} has a loss of its own, drop it"
    return None


POSSIBLE = [row for row in PRODUCT if impossible(row) is None]


def cover(strength: int) -> list[dict]:
    """Rows of the product in which every possible choice of `strength` values of different axes occurs."""
    sets = [set(strengths(row, strength)) for row in POSSIBLE]
    missing, chosen = set().union(*sets), []
    for least in (100, 60, 30, 15, 8, 4, 2, 1):  # first the rows that bring most
        for row, values in zip(POSSIBLE, sets, strict=True):
            if len(values & missing) >= least:
                chosen.append(row)
                missing -= values
    return chosen


def strengths(row: dict, strength: int) -> list[tuple]:
    items = list(row.items())
    pairs = [(a, b) for i, a in enumerate(items) for b in items[i + 1 :]]
    return pairs if strength == 2 else [(*pair, c) for pair in pairs for c in items[items.index(pair[1]) + 1 :]]


PLAIN = {name: values[0] for name, values in AXES.items()}
SINGLE = [PLAIN | {name: value} for name, values in AXES.items() for value in values]
# All 800 possible rows take half a minute; every three values together, and every switch alone, take a tenth of it.
TRIPLES = cover(3)
ROWS = [row for row in POSSIBLE if row in TRIPLES or row in SINGLE]


def test_the_rows_cover_all_triples() -> None:
    covered = set().union(*(strengths(row, 3) for row in ROWS))
    assert covered == set().union(*(strengths(row, 3) for row in POSSIBLE))
    assert len(PRODUCT) == 1536
    assert len(POSSIBLE) == 800
    assert len(ROWS) < 150


def test_every_combination_is_accepted_or_refused_when_the_config_is_read() -> None:
    for row in PRODUCT:
        values = {"algorithm": {"name": "dqn"} | row, "env": {"id": "CartPole-v1"}}
        reason = impossible(row)
        if reason is None:
            RunConfig.from_mapping(values)
            continue
        with pytest.raises(ConfigError) as error:
            RunConfig.from_mapping(values)
        assert str(error.value) == reason


class Metrics(Callback):
    def __init__(self) -> None:
        self.seen: list[dict] = []

    def on_log(self, trainer, metrics) -> None:
        self.seen.append({name: value for name, value in metrics.items() if name.startswith("train/")})


def name_of(row: dict) -> str:
    return "-".join(f"{name}={value}" for name, value in row.items() if value != PLAIN[name]) or "plain"


@pytest.mark.parametrize(("number", "row"), list(enumerate(ROWS)), ids=[name_of(row) for row in ROWS])
def test_a_possible_combination_learns(number: int, row: dict) -> None:
    agent, metrics = DQN("CartPole-v1" if number % 2 else Masked, **COMMON | row), Metrics()
    before = [p.detach().clone() for p in agent.algorithm.policy.network.parameters()]
    target = [p.detach().clone() for p in agent.algorithm.target.parameters()]
    agent.learn(24, progress=False, callbacks=metrics)
    after = list(agent.algorithm.policy.network.parameters())
    assert agent.trainer.progress.gradient_steps == 5
    assert all(torch.isfinite(p).all() for p in after)
    assert sum(not torch.equal(a, b) for a, b in zip(before, after, strict=True)) > len(after) // 2
    moved = list(agent.algorithm.target.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(target, moved, strict=True))
    assert {"train/loss", "train/q_mean", "train/td_error"} <= metrics.seen[-1].keys()
    assert all(value == value and abs(value) < float("inf") for seen in metrics.seen for value in seen.values())
    agent.close()


def learned(name: str, **settings: object) -> dict:
    common = COMMON | {
        "v_min": 0.0,
        "v_max": 20.0,
        "learning_rate": 0.05,
        "target_update_interval": 40,
        "net_arch": (16, 16),
    }
    agent: Agent = getattr(rl_training, name)("CartPole-v1", **common | settings)
    agent.learn(100, progress=False)
    agent.close()
    return agent.snapshot().state["algorithm"]


ALL = {"double": True, "dueling": True, "n_steps": 3, "prioritized": True, "head": "c51", "noisy": True}
NAMES = {
    "DoubleDQN": {"double": True},
    "DuelingDQN": {"dueling": True},
    "PrioritizedDQN": {"prioritized": True},
    "NStepDQN": {"n_steps": 3},
    "NoisyDQN": {"noisy": True},
    "C51": {"head": "c51"},
    "QRDQN": {"head": "quantile"},
    "IQN": {"head": "iqn"},
    "RainbowDQN": ALL,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_its_switches_to_the_bit(name: str) -> None:
    named = learned(name)
    assert difference(named, learned("DQN", **NAMES[name])) is None
    assert difference(named, learned("DQN")) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_no_other_defaults(name: str) -> None:
    def settings(kind: type[Agent], given: dict) -> dict:
        agent = kind("CartPole-v1", **given)
        agent.close()
        found = vars(agent.config.algorithm) | vars(agent.config.experience)
        return {key: value for key, value in found.items() if (name, key) != ("IQN", "n_quantiles")}

    assert settings(getattr(rl_training, name), {}) == settings(DQN, NAMES[name])


def test_rainbow_without_its_flags_is_c51() -> None:
    off: dict = {"double": False, "dueling": False, "prioritized": False, "noisy": False}
    assert difference(learned("RainbowDQN", n_steps=1, **off), learned("C51")) is None
    assert difference(learned("RainbowDQN", n_steps=3, **off), learned("C51", n_steps=3)) is None
    assert difference(learned("C51", n_steps=3), learned("C51")) is not None


def test_each_of_rainbows_flags_matters() -> None:
    full = learned("RainbowDQN")
    for name, value in {"double": False, "n_steps": 1, "prioritized": False, "dueling": False, "noisy": False}.items():
        assert difference(full, learned("RainbowDQN", **{name: value})) is not None, name


BAD = {
    "train_freq": ({"train_freq": 3}, r"experience.train_freq=3 must be a multiple of env.n_envs=2.*: use 4"),
    "train_freq below": ({"train_freq": 1}, r"experience.train_freq=1 must be a multiple of env.n_envs=2.*: use 2"),
    "gradient_steps": ({"gradient_steps": 0}, r"algorithm.gradient_steps=0 never learns: use 1, or -1"),
    "gradient_steps negative": ({"gradient_steps": -2}, r"algorithm.gradient_steps=-2 must be at least -1"),
    "batch_size": (
        {"batch_size": 65},
        r"algorithm.batch_size=65 is larger than buffer_size=64: lower batch_size or raise buffer_size",
    ),
    "buffer_size": (
        {"buffer_size": 4, "n_steps": 3},
        r"experience.buffer_size=4 holds fewer than n_steps=3 .*: raise it",
    ),
    "tau": ({"tau": 0.0}, r"algorithm.tau=0.0 must be above 0"),
}
BAD_DQN = {
    "v_min": ({"head": "c51", "v_min": 2.0, "v_max": 1.0}, r"algorithm.v_min=2.0 must be below v_max=1.0"),
    "v_min equal": ({"head": "c51", "v_min": 1.0, "v_max": 1.0}, r"algorithm.v_min=1.0 must be below v_max=1.0"),
    "loss": ({"head": "c51", "loss": "mse"}, r"algorithm.loss='mse' is for head='mean': head='c51' .*drop it"),
    "noisy": (
        {"exploration": "noisy"},
        r"algorithm.exploration='noisy' needs noisy layers: set noisy=true, or .*'epsilon'",
    ),
    "temperature": ({"exploration": "boltzmann", "temperature": "lin_1.0"}, r"algorithm.temperature.* above 0"),
    "head": ({"head": "c52"}, r"algorithm.head='c52'.*c51"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("kind", [DQN, RainbowDQN, DiscreteSAC])
def test_settings_that_do_not_go_together_are_refused(kind: type[Agent], case: str) -> None:
    settings, sentence = BAD[case]
    config = kind("CartPole-v1").config
    fields = vars(config.algorithm) | vars(config.experience)
    given = {key: value for key, value in (COMMON | settings).items() if key in fields or key in ("seed", "n_envs")}
    with pytest.raises(ConfigError, match=sentence):
        kind("CartPole-v1", **given)


@pytest.mark.parametrize("case", BAD_DQN)
def test_switches_that_do_not_go_together_are_refused(case: str) -> None:
    settings, sentence = BAD_DQN[case]
    with pytest.raises(ConfigError, match=sentence):
        DQN("CartPole-v1", **settings)


def test_the_range_of_atoms_matters_to_c51_only() -> None:
    DQN("CartPole-v1", v_min=1.0, v_max=1.0).close()
    with pytest.raises(ConfigError, match="v_min"):
        C51("CartPole-v1", v_min=1.0, v_max=1.0)


@pytest.mark.parametrize("kind", [DQN, RainbowDQN, DiscreteSAC, PQN])
def test_continuous_actions_are_refused(kind: type[Agent]) -> None:
    name = "DQN" if kind is RainbowDQN else kind.__name__
    with pytest.raises(
        ValueError, match=f"{name} needs Discrete actions, but this environment has Box: use PPO, or wrap"
    ):
        kind("Pendulum-v1")


def test_gradient_steps_minus_one_learns_as_often_as_it_steps() -> None:
    agent = DQN("CartPole-v1", **COMMON | {"gradient_steps": -1})
    agent.learn(24, progress=False)
    assert agent.trainer.progress.gradient_steps == 5 * 4
    agent.close()

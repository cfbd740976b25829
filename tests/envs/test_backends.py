"""Backends of one's own: registered by name, implied by a prefix of the id, and refused what they cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

import rl_training
from rl_training import IPPO, PPO, ConfigError, RunConfig
from rl_training.config.run_config import changed_env
from rl_training.config.trust import Trust
from rl_training.envs import BACKENDS, Abilities, EnvConfig, VectorEnv, check, make_env, register_backend
from rl_training.envs.backends import find_backend, implied_backend
from tests.envs.counting import CountingVector

SMALL = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "compile": False, "n_envs": 2}
EXACT = Abilities(saves_state=True)


def make_counting(config: EnvConfig, num_envs: int, *, device: object, start: int) -> VectorEnv:
    return CountingVector(num_envs, **config.kwargs)  # pyrefly: ignore[bad-argument-type]


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """What is registered in a test is forgotten after it."""
    before = dict(BACKENDS)
    register_backend("counting", make_counting, owns=("count/", "counting:"), can=EXACT)
    yield
    BACKENDS.clear()
    BACKENDS.update(before)


def test_a_backend_keeps_the_contract_and_is_trained_evaluated_saved_and_resumed(tmp_path) -> None:
    check("count/three", num_steps=50)
    check(EnvConfig(id="any", backend="counting", kwargs={"length": 4}), num_steps=50)
    settings = SMALL | {"kwargs": {"length": 4}, "total_timesteps": 64}
    whole, part = (PPO("counting:four", **settings, run_dir=tmp_path / name) for name in ("whole", "part"))
    assert whole.learn(progress=False).resume == "exact"
    part.learn(progress=False, stop_at=20)
    resumed = PPO.resume(tmp_path / "part")
    assert resumed.config.env.backend == "counting"
    resumed.learn(progress=False)
    assert whole.evaluate(3).lengths == (4, 4, 4)
    ours, theirs = (agent.algorithm.state_dict() for agent in (whole, resumed))
    assert all(ours[name].equal(theirs[name]) for name in ours)
    whole.save(tmp_path / "model")
    assert rl_training.load(tmp_path / "model").evaluate(2).returns == (10.0, 10.0)


def test_the_longest_prefix_implies_a_backend_unless_one_is_named() -> None:
    register_backend("other", make_counting, owns=("count/deep/",), can=EXACT)
    ids = ("count/x", "count/deep/x", "counting:x", "count", "CartPole-v1", "os:system")
    assert [implied_backend(i) for i in ids] == ["counting", "other", "counting", *["gymnasium"] * 3]
    assert EnvConfig(id="count/x", backend="gymnasium").backend == "gymnasium"
    config = RunConfig.from_mapping({"algorithm": {"name": "ppo"}, "env": {"id": "count/x"}})
    assert config.to_mapping()["env"]["backend"] == "counting"  # a file names it


def test_another_environment_for_evaluations_has_the_backend_that_its_id_implies() -> None:
    counted, native = EnvConfig(id="count/x"), EnvConfig(id="CartPole-v1", backend="native")
    host = EnvConfig(id="CartPole-v1", vectorization="async")
    assert changed_env(counted, {"id": "CartPole-v1"}, "evaluation.env").backend == "gymnasium"
    assert changed_env(native, {"id": "Pendulum-v1"}, "evaluation.env").backend == "native"
    assert changed_env(host, {"id": "count/x"}, "evaluation.env") == replace(counted, vectorization="sync")
    assert changed_env(host, {"id": "Pendulum-v1"}, "evaluation.env").vectorization == "async"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"vectorization": "async"}, "env.vectorization='async' is for gymnasium: counting environments need none"),
        ({"frame_stack": 2}, "counting environments take no env.frame_stack: leave it out, or use those of "),
        ({"max_episode_steps": 5}, "counting environments take no env.max_episode_steps"),
        ({"kwargs": {"render_mode": "human"}}, "counting environments take no env.kwargs.render_mode"),
        (
            {"sampling": {"workers": 2}},
            "in other processes, which env.backend='counting' cannot: use backend='gymnasium'",
        ),
        ({"backend": "countign"}, "env.backend='countign' is not one of 'ale', 'gymnasium', 'native', "),
        ({"backend": "count/"}, "env.backend='count/' is not one of "),
        ({"backend": 5}, "env.backend=5 must be text"),
        ({"evaluation": {"env": {"backend": "x"}}}, "evaluation.env.backend='x' is not one of "),
    ],
)
def test_what_a_backend_cannot_do_is_refused_before_it_builds(settings: dict, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        PPO("count/x", **SMALL | settings)


def test_an_unknown_backend_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'native'.*'counting': did you mean 'counting'\?"):
        find_backend("countign")
    with pytest.raises(ValueError, match=r"'counting': install the package that registers it, or import it first"):
        make_env(EnvConfig(id="x", backend="zzz"))


def test_several_agents_are_declared() -> None:
    def make_team(config: EnvConfig, num_envs: int, *, device: object, start: int) -> VectorEnv:
        return make_env(EnvConfig(id="mpe/simple_spread", n_envs=num_envs))

    saves = Abilities(saves_state=True, on_device=True)
    register_backend("team", make_team, owns=("team:",), can=saves)
    with pytest.raises(ValueError, match=r"with several agents: register it with Abilities\(several_agents=True\)"):
        IPPO("team:spread", n_envs=2)
    register_backend("several", make_team, owns=("several:",), can=replace(saves, several_agents=True))
    assert IPPO("several:spread", n_envs=2).spec.agents == ("agent_0", "agent_1", "agent_2")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda *_, **__: None, "built a NoneType: return an rl_training.envs.VectorEnv"),
        (lambda *_, **__: CountingVector(7), "built 7 environments where 2 were asked for"),
        (make_counting, "built a CountingVector with state_kind='exact': register it with Abilities(saves_state=True)"),
    ],
)
def test_what_a_backend_built_is_checked(make, reason: str) -> None:
    register_backend("wrong", make)
    with pytest.raises(ValueError, match=re.escape(f"env.backend='wrong' {reason}")):
        make_env(EnvConfig(id="x", backend="wrong", n_envs=2))


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("native", {}, "'native' is registered by the backend 'native' already: choose another"),
        ("new", {"owns": ("count/",)}, "'count/' is registered by the backend 'counting' already"),
        ("auto", {}, "'auto' is not a name for a backend"),
        ("new/", {}, "'new/' is not a name for a backend"),
        ("new", {"owns": ("New",)}, "must be a tuple of prefixes such as 'ALE/' or 'pettingzoo:'"),
        ("new", {"owns": "new/"}, "must be a tuple of prefixes"),
        ("new", {"can": Abilities(vectorizations=("async",))}, "must take env.vectorization='sync'"),
    ],
)
def test_what_cannot_be_registered_is_refused(name: str, settings: dict, reason: str) -> None:
    before = dict(BACKENDS)
    with pytest.raises(ValueError, match=re.escape(reason)):
        register_backend(name, make_counting, **settings)
    assert before == BACKENDS


def test_an_id_that_a_backend_owns_needs_no_trust_and_others_do(tmp_path) -> None:
    trust = Trust.of(tmp_path / "manifest.json", [])
    trust.check_env(EnvConfig(id="counting:three"))
    for untrusted in (EnvConfig(id="os:system", backend="counting"), EnvConfig(id="counting:x", backend="native")):
        with pytest.raises(ConfigError, match="names code that is not known"):
            trust.check_env(untrusted)

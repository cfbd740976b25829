"""An algorithm's config may be handed over as an object, beside keywords for the rest."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import pytest

from rl_training import (
    A2C,
    DQN,
    PPO,
    Agent,
    ConfigError,
    DDPGConfig,
    DQNConfig,
    PPOConfig,
    PrioritizedDQNConfig,
    make_data,
)
from rl_training.config.registry import ALGORITHMS, setting_sections
from rl_training.core import Schedule
from rl_training.envs import EnvConfig

ENV = "CartPole-v1"


def test_a_config_gives_what_its_fields_as_keywords_give() -> None:
    given = PPOConfig(
        learning_rate=3e-3, net_arch=[16], gamma=0.9, clip_range=Schedule(0.2, 0.0)
    )  # a list, and a number
    by_config = PPO(ENV, given, n_steps=64, seed=3)
    by_keywords = PPO(ENV, learning_rate=3e-3, net_arch=[16], gamma=0.9, clip_range="lin_0.2", n_steps=64, seed=3)
    assert by_config.config == by_keywords.config
    assert PPO(ENV, config=given, n_steps=64, seed=3).config == by_keywords.config
    assert by_config.config.algorithm.learning_rate == Schedule(3e-3, 3e-3)


REFUSED: dict[str, tuple[Callable[[], Agent], str]] = {
    "out of range": (lambda: PPO(ENV, PPOConfig(gamma=3)), "algorithm.gamma=3.0 must be at most 1"),
    "of another algorithm": (lambda: A2C(ENV, PPOConfig()), "A2C takes a A2CConfig after the environment, not a PPO"),
    "of a variant": (
        lambda: DQN(ENV, PrioritizedDQNConfig()),
        "DQNConfig after the environment, not a PrioritizedDQNC",
    ),
    "a field as a keyword too": (
        lambda: DQN(ENV, DQNConfig(gamma=0.8), gamma=0.9),
        "gamma is given twice, DQNConfig(gamma=0.8) and the keyword gamma=0.9: give it once",
    ),
    "a mapping": (lambda: PPO(ENV, {"gamma": 0.9}), "not a dict: use PPOConfig(**settings), or settings as keywords"),
    "a number": (
        lambda: PPO(ENV, 3),
        "PPO takes a PPOConfig after the environment, not 3: give other settings by name",
    ),
    "a class of something": (lambda: PPO(ENV, DQN), "DQN'>: give other settings by name"),
    "the class of a config": (lambda: PPO(ENV, PPOConfig), "not its class: make an object of it, PPOConfig(...)"),
    "a whole run": (lambda: PPO(ENV, PPO(ENV).config), "not a RunConfig: that is a whole run, give it alone"),
    "no environment": (
        lambda: PPO(PPOConfig()),
        "lacks its environment, which comes first: PPO('CartPole-v1', PPOConf",
    ),
    "before the environment": (lambda: PPO(PPOConfig(), ENV), "lacks its environment, which comes first"),
    "a class for an environment": (lambda: PPO(PPOConfig), "lacks its environment, which comes first"),
    "as a section": (lambda: PPO(ENV, algorithm=PPOConfig()), "algorithm=PPOConfig(...) must be a mapping of settings"),
    "given twice": (lambda: PPO(ENV, PPOConfig(), config=PPOConfig()), "twice, as PPOConfig(...) and PPOConfig(...)"),
    "beside the section": (lambda: PPO(ENV, PPOConfig(), algorithm={}), "algorithm= is given beside a PPOConfig"),
    "beside a whole config": (lambda: PPO(PPO(ENV).config, PPOConfig()), "PPOConfig(...) is given beside a RunConfig"),
    "three by position": (lambda: PPO(ENV, PPOConfig(), 64), "takes nothing else by position, and 64 is: give it"),
    "of no algorithm": (lambda: Agent(ENV, PPOConfig()), "Agent is no algorithm"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused(case: str) -> None:
    call, sentence = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        call()
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_keyword_sets_what_the_config_leaves_at_its_default() -> None:
    agent = PPO(ENV, PPOConfig(gamma=0.9, n_epochs=10), n_epochs=3)
    assert agent.config == PPO(ENV, gamma=0.9, n_epochs=3).config


MISPLACED = [
    (
        PPOConfig,
        "n_steps",
        "n_steps is a setting of experience, give it beside the config, PPO(env, PPOConfig(...), n_st",
    ),
    (PPOConfig, "n_envs", "n_envs is a setting of env, give it beside the config, PPO(env, PPOConfig(...), n_envs=32)"),
    (
        DQNConfig,
        "buffer_capacity",
        "buffer_size is a setting of experience, give it beside the config, DQN(env, DQNCon",
    ),
    (DQNConfig, "gradient_updates_per_step", "here it is called gradient_steps"),
    (PPOConfig, "evaluation", "it is a section of its own, give it beside the config, PPO(env, PPOConfig(...), evalua"),
    (PPOConfig, "n_epoch", "did you mean 'n_epochs'?"),
    (PPOConfig, "lr", "here it is called learning_rate"),
    (PPOConfig, "tau", "it is one of"),
    (DDPGConfig, "target_update_interval", "it has no effect, because targets move with the actor"),
]


@pytest.mark.parametrize(("kind", "field", "advice"), MISPLACED)
def test_a_field_that_a_config_does_not_have_is_sent_where_it_belongs(kind: type, field: str, advice: str) -> None:
    with pytest.raises(TypeError) as caught:
        kind(**{field: 32})
    assert isinstance(caught.value, ConfigError)
    assert str(caught.value).startswith(f"{kind.__name__} has no field {field!r}: {advice}")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_config_knows_the_settings_beside_it(name: str) -> None:
    entry = ALGORITHMS[name]
    for field, section in setting_sections(name).items():
        if section == "experience":
            with pytest.raises(ConfigError, match=rf"{section}, give it beside .*{entry.title}\(env, .*, {field}=1\)"):
                entry.config(**{field: 1})
    with pytest.raises(ConfigError, match=r"name it, e\.g\. gamma"):
        entry.config(1)  # pyrefly: ignore (which is the mistake)


def test_a_config_that_nobody_registered_names_its_nearest_field() -> None:
    @dataclass(frozen=True, kw_only=True)
    class MyConfig(PPOConfig):
        beta: float = 1.0

    assert MyConfig(beta=2.0).beta == 2.0
    with pytest.raises(ConfigError, match=r"MyConfig has no field .betta.: did you mean .beta"):
        MyConfig(betta=2.0)  # pyrefly: ignore (which is the mistake)


def test_configs_are_still_copied_compared_and_described() -> None:
    config = PPOConfig(gamma=0.9)
    assert replace(config, n_epochs=3) == PPOConfig(gamma=0.9, n_epochs=3)
    assert copy.deepcopy(config) == config
    assert list(inspect.signature(PPOConfig).parameters) == [field.name for field in fields(PPOConfig)]


def test_data_is_made_of_an_id_as_of_a_config() -> None:
    by_id, by_config = make_data(ENV, ["random"], 32), make_data(EnvConfig(id=ENV), ["random"], 32)
    assert by_id.identity == by_config.identity

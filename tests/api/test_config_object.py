"""An algorithm's config may be handed over as an object, beside keywords for the rest."""

from collections.abc import Callable

import pytest

from rl_training import A2C, DQN, PPO, Agent, ConfigError, DQNConfig, PPOConfig, PrioritizedDQNConfig, make_data
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
    "of another algorithm": (lambda: A2C(ENV, PPOConfig()), "A2C takes a A2CConfig, not a PPOConfig"),
    "of a variant": (lambda: DQN(ENV, PrioritizedDQNConfig()), "DQN takes a DQNConfig, not a PrioritizedDQNConfig"),
    "a field as a keyword too": (lambda: DQN(ENV, DQNConfig(), gamma=0.9), "algorithm.gamma is given twice"),
    "beside the section": (lambda: PPO(ENV, PPOConfig(), algorithm={}), "algorithm= is given beside a PPOConfig"),
    "beside a whole config": (lambda: PPO(PPO(ENV).config, PPOConfig()), "given beside a config"),
    "three by position": (lambda: PPO(ENV, PPOConfig(), 64), "PPO takes the environment alone, or with a PPOConfig"),
    "of no algorithm": (lambda: Agent(ENV, PPOConfig()), "Agent is no algorithm"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused(case: str) -> None:
    call, sentence = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        call()
    assert sentence in str(caught.value)


def test_data_is_made_of_an_id_as_of_a_config() -> None:
    by_id, by_config = make_data(ENV, ["random"], 32), make_data(EnvConfig(id=ENV), ["random"], 32)
    assert by_id.identity == by_config.identity

"""How an algorithm says that it goes through its experience; what makes no sense is refused where it is written."""

import re

import pytest

from rl_training import PPO, ConfigError
from rl_training.algorithms import PPOAlgorithm
from rl_training.api.build import check_methods
from rl_training.core import Pass, Periodic

COUNT = "must be a whole number, at least"
SENSELESS = [
    (lambda: Periodic("copy", 0), f"Periodic('copy').every=0 {COUNT} 1"),
    (lambda: Periodic("copy", -3), f"Periodic('copy').every=-3 {COUNT} 1"),
    (lambda: Periodic("copy", 1.5), f"Periodic('copy').every=1.5 {COUNT} 1"),
    (lambda: Periodic("copy", True), f"Periodic('copy').every=True {COUNT} 1"),
    (lambda: Periodic("copy", 2, "steps"), "unit='steps' is not a unit: use 'updates' or 'env_steps'"),
    (lambda: Pass(0, 64), f"Pass('update').rounds=0 {COUNT} 1"),
    (lambda: Pass(1, 0), f"Pass('update').batch_size=0 {COUNT} 1"),
    (lambda: Pass(1, 64, sequences=True, length=0), f"Pass('update').length=0 {COUNT} 1"),
    (lambda: Pass(1, 64, sequences=True, length=8, burn_in=-1), f"Pass('update').burn_in=-1 {COUNT} 0"),
]


@pytest.mark.parametrize("number", range(len(SENSELESS)))
def test_senseless_numbers_are_refused(number: int) -> None:
    build, reason = SENSELESS[number]
    with pytest.raises(ValueError, match=re.escape(reason)):
        build()


def test_a_pass_of_a_method_that_is_not_there_is_refused_before_training() -> None:
    class Forgetful(PPOAlgorithm):
        def passes(self) -> tuple[Pass, ...]:
            return (Pass(1, None, periodic=(Periodic("copy", 2),)),)

    agent = PPO("CartPole-v1")
    with pytest.raises(ConfigError, match=r"Forgetful.passes\(\) names 'copy', which it has no method of: define it"):
        check_methods(agent.config, Forgetful(agent.config.algorithm, agent.spec))

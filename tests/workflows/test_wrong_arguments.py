"""Arguments of evaluation, ranking and data: refused before anything takes time, and agents and functions as policies."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rl_training import PPO, ConfigError, evaluation, make_data
from rl_training.config.parsing import parse_path
from rl_training.experiment.curve import read_lines, text_curve, training_curve
from rl_training.experiment.run_directory import RunDirectory
from tests.wrong_values import WRONG, raw_tracebacks

AGENT = PPO("CartPole-v1", net_arch=[8], n_steps=8, batch_size=8)
DATA = make_data("CartPole-v1", ["random"], 64)
QUICK = {kind: value for kind, value in WRONG.items() if kind not in ("two", "huge", "function")}  # which are right
BEYOND = WRONG["beyond 64 bits"]  # as a number of updates it is only long
CALLS: dict[str, Callable[[object], object]] = {
    "evaluate's seed": lambda value: AGENT.evaluate(1, seed=value),
    "make_data's policies": lambda value: make_data("CartPole-v1", value, 8),
    "make_data's policy": lambda value: make_data("CartPole-v1", [value], 8),
    "make_data's seed": lambda value: make_data("CartPole-v1", ["random"], 8, seed=value),
    "off_policy's level": lambda value: evaluation.off_policy(AGENT, DATA, updates=0, level=value),
    "off_policy's gamma": lambda value: evaluation.off_policy(AGENT, DATA, updates=0, gamma=value),
    "off_policy's method": lambda value: evaluation.off_policy(AGENT, DATA, updates=0, method=value),
    "fitted_q's updates": lambda value: evaluation.fitted_q(AGENT, DATA, updates=-1 if value is BEYOND else value),
    "fitted_q's seed": lambda value: evaluation.fitted_q(AGENT, DATA, updates=0, seed=value),
    "rank": lambda value: evaluation.rank(value, DATA),
    "rank's candidate": lambda value: evaluation.rank([AGENT, value], DATA),
    "rank's data": lambda value: evaluation.rank([AGENT, AGENT], value),
    "rank's level": lambda value: evaluation.rank([AGENT, AGENT], DATA, updates=0, level=value),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_a_sentence(name: str) -> None:
    assert raw_tracebacks(CALLS[name], QUICK) == []


def test_what_an_estimate_cannot_mean_is_refused() -> None:
    refused = {
        "level=95 must lie between 0 and 1": lambda: evaluation.off_policy(AGENT, DATA, level=95),
        "updates=-1 must be at least 0": lambda: evaluation.off_policy(AGENT, DATA, updates=-1),
        "candidates='path' must be a list of agents": lambda: evaluation.rank("path", DATA),
        "candidates names 'nowhere', which does not exist": lambda: evaluation.rank([AGENT, "nowhere"], DATA),
        "seed=18446744073709551616 must be at most 9223372036854775807": lambda: AGENT.evaluate(1, seed=2**64),
    }
    for sentence, call in refused.items():
        with pytest.raises(ConfigError, match=re.escape(sentence)):
            call()


def test_agents_and_functions_make_data() -> None:
    def by_angle(obs: np.ndarray) -> int:
        return int(obs[2] > 0)

    data = make_data("CartPole-v1", [(by_angle, 0.75), (AGENT, 0.25)], 80)
    function = data.extras["policy"] == 0
    assert function.sum() == 60
    assert (data.action[function] == (data.obs[function, 2] > 0)).all()
    assert np.isnan(data.log_prob).tolist() == function.tolist()  # nobody knows a function's probabilities
    assert data.provenance.method == "80 steps: 75% by_angle, 25% ppo at step 0"
    pendulum = make_data("Pendulum-v1", [lambda obs: 2 * obs[0]], 20)
    assert np.allclose(pendulum.action[:, 0], 2 * pendulum.obs[:, 0], atol=1e-6)
    with pytest.raises(ConfigError, match=r"policy <lambda> returned \[1, 2\], which is no action of Discrete"):
        make_data("CartPole-v1", [lambda obs: [1, 2]], 8)


def test_damaged_lines_of_a_log_are_left_out(tmp_path, caplog) -> None:
    whole, cut = b'{"timesteps": 4, "return": 2.0}\n', b'{"timesteps": 9, "ret'
    (tmp_path / "episodes.jsonl").write_bytes(
        whole + b"\xff\xfe\x00\n" + b"[1]\n" + b'{"timesteps": null}\n' + whole + cut
    )
    steps, returns = training_curve(tmp_path)
    assert (steps.tolist(), returns.tolist()) == ([4, 4], [2.0, 2.0])
    assert "episodes.jsonl: line 2, 3 is damaged and was left out" in caplog.text
    assert text_curve(tmp_path).endswith("over 4 steps")
    RunDirectory(tmp_path).trim_logs(4)
    assert read_lines(tmp_path / "episodes.jsonl") == [{"timesteps": 4, "return": 2.0}] * 2


def test_a_name_that_the_locale_cannot_read_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"run_dir='q\\udcc3\\udcbc' holds bytes that are no text in this locale"):
        parse_path(Path("q\udcc3\udcbc"), "run_dir")

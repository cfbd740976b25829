"""What may be searched: forms are read, bad ones are refused with a sentence, values stay in their ranges."""

import math
import random

import pytest

from rl_training.config import ConfigError, RunConfig
from rl_training.config.registry import ALGORITHMS
from rl_training.tuning.param import parse_param, with_params
from rl_training.tuning.space import DEFAULTS, check_param, default_space, space_of

PPO = {"algorithm": {"name": "ppo"}, "env": {"id": "CartPole-v1"}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("algorithm.learning_rate", "must look like SECTION.FIELD=FORM"),
        ("learning_rate=log:1e-5:1e-2", "must look like SECTION.FIELD=FORM"),
        (
            "algorithm.learning_rate=loguniform:1e-5:1e-2",
            "begins with 'loguniform', which is no form: write log:LOW:HIGH",
        ),
        ("algorithm.learning_rate=log:1e-5", "must have two numbers, log:LOW:HIGH"),
        ("algorithm.learning_rate=log:1e-5:nan", "must have two numbers"),
        ("algorithm.learning_rate=log:1e-2:1e-5", "give the lower one first"),
        ("algorithm.learning_rate=log:0:1e-2", "has no logarithm: begin above 0, or use lin"),
        ("algorithm.n_epochs=int:1.5:4", "must have whole numbers: use lin:1.5:4"),
        ("algorithm.learning_rate=log:1e-5:1e-2:1", "asks for a grid of 1 points"),
        ("algorithm.batch_size=choice:64", "at least two different choices"),
        ("algorithm.batch_size=choice:64,64", "at least two different choices"),
        ("algorithm.net_arch=choice:[64,64],[128", "is no list of choices"),
    ],
)
def test_a_form_that_is_not_one_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_param(text)
    assert sentence in str(error.value)
    assert text.partition("=")[0].partition(".")[0] in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("algorithm.learnin_rate=log:1e-5:1e-2", "did you mean 'learning_rate'?"),
        ("algorithm.n_steps=choice:64,128,x", "n_steps='x' must be a whole number"),
        ("algoritm.gamma=lin:0.9:1.0", "algoritm is not a section of a config: did you mean 'algorithm'?"),
        ("algorithm.gamma=lin:0.9:1.5", "algorithm.gamma=1.5 must be at most 1"),
        ("algorithm.learning_rate=lin:-1:1", "algorithm.learning_rate=-1.0 must be above 0"),
        ("algorithm.batch_size=lin:0.5:8", "batch_size=0.5 must be a whole number"),
        ("training.seed=int:0:5", "is not searched"),
        ("evaluation.episodes=int:0:5", "evaluation.episodes=0 must be at least 1"),
        ("algorithm.activation_fn=choice:relu,rellu", "did you mean 'relu'?"),
    ],
)
def test_values_that_a_setting_cannot_have_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        space_of(PPO, [text])
    assert sentence in str(error.value)


def test_a_setting_is_named_once_under_all_its_names() -> None:
    with pytest.raises(ConfigError, match=r"experience\.n_steps twice"):
        space_of(PPO, ["experience.n_steps=int:8:16", "algorithm.n_steps=int:8:16"])


def test_ranges_have_the_points_of_a_grid_and_the_places_of_a_plot() -> None:
    rate = parse_param("algorithm.learning_rate=log:1e-4:1e-2:3")
    assert rate.values == pytest.approx([1e-4, 1e-3, 1e-2])
    assert [rate.share_of(value) for value in rate.values] == pytest.approx([0, 0.5, 1])
    assert parse_param("algorithm.n_epochs=int:1:3:9").values == [1, 2, 3]
    arch = parse_param("algorithm.net_arch=choice:[64, 64],[256],0.5,auto,null")
    assert arch.values == ["[64, 64]", "[256]", "0.5", "auto", "null"]
    assert with_params(PPO, {"algorithm.net_arch": "[256]", "algorithm.gamma": 1e-05})["algorithm"] == {
        "name": "ppo",
        "net_arch": [256],
        "gamma": "1e-05",
    }


def test_perturbed_values_stay_in_the_range_and_move() -> None:
    chance = random.Random(0)
    for text in ("a.b=log:1e-5:1e-2", "a.b=lin:-1:1", "a.b=int:1:4", "a.b=choice:x,y,z"):
        param = parse_param(text)
        value, seen = param.ends[0], set()
        for _ in range(50):
            value = param.perturbed(value, chance)
            assert value in param.choices or (param.low <= float(value) <= param.high and math.isfinite(float(value)))
            assert isinstance(value, int) or param.kind != "int"
            seen.add(value)
        assert len(seen) > 2, text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_space_of_settings_that_it_has(name: str) -> None:
    needs = ALGORITHMS[name].config.needs
    data = {"data": {"path": "logged.npz"}} if needs.dataset or needs.experience == "data" else {}
    values = {"algorithm": {"name": name}, "env": {"id": "CartPole-v1"}, **data}
    values |= {"training": {"total_updates": 10}} if needs.experience == "data" else {}
    space = default_space(ALGORITHMS[name].config)
    assert {"algorithm.learning_rate", "algorithm.gamma"} <= space.keys()
    assert len(space) >= 3
    for param in space.values():
        check_param(values, RunConfig.from_mapping(values), param)


def test_every_entry_of_the_table_is_used() -> None:
    used = {base.__name__ for entry in ALGORITHMS.values() for base in entry.config.__mro__}
    assert set(DEFAULTS) <= used

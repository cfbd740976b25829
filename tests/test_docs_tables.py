"""The tables of the documentation equal the dataclasses and the registry."""

import dataclasses
import re
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from rl_training.algorithms import (
    A2CConfig,
    APPOConfig,
    AWACConfig,
    BCConfig,
    BCQConfig,
    BEARConfig,
    CalQLConfig,
    CQLConfig,
    CrossQConfig,
    DDPGConfig,
    DiscreteBCQConfig,
    DiscreteCQLConfig,
    DiscreteIQLConfig,
    DiscreteSACConfig,
    DQNConfig,
    IMPALAConfig,
    IQLConfig,
    PPOConfig,
    PQNConfig,
    ReBRACConfig,
    RecurrentPPOConfig,
    REDQConfig,
    RLPDConfig,
    SACConfig,
    TD3BCConfig,
    TD3Config,
    TQCConfig,
    TRPOConfig,
)
from rl_training.algorithms.advantage_weighted import AdvantageWeightedConfig
from rl_training.algorithms.continuous import ContinuousConfig, TargetedConfig
from rl_training.algorithms.impala import VTraceConfig
from rl_training.algorithms.off_policy import OffPolicyConfig
from rl_training.algorithms.on_policy import NetArch, OnPolicyConfig, RolloutConfig
from rl_training.algorithms.ppo import ActorCriticConfig
from rl_training.algorithms.soft import SoftConfig, SoftTargetedConfig
from rl_training.core import Groups, Schedule
from rl_training.core.ranges import Range
from rl_training.envs import EnvConfig
from rl_training.experience import HindsightSettings, ReplaySettings, RolloutSettings
from rl_training.experiment.parsing import field_names, to_plain
from rl_training.experiment.registry import ALGORITHMS, experience_of
from rl_training.experiment.sections import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    MakeConfig,
    PhaseConfig,
    SamplingConfig,
    TrainingConfig,
)
from tests.doc_pages import ROOT, code_blocks

TABLES = {
    "algorithm: methods with rollouts": RolloutConfig,
    "algorithm: PPO, A2C, TRPO, RecurrentPPO, IMPALA and APPO": OnPolicyConfig,
    "algorithm: PPO, A2C, RecurrentPPO, IMPALA and APPO": ActorCriticConfig,
    "algorithm: PPO": PPOConfig,
    "algorithm: A2C": A2CConfig,
    "algorithm: TRPO": TRPOConfig,
    "algorithm: RecurrentPPO": RecurrentPPOConfig,
    "algorithm: IMPALA and APPO": VTraceConfig,
    "algorithm: IMPALA": IMPALAConfig,
    "algorithm: APPO": APPOConfig,
    "algorithm: methods with replay": OffPolicyConfig,
    "algorithm: DQN": DQNConfig,
    "algorithm: DiscreteSAC": DiscreteSACConfig,
    "algorithm: methods with replay and continuous actions": ContinuousConfig,
    "algorithm: methods with target critics": TargetedConfig,
    "algorithm: methods with a temperature": SoftConfig,
    "algorithm: methods with a temperature and target critics": SoftTargetedConfig,
    "algorithm: TD3": TD3Config,
    "algorithm: DDPG": DDPGConfig,
    "algorithm: SAC": SACConfig,
    "algorithm: REDQ": REDQConfig,
    "algorithm: TQC": TQCConfig,
    "algorithm: CrossQ": CrossQConfig,
    "algorithm: RLPD": RLPDConfig,
    "algorithm: methods that clone by advantage": AdvantageWeightedConfig,
    "algorithm: DiscreteCQL": DiscreteCQLConfig,
    "algorithm: AWAC": AWACConfig,
    "algorithm: DiscreteIQL": DiscreteIQLConfig,
    "algorithm: CalQL": CalQLConfig,
    "algorithm: CQL": CQLConfig,
    "algorithm: IQL": IQLConfig,
    "algorithm: TD3BC": TD3BCConfig,
    "algorithm: ReBRAC": ReBRACConfig,
    "algorithm: BCQ": BCQConfig,
    "algorithm: DiscreteBCQ": DiscreteBCQConfig,
    "algorithm: BEAR": BEARConfig,
    "algorithm: BC": BCConfig,
    "algorithm: PQN": PQNConfig,
    "experience: rollouts": RolloutSettings,
    "experience: replay": ReplaySettings,
    "experience.hindsight": HindsightSettings,
    "net_arch": NetArch,
    "env": EnvConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "checkpoint": CheckpointConfig,
    "sampling": SamplingConfig,
    "data": DataConfig,
    "data.make": MakeConfig,
    "phases": PhaseConfig,
    "env.obs_groups": Groups,
}
NO_RANGE = Range()


def describe_type(hint: object, limits: Range = NO_RANGE) -> str:
    """A type as the tables write it, with the range that is checked."""
    if get_origin(hint) is Annotated:
        return describe_type(*get_args(hint))
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_args(hint) and get_origin(hint) is tuple:
        return f"list of {describe_type(get_args(hint)[0])}"
    if get_args(hint) and (get_origin(hint) is Union or type(hint).__name__ in ("UnionType", "Union")):
        return ", ".join(describe_type(part, limits) for part in get_args(hint))
    names = {
        Schedule: "schedule",
        NetArch: "net_arch",
        MakeConfig: "data.make",
        Groups: "env.obs_groups",
        HindsightSettings: "experience.hindsight",
        type(None): "null",
    }
    text = names.get(hint) or getattr(hint, "__name__", str(hint))
    if text == "null" or text in ("str", "bool"):
        return text
    if limits.above is not None:
        return f"{text} > {limits.above}" + (f", at most {limits.max}" if limits.max is not None else "")
    if limits.max is not None:
        return f"{text} in {limits.min} to {limits.max}"
    return f"{text} >= {limits.min}" if limits.min is not None else text


def describe_default(field: dataclasses.Field) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return str(to_plain(field.default_factory()))
    if field.default is dataclasses.MISSING:
        return "required"
    value = to_plain(field.default)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def all_rows(config: type) -> dict[str, tuple[str, str]]:
    """Field, type and default as they stand in a table."""
    hints = get_type_hints(config, include_extras=True)
    rows = {}
    for field in dataclasses.fields(config):
        default = "see below" if field.name == "net_arch" else describe_default(field)
        rows[field.name] = (describe_type(hints[field.name]), default)
    return rows


def expected_rows(config: type) -> dict[str, tuple[str, str]]:
    """What a table must hold: what its base's table says is not repeated, nor what every method sets for itself."""
    known = {}
    for base in reversed([kind for kind in config.__mro__[1:] if kind in TABLES.values()]):
        known |= all_rows(base)
    set_below = {"required"} if config is RolloutConfig else set()
    return {name: row for name, row in all_rows(config).items() if known.get(name) != row and row[1] not in set_below}


@pytest.mark.parametrize("title", TABLES)
def test_the_configuration_tables_equal_the_dataclasses(title: str) -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    section = re.search(rf"^### {re.escape(title)}\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
    assert section is not None
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `?(.+?)`? \| .+ \|$", section[1], re.MULTILINE)
    documented = {name: (kind, default) for name, kind, default in rows}
    assert documented == expected_rows(TABLES[title])


def test_the_configuration_page_names_every_algorithm() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    sentence = re.search(r"also has `name`: (.+?)\.", text)
    assert sentence is not None
    assert re.findall(r"`(\w+)`", sentence[1]) == sorted(ALGORITHMS)


PRESENTS = {"sac": (SoftConfig, SoftTargetedConfig), "td3": (TargetedConfig,)}  # what is first explained on its page


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page_with_its_command_options_and_results(name: str) -> None:
    page = ROOT / f"docs/algorithms/{name}.md"
    text = page.read_text()
    assert any(line.startswith(f"rl-training train {name}/") for block in code_blocks(page, "bash") for line in [block])
    for heading in ("## Method", "## Options", "## Differences from", "## Result", "<!-- results"):
        assert heading in text
    options = re.search(r"^## Options\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert options is not None
    rows = "".join(line for line in options[1].splitlines() if line.startswith("|"))
    fields = set(field_names(ALGORITHMS[name].config)) | set(field_names(experience_of(name)))
    named = set(re.findall(r"`([a-z_]+)`", rows))
    assert named
    assert named <= fields
    own = {*expected_rows(ALGORITHMS[name].config), *ALGORITHMS[name].config.needs.settings}
    own |= {row for kind in PRESENTS.get(name, ()) for row in expected_rows(kind)}
    own -= {"adam_eps", "train_freq"}
    assert own <= named

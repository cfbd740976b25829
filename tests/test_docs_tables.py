"""The tables of the documentation equal the dataclasses and the registry."""

import re
import runpy

import pytest

from rl_training.algorithms.continuous import TargetedConfig
from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.algorithms.sac import SoftConfig, SoftTargetedConfig
from rl_training.config.parsing import field_names
from rl_training.config.registry import ALGORITHMS, experience_of
from tests.doc_pages import ROOT, algorithm_page, code_blocks

WRITER = runpy.run_path(str(ROOT / "scripts/write_settings.py"))
PAGE = WRITER["Page"](WRITER["PAGE"].read_text())


def own_rows(kind: type) -> dict[str, tuple[str, str]]:
    return WRITER["own_rows"](kind, PAGE.shown)


def test_the_configuration_tables_equal_the_dataclasses() -> None:
    assert PAGE.text == PAGE.rewritten(), "run python scripts/write_settings.py"


def test_the_configuration_page_has_a_table_for_every_section_and_algorithm() -> None:
    variants = {entry.config for entry in ALGORITHMS.values() if entry.algorithm is DQNAlgorithm} - {DQNConfig}
    named = {entry.config for entry in ALGORITHMS.values()} - variants
    assert {*WRITER["OTHER_SECTIONS"], *named} <= set(PAGE.shown)


def test_the_configuration_page_explains_every_field() -> None:
    unexplained = re.findall(rf"^.*\| {re.escape(WRITER['UNKNOWN'])} \|$", PAGE.text, re.MULTILINE)
    assert unexplained == [], "write the last column of these rows in docs/configuration.md"


def test_a_table_shows_what_a_field_of_a_class_says() -> None:
    assert own_rows(SoftTargetedConfig)["critic_subset"] == ("int >= 1, null", "`null`")
    assert own_rows(TargetedConfig)["tau"] == ("float > 0, at most 1", "`0.005`")
    assert own_rows(ALGORITHMS["impala"].config)["learning_rate"] == ("schedule > 0", "`lin_0.0006`")
    assert "gamma" not in own_rows(ALGORITHMS["ppo"].config)


PRESENTS = {"sac": (SoftConfig, SoftTargetedConfig), "td3": (TargetedConfig,)}  # what is first explained on its page


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page_with_its_command_options_and_results(name: str) -> None:
    page = ROOT / "docs/algorithms" / algorithm_page(name)
    text = page.read_text()
    lines = [line for block in code_blocks(page, "bash") for line in block.splitlines()]
    assert any(line.startswith(f"rl-training train {name}/") for line in lines)
    for heading in ("## Method", "## Options", "## Differences from", "## Result", "<!-- results"):
        assert heading in text
    options = re.search(r"^## Options\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert options is not None
    rows = "".join(line for line in options[1].splitlines() if line.startswith("|"))
    fields = set(field_names(ALGORITHMS[name].config)) | set(field_names(experience_of(name)))
    named = set(re.findall(r"`([a-z_]+)`", rows))
    assert named
    assert named <= fields
    own = {*own_rows(ALGORITHMS[name].config), *ALGORITHMS[name].config.needs.settings}
    own |= {row for kind in PRESENTS.get(name, ()) for row in own_rows(kind)}
    own -= {"adam_eps", "net_arch", "train_freq"}
    assert own <= named

"""docs/sage/operate.md: its table is one, and its alerts are about metrics that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sage.orchestrator.models_file import ModelsFile
from sage.upstream.metrics import HELP

PAGE = Path(__file__).parents[2] / "docs" / "sage" / "operate.md"
BLOCKS = [
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
]


def test_the_table_can_be_served(tmp_path: Path) -> None:
    (table,) = [block for block in BLOCKS if "models" in block]
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(table))
    found = ModelsFile.read(tmp_path / "models.yaml")
    assert all(model.upstream and model.max_output_tokens for model in found.models.values())


RULES = [rule for block in BLOCKS for group in block.get("groups", []) for rule in group["rules"]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_are_about_metrics_that_exist(rule: dict) -> None:
    assert set(re.findall(r"\bsage_\w+", rule["expr"])) <= set(HELP)
    assert re.search(r"\bsage_\w+|\bup\b", rule["expr"])

"""Small true records and tables that tests change one thing of."""

from __future__ import annotations

from pathlib import Path

from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.orchestrator.models_file import ModelsFile
from sage.policies.features import NAMES, VERSION

TABLE = """
models:
  small: {input_usd_per_mtok: 0.5, output_usd_per_mtok: 1.0, max_context: 1000, latency_s: 2}
  medium: {input_usd_per_mtok: 3, output_usd_per_mtok: 15, latency_s: 5}
  large: {input_usd_per_mtok: 15, output_usd_per_mtok: 75, latency_s: 20, roles: [coder, planner]}
roles:
  default: {primary: medium, fallback: small}
  coder:
    primary: small
    fallback: medium
    triggers:
      - {when: past_failures >= 2, use: large}
      - {when: task_complexity_score > 0.3, use: medium}
"""


def parsed(extra: str = "") -> ModelsFile:
    return ModelsFile.parse(TABLE + extra)


def written(folder: Path, extra: str = "") -> Path:
    path = folder / "models.yaml"
    path.write_text(TABLE + extra)
    return path


def decision(decision_id: str = "d1", **changes: object) -> Decision:
    values: dict = {
        "id": decision_id,
        "time": 1000.0,
        "data_source": "synthetic",
        "role": "coder",
        "candidates": ("small", "large"),
        "probabilities": (0.75, 0.25),
        "model": "small",
        "policy": "static",
        "policy_version": "1",
        "features": (0.5,) * len(NAMES),
        "features_version": VERSION,
    }
    return Decision(**values | changes)


def outcome(decision_id: str = "d1", **changes: object) -> Outcome:
    values: dict = {"decision_id": decision_id, "time": 1010.0, "quality": 1.0}
    return Outcome(**values | changes)


def ids(log: DecisionLog, **wanted: object) -> list[str]:
    return [row.id for row, _ in log.rows(**wanted)]  # pyrefly: ignore

"""A check that stored runs were made with the settings of their cell, which are frozen before they are run."""

from __future__ import annotations

from rl_training.bench.learning import frozen_config
from rl_training.bench.records import Record
from rl_training.config.run_config import flatten
from rl_training.config.translation import by_our_names

# Where and how it ran, not what was learned; and what is resolved when a run starts.
FREE = ("training.device", "training.compile", "training.precision", "training.threads", "training.log_interval")
FREE_SECTIONS = ("checkpoint.", "data.")


def drift(cell: str, records: list[Record]) -> list[str]:
    """Returns a text such as "key old (now new)" for each setting in which stored runs differ from their cell's config.

    `cell` is the benchmark's name. Settings that an old record lacks, and those that do not change what is learned, are
    not compared.
    """
    changed: dict[str, str] = {}
    for record in records:
        now = flatten(frozen_config(cell, record.get("seed", 0)).to_mapping())
        then = flatten(by_our_names(record["config"])) if "algorithm" in record.get("config", {}) else {}
        for key in now.keys() & then.keys():
            if now[key] != then[key] and key not in FREE and not key.startswith(FREE_SECTIONS):
                changed[key] = f"{key} {then[key]} (now {now[key]})"
    return [changed[key] for key in sorted(changed)]

"""The command `rl-training ope`."""

from __future__ import annotations

import argparse
import json
import sys

from rl_training.api import load
from rl_training.config import ConfigError
from rl_training.data import Dataset
from rl_training.evaluation import off_policy, rank


def ope(options: argparse.Namespace) -> int:
    dataset, names = Dataset.open(options.data), ("deterministic", "gamma", "updates", "seed")
    settings = {name: getattr(options, name) for name in names}
    if options.rank or options.criterion is not None:
        settings |= {"criterion": options.criterion or "fitted_q", "truth_episodes": options.truth_episodes}
        settings |= {"success": options.success, "level": options.level}
        ranking = rank(options.paths, dataset, trust=options.trust, **settings)
        print(json.dumps(ranking.to_json()) if options.json else ranking)
        return 0
    if len(options.paths) > 1:
        raise ConfigError(f"{len(options.paths)} policies: give one, or rank them with --rank")
    agent = load(options.paths[0], device="cpu", trust=options.trust)
    report = off_policy(agent, dataset, level=options.level, **settings)
    print(report.to_json() if options.json else report)
    if report.refusal is not None:
        print("no estimate: the data do not support one", file=sys.stderr)
    return 0

"""The commands that show runs to others: `report` and `hub-card`."""

from __future__ import annotations

import argparse
import json
import shlex

from rl_training.api.hub_card import hub_name, write_hub_card
from rl_training.experiment.report.page import write_report


def report(options: argparse.Namespace) -> int:
    print(f"report: {write_report(options.runs, options.out)}")
    return 0


def hub_card(options: argparse.Namespace) -> int:
    """Writes a folder for the Hugging Face Hub, and prints what is in it and the command that uploads it."""
    folder = write_hub_card(
        options.run,
        options.out,
        num_episodes=options.episodes,
        seed=options.seed,
        video=options.video,
        trust=options.trust,
    )
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = hub_name(config["algorithm"]["name"], config["env"]["id"])
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    print(f"upload it with: hf upload YOU/{name} {shlex.quote(str(folder))}")
    return 0

"""Former names of commands: `sage rl ACTION` and `sage data ACTION` do what they did."""

from __future__ import annotations

from sage.cli.parser import Parser, add_actions
from sage.cli.train_commands import EVERY, former_train

RL = {  # each with its present name
    "collect-synth": ("lab_commands.add_collect_synth", "now `sage lab collect-synth`"),
    "replay": ("lab_commands.add_replay", "now `sage lab replay`"),
    "export": ("export_command.add_export", "now `sage log export`"),
    "verifiers": ("lab_commands.add_verifiers", "now `sage lab verifiers`"),
    "analyze-rewards": ("lab_commands.add_analyze_rewards", "now `sage lab analyze-rewards`"),
    **{f"train-{name}": (former_train(name), f"now `sage train --learner {name}`") for name in EVERY},
    "eval-offline": ("proof_commands.add_eval_offline", "now the evaluation of `sage prove`"),
    "gate": ("proof_commands.add_gate", "now the verdict of `sage prove`"),
    "frontier": ("frontier_command.add_frontier", "now `sage lab frontier`"),
    "plausible": ("plan_commands.add_plausible", "now `sage lab plausible`"),
    "plan": ("plan_commands.add_plan", "now `sage lab plan`"),
}
DATA = {
    "import": ("import_commands.add_import", "now `sage log import`"),
    "info": ("import_commands.add_info", "now `sage log info`"),
}


def add_rl(rl: Parser) -> None:
    add_actions(rl, RL)


def add_data(data: Parser) -> None:
    add_actions(data, DATA)

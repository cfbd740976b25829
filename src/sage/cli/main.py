"""Arguments and dispatch of `sage`."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn

from rl_base.shown_warnings import warnings_shown
from rl_base.standard_streams import run_with_streams

OUTPUT_LOST = 4  # exit code of a command that did everything but could not write what it had to say; 3 is the gate's
DESCRIPTION = "Routes model calls, logs every choice with its probability, and proves a new policy before it serves."
ROUTING = "sage.cli.route_commands"  # what runs per request: nothing else is loaded for it
ROUTING_COMMANDS = ("init", "doctor", "route", "outcome")
SERVE = "sage.cli.serve_commands"
GROUPS = (
    SERVE,
    "sage.cli.log_commands",
    "sage.cli.import_commands",
    "sage.cli.bench_commands",
    "sage.cli.key_commands",
    "sage.cli.explain_command",
    "sage.cli.model_commands",
    "sage.cli.run_commands",
)
RL_GROUPS = (
    "sage.cli.lab_commands",
    "sage.cli.proof_commands",
    "sage.cli.frontier_command",
    "sage.cli.plan_commands",
)
SIM_GROUPS = (
    "sage.cli.sim_environment_commands",
    "sage.cli.sim_model_commands",
    "sage.cli.sim_training_commands",
    "sage.cli.sim_commands",
    "sage.cli.sim_task_commands",
    "sage.cli.sim_run_commands",
)


class Parser(argparse.ArgumentParser):
    """Says a mistake in one sentence, as everything else does, instead of under a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}: see `{self.prog} --help`\n")


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser; every module adds its commands, each with a handler `func(arguments) -> exit code`."""
    parser = Parser(prog="sage", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    if words and words[0] == "serve":  # which stays in memory
        import_module(SERVE).add_commands(commands)
        return parser
    import_module(ROUTING).add_commands(commands)
    if words and words[0] in ROUTING_COMMANDS:
        return parser
    for module in GROUPS:
        import_module(module).add_commands(commands)
    for name, modules, purpose in (
        ("rl", RL_GROUPS, "from a log to a dataset, a policy and its proof"),
        ("sim", SIM_GROUPS, "software tasks that run in sandboxes"),
    ):
        actions = commands.add_parser(name, help=purpose).add_subparsers(dest="action", required=True, metavar="ACTION")
        for module in modules:
            import_module(module).add_commands(actions)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. A user's mistake is one sentence on standard error and code 2."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = build_parser(words).parse_args(words)
    return run_with_streams(partial(run_command, options), OUTPUT_LOST)


def run_command(options: argparse.Namespace) -> int:
    try:
        with warnings.catch_warnings(), warnings_shown("sage", "rl_training"):
            warnings.showwarning = show_warning
            return options.func(options)
    except ValueError as error:
        return refuse(options, str(error))
    except OSError as error:
        if error.filename is None:
            raise
        return refuse(options, f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """One sentence, without the place in the source that raised it."""
    print(f"warning: {message}", file=sys.stderr)


def refuse(options: argparse.Namespace, sentence: str) -> int:
    """One sentence for people, or one object for programs, and the code of a mistake."""
    print(json.dumps({"error": sentence}) if vars(options).get("json") else f"error: {sentence}", file=sys.stderr)
    return 2

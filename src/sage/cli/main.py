"""Arguments and dispatch of `sage`."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from functools import partial

from rl_base.shown_warnings import warnings_shown
from rl_base.standard_streams import run_with_streams
from sage.cli.extras import extra_with
from sage.cli.parser import Parser, function_of

OUTPUT_LOST = 4  # exit code of a command that did everything but could not write what it had to say; 3 is the gate's
DESCRIPTION = "Routes model calls, logs every choice with its probability, and proves a new policy before it serves."
FIRST_PAGE = {  # of `sage --help`: the function that gives each command its arguments, and its purpose
    "init": ("init_command.add_init", "write a models.yaml to start from"),
    "serve": ("serve_commands.add_serve", "route, log and forward the model calls of agents: a proxy"),
    "status": ("promotion_commands.add_status", "what serves, since when, on which proof, and how it does"),
    "report": ("report_command.add_report", "cost and quality of the logged calls, as one HTML page"),
    "train": ("train_commands.add_train", "learn a policy from the log"),
    "prove": ("proof_commands.add_prove", "judge a policy on tasks that it was not learned from"),
    "promote": ("promotion_commands.add_promote", "let a proved policy serve; running servers follow"),
    "rollback": ("promotion_commands.add_rollback", "let the former policy, or the table of models.yaml, serve again"),
    "run": ("run_commands.add_run", "change a repository as a sentence says: a small coding agent"),
    "doctor": ("doctor.add_doctor", "check the installation, the table, the log and the policy"),
}
GROUPS = {  # a line each under the first page
    "log": ("log_commands.add_log", "export, outcome, erase, digest, import, info, route, explain"),
    "keys": ("key_commands.add_keys", "keys and budgets of the callers of `sage serve`"),
    "models": ("model_commands.add_models", "language models on this machine, for `sage serve`"),
    "sim": ("sim_commands.add_sim", "software tasks that run in sandboxes"),
    "bench": ("bench_commands.add_bench", "compare routing policies over outcome tables"),
    "lab": (
        "lab_commands.add_lab",
        "plan, plausible, frontier, verifiers, collect-synth, replay, analyze-rewards",
    ),
}
FORMER = {  # names that commands had before, which still work
    "rl": "former_commands.add_rl",
    "data": "former_commands.add_data",
    "route": "route_commands.add_route",
    "outcome": "route_commands.add_outcome",
    "explain": "explain_command.add_explain",
}
BEGIN = """\
to begin:
  sage init; sage serve                 point your agents at it, and it logs what they ask
  sage init; sage lab collect-synth     or made-up calls, to try everything: then sage train, prove, promote, status
"""
PAGES = "\n".join(f"  {name:<10}{purpose}" for name, (_, purpose) in GROUPS.items())


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Builds the parser: of the command that `words` begin with, or whole if there are no words.

    Every command sets `func(arguments) -> exit code`. Its module is loaded when it is asked for, as `sage serve` stays
    in memory.
    """
    parser = Parser(
        prog="sage",
        description=DESCRIPTION,
        epilog=f"groups, each with commands of its own (sage GROUP --help):\n{PAGES}\n\n{BEGIN}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    shown = {name: commands.add_parser(name, help=text, description=text) for name, (_, text) in FIRST_PAGE.items()}
    hidden = {name: commands.add_parser(name) for name in (*GROUPS, *FORMER)}
    places = FORMER | {name: place for name, (place, _) in (FIRST_PAGE | GROUPS).items()}
    for name, command in (shown | hidden).items():
        if not words or words[0] == name:
            command.asked = words[1:]
            function_of(places[name])(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. A user's mistake is one sentence on standard error and code 2."""
    words = (sys.argv[1:] if arguments is None else list(arguments)) or ["--help"]
    options = build_parser(words).parse_args(words)
    return run_with_streams(partial(run_command, options), OUTPUT_LOST)


def run_command(options: argparse.Namespace) -> int:
    try:
        with warnings.catch_warnings(), warnings_shown("sage", "rl_training"):
            warnings.showwarning = show_warning
            return options.func(options)
    except ModuleNotFoundError as error:
        extra = extra_with(error.name or "")
        if extra is None:
            raise
        needs = f"sage {options.command} needs {error.name}, which is not installed"
        return refuse(options, f"{needs}: pip install 'sage-routing[{extra}]'")
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

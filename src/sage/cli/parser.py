"""The parser of every command: mistakes in one sentence, hidden commands, and former names of options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says a mistake in one sentence, as everything else does, instead of under a page of usage."""

    asked: Sequence[str] = ()  # the words that follow; the commands of a group that they do not name stay unloaded

    def parse_known_args(  # pyrefly: ignore (the base has overloads)
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses unknown words in the name of the command that they were given to, with the nearest option."""
        found, unknown = super().parse_known_args(args, argparse.Namespace() if namespace is None else namespace)
        if unknown and self._subparsers is None:
            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1)
            hint = f", do you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}: see `{self.prog} --help`\n")

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """Refuses an unknown command with the nearest one, and not with all of them and their former names."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            near = get_close_matches(value, action.choices, 1)
            hint = f", do you mean {near[0]!r}?" if near else ""
            raise argparse.ArgumentError(action, f"there is no {value!r}{hint}")
        super()._check_value(action, value)


Fill = Callable[[Parser], None]


def accept(parser: argparse.ArgumentParser, action: argparse.Action, *former: str) -> None:
    """Accepts former names of an option, which the help does not show."""
    for name in former:
        parser._option_string_actions[name] = action


def function_of(place: str | Fill) -> Fill:
    """Returns the function that gives a command its arguments, from `module.function` of this package."""
    if not isinstance(place, str):
        return place
    module, _, function = place.partition(".")
    return getattr(import_module(f"sage.cli.{module}"), function)


def add_actions(
    parser: Parser,
    shown: Mapping[str, tuple[str | Fill, str]],
    hidden: Mapping[str, str | Fill] | None = None,
) -> None:
    """Adds the commands of a group, each with its purpose; the help leaves out former names, which are `hidden`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="commands")
    added = {name: actions.add_parser(name, help=text, description=text) for name, (_, text) in shown.items()}
    added |= {name: actions.add_parser(name) for name in hidden or {}}
    places = dict(hidden or {}) | {name: place for name, (place, _) in shown.items()}
    for name, action in added.items():
        if not parser.asked or parser.asked[0] == name:
            function_of(places[name])(action)

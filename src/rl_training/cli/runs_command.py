"""The command `runs`: run directories under a folder, listed, shown, compared and removed."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rl_training.cli.chosen_runs import choose_runs, run_named, why_none
from rl_training.cli.text_table import csv_table, text_table
from rl_training.experiment.find_runs import COLUMNS, RunFields, check_fields
from rl_training.experiment.report.formatting import number, plural, size
from rl_training.experiment.run_record import RunRecord
from rl_training.experiment.run_removal import remove_runs, size_of, why_not_removed

if TYPE_CHECKING:
    from rl_training.experiment.report.compare_runs import RunComparison
    from rl_training.experiment.report.comparison import Summary

SHOWN = ("run", "status", "algorithm", "env", "seed", "steps", "score", "spread", "success", "train_return", "seconds")
TEXTS = ("run", "status", "algorithm", "env", "started", "reason", "group", "setting")  # columns that begin at the left
LAST_EVALUATIONS = 5


def list_or_change(options: argparse.Namespace) -> int:
    return ACTIONS[options.action](options)


def list_runs(options: argparse.Namespace) -> int:
    """Prints the runs below the root, one per line."""
    found = choose_runs(options)
    columns = [name.strip() for name in options.columns.split(",")] if options.columns else list(COLUMNS)
    fields = [RunFields(record) for record in found]
    check_columns(columns, fields)
    rows = [[plain(one.get(name)) for name in columns] for one in fields]
    if options.json:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]))
    elif options.csv:
        print(csv_table(columns, rows))
    elif not found:
        print(why_none(options))
    else:
        shown = (
            columns if options.columns else [name for name in SHOWN if any(one.get(name) is not None for one in fields)]
        )
        print(text_table(shown, [[cell(name, one.get(name)) for name in shown] for one in fields], left=TEXTS))
    return 0


def show_run(options: argparse.Namespace) -> int:
    """Prints everything about one run but its logs."""
    record = run_named(options.run, options.root)
    if options.json:
        about = {"config": record.config, "metadata": record.metadata, "result": record.result}
        lists = {"evaluations": record.evaluations(), "checkpoints": [path.name for path in record.checkpoints()]}
        print(json.dumps(plain({**record.summary, "path": str(record.path), **about, **lists})))
        return 0
    print("\n".join(f"{name:13} {text}" for name, text in facts_of(record).items() if text))
    evaluations = record.evaluations()[-LAST_EVALUATIONS:]
    if evaluations:
        names = {"timesteps": "steps", "eval/mean_reward": "mean return", "eval/std_reward": "std"}
        rows = [[cell(name, row.get(name)) for name in names] for row in evaluations]
        print(f"\nlast evaluations\n{text_table(list(names.values()), rows)}")
    print("\nsettings")
    print("\n".join(f"{path}: {json.dumps(plain(value))}" for path, value in RunFields(record).settings.items()))
    return 0


def facts_of(record: RunRecord) -> dict[str, str]:
    """Returns what is known of a run apart from its settings, as text by name; "" for what is not known."""
    metadata, command = record.metadata, record.metadata.get("command")
    versions = metadata.get("versions")
    facts = {name: cell(name, value) for name, value in record.summary.items() if value is not None}
    return facts | {
        "folder": str(record.path),
        "command": " ".join(map(str, command)) if isinstance(command, list) else "",
        "versions": ", ".join(f"{name} {found}" for name, found in versions.items())
        if isinstance(versions, dict)
        else "",
        "git": str(metadata.get("git") or ""),
        "checkpoints": ", ".join(path.name for path in record.checkpoints()),
    }


def compare(options: argparse.Namespace) -> int:
    """Prints the groups of runs, their scores and the settings in which they differ."""
    from rl_training.experiment.report.compare_runs import compare_runs  # imports torch, which `list` need not

    found = choose_runs(options, options.runs)
    if not found:
        raise ValueError(why_none(options))
    comparison = compare_runs(found)
    if options.json:
        print(json.dumps(plain(comparison_values(comparison))))
    elif options.csv:
        head, rows = group_rows(comparison)
        print(csv_table([*head, *comparison.settings], rows))
    else:
        print(comparison_text(comparison))
    return 0


def group_rows(comparison: RunComparison) -> tuple[list[str], list[list[object]]]:
    """Returns the columns of a table of groups, and its rows with the settings that differ after these columns."""
    statistics = ["mean", "std", "median", "iqm", "low", "high"]
    rows = [
        [group.name, group.env, len(group.runs), group.steps]
        + [statistic(group.score, name) for name in statistics]
        + [plain(values[index]) for values in comparison.settings.values()]
        for index, group in enumerate(comparison.groups)
    ]
    return ["group", "env", "runs", "steps", *statistics], rows


def statistic(score: Summary | None, name: str) -> object:
    """Returns a statistic of scores; None where there is none, as for the interval of a single one."""
    return None if score is None or (score.count == 1 and name in ("low", "high")) else plain(getattr(score, name))


def comparison_values(comparison: RunComparison) -> dict[str, object]:
    return {
        "groups": [
            {"group": group.name, "env": group.env, "runs": [run.name or str(run.path) for run in group.runs]}
            | {"steps": group.steps, "score": group.score._asdict() if group.score else None}
            for group in comparison.groups
        ],
        "pairs": [vars(pair) for pair in comparison.pairs],
        "settings": comparison.settings,
        "scores": comparison.scores,
        "notes": list(comparison.notes),
    }


def comparison_text(comparison: RunComparison) -> str:
    head, rows = group_rows(comparison)
    shown = text_table(
        head, [[cell(name, value) for name, value in zip(head, row, strict=False)] for row in rows], left=TEXTS
    )
    parts = [shown, "\n".join(f"score in {env}: {what}" for env, what in comparison.scores.items())]
    parts[-1] += "\niqm: mean of the middle half of the scores; low, high: its 95 % bootstrap interval"
    if comparison.pairs:
        parts.append(
            "\n".join(
                f"{pair.first} > {pair.second}: probability {pair.probability:.2f} ({pair.low:.2f} to {pair.high:.2f})"
                for pair in comparison.pairs
            )
        )
    parts.append(settings_text(comparison))
    return "\n\n".join([*parts, *comparison.notes])


def settings_text(comparison: RunComparison) -> str:
    """Returns the settings that differ and that every group has, as a table, and the number of the others."""
    names = [group.name for group in comparison.groups]
    if len(names) == 1:
        return "These runs differ in training.seed alone."
    common = {path: values for path, values in comparison.settings.items() if None not in values}
    rows = [[path, *(setting_text(value) for value in values)] for path, values in common.items()]
    others = len(comparison.settings) - len(common)
    more = f"{plural(others, 'setting')} that only some groups have: --json has them" if others else ""
    table = text_table(["setting", *names], rows, left=["setting", *names]) if rows else ""
    return "\n".join(part for part in (table, more) if part) or "The groups have the same settings."


def remove(options: argparse.Namespace) -> int:
    """Removes runs, after asking."""
    if not options.runs and options.where is None:
        raise ValueError("runs rm: name the runs to remove, or choose them with --where")
    found = choose_runs(options, options.runs, exact=True)
    for record in found:
        if problem := why_not_removed(record):
            raise ValueError(f"{problem}; nothing was removed")
    if not found:
        print(why_none(options))
        return 0
    for record in found:
        print(f"{record.path}  {record.status}, {size(size_of(record.path))}")
    if not options.yes and not agreed(f"remove {plural(len(found), 'run')} with all files? [y/N] "):
        print("nothing was removed")
        return 1
    remove_runs(found)
    print(f"removed {plural(len(found), 'run')}")
    return 0


def agreed(question: str) -> bool:
    """Asks a question on the terminal, and returns True if the answer is yes; raises ValueError without a terminal."""
    print(question, end="", flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print()
        raise ValueError("nobody answered, so nothing was removed: give --yes to remove without a question")
    return answer.strip().lower() in ("y", "yes")


def check_columns(columns: Sequence[str], fields: Sequence[RunFields]) -> None:
    unknown = [name for name in columns if not any(name in one.without_settings for one in fields)]
    if unknown and fields:
        check_fields(unknown, list(dict.fromkeys(name for one in fields for name in one)), "--columns")


def plain(value: object) -> object:
    """Returns a value as JSON has it: None in place of numbers that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def cell(name: str, value: object) -> str:
    """Returns a value as the text of a table's cell."""
    if isinstance(value, Mapping | list):
        return setting_text(value)
    if name == "success" and isinstance(value, float):
        return f"{value:.1%}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return "-" if value is None else str(value)


def setting_text(value: object) -> str:
    from rl_training.experiment.report.groups import shown  # imports torch; settings need it anyway

    return shown(value)


ACTIONS = {"list": list_runs, "show": show_run, "compare": compare, "rm": remove}

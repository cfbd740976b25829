"""Several seeds in one folder: trained one after the other, finished after an interruption, and summarised."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path

from rl_training.api import Agent, Stacked
from rl_training.api.restoring import with_changes
from rl_training.cli.one_run import plan, report, sampling_of, tracking_of, train_to_end
from rl_training.config import ConfigError, RunConfig
from rl_training.config.overrides import apply_override
from rl_training.config.parsing import parse_path
from rl_training.config.trust import Trust
from rl_training.evaluation import bootstrap_interval, iqm
from rl_training.experiment import RunDirectory
from rl_training.experiment.curve import draw_seeds
from rl_training.experiment.report.page import write_report
from rl_training.experiment.run_directory import result_of, write_atomically

PLANNED = "seeds.json"  # the config of every seed that was asked for, so that those not begun can be started
SIGNALS = ("SIGINT", "SIGTERM")


def parse_seeds(text: str) -> list[int]:
    try:
        ranges = [[int(end) for end in part.split("..")] for part in text.split(",")]
        seeds = [seed for first, *last in ranges for seed in range(first, (last or [first])[-1] + 1)]
    except ValueError as error:
        raise ConfigError(f"--seeds {text!r} must be whole numbers separated by commas, or 0..63") from error
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {text!r} names a seed twice: give each once")
    return seeds


def train_seeds(values: dict, options: argparse.Namespace) -> int:
    """Trains a run for each seed of --seeds, one after the other, and prints a summary; returns the exit code 0.

    With --run-dir, all are in that folder. A run that a signal pauses ends the series. Raises ConfigError if a run is
    invalid or already there, before any starts.
    """
    seeds = parse_seeds(options.seeds)
    whole = parse_path(options.run_dir, "--run-dir") if options.run_dir else None
    if whole is not None and (begun := sorted(set(seeds) & set(begun_seeds(whole)))):
        raise ConfigError(
            f"run directory {whole} has seed {', '.join(map(str, begun))} already: finish all its seeds with "
            f"`rl-training resume {shlex.quote(str(whole))}`, or choose another folder"
        )
    seeded = [apply_override(values, f"training.seed={seed}") for seed in seeds]
    plans = [
        plan(v, whole and whole / f"seed{seed}") for seed, v in zip(seeds, seeded, strict=True)
    ]  # before any starts
    if whole is not None:
        whole.mkdir(parents=True, exist_ok=True)
        planned = read_planned(whole) | {config.training.seed: config.to_mapping() for config, _ in plans}
        write_atomically(whole / PLANNED, json.dumps(planned, indent=2))
    if options.stacked:
        return train_stacked(plans, options, whole)
    scores = []
    for config, run_dir in plans:
        agent = Agent(config, run_dir=run_dir)
        result = train_to_end(agent, options, whole)
        scores.append(result.eval_mean_return)
        print(f"seed {config.training.seed}: {result.status}, {run_dir}")
        if result.reason in SIGNALS:
            report(result, agent, whole)
            say_what_is_missing(seeds[len(scores) :], whole)
            return 0
    summarise({config.training.seed: run_dir for config, run_dir in plans}, scores, whole)
    return 0


def train_stacked(plans: list[tuple[RunConfig, Path]], options: argparse.Namespace, whole: Path | None) -> int:
    """Trains the planned runs of all seeds as one program, and prints a summary; returns the exit code 0."""
    together = Stacked([Agent(config, run_dir=run_dir) for config, run_dir in plans])
    try:
        results = together.learn(stop_at=options.stop_at, progress=not options.quiet)
    finally:
        together.close()
    for result, (_, run_dir) in zip(results, plans, strict=True):
        print(f"seed {result.seed}: {result.status}, {run_dir}")
    if results[0].reason in SIGNALS:
        report(results[0], together.agents[0], whole)
        return 0
    summarise(
        {config.training.seed: run_dir for config, run_dir in plans}, [one.eval_mean_return for one in results], whole
    )
    return 0


def say_what_is_missing(seeds: list[int], whole: Path | None) -> None:
    if seeds:
        how = "it starts them too" if whole else f"start them with --seeds {','.join(map(str, seeds))}"
        print(f"not begun: seed {', '.join(map(str, seeds))}; {how}")


def begun_seeds(whole: Path) -> dict[int, Path]:
    """Returns the run directories, such as `seed7`, that have begun in a folder, by seed; {} if there is none."""
    found = {path.parent for path in whole.glob("seed*/config.yaml")}
    return {int(path.name[4:]): path for path in found if re.fullmatch(r"seed\d+", path.name)}


def read_planned(whole: Path) -> dict[int, dict]:
    """Reads the config data of all seeds that are planned in a folder, by seed; {} if it does not say.

    Raises ConfigError if its file `seeds.json` is damaged.
    """
    file = whole / PLANNED
    if not file.exists():
        return {}
    try:
        return {int(seed): dict(config) for seed, config in json.loads(file.read_text(encoding="utf-8")).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{file} is damaged ({error}): delete it to finish the seeds that have begun, without the others"
        ) from error


def resume_seeds(whole: Path, options: argparse.Namespace) -> int:
    """Finishes the runs in a folder of seeds, starts those that are planned, and prints a summary of all.

    Returns the exit code 0. A run that a signal pauses ends the series. Raises ConfigError for flags that are for one
    run.
    """
    if options.verify or options.total_timesteps or options.total_updates:
        raise ConfigError(
            f"--verify, --total-timesteps and --total-updates are for one run, and {whole} holds several seeds: name one, "
            f"e.g. {min(begun_seeds(whole).values())}"
        )
    begun, planned = begun_seeds(whole), read_planned(whole)
    seeds, scores = sorted({*begun, *planned}), []
    for seed in seeds:
        run_dir = whole / f"seed{seed}"
        if (result := result_of(run_dir)).get("status") not in ("finished", "stopped"):
            agent = (
                Agent.resume(run_dir, trust=options.trust, sampling=sampling_of(options), tracking=tracking_of(options))
                if seed in begun
                else begin(planned[seed], run_dir, options)
            )
            now = train_to_end(agent, options, whole)
            print(f"seed {seed}: {now.status}, {run_dir}")
            if now.reason in SIGNALS:
                report(now, agent, whole)
                say_what_is_missing([other for other in seeds if other not in begun_seeds(whole)], whole)
                return 0
            result = result_of(run_dir)
        scores.append(result.get("eval_mean_return"))
    summarise({seed: whole / f"seed{seed}" for seed in seeds}, scores, whole)
    return 0


def begin(values: dict, run_dir: Path, options: argparse.Namespace) -> Agent:
    """Returns the agent of a new run from config data that a folder of seeds plans.

    Raises ConfigError if the config names code that `options.trust` does not allow, or if the directory is not free.
    """
    config = with_changes(RunConfig.from_mapping(values), sampling_of(options), tracking_of(options))
    Trust.of(run_dir.parent / PLANNED, options.trust).check(config)
    RunDirectory.check_free(run_dir)
    return Agent(config, run_dir=run_dir)


def summarise(runs: dict[int, Path], given: list[float | None], folder: Path | None) -> None:
    """Prints the scores of all runs, given by seed, and their statistics; writes and names a report about the runs.

    With the `folder` that holds them, also writes a picture and `summary.json` there.
    """
    if folder is not None:
        config = RunDirectory.open(next(iter(runs.values()))).config()
        title = f"{config.name} on {config.env.id}, {len(runs)} seeds"
        picture = draw_seeds(runs, folder / "learning_curves.png", title)
        print(f"learning curves: {picture}" if picture else "learning curves: no episode has ended yet")
    say_statistics(list(runs), given, folder)
    print(
        f"report: {write_report(runs.values(), folder / 'report.html' if folder else beside(next(iter(runs.values()))))}"
    )


def beside(run_dir: Path) -> Path:
    """Returns the file of a report about seeds in directories of their own, next to that of the first."""
    return run_dir.with_name(f"{run_dir.name.partition('-seed')[0]}-report.html")


def say_statistics(seeds: list[int], given: list[float | None], folder: Path | None) -> None:
    scores = [score for score in given if score is not None]
    if len(scores) < len(given):
        print("not every seed was evaluated: no summary")
        return
    low, high = bootstrap_interval(scores)
    summary = {
        "seeds": seeds,
        "returns": scores,
        "mean": sum(scores) / len(scores),
        "iqm": iqm(scores),
        "interval_95": [low, high],
    }
    for seed, score in zip(seeds, scores, strict=True):
        print(f"seed {seed}: {score:.1f}")
    print(f"mean {summary['mean']:.1f}, IQM {summary['iqm']:.1f}, 95 % bootstrap interval {low:.1f} to {high:.1f}")
    if folder is not None:
        write_atomically(folder / "summary.json", json.dumps(summary, indent=2))

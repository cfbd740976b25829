"""One run of the command line: where it is written, how it is trained, and what is said of it."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from rl_training.api import Agent, TrainResult
from rl_training.config import RunConfig
from rl_training.config.parsing import parse_path
from rl_training.config.trust import packages_of
from rl_training.core.ranks import ranks_of_this_process
from rl_training.experiment import RunDirectory
from rl_training.runtime import Progress


def plan(values: dict, folder: str | Path | None) -> tuple[RunConfig, Path]:
    """Returns the checked config of one run, and its run directory: `folder` or a new name under `runs`.

    Raises ConfigError if the config is invalid or the directory is not free. Writes nothing.
    """
    config = RunConfig.from_mapping(values)
    run_dir = parse_path(folder or RunDirectory.default_path(config), "--run-dir")
    RunDirectory.check_free(run_dir)
    return config, run_dir


def sampling_of(options: argparse.Namespace) -> dict[str, object]:
    """Returns the values of the flags --workers and --engine by name; flags that were not given are left out."""
    given = {name: getattr(options, name) for name in ("workers", "engine")}
    return {name: value for name, value in given.items() if value is not None}


def tracking_of(options: argparse.Namespace) -> dict[str, object]:
    """Returns the trackers that --logger names as {"loggers": [...]}; {} without the flag."""
    return {"loggers": options.loggers} if options.loggers else {}


def train_to_end(agent: Agent, options: argparse.Namespace, whole: Path | None = None) -> TrainResult:
    """Trains an agent up to --stop-at or to its end, closes the agent, and returns the result.

    If a second Ctrl-C ends it at once, prints how to continue the run (or all seeds, in the folder `whole`) and raises
    KeyboardInterrupt.
    """
    try:
        return agent.learn(stop_at=options.stop_at, progress=not options.quiet)
    except KeyboardInterrupt:
        if agent.run_dir is not None and (agent.run_dir / "config.yaml").exists():
            print(f"{how_to_continue(agent, whole)} (from its last checkpoint)", file=sys.stderr)
        raise
    finally:
        agent.close()


def report(result: TrainResult, agent: Agent, whole: Path | None = None) -> None:
    """Prints how a run ended and what to call next; `whole` is the folder of all seeds, if it is one of several."""
    assert agent.run_dir is not None
    success = f", success {result.eval_success_rate:.0%}" if result.eval_success_rate is not None else ""
    evaluated = (
        f"evaluation return {result.eval_mean_return:.1f} +- {result.eval_std_return:.1f}{success} "
        f"({result.eval_episodes} episodes)"
        if result.eval_mean_return is not None
        else "not evaluated"
    )
    print(f"{result.status}: {done(result).text} in {result.wall_time_s:.1f} s, {evaluated}")
    if result.reason != "budget":
        print(f"why: {result.reason}")
    picture = agent.run_dir / "learning_curve.png"
    print(f"run directory: {agent.run_dir}" + (f"\nlearning curve: {picture}" if picture.exists() else ""))
    if result.status == "paused":
        print(how_to_continue(agent, whole))
    else:
        print(f"try: rl-training eval {shlex.quote(str(agent.run_dir))} --episodes 50{trusting(agent.config)}")


def how_to_continue(agent: Agent, whole: Path | None = None) -> str:
    ranks = ranks_of_this_process().number
    program = "rl-training" if ranks == 1 else f"torchrun --nproc-per-node {ranks} -m rl_training"
    return f"continue with: {program} resume {shlex.quote(str(whole or agent.run_dir))}{trusting(agent.config)}"


def trusting(config: RunConfig) -> str:
    """Returns the `--trust` flags that a process needs to open a run with this config, as text; may be empty."""
    return "".join(f" --trust {package}" for package in packages_of(config))


def done(result: TrainResult) -> Progress:
    """Returns the env steps and offline updates that a run has done at its end, as a `Progress`."""
    return Progress(env_steps=result.total_timesteps, offline_updates=result.offline_updates)

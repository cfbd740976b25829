"""The commands that train and use agents: `train`, `resume`, `eval` and `predict`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from rl_training.api import Agent, TrainResult, load
from rl_training.api.transfer_weights import take_again
from rl_training.cli.one_run import done, plan, report, sampling_of, tracking_of, train_to_end
from rl_training.cli.torchrun import on_every_rank
from rl_training.config import ConfigError, RunConfig, load_config_values
from rl_training.config.overrides import our_path
from rl_training.config.parsing import parse_path
from rl_training.config.sections import TOTALS
from rl_training.envs.episode_columns import SUCCESS
from rl_training.experiment.checkpoint import checkpoint_difference
from rl_training.experiment.curve import text_curve
from rl_training.experiment.lineage import extensions, moved_schedules, planned, totals
from rl_training.runtime import EvalResult, Progress


@on_every_rank
def train(options: argparse.Namespace) -> int:
    if options.run_dir == "":  # as from a variable of the shell that is not set
        raise ConfigError("--run-dir is empty: name a folder, or leave the flag out")
    flags = {f"training.{name}": getattr(options, name) for name in ("seed", *TOTALS.values())}
    flags |= {f"sampling.{name}": value for name, value in sampling_of(options).items()}
    flags |= {f"tracking.{name}": json.dumps(value) for name, value in tracking_of(options).items()}
    overrides = [*options.overrides, *(f"{path}={value}" for path, value in flags.items() if value is not None)]
    check_given_once(overrides + (["training.seed"] if options.seeds is not None else []))
    values = load_config_values(options.config, overrides)
    if options.seeds is None and options.stacked:
        raise ConfigError("--stacked trains several seeds as one program: name them, e.g. --seeds 0..7")
    if options.seeds is None:
        return train_one(plan(values, options.run_dir), options)
    from rl_training.cli.seeds import train_seeds  # imports statistics, which one run does not need

    return train_seeds(values, options)


def check_given_once(overrides: list[str]) -> None:
    """Raises ConfigError if two of the `SECTION.FIELD=VALUE` texts, of flags and of --set, set the same field."""
    paths = [our_path(assignment.partition("=")[0]) for assignment in overrides]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise ConfigError(f"{twice} is given twice on the command line: give it once, by its own flag or by --set")


def train_one(planned: tuple[RunConfig, Path], options: argparse.Namespace) -> int:
    config, run_dir = planned
    agent = Agent(config, run_dir=run_dir)
    result = train_to_end(agent, options)
    if options.show_curve:
        print(text_curve(run_dir))
    report(result, agent)
    return 0


@on_every_rank
def resume(options: argparse.Namespace) -> int:
    run_dir = parse_path(options.run_dir, "run_dir")
    if not (run_dir / "config.yaml").exists():
        from rl_training.cli.seeds import begun_seeds, resume_seeds  # imports statistics, as above

        if begun_seeds(run_dir):
            return resume_seeds(run_dir, options)
    agent = Agent.resume(
        run_dir,
        total_timesteps=options.total_timesteps,
        total_updates=options.total_updates,
        trust=options.trust,
        sampling=sampling_of(options),
        tracking=tracking_of(options),
    )
    paused_at = replace(agent.progress)  # as it was before it goes on
    assert agent.directory is not None
    say_extension(planned(agent.directory.config(), run_dir), agent)
    if (
        paused_at.timesteps >= agent.config.training.horizon
        and not options.verify
        and (run_dir / "result.json").exists()
    ):
        agent.close()
        print(f"{run_dir} is finished: {paused_at.text}; nothing to resume (extend it with --total-timesteps N)")
        return 0
    result = train_to_end(agent, options)
    report(result, agent)
    return verify(agent, paused_at, result, options) if options.verify else 0


def verify(agent: Agent, paused_at: Progress, result: TrainResult, options: argparse.Namespace) -> int:
    """Trains a resumed run once more without the pause, compares the final states bit by bit, and prints the result.

    Returns exit code 0 if they are equal, 1 if not, 130 if it was interrupted.
    """
    reached = result.total_timesteps + result.offline_updates
    pause = (
        f" without the pause at {paused_at.text}" if paused_at.timesteps < reached else ""
    )  # a finished run has none
    print(f"verify: training {done(result).text} again{pause} ...")
    assert result.checkpoint is not None
    agent.trust.check(agent.config)
    with tempfile.TemporaryDirectory() as folder:
        other = train_again(agent, Path(folder) / "run", reached, progress=not options.quiet)
        if other.total_timesteps + other.offline_updates != reached:
            print(f"verify: interrupted ({other.reason})")
            return 130
        assert other.checkpoint is not None
        found = checkpoint_difference(Path(result.checkpoint), Path(other.checkpoint))
    if found is None:
        print(f"verify: exact; every tensor and number of both final states is equal (resume: {result.resume})")
        return 0
    print(f"verify: NOT exact; the first difference is in {found} (resume: {result.resume})")
    return 1


def train_again(agent: Agent, folder: Path, reached: int, *, progress: bool) -> TrainResult:
    """Trains the run of `agent` once more in `folder`, without its pauses, up to step `reached`; returns the result.

    The new run begins with the same weights, and gets new totals at the same steps if the run did; no tracker hears of
    it. A signal ends it early.
    """
    assert agent.run_dir is not None
    known = [e for e in extensions(agent.run_dir) if e["timesteps"]]
    config = agent.config.replace("tracking", loggers=())
    if known:
        config = config.replace("training", **{name: known[0][f"old_{name}"] for name in TOTALS.values()})
    twin = Agent(config, run_dir=folder)
    take_again(twin, agent.origins)
    stops = [*(e["timesteps"] for e in known), reached]
    for number, stop_at in enumerate(stops):
        if number:
            steps, updates = (known[number - 1][name] or None for name in TOTALS.values())
            twin = Agent.resume(folder, total_timesteps=steps, total_updates=updates)
        try:
            result = twin.learn(stop_at=stop_at, progress=progress)
        finally:
            twin.close()
        if result.reason.startswith("SIG"):
            break
    return result


def say_extension(before: RunConfig, agent: Agent) -> None:
    """Prints how the totals of a run differ from those in `before`, and the schedules that now run over the new total.

    Prints nothing if they are equal.
    """
    old, new = totals(before.training), totals(agent.config.training)
    changed = [f"{name} {old[name]:,} -> {total:,}" for name, total in new.items() if total != old[name]]
    if changed:
        moved = moved_schedules(before, agent.config, agent.progress) or ["none changes over this run"]
        print(f"extended: {', '.join(changed)}; schedules run over the new total ({', '.join(moved)})")


def evaluate(options: argparse.Namespace) -> int:
    if options.video_episodes is not None and not options.video:
        raise ConfigError(
            f"--video-episodes {options.video_episodes} films nothing: add --video out.mp4, or leave it out"
        )
    agent = load(options.path, device=options.device, trust=options.trust)
    filmed, deterministic = None, not options.stochastic
    if options.video:  # first, because it may be refused
        episodes = options.video_episodes or 1
        filmed = agent.record(options.video, episodes, deterministic=deterministic, seed=options.seed)
    result = agent.evaluate(options.episodes, deterministic=deterministic, seed=options.seed)
    if options.json:
        record = {
            "mean": result.mean,
            "std": result.std,
            "mean_length": result.mean_length,
            "episodes": len(result.returns),
            "success_rate": result.success_rate,
            "success_interval_95": result.success_interval,
            "column_means": result.column_means,
        }
        video = (
            {"video": {"file": options.video, "returns": filmed.returns, "lengths": filmed.lengths}} if filmed else {}
        )
        print(json.dumps(record | asdict(result) | video))
    else:
        print(
            f"return {result.mean:.2f} +- {result.std:.2f} over {len(result.returns)} episodes, length {result.mean_length:.1f}"
        )
        print_columns(result)
        for ret, length in zip(filmed.returns, filmed.lengths, strict=True) if filmed else ():
            print(f"{options.video}: return {ret:.2f}, length {length}")
    return 0


def print_columns(result: EvalResult) -> None:
    """Prints the mean of each column that episodes took from the environment's `info`, one line each."""
    for name, mean in result.column_means.items():
        num = sum(value is not None for value in result.columns[name])
        if name == SUCCESS:
            assert result.success_interval is not None
            low, high = result.success_interval
            print(f"success rate {mean:.1%} of {num} episodes (95 % interval {low:.1%} to {high:.1%})")
        else:
            print(f"{name} {mean:.4g}, mean of {num} episodes")


def predict(options: argparse.Namespace) -> int:
    try:
        text = sys.stdin.read() if options.obs == "-" else Path(options.obs).read_text(encoding="utf-8")
        obs = json.loads(text)
    except OSError as error:
        raise ConfigError(f"--obs {options.obs}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ConfigError(f"--obs {options.obs}: not valid JSON ({error})") from error
    agent = load(options.path, device=options.device, trust=options.trust)
    action, _ = agent.predict(obs, deterministic=not options.stochastic)
    print(json.dumps(action.tolist()))
    return 0

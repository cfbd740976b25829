"""Arguments and dispatch of `rl-training`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from os.path import expanduser

from rl_base.shown_warnings import warnings_shown
from rl_base.standard_streams import run_with_streams

DESCRIPTION = "Trains, resumes, evaluates and inspects reinforcement-learning runs."
RESULTS = "benchmarks/results"
COMMANDS = {  # module and function of each command; a module is imported when one of its commands runs
    "train": "commands.train",
    "resume": "commands.resume",
    "tune": "tune_command.tune",
    "eval": "commands.evaluate",
    "predict": "commands.predict",
    "export": "export_command.export",
    "import-sb3": "import_command.import_zip",
    "presets": "config_commands.presets",
    "config": "config_commands.config",
    "data": "data_commands.data",
    "ope": "ope_command.ope",
    "runs": "runs_command.list_or_change",
    "report": "report_commands.report",
    "hub-card": "report_commands.hub_card",
    "bench": "bench_commands.bench",
    "doctor": "doctor.doctor",
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rl-training", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=own_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    add_training(commands)
    add_tuning(
        commands.add_parser("tune", help="search better settings of a preset: trials, pruned, several at a time")
    )
    add_using(commands)

    add_import(
        commands.add_parser("import-sb3", help="make a run of a zip of Stable-Baselines3, without running code from it")
    )

    presets = commands.add_parser("presets", help="list, show or copy the packaged configs")
    kinds = presets.add_subparsers(dest="action", required=True, metavar="ACTION")
    kinds.add_parser("list", help="names, tiers, measured results and [sources]")
    kinds.add_parser("show", help="print one").add_argument("name")
    copy = kinds.add_parser("copy", help="write one to a file of yours")
    copy.add_argument("name")
    copy.add_argument("target", type=expanduser)

    config = commands.add_parser("config", help="compare configs")
    diff = config.add_subparsers(dest="action", required=True, metavar="ACTION").add_parser("diff", help="what differs")
    diff.add_argument("a", type=expanduser, help="run directory, preset or YAML file")
    diff.add_argument("b", type=expanduser)

    add_data(commands.add_parser("data", help="make, check, describe and convert datasets"))

    add_ope(
        commands.add_parser(
            "ope", help="estimate from a dataset what a trained policy is worth, without an environment"
        )
    )
    add_runs(commands.add_parser("runs", help="list, show, compare and remove runs"))
    add_reports(commands)
    add_bench(
        commands.add_parser(
            "bench", help="measure speed compared with other libraries, and learning compared with gates"
        )
    )

    commands.add_parser("doctor", help="check the installation and this machine")
    return parser


def own_version() -> str:
    try:
        return f"rl-training {version('rl-training')}"
    except PackageNotFoundError:  # run from a checkout
        return "rl-training, not installed as a package"


def add_training(commands: argparse._SubParsersAction) -> None:
    train = commands.add_parser("train", help="train from a preset or a YAML file")
    train.add_argument("config", help="preset such as ppo/cartpole, or a YAML file")
    train.add_argument("--run-dir", help="where to write (default: runs/<algorithm>/<env>/<time>-seed<k>)")
    seeds = train.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=int, help="training.seed")
    seeds.add_argument("--seeds", help="several runs, e.g. 1,2,3 or 0..63; prints mean, IQM and interval over seeds")
    train.add_argument("--stacked", action="store_true", help="train all --seeds as one program instead of in turn")
    train.add_argument("--total-timesteps", type=number, help="training.total_timesteps, in env steps")
    train.add_argument("--total-updates", type=number, help="training.total_updates, from the dataset alone")
    train.add_argument(
        "--stop-at",
        type=number,
        help="pause when env steps, with updates from data alone, amount to this; `resume` goes on",
    )
    add_sampling(train)
    add_tracking(train)
    train.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="overrides")
    train.add_argument("--show-curve", action="store_true", help="print the learning curve at the end")
    train.add_argument("--quiet", action="store_true", help="no progress")

    resume = commands.add_parser("resume", help="continue a run from its last checkpoint")
    resume.add_argument("run_dir")
    resume.add_argument("--total-timesteps", type=number, help="extend the run to so many env steps in all")
    resume.add_argument("--total-updates", type=number, help="extend it to so many updates from the dataset alone")
    resume.add_argument("--stop-at", type=number, help="pause again when they amount to this")
    add_sampling(resume)
    add_tracking(resume)
    resume.add_argument("--verify", action="store_true", help="also train without a pause and compare bit by bit")
    resume.add_argument("--quiet", action="store_true", help="no progress")
    add_trust(resume)


def add_sampling(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", type=number, help="sampling.workers: processes that step the environments")
    command.add_argument("--engine", choices=["processes", "ray"], help="sampling.engine: where they run")


def add_tracking(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--logger",
        action="append",
        dest="loggers",
        choices=["tensorboard", "wandb", "mlflow", "trackio"],
        help="tracking.loggers: where metrics are sent besides the run directory; may be repeated",
    )


def add_tuning(tune: argparse.ArgumentParser) -> None:
    tune.add_argument("config", nargs="?", metavar="PRESET", help="preset such as ppo/acrobot, or a YAML file")
    tune.add_argument(
        "--param",
        action="append",
        default=[],
        dest="params",
        metavar="NAME=FORM",
        help="what to search, e.g. algorithm.learning_rate=log:1e-5:1e-2; forms: log:, lin:, int:LOW:HIGH, choice:A,B "
        "(default: what usually matters for the algorithm)",
    )
    tune.add_argument("--trials", type=number, default=50, help="in all; with --sampler pbt the size of the population")
    tune.add_argument("--jobs", type=number, default=1, help="runs at a time, with one thread each")
    tune.add_argument("--sampler", choices=["tpe", "random", "grid", "pbt"], default="tpe")
    tune.add_argument("--pruner", choices=["asha", "median", "none"], default="asha", help="what ends hopeless trials")
    tune.add_argument("--engine", choices=["processes", "ray"], default="processes", help="where runs are executed")
    stacked = "train --jobs trials at a time as one program: docs/seeds.md"
    tune.add_argument("--stacked", dest="engine", action="store_const", const="stacked", help=stacked)
    tune.add_argument("--objective", default="last:3", help="of a run's evaluations: last, last:5 (their mean) or best")
    tune.add_argument(
        "--seeds-per-trial", type=number, default=1, help="runs of each trial; the first decides on pruning"
    )
    tune.add_argument("--seed", type=int, default=0, help="of the draws, and of the first run")
    tune.add_argument("--total-timesteps", type=number, help="training.total_timesteps of every run")
    tune.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="overrides")
    tune.add_argument(
        "--out",
        type=expanduser,
        help="folder of the study (default: studies/<preset>); the same command goes on with it",
    )
    tune.add_argument("--report", action="store_true", help="run nothing: write the page of what is stored again")
    tune.add_argument("--quiet", action="store_true", help="no progress")


def add_using(commands: argparse._SubParsersAction) -> None:
    evaluate = commands.add_parser("eval", help="evaluate a run, a checkpoint or a saved model")
    evaluate.add_argument("--episodes", type=int, default=20)
    evaluate.add_argument("--seed", type=int, default=0)
    evaluate.add_argument("--json", action="store_true")
    evaluate.add_argument("--video", type=expanduser, metavar="FILE", help="also film it: out.mp4 or out.gif")
    evaluate.add_argument("--video-episodes", type=number, metavar="N", help="episodes in the video (1)")

    predict = commands.add_parser("predict", help="print the action for an observation")
    predict.add_argument(
        "--obs", type=expanduser, required=True, help="JSON file with one observation or a batch; - for standard input"
    )
    for one in (evaluate, predict):
        one.add_argument("--stochastic", action="store_true", help="sample actions instead of taking the mode")

    export = commands.add_parser("export", help="write a policy as a file that runs without this library")
    export.add_argument("--format", choices=["onnx", "pt2", "numpy"], default="onnx")
    export.add_argument("--out", type=expanduser, metavar="FOLDER", help="where to write (default: RUN/export)")
    export.add_argument("--overwrite", action="store_true", help="replace files that are there")
    export.add_argument("--check", action="store_true", help="read the files again, and compare with the parity file")
    for one in (evaluate, predict, export):
        one.add_argument("path")
        one.add_argument("--device", help="where to run it (default: where it was trained)")
        add_trust(one)


def add_import(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", type=expanduser, help="the zip that model.save() wrote")
    command.add_argument("--out", required=True, help="where to write the run directory")
    command.add_argument("--env", help="id of the environment that it was trained in, which the zip does not name")
    command.add_argument(
        "--vecnormalize", type=expanduser, metavar="FILE", help="the statistics that VecNormalize.save() wrote"
    )
    command.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="overrides")


def add_trust(command: argparse.ArgumentParser) -> None:
    """Adds the flag `--trust` to the parser of a command that opens a checkpoint or a run directory."""
    command.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="a package whose code the checkpoint may run, for its environment or networks; may be repeated",
    )


def add_ope(ope: argparse.ArgumentParser) -> None:
    ope.add_argument("paths", nargs="+", metavar="PATH", help="run directory, checkpoint or saved model")
    ope.add_argument("--data", required=True, help="dataset file or folder")
    ope.add_argument("--deterministic", action="store_true", help="evaluate the most likely actions")
    ope.add_argument("--gamma", type=float, help="discount (default: the policy's own)")
    ope.add_argument("--updates", type=int, default=5_000, help="of fitted Q evaluation; 0: importance sampling alone")
    ope.add_argument("--level", type=float, default=0.95, help="of the intervals")
    ope.add_argument("--seed", type=int, default=0)
    ope.add_argument("--rank", action="store_true", help="rank several policies")
    ope.add_argument(
        "--criterion", help="rank by fitted_q (the default), or by their own critics: initial_value, soft_opc, td_error"
    )
    ope.add_argument(
        "--success", type=float, default=0.25, help="soft_opc: share of the episodes that count as successes"
    )
    ope.add_argument(
        "--truth-episodes", type=int, default=0, help="with --rank: compare with returns in the environment"
    )
    ope.add_argument("--json", action="store_true")
    add_trust(ope)


def add_runs(runs: argparse.ArgumentParser) -> None:
    kinds = runs.add_subparsers(dest="action", required=True, metavar="ACTION")
    many = kinds.add_parser("list", help="the runs below a folder")
    many.add_argument("--sort", default="started", metavar="FIELD", help="by which to order them (default: started)")
    many.add_argument("--reverse", action="store_true", help="the largest or latest first")
    many.add_argument("--columns", metavar="FIELD,FIELD", help="what to show, e.g. run,score,algorithm.learning_rate")
    show = kinds.add_parser("show", help="one run: result, last evaluations, checkpoints, settings")
    show.add_argument("run", metavar="RUN", help="as `list` names it, or its path")
    compare = kinds.add_parser("compare", help="scores over seeds, and settings that differ (default: all runs)")
    remove = kinds.add_parser("rm", help="remove run directories, after asking")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    for one in (compare, remove):
        one.add_argument("runs", nargs="*", metavar="RUN", help="as `list` names it, or its path")
        one.set_defaults(sort="started", reverse=False)
    for one in (many, compare, remove):
        one.add_argument("--where", metavar="CONDITION", help='e.g. "algorithm=ppo and score>400"')
    for one in (many, show, compare, remove):
        one.add_argument("--root", default="runs", metavar="FOLDER", help="where runs are looked for (default: runs)")
    for one in (many, show, compare):
        forms = one.add_mutually_exclusive_group()
        forms.add_argument("--json", action="store_true", help="as one line of JSON")
        if one is not show:
            forms.add_argument("--csv", action="store_true", help="as CSV")


def add_reports(commands: argparse._SubParsersAction) -> None:
    report = commands.add_parser("report", help="show runs, and compare groups of seeds, on one HTML page")
    report.add_argument("runs", nargs="+", type=expanduser, metavar="RUN", help="run directory, or a folder of them")
    report.add_argument("--out", type=expanduser, default="report.html", help="file to write")
    card = commands.add_parser("hub-card", help="write a folder for the Hugging Face Hub: policy, results, card, video")
    card.add_argument("run", type=expanduser, metavar="RUN", help="run directory, checkpoint or saved model")
    card.add_argument("--out", type=expanduser, required=True, help="folder to write, new or empty")
    card.add_argument("--episodes", type=int, default=20, help="that are played for the results; 0: no results")
    card.add_argument("--seed", type=int, default=0, help="of the episodes")
    card.add_argument("--no-video", action="store_false", dest="video", help="do not film an episode")
    add_trust(card)


def add_data(data: argparse.ArgumentParser) -> None:
    kinds = data.add_subparsers(dest="action", required=True, metavar="ACTION")
    make = kinds.add_parser("make", help="let policies act and keep every step with its probability")
    make.add_argument("--env", required=True, help="environment id")
    make.add_argument(
        "--policy",
        action="append",
        default=[],
        dest="policies",
        metavar="POLICY[=SHARE]",
        help="random, a run directory or saved model, or preset@steps; several make a mixture",
    )
    make.add_argument("--steps", type=number, help="rows to make")
    add_like(make)
    make.add_argument("--out", type=expanduser, required=True, help="file to write; the suffix says the format")
    make.add_argument("--seed", type=int, default=0)
    add_trust(make)
    for name, what in (("lint", "look for faults; exit code 1 if there are any"), ("info", "describe")):
        one = kinds.add_parser(name, help=what)
        one.add_argument("file", type=expanduser)
        one.add_argument("--json", action="store_true")
        if name == "lint":
            limit = "steps after which the environment cuts an episode (default: gymnasium's, if it is known)"
            one.add_argument("--time-limit", type=number, help=limit)
    convert = kinds.add_parser("convert", help="write a dataset in another format")
    convert.add_argument("source", type=expanduser)
    convert.add_argument("target", type=expanduser)


def add_like(make: argparse.ArgumentParser) -> None:
    """Adds the flags of `data make --like` to its parser, which makes data in D4RL's manner, not by given policies."""
    make.add_argument("--like", help="medium-replay, medium or medium-expert in D4RL's manner: trains a policy for it")
    make.add_argument("--preset", help="with --like: what is trained (default: SAC's preset of the environment)")
    make.add_argument(
        "--expert", type=expanduser, metavar="PATH", help="with --like medium-expert: a run directory or saved model"
    )
    make.add_argument(
        "--score", type=float, help="with --like: of the medium policy, 100 being the expert (default: 33.3)"
    )
    make.add_argument(
        "--reference", nargs=2, type=float, metavar=("LOW", "HIGH"), help="with --like: returns that score 0 and 100"
    )


def add_bench(bench: argparse.ArgumentParser) -> None:
    kinds = bench.add_subparsers(dest="action", required=True, metavar="ACTION")
    speed = kinds.add_parser("speed", help="steps per second of ours and of peers, alternated in one run")
    speed.add_argument("--suite", choices=["cpu", "learn", "pictures", "data", "gpu"], default="cpu")
    speed.add_argument("--repeats", type=number, default=7, help="measurements of each")
    speed.add_argument(
        "--peer-timeout", type=number, default=900, metavar="SECONDS", help="a peer that answers later is stopped"
    )
    learn = kinds.add_parser("learn", help="train frozen presets, judge them; exit code 1 if a gate is missed")
    learn.add_argument("--suite", choices=["classic", "control", "pictures", "gpu"], default="classic")
    learn.add_argument("--seeds", default="5", help="how many, or which: 0,7")
    learn.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="overrides")
    learn.add_argument("--judge", action="store_true", help="run nothing: judge what is stored")
    for one in (speed, learn):
        one.add_argument("--cells", nargs="+", default=[], metavar="CELL", help="instead of the suite's")
        known = "sb3,sbx,cleanrl,tianshou,torchrl,benchmarl,jaxmarl,d3rlpy" if one is speed else "sb3"
        one.add_argument("--peers", default="", help=f"of {known}; each is installed on first use")
        one.add_argument(
            "--peer-python", action="append", default=[], metavar="PEER=PATH", help="an interpreter that has the peer"
        )
        one.add_argument("--out", type=expanduser, default=RESULTS, help="folder of the results")
    report = kinds.add_parser("report", help="both as one HTML page")
    report.add_argument("--results", type=expanduser, default=RESULTS, help="folder of the results")
    report.add_argument("--out", type=expanduser, default="report.html", help="file to write")


def number(text: str) -> int:
    """Parses a positive whole number, written as 500000, 500_000 or 5e5.

    Raises ArgumentTypeError or ValueError for anything else, which argparse turns into a message.
    """
    value = float(text.replace("_", ""))
    if not value.is_integer() or value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command in `arguments` (default: those of the process) and returns its exit code.

    A user's mistake is one sentence on standard error and code 2. Arguments that cannot be parsed end the process.
    """
    options = build_parser().parse_args(arguments)
    return run_with_streams(partial(run_command, options))


def run_command(options: argparse.Namespace) -> int:
    try:
        module, name = COMMANDS[options.command].split(".")
        command = getattr(import_module(f"rl_training.cli.{module}"), name)  # everything heavy is behind this line
        with warnings_shown("rl_training"):
            return command(options)
    except (ValueError, FloatingPointError) as error:
        print(f"error: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130

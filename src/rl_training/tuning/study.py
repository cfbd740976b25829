"""`rl_training.tune`: begins a study of a preset's settings, or goes on with it, and writes what came of it."""

from __future__ import annotations

import importlib.util
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

from rl_training.config import ConfigError, load_config_values
from rl_training.config.parsing import parse_path, suggestion
from rl_training.experiment.run_directory import held as held_folder
from rl_training.tuning.objective import Objective
from rl_training.tuning.outcome import TuneResult, write_outcome
from rl_training.tuning.settings import MIN_POPULATION, Settings, agree, read_settings, recorded
from rl_training.tuning.space import Space, space_of

if TYPE_CHECKING:
    from rl_training.tuning.engine import Engine
    from rl_training.tuning.records import Records

SAMPLERS, PRUNERS, ENGINES = (
    ("tpe", "random", "grid", "pbt"),
    ("asha", "median", "none"),
    ("processes", "ray", "stacked"),
)
JOURNAL = "journal.jsonl"


def tune(
    preset: str,
    params: Mapping[str, str] | Sequence[str] = (),
    *,
    trials: int = 50,
    jobs: int = 1,
    sampler: Literal["tpe", "random", "grid", "pbt"] = "tpe",
    pruner: Literal["asha", "median", "none"] = "asha",
    engine: Literal["processes", "ray", "stacked"] = "processes",
    objective: str = "last:3",
    seeds_per_trial: int = 1,
    seed: int = 0,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
) -> TuneResult:
    """Searches settings of a preset, or of a YAML file, for the highest mean return of its evaluations.

    `params` maps settings to what they may be, `{"algorithm.learning_rate": "log:1e-5:1e-2"}`; without any, the
    algorithm's usual ones are searched. Everything is kept in the folder `out` (default: `studies/<preset>`), and the
    same call goes on where it was interrupted. At the end `best.yaml` there is a preset with the best settings, and
    `report.html` shows all trials. Raises ConfigError if an argument is wrong or the folder holds another study.
    """
    check_installed(engine)
    check_choice("sampler", sampler, SAMPLERS)
    check_choice("pruner", pruner, PRUNERS)
    check_choice("engine", engine, ENGINES)
    for name, number in (("trials", trials), ("jobs", jobs), ("seeds_per_trial", seeds_per_trial)):
        check_whole(name, number, at_least=1)
    check_whole("seed", seed, at_least=0)
    values = load_config_values(str(preset), overrides)
    space = searched(values, params, sampler, seeds_per_trial)
    wanted = Settings(
        preset=str(preset),
        values=values,
        config=recorded(values),
        space={path: param.text for path, param in space.items()},
        trials=planned(trials, sampler, space),
        sampler=sampler,
        pruner="none" if sampler == "pbt" else pruner,
        objective=Objective.parse(objective).text,
        seeds_per_trial=seeds_per_trial,
        seed=seed,
    )
    if engine == "stacked":
        from rl_training.tuning.stacks import check_can_be_stacked

        check_can_be_stacked(wanted.config, jobs)
    folder = parse_path(default_folder(str(preset)) if out is None else out, "out")
    with held(folder):
        settings = agree(folder, wanted)
        records = open_records(folder, settings)
        conduct(folder, settings, records, engine, jobs=jobs, shown=progress)
        return write_outcome(folder, settings, records)


def report(folder: Path) -> TuneResult:
    """Writes the page, table and best preset of the study in a folder again, from its records, and returns the result.

    Raises ConfigError if the folder holds no study or another process uses it.
    """
    check_installed("processes")
    settings = read_settings(folder)
    with held(folder):
        return write_outcome(folder, settings, open_records(folder, settings))


def searched(values: dict, params: Mapping[str, str] | Sequence[str], sampler: str, seeds_per_trial: int) -> Space:
    """Returns the search space of a study; raises ConfigError if it does not fit the sampler.

    A grid needs numbers of points or choices. A population ("pbt") needs settings that can change during a run; without
    `params`, the others are left out of the default space.
    """
    if isinstance(params, str):
        raise ConfigError(f"params={params!r} must be a mapping or a list, e.g. [{params!r}]")
    space = space_of(values, params if isinstance(params, Mapping) else list(params))
    if sampler == "grid":
        for param in space.values():
            if not param.choices and param.points is None:
                raise ConfigError(
                    f"--param {param.path}={param.text} has no points, which a grid needs: write {param.text}:5, or choices"
                )
    if sampler == "pbt":
        from rl_training.tuning.inherit import movable

        if seeds_per_trial > 1:
            raise ConfigError(
                f"--seeds-per-trial {seeds_per_trial} is not for --sampler pbt: its members are single runs"
            )
        moving = movable(values, space)
        fixed = next((path for path in space if path not in moving), None)
        if fixed is not None and params:
            raise ConfigError(
                f"--param {fixed} cannot change during a run, as --sampler pbt does it: leave it out, or use --sampler tpe"
            )
        return moving
    return space


def planned(trials: int, sampler: str, space: Space) -> int:
    """Returns the number of trials of a study: `trials`, but for sampler "grid" no more than it has points.

    Raises ConfigError if a population (sampler "pbt") would have fewer than two members.
    """
    if sampler == "pbt" and trials < MIN_POPULATION:
        raise ConfigError(
            f"--trials {trials} is the size of the population with --sampler pbt: use at least {MIN_POPULATION}"
        )
    if sampler != "grid":
        return trials
    points = 1
    for param in space.values():
        points *= len(param.values)
    return min(trials, points)


def open_records(folder: Path, settings: Settings) -> Records:
    from rl_training.tuning.records import Records

    return Records(
        folder / JOURNAL,
        settings.params,
        sampler=settings.sampler,  # pyrefly: ignore (checked)
        pruner=settings.pruner,  # pyrefly: ignore (checked)
        seed=settings.seed,
        trials=settings.trials,
    )


def conduct(folder: Path, settings: Settings, records: Records, engine: str, *, jobs: int, shown: bool) -> None:
    """Draws and trains the trials that a study still lacks, `jobs` at a time, and records them.

    Ctrl-C or SIGTERM pauses the runs and raises KeyboardInterrupt.
    """
    from rl_training.tuning.display import Display
    from rl_training.tuning.population import Population
    from rl_training.tuning.runs import Runs
    from rl_training.tuning.search import Search

    kind = Population if settings.sampler == "pbt" else Search
    with (
        terminated_as_interrupted(),
        closing(open_engine(engine, folder, jobs)) as executed,
        Display(records, settings.trials, shown=shown) as display,
    ):
        kind(Runs(folder.absolute(), settings), records, executed, jobs=jobs, display=display).run()


def open_engine(name: str, folder: Path, jobs: int) -> Engine:
    if name == "ray":
        from rl_training.tuning.ray_tasks import RayTasks

        return RayTasks(jobs)
    if name == "stacked":
        from rl_training.tuning.stacks import Stacks

        return Stacks()
    from rl_training.tuning.processes import Processes

    return Processes(folder / "logs")


def default_folder(preset: str) -> Path:
    """Returns the folder of a preset's study, for example `studies/ppo-acrobot`, the same in every call."""
    return Path("studies") / Path(preset).with_suffix("").as_posix().strip("./").replace("/", "-")


def held(folder: Path) -> AbstractContextManager[None]:
    """Returns a context that locks a study's folder, and makes it if needed.

    Entering it raises ConfigError if another process has the lock.
    """
    other = f"choose another folder, --out {shlex.quote(f'{folder}-2')}"
    return held_folder(folder, f"the study in {folder}", other)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Raises KeyboardInterrupt on SIGTERM inside the `with` block, so that a study ends as on Ctrl-C.

    Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}{suggestion(value, choices)}")


def check_whole(name: str, value: object, *, at_least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigError(f"{name}={value!r} must be a whole number, at least {at_least}")


def check_installed(engine: str) -> None:
    for module, extra in (("optuna", "tune"), ("ray", "ray"))[: 2 if engine == "ray" else 1]:
        if importlib.util.find_spec(module) is None:
            raise ConfigError(f"tuning needs {module}, which is not installed: pip install 'rl-training[{extra}]'")

"""The trials of a study in Optuna's journal: one file of JSON lines in the study's folder, with one process that writes.

Nothing else in the package knows Optuna.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from rl_training.tuning.param import Param, Value
from rl_training.tuning.space import Space

Sampler = Literal["tpe", "random", "grid", "pbt"]
Pruner = Literal["asha", "median", "none"]
SAMPLERS, PRUNERS = get_args(Sampler), get_args(Pruner)
STUDY = "study"
STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
KEEP_ONE_IN = 3  # of the trials that reach a rung
STARTUP = (4, 10)  # trials, at least and at most, that are drawn at random before there is something to go by
MAX_SEED = 2**32


@dataclass(frozen=True)
class Trial:
    """A trial as recorded: number, state, settings, value (None unless complete), objective so far by step, notes."""

    number: int
    state: str  # running, complete, pruned or failed
    params: dict[str, Value]
    value: float | None
    curve: dict[int, float]  # the objective so far, by step
    notes: dict[str, object]

    @property
    def counts(self) -> bool:
        """Returns False for a trial that is not used: its settings are invalid together, or its draw was cut off."""
        return "unused" not in self.notes

    @property
    def since(self) -> int:
        """Returns the step at which the trial took over another's place in a population; 0 if it did not."""
        step = self.notes.get("since", 0)
        assert isinstance(step, int)
        return step

    @property
    def reached(self) -> int:
        return max(self.curve, default=0)


class Records:
    """The trials of a study, kept in a file: draws new trials, records their evaluations and ends, and reads them.

    A file that is there is continued; what a killed process left in it half written is removed.
    """

    def __init__(self, file: Path, space: Space, *, sampler: Sampler, pruner: Pruner, seed: int, trials: int) -> None:
        repair(file)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space, self.kind, self.seed, self.trials = space, sampler, seed, trials
        self.distributions = {path: distribution_of(param) for path, param in space.items()}
        self.storage = JournalStorage(JournalFileBackend(str(file)))
        self.pruner_name: Pruner = pruner
        self.study = optuna.create_study(
            storage=self.storage, study_name=STUDY, direction="maximize", load_if_exists=True, pruner=NopPruner()
        )
        self.study_id = self.storage.get_study_id_from_name(STUDY)

    def prune_by(self, horizon: int, interval: int) -> None:
        """Sets the rule by which trials are pruned, for runs of `horizon` steps evaluated every `interval` steps."""
        self.study.pruner = pruner_for(self.pruner_name, horizon, interval)

    def all(self) -> list[Trial]:
        """Returns every trial, in the order of their numbers."""
        return [plain(trial) for trial in self.study.get_trials(deepcopy=False)]

    def get(self, number: int) -> Trial:
        return plain(self.frozen(number))

    def frozen(self, number: int) -> FrozenTrial:
        return self.storage.get_trial(self.id_of(number))

    def id_of(self, number: int) -> int:
        return self.storage.get_trial_id_from_study_id_trial_number(self.study_id, number)

    def draw(self) -> Trial:
        """Draws the settings of a new trial, records the trial as running, and returns it.

        The draw depends only on the study's seed, the trial's number and the trials before it.
        """
        number, waiting = len(self.all()), any(trial.state == "waiting" for trial in self.all())
        if self.kind == "grid" and not waiting:
            self.study.enqueue_trial(self.grid()[number])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self.study.sampler = self.sampler_for(number)
            return self.get(self.study.ask(self.distributions).number)

    @property
    def exhausted(self) -> bool:
        """Returns True if the sampler is a grid, and all its points were drawn."""
        return self.kind == "grid" and sum(trial.state != "waiting" for trial in self.all()) >= len(self.grid())

    def draw_given(self, params: dict[str, Value], notes: dict[str, object]) -> Trial:
        """Returns the trial whose notes include `notes`; if none does, records a running one with settings `params`.

        A trial whose settings were recorded only in part is discarded and made again.
        """
        made = next((t for t in self.all() if t.counts and notes.items() <= t.notes.items()), None)
        if made is not None and made.state == "running" and not self.is_whole(made):
            self.discard(made.number)
            made = None
        if made is None:
            self.study.enqueue_trial(params, user_attrs=notes)
        elif made.state != "waiting":
            return made
        return self.get(self.study.ask(self.distributions).number)

    def is_whole(self, trial: Trial) -> bool:
        """Returns True if all settings of a trial are recorded; False if a process was killed while it drew."""
        return trial.params.keys() == self.space.keys()

    def discard(self, number: int) -> None:
        self.note(number, "unused", "the study was killed while it was drawn")
        self.end(number, "failed")

    def sampler_for(self, number: int) -> BaseSampler:
        """Returns a new Optuna sampler for trial `number`, seeded by the study's seed and that number.

        So a study that was interrupted draws what it would have drawn without the interruption.
        """
        seed = random.Random(f"{self.seed}/{number}").randrange(MAX_SEED)
        if self.kind != "tpe":
            return RandomSampler(seed=seed)
        startup = min(max(self.trials // 4, STARTUP[0]), STARTUP[1])
        return TPESampler(n_startup_trials=startup, multivariate=True, constant_liar=True, seed=seed)

    def grid(self) -> list[dict[str, Value]]:
        """Returns the settings of all points of the grid, {path: value} each, in an order shuffled by the study's seed.

        So a grid that is not finished is still spread out.
        """
        points = [dict(zip(self.space, point, strict=True)) for point in itertools.product(*values_of(self.space))]
        random.Random(self.seed).shuffle(points)
        return points

    def report(self, number: int, step: int, value: float) -> None:
        """Records the objective `value` of trial `number` at a step; does nothing if that step has one."""
        if step not in self.frozen(number).intermediate_values:
            self.storage.set_trial_intermediate_value(self.id_of(number), step, value)

    def should_prune(self, number: int) -> bool:
        return self.study.pruner.prune(self.study, self.frozen(number))

    def note(self, number: int, key: str, value: object) -> None:
        self.storage.set_trial_user_attr(self.id_of(number), key, value)

    def end(self, number: int, state: str, value: float | None = None, reason: str = "") -> None:
        """Records that trial `number` ended: `state` is "complete" (with a value), "pruned" or "failed".

        A reason is recorded first, so that it is known even if the process is killed in between.
        """
        if reason:
            self.note(number, "reason", reason)
        ended = next(kind for kind, name in STATES.items() if name == state)
        self.study.tell(number, values=value if state == "complete" else None, state=ended)

    def importances(self) -> dict[str, float]:
        """Returns how much each setting decides if a trial is among the best: shares of 1 by path, by PED-ANOVA.

        Returns {} if fewer than 4 trials are complete or only one setting is searched.
        """
        complete = [t for t in self.study.get_trials(deepcopy=False) if t.state == TrialState.COMPLETE]
        if len(complete) < 4 or len(self.space) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return optuna.importance.get_param_importances(self.study, params=list(self.space))


def repair(file: Path) -> None:
    """Removes from a study's record file what a killed process left: an incomplete last line, and locks of the file.

    No other process may use the file. Does nothing if there is none.
    """
    for lock in file.parent.glob(f"{file.name}.lock*"):
        lock.unlink()
    text = file.read_bytes() if file.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        with file.open("r+b") as opened:
            opened.truncate(len(whole))


def plain(trial: FrozenTrial) -> Trial:
    return Trial(
        number=trial.number,
        state=STATES.get(trial.state, trial.state.name.lower()),
        params=dict(trial.params),
        value=trial.value if trial.state == TrialState.COMPLETE else None,
        curve=dict(trial.intermediate_values),
        notes=dict(trial.user_attrs),
    )


def distribution_of(param: Param) -> BaseDistribution:
    if param.choices:
        return CategoricalDistribution(param.choices)
    if param.kind == "int":
        return IntDistribution(int(param.low), int(param.high))
    return FloatDistribution(param.low, param.high, log=param.kind == "log")


def values_of(space: Space) -> Iterable[list[Value]]:
    return (param.values for param in space.values())


def pruner_for(name: Pruner, horizon: int, interval: int) -> BasePruner:
    """Returns Optuna's pruner `name` for runs of `horizon` steps that are evaluated every `interval` steps.

    `asha`: at a quarter and three quarters of the run only the best third goes on. `median`: from a quarter on, trials
    below the median at the same step end. `none`: no trial is pruned.
    """
    quarter = max(1, round(horizon / interval / 4)) * interval
    if name == "asha":
        return SuccessiveHalvingPruner(min_resource=quarter, reduction_factor=KEEP_ONE_IN)
    return MedianPruner(n_startup_trials=5, n_warmup_steps=quarter) if name == "median" else NopPruner()

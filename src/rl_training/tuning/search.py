"""The search: draws trials, runs several at a time, ends those that fall behind. All it knows is in the study's folder."""

from __future__ import annotations

from rl_training.experiment import ConfigError
from rl_training.tuning.display import Display
from rl_training.tuning.engine import Engine
from rl_training.tuning.job import Ended, Evaluated, Job
from rl_training.tuning.records import Records, Trial
from rl_training.tuning.runs import Runs, evaluations
from rl_training.tuning.space import why_infeasible

MAX_DRAWS = 100  # that do not go together, in a row
MAX_FAILURES = 3  # at the beginning: then something is wrong with all trials


class Search:
    """Trials that are drawn one by one."""

    def __init__(self, runs: Runs, records: Records, engine: Engine, *, jobs: int, display: Display) -> None:
        self.runs, self.records, self.engine, self.display = runs, records, engine, display
        self.jobs, self.settings = jobs, runs.settings
        self.running: dict[int, Job] = {}
        self.evaluations: dict[int, dict[int, float]] = {}
        records.prune_by(self.settings.horizon, self.settings.interval)

    def run(self) -> None:
        """Goes on until as many trials have ended as were asked for."""
        for trial in self.records.all():
            if trial.state == "running":
                self.take_up(trial)
        self.fill()
        for _ in iter(lambda: bool(self.running), False):
            event = self.engine.next_event()
            if isinstance(event, Evaluated):
                self.engine.answer(event.trial, self.judge(event))
            else:
                self.close(event)
                self.fill()

    def take_up(self, trial: Trial) -> None:
        """What is to be done with a trial that a process left behind."""
        if trial.params.keys() != self.settings.space.keys():
            self.records.note(trial.number, "unused", "the study was killed while it was drawn")
            self.records.end(trial.number, "failed")
        elif "verdict" in trial.notes:
            self.records.end(trial.number, "pruned", reason=str(trial.notes["verdict"]))
        elif len(self.running) < self.jobs:
            self.begin(trial)

    def fill(self) -> None:
        """Starts what there is room for: first what was interrupted, then what is new."""
        waiting = [t for t in self.records.all() if t.state == "running" and t.number not in self.running]
        for trial in waiting[: self.jobs - len(self.running)]:
            self.begin(trial)
        for _ in range(self.jobs - len(self.running)):
            if sum(trial.counts for trial in self.records.all()) < self.settings.trials:
                self.begin(self.draw())

    def draw(self) -> Trial:
        """A trial whose settings go together; draws that do not are recorded and cost nothing."""
        why = None
        for _ in range(MAX_DRAWS):
            trial = self.records.draw()
            why = why_infeasible(self.settings.config, trial.params)
            if why is None:
                return trial
            self.records.note(trial.number, "unused", why)
            self.records.end(trial.number, "pruned", reason=why)
        raise ConfigError(f"{MAX_DRAWS} draws in a row cannot be run, the last because {why}: narrow the ranges")

    def begin(self, trial: Trial) -> None:
        job = self.runs.next_job(trial)
        if job is None:
            self.records.end(trial.number, "complete", self.runs.value(trial.number))
            self.display.ended(self.records.get(trial.number))
            return
        self.running[trial.number], self.evaluations[trial.number] = (
            job,
            evaluations(self.runs.folders(trial.number)[0]),
        )
        self.engine.start(job)

    def judge(self, event: Evaluated) -> str | None:
        """Notes an evaluation; returns why the trial ends here, if it does."""
        number = event.trial
        if not self.runs.decides(self.running[number]):
            return None
        self.evaluations[number][event.step] = event.mean
        so_far = {step: mean for step, mean in self.evaluations[number].items() if step <= event.step}
        self.records.report(number, event.step, self.runs.objective.of(so_far))
        if event.step >= self.settings.horizon or not self.records.should_prune(number):
            return None
        verdict = f"pruned by {self.settings.pruner} at step {event.step:,}"
        self.records.note(number, "verdict", verdict)
        return verdict

    def close(self, event: Ended) -> None:
        """What the end of a run means for its trial."""
        del self.running[event.trial]
        trial = self.records.get(event.trial)
        if "verdict" in trial.notes:
            self.records.end(trial.number, "pruned", reason=str(trial.notes["verdict"]))
        elif event.status == "diverged":
            self.records.end(trial.number, "pruned", reason=f"diverged: {event.reason}")
        elif event.status == "failed":
            self.records.end(trial.number, "failed", reason=event.reason)
            self.check_failures(event.reason)
        else:  # it finished, and the trial has another seed or none; or somebody paused it, and it goes on
            self.begin(trial)
            return
        self.display.ended(self.records.get(trial.number))

    def check_failures(self, reason: str) -> None:
        states = [trial.state for trial in self.records.all() if trial.counts and trial.state != "running"]
        if states.count("failed") == len(states) >= MAX_FAILURES:
            raise ConfigError(f"the first {len(states)} trials failed, the last because {reason}")

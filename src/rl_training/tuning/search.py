"""The search: draws trials, runs several at a time, ends those that fall behind. All it knows is in the study's folder."""

from __future__ import annotations

from rl_training.config import ConfigError
from rl_training.tuning.display import Display
from rl_training.tuning.engine import Engine
from rl_training.tuning.job import Ended, Evaluated, Job
from rl_training.tuning.records import Records, Trial
from rl_training.tuning.runs import Runs, evaluations
from rl_training.tuning.space import why_infeasible

MAX_DRAWS = 100  # that do not go together, in a row
MAX_FAILURES = 3  # at the beginning: then something is wrong with all trials


class Search:
    """A search that draws trials one by one, and trains up to `jobs` at a time; hopeless ones are pruned."""

    def __init__(self, runs: Runs, records: Records, engine: Engine, *, jobs: int, display: Display) -> None:
        self.runs, self.records, self.engine, self.display = runs, records, engine, display
        self.jobs, self.settings = jobs, runs.settings
        self.running: dict[int, Job] = {}
        self.evaluations: dict[int, dict[int, float]] = {}
        records.prune_by(self.settings.horizon, self.settings.interval)

    def run(self) -> None:
        """Draws and trains trials until `settings.trials` of them have ended; interrupted ones go first.

        Raises ConfigError if the first three trials fail, or if 100 draws in a row cannot be run.
        """
        for trial in self.records.all():
            self.tidy(trial)
        self.fill()
        for _ in iter(lambda: bool(self.running), False):
            event = self.engine.next_event()
            if isinstance(event, Evaluated):
                self.engine.answer(event.trial, self.judge(event))
            else:
                self.close(event)
                self.fill()

    def tidy(self, trial: Trial) -> None:
        """Ends a trial that a killed study left open: one half drawn, or one that was to be pruned."""
        if trial.state == "running" and not self.records.is_whole(trial):
            self.records.discard(trial.number)
        elif trial.state == "running" and "verdict" in trial.notes:
            self.records.end(trial.number, "pruned", reason=str(trial.notes["verdict"]))

    def fill(self) -> None:
        """Starts trials until `jobs` of them run or none is left."""
        for trial in iter(self.next_trial, None):
            self.begin(trial)

    def next_trial(self) -> Trial | None:
        """Returns an interrupted trial, else a new one; None if `jobs` trials run already or none is left."""
        if len(self.running) >= self.jobs:
            return None
        trials = self.records.all()
        waiting = next((t for t in trials if t.state == "running" and t.number not in self.running), None)
        if waiting is not None:
            return waiting
        return self.draw() if sum(t.counts and t.state != "waiting" for t in trials) < self.settings.trials else None

    def draw(self) -> Trial | None:
        """Draws a trial whose settings make a valid config, and returns it; None if a grid has no point left.

        Draws that are not valid are recorded as pruned and do not count. Raises ConfigError after 100 of them in a row.
        """
        why = None
        for _ in range(MAX_DRAWS):
            if self.records.exhausted:
                return None
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
        known = evaluations(self.runs.folders(trial.number)[0])
        self.running[trial.number], self.evaluations[trial.number] = job, known
        unheard = [step for step in sorted(known) if step not in trial.curve]  # the study ended before it was told
        if any(self.judge(Evaluated(trial.number, step, known[step])) for step in unheard):
            self.close(Ended(trial.number, "stopped", "pruned"))
        else:
            self.engine.start(job)

    def judge(self, event: Evaluated) -> str | None:
        """Records an evaluation of a trial's run; returns the reason to stop it if the trial is pruned, else None.

        Only the run with a trial's first seed is recorded and judged; for the others it returns None.
        """
        number = event.trial
        if not self.runs.decides(self.running[number]):
            return None
        self.evaluations[number][event.step] = event.mean
        so_far = {step: mean for step, mean in self.evaluations[number].items() if step <= event.step}
        value = self.runs.objective.of(so_far)
        self.records.report(number, event.step, value)
        self.display.evaluated(number, event.step, value)
        if event.step >= self.settings.horizon or not self.records.should_prune(number):
            return None
        verdict = f"pruned by {self.settings.pruner} at step {event.step:,}"
        self.records.note(number, "verdict", verdict)
        return verdict

    def close(self, event: Ended) -> None:
        """Records the end of a run: ends its trial, or starts the run with the trial's next seed.

        A run that was paused is started again. Raises ConfigError if the first three trials failed.
        """
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

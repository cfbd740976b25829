"""Population-based training (arXiv:1711.09846) on exact checkpoints.

All members train side by side. At every evaluation the worst quarter ends, and copies of the best go on in their places with
settings that are changed a little. Copies have the whole state of the run: weights, optimizers, replay, environments.
"""

from __future__ import annotations

import json
import random
import shutil

from rl_training.config import ConfigError
from rl_training.experiment.run_directory import write_atomically
from rl_training.tuning.display import Display
from rl_training.tuning.engine import Engine
from rl_training.tuning.inherit import inherit
from rl_training.tuning.job import Ended, Evaluated
from rl_training.tuning.param import Value
from rl_training.tuning.records import Records, Trial
from rl_training.tuning.runs import Runs, evaluations
from rl_training.tuning.search import MAX_DRAWS
from rl_training.tuning.space import why_infeasible

SHARE = 4  # one in so many is replaced


class Population:
    """A population of `settings.trials` runs that train side by side, in which copies of the best replace the worst.

    Each run holds a place, numbered from 0; a copy that takes over a place is a new trial.
    """

    def __init__(self, runs: Runs, records: Records, engine: Engine, *, jobs: int, display: Display) -> None:
        self.runs, self.records, self.engine, self.display = runs, records, engine, display
        self.jobs, self.settings = jobs, runs.settings
        self.decisions = runs.study / "generations"

    def run(self) -> None:
        """Trains all members to the end of their steps, and records their values; continues an interrupted study.

        After every evaluation interval but the last, copies of the best replace the worst. Raises ConfigError if no
        member is left.
        """
        for place in range(self.settings.trials):
            self.found(place)
        horizon, interval = self.settings.horizon, self.settings.interval
        for step in [*range(interval, horizon, interval), horizon]:
            self.train_to(step)
            if step < horizon:
                self.replace_worst(step)
            self.display.say(f"all members are at step {step:,}")
        for member in self.alive():
            self.records.end(member.number, "complete", member.curve[horizon])

    def found(self, place: int) -> None:
        """Records the first trial of place number `place`, with settings at random; does nothing if it is there."""
        chance, params = random.Random(f"{self.settings.seed}/{place}"), dict[str, Value]()
        for _ in range(MAX_DRAWS):
            params = {
                path: chance.choice(p.choices) if p.choices else p.at(chance.random())
                for path, p in self.settings.params.items()
            }
            if why_infeasible(self.settings.config, params) is None:
                break
        self.records.draw_given(params, {"place": place, "since": 0})

    def members(self) -> list[Trial]:
        """Returns the newest trial of each place, whether it runs or has ended."""
        holders = {trial.notes["place"]: trial for trial in self.records.all() if "place" in trial.notes}
        return list(holders.values())

    def alive(self) -> list[Trial]:
        return [member for member in self.members() if member.state == "running"]

    def train_to(self, step: int) -> None:
        """Trains all members up to a step, `jobs` at a time, records their evaluations, and waits until all are there.

        Raises ConfigError if a member was stopped before, or if none is left.
        """
        for member in self.alive():
            self.note_evaluations(member.number, evaluations(self.runs.folders(member.number)[0]))
        waiting = [member for member in self.alive() if member.reached < step]
        running: set[int] = set()
        for _ in iter(lambda: bool(waiting or running), False):
            for _ in range(min(self.jobs - len(running), len(waiting))):
                member = waiting.pop(0)
                running.add(member.number)
                self.engine.start(self.runs.job(member, stop_at=step))
            event = self.engine.next_event()
            if isinstance(event, Evaluated):
                known = evaluations(self.runs.folders(event.trial)[0])
                self.note_evaluations(event.trial, known | {event.step: event.mean})
                self.engine.answer(event.trial, None)
                continue
            running.remove(event.trial)
            self.note_end(event, step)

    def note_evaluations(self, number: int, known: dict[int, float]) -> None:
        """Records trial `number`'s objective at the steps of `known`, mean returns by step, that have none yet.

        Steps before it took over its place are left out: they are those of the run that it was copied from.
        """
        trial = self.records.get(number)
        for step in sorted(known):
            if step not in trial.curve and step > trial.since:
                value = self.runs.objective.of({at: mean for at, mean in known.items() if at <= step})
                self.records.report(number, step, value)
                self.display.evaluated(number, step, value)

    def note_end(self, event: Ended, step: int) -> None:
        """Records the end of a member that diverged or failed.

        Raises ConfigError if a member ended otherwise before `step`, or if none is left.
        """
        if event.status in ("diverged", "failed"):
            state = "pruned" if event.status == "diverged" else "failed"
            self.records.end(event.trial, state, reason=f"{event.status}: {event.reason}")
        elif self.records.get(event.trial).reached < step:
            raise ConfigError(
                f"trial {event.trial} was {event.status} before step {step:,} ({event.reason}): start again"
            )
        if not self.alive():
            raise ConfigError(f"no member of the population is left, the last because {event.reason}")

    def replace_worst(self, step: int) -> None:
        """Replaces the worst members, and those that were lost, at a step by copies of the best.

        The decision is written to a file before it is carried out; a study that was interrupted in between carries out
        the rest of the same decision.
        """
        file = self.decisions / f"{step:012d}.json"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            write_atomically(file, json.dumps(self.decide(step), indent=1))
        for decision in json.loads(file.read_text(encoding="utf-8")):
            self.carry_out(decision, step)

    def decide(self, step: int) -> list[dict]:
        chance = random.Random(f"{self.settings.seed}/{step}")
        ranked = sorted(self.alive(), key=lambda member: member.curve[step], reverse=True)
        count = max(1, len(ranked) // SHARE)
        best, worst = ranked[:count], ranked[max(count, len(ranked) - count) :]
        lost = [member for member in self.members() if member.state != "running"]
        found = []
        for member in [*worst, *lost]:
            donor = chance.choice(best)
            if member in lost or member.curve[step] < donor.curve[step]:
                found.append(
                    {
                        "place": member.notes["place"],
                        "ends": member.number,
                        "copies": donor.number,
                        "params": self.perturbed(donor, chance),
                    }
                )
        return found

    def perturbed(self, donor: Trial, chance: random.Random) -> dict[str, Value]:
        for _ in range(MAX_DRAWS):
            params = {path: p.perturbed(donor.params[path], chance) for path, p in self.settings.params.items()}
            if why_infeasible(self.settings.config, params) is None:
                return params
        return donor.params

    def carry_out(self, decision: dict, step: int) -> None:
        """Ends trial `decision["ends"]` and puts a copy of trial `decision["copies"]`, a new trial, in its place.

        Skips what was done before an interruption.
        """
        if self.records.get(decision["ends"]).state == "running":
            reason = f"replaced at step {step:,} by a copy of trial {decision['copies']}"
            self.records.end(decision["ends"], "pruned", reason=reason)
            self.display.ended(self.records.get(decision["ends"]))
        trial = self.records.draw_given(
            decision["params"], {"place": decision["place"], "since": step, "copies": decision["copies"]}
        )
        folder, source = (self.runs.folders(number)[0] for number in (trial.number, decision["copies"]))
        if not (folder / "config.yaml").exists():
            shutil.rmtree(folder, ignore_errors=True)
            inherit(source, folder, decision["params"])

"""Logged episodes of cascades as arrays, from which cascades are learned and on which they are evaluated."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from sage.evidence.cascades.cascade_records import STOP, CascadeEpisode, CascadeStep
from sage.evidence.completeness import begins_header
from sage.evidence.export_file import refuse_constant
from sage.evidence.routing_data import RoutingDataError, named, none_if_nan, number_or_nan
from sage.evidence.selection import EVERYTHING, Selection
from sage.evidence.tasks import TaskKeys, keys_of, label_tasks, text_digest
from sage.files import replacing
from sage.log.records import RecordError
from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED, UNVERIFIED, CascadeStates
from sage.policies.policy import Contexts, select_rows
from sage.splitting import in_first_part


@dataclass(frozen=True, kw_only=True)
class CascadeData:
    """One row per step, episode after episode, and one entry per episode, over the models of all episodes.

    Models are sorted by name. Columns of actions are the models and, last, stopping.
    """

    models: tuple[str, ...]
    # by step, [n]
    episode: np.ndarray  # int64: index of the episode, rising
    step: np.ndarray  # int64: 0 for the first attempt
    order: np.ndarray  # int64 [n, models]: before the step, see `CascadeStates`
    verdict: np.ndarray  # int64 [n, models]: before the step
    spent_usd: np.ndarray  # float64: before the step
    eligible: np.ndarray  # bool [n, models + 1]
    propensity: np.ndarray  # float64 [n, models + 1]
    action: np.ndarray  # int64: into models; len(models) to stop
    cost_usd: np.ndarray  # float64: of the step; 0 of a stop, NaN where not known
    latency_s: np.ndarray  # float64: the same
    # by episode
    contexts: Contexts
    quality: np.ndarray  # float64: of the taken answer; NaN where nobody reported it
    ended: np.ndarray  # bool: False where the episode was broken off before a stop
    id: np.ndarray  # text
    time: np.ndarray  # float64
    policy: np.ndarray  # text
    policy_version: np.ndarray  # text
    verifier: np.ndarray  # text
    data_source: str
    features_version: int
    tasks: TaskKeys | None = None  # what names the tasks of `contexts`; None: callers' ids alone
    tenant: np.ndarray | None = None  # text [episodes]

    def __len__(self) -> int:
        """Returns the number of episodes."""
        return len(self.quality)

    @property
    def stop(self) -> int:
        """Returns the column that stands for stopping."""
        return len(self.models)

    @property
    def observed(self) -> np.ndarray:
        """Returns bool [episodes]: the episodes with a quality and the cost of every attempt."""
        unknown = np.bincount(self.episode, np.isnan(self.cost_usd), len(self)) > 0
        return ~np.isnan(self.quality) & ~unknown

    @property
    def states(self) -> CascadeStates:
        """The state before every step, as it was served: the id of a task, by which a mixture of cascades chooses one, is the one
        that was given then, whatever other rows turned out to be of the same task."""
        contexts = select_rows(self.contexts, self.episode)
        if self.tasks is not None:
            contexts = contexts._replace(task_id=self.tasks.served[self.episode])
        return CascadeStates(contexts, self.order, self.verdict, self.spent_usd)

    @property
    def taken_propensity(self) -> np.ndarray:
        """Returns float64 [n]: the logged probability of the action taken."""
        return self.propensity[np.arange(len(self.action)), self.action]

    @property
    def total_cost(self) -> np.ndarray:
        """Returns float64 [episodes]: the cost of all attempts, USD; NaN where one is not known."""
        return np.bincount(self.episode, self.cost_usd, len(self))

    @property
    def sha256(self) -> str:
        """Returns a hash (hex) of everything that the episodes hold, whichever file they came from."""
        digest = hashlib.sha256(json.dumps([self.models, self.data_source, self.features_version]).encode())
        besides = [] if self.tasks is None or not any(self.tasks.opening) else [self.tasks.opening]
        besides += [] if self.tenant is None or (self.tenant == "default").all() else [self.tenant]
        columns = (getattr(self, name) for name in (*STEP_COLUMNS, *EPISODE_COLUMNS))
        for values in (*self.contexts.columns, *columns, *besides):
            text = values.dtype.kind == "U"
            digest.update("\0".join(values.tolist()).encode() if text else np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def rewards(self, price: float) -> np.ndarray:
        """Returns [n]: the quality where an episode stops, less `price` (quality per dollar) times an attempt's USD."""
        quality = np.where(self.action == self.stop, self.quality[self.episode], 0.0)
        return quality - price * self.cost_usd if price else quality

    def select(self, episodes: np.ndarray) -> CascadeData:
        """Returns the given episodes (a mask or rising indices)."""
        keep = np.zeros(len(self), bool)
        keep[episodes] = True
        rows = keep[self.episode]
        values: dict = {name: getattr(self, name)[rows] for name in STEP_COLUMNS}
        values |= {name: getattr(self, name)[keep] for name in EPISODE_COLUMNS}
        values["episode"] = (np.cumsum(keep) - 1)[self.episode[rows]]
        return CascadeData(
            models=self.models,
            contexts=select_rows(self.contexts, keep),
            data_source=self.data_source,
            features_version=self.features_version,
            tasks=None if self.tasks is None else self.tasks.select(keep),
            tenant=None if self.tenant is None else self.tenant[keep],
            **values,
        )

    def split_by_task(self, fraction: float, seed: int) -> tuple[CascadeData, CascadeData]:
        """Returns two parts without a task in common; the first has about `fraction` of the tasks."""
        first = in_first_part(self.contexts.task_id, fraction, seed)
        return self.select(first), self.select(~first)

    @classmethod
    def read(
        cls, path: str | Path, *, selection: Selection = EVERYTHING, dropped: Counter[str] | None = None
    ) -> CascadeData:
        """Reads the JSONL of episodes, also those without an outcome; `dropped` counts what `selection` takes away.

        Raises RoutingDataError for a missing file, a damaged line, mixed data, or no quality at all.
        """
        chosen = selection.episodes(read_episodes(Path(path)), Counter() if dropped is None else dropped)
        return cls.from_episodes(chosen, where=named(Path(path), selection))

    @classmethod
    def from_episodes(cls, episodes: Iterable[CascadeEpisode], where: str = "the log") -> CascadeData:
        """Returns the episodes as arrays, in their order; `where` names their source in error messages.

        Raises RoutingDataError for an id that occurs twice, mixed sources, mixed feature versions, or no quality at
        all.
        """
        found: list[CascadeEpisode] = []
        seen: set[str] = set()
        for line, episode in enumerate(episodes, start=1):
            check_episode(episode, found, seen, f"{where}, line {line}")
            seen.add(episode.id)
            found.append(episode)
        if all(episode.quality is None for episode in found):
            raise RoutingDataError(f"{where} holds no episode with a quality: run cascades and report outcomes first")
        return to_arrays(found)

    def episodes(self) -> Iterator[CascadeEpisode]:
        """Returns the episodes as records."""
        names = (*self.models, STOP)
        ends = np.flatnonzero(np.diff(self.episode, append=-1)) + 1
        start = 0
        for i, end in enumerate(ends.tolist()):
            steps = tuple(self.step_record(row, row + 1 < end, names) for row in range(start, end))
            yield CascadeEpisode(
                id=str(self.id[i]),
                time=float(self.time[i]),
                data_source=self.data_source,
                role=str(self.contexts.role[i]),
                steps=steps,
                quality=none_if_nan(self.quality[i]),
                task_id=str((self.contexts.task_id if self.tasks is None else self.tasks.given)[i]),
                opening="" if self.tasks is None else str(self.tasks.opening[i]),
                tenant="default" if self.tenant is None else str(self.tenant[i]),
                category=str(self.contexts.category[i]),
                policy=str(self.policy[i]),
                policy_version=str(self.policy_version[i]),
                verifier=str(self.verifier[i]),
                features=tuple(self.contexts.features[i].tolist()),
                features_version=self.features_version,
            )
            start = end

    def step_record(self, row: int, followed: bool, names: tuple[str, ...]) -> CascadeStep:
        action, eligible = int(self.action[row]), np.flatnonzero(self.eligible[row])
        stopped = action == self.stop
        verdict = UNVERIFIED if stopped or not followed else int(self.verdict[row + 1, action])
        return CascadeStep(
            candidates=tuple(names[k] for k in eligible),
            probabilities=tuple(self.propensity[row, eligible].tolist()),
            action=names[action],
            verdict=None if verdict == UNVERIFIED else verdict == ACCEPTED,
            cost_usd=None if stopped else none_if_nan(self.cost_usd[row]),
            latency_s=None if stopped else none_if_nan(self.latency_s[row]),
        )

    def write(self, path: str | Path) -> None:
        """Writes JSONL that `read` gives back, except for the verdict of an attempt that no step follows."""
        write_episodes(Path(path), self.episodes())


STEP_COLUMNS = (
    "episode",
    "step",
    "order",
    "verdict",
    "spent_usd",
    "eligible",
    "propensity",
    "action",
    "cost_usd",
    "latency_s",
)
EPISODE_COLUMNS = tuple(
    f.name
    for f in fields(CascadeData)
    if f.name not in (*STEP_COLUMNS, "models", "contexts", "data_source", "features_version", "tasks", "tenant")
)


def read_episodes(path: Path) -> Iterator[CascadeEpisode]:
    """Reads the episodes of a JSONL file, one per line.

    Raises RoutingDataError, with the line's number, at the first line that is not whole JSON or breaks a rule of
    records.
    """
    if not path.is_file():
        raise RoutingDataError(f"{path}: there is no such file of cascade episodes")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                values = json.loads(line.decode("utf-8"), parse_constant=refuse_constant)
                single = isinstance(values, dict) and "steps" not in values and "probabilities" in values
                if single or begins_header(line):
                    raise RecordError("a decision and no episode of a cascade: export with --cascades")
                yield CascadeEpisode.from_json(values)
            except RecordError as error:
                raise RoutingDataError(f"{path}, line {number}: {error}") from error
            except (ValueError, RecursionError) as error:
                raise RoutingDataError(f"{path}, line {number}: not a whole JSON object: export again") from error


def write_episodes(path: Path, episodes: Iterable[CascadeEpisode]) -> int:
    """Writes one line per episode, complete or not at all, and returns the number of lines."""
    num_written = 0
    with replacing(path, private=True) as temporary, temporary.open("w", encoding="utf-8") as file:
        for episode in episodes:
            file.write(json.dumps(episode.to_json(), allow_nan=False, ensure_ascii=False) + "\n")
            num_written += 1
    return num_written


def check_episode(episode: CascadeEpisode, before: list[CascadeEpisode], seen: set[str], where: str) -> None:
    """Raises RoutingDataError if an episode cannot stand beside the first one, or repeats an id of `seen`."""
    if episode.id in seen:
        raise RoutingDataError(f"{where}: episode {episode.id!r} is there twice: export the file again")
    if not before:
        return
    first = before[0]
    if episode.data_source != first.data_source:
        raise RoutingDataError(
            f"{where}: data_source is {episode.data_source!r} after {first.data_source!r}: sources are never mixed, export one"
        )
    mine, theirs = ((e.features_version, len(e.features)) for e in (episode, first))
    if mine != theirs:
        raise RoutingDataError(f"{where}: features version and number {mine} after {theirs}: export the newer alone")


def to_arrays(episodes: list[CascadeEpisode]) -> CascadeData:
    models = tuple(sorted({name for e in episodes for step in e.steps for name in step.candidates} - {STOP}))
    column = {name: k for k, name in enumerate((*models, STOP))}
    steps = [step for episode in episodes for step in episode.steps]
    lengths = np.array([len(episode.steps) for episode in episodes])
    episode = np.repeat(np.arange(len(episodes)), lengths)
    position = np.arange(len(steps)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    shape = (len(steps), len(models) + 1)
    order, verdict = np.zeros((2, len(steps), len(models)), np.int64)
    eligible, propensity, spent = np.zeros(shape, bool), np.zeros(shape), np.zeros(len(steps))
    for row, step in enumerate(steps):
        columns = [column[name] for name in step.candidates]
        eligible[row, columns], propensity[row, columns] = True, step.probabilities
        if row + 1 < len(steps) and episode[row + 1] == episode[row]:
            order[row + 1], verdict[row + 1] = order[row], verdict[row]
            order[row + 1, column[step.action]] = position[row] + 1
            said = UNVERIFIED if step.verdict is None else ACCEPTED if step.verdict else REJECTED
            verdict[row + 1, column[step.action]] = said
            spent[row + 1] = spent[row] + (step.cost_usd or 0.0)
    action = np.array([column[step.action] for step in steps])
    stopped = action == len(models)
    # A cascade without an id of its task has its own: so many cascades are not as many tasks.
    tasks = keys_of(("" if e.task_id == e.id else e.task_id, e.opening, e.id) for e in episodes)
    return CascadeData(
        models=models,
        episode=episode,
        step=position,
        order=order,
        verdict=verdict,
        spent_usd=spent,
        eligible=eligible,
        propensity=propensity,
        action=action,
        cost_usd=np.where(stopped, 0.0, number_or_nan([step.cost_usd for step in steps])),
        latency_s=np.where(stopped, 0.0, number_or_nan([step.latency_s for step in steps])),
        contexts=Contexts(
            role=np.array([e.role for e in episodes]),
            category=np.array([e.category for e in episodes]),
            features=np.array([e.features for e in episodes], np.float32).reshape(len(episodes), -1),
            task_id=label_tasks(tasks, ["" if e.opening else text_digest(e) for e in episodes]),
        ),
        quality=number_or_nan([e.quality for e in episodes]),
        ended=np.array([e.ended for e in episodes]),
        id=np.array([e.id for e in episodes]),
        time=np.array([e.time for e in episodes]),
        policy=np.array([e.policy for e in episodes]),
        policy_version=np.array([e.policy_version for e in episodes]),
        verifier=np.array([e.verifier for e in episodes]),
        data_source=episodes[0].data_source,
        features_version=episodes[0].features_version,
        tasks=tasks,
        tenant=np.array([e.tenant for e in episodes]),
    )

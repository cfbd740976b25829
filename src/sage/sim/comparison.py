"""Comparison of routers, heuristics and trained policies on the same unseen tasks: `sage sim bench`, as code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from rl_base.evaluation import bootstrap_interval, iqm
from sage.files import FileReadError
from sage.sim.environment import rules
from sage.sim.environment.baselines import Chooser, Episodes, nothing
from sage.sim.environment.models import Models, open_models
from sage.sim.environment.packed import SHIPPED, Packed, load_packed
from sage.sim.routers import learned_router, static_router
from sage.sim.scoring import UNSEEN, Judge, Score, best_constant, constant, ochiai, tuned_heuristic
from sage.sim.training import acting, load_policy

CORRELATIONS = (0.0, 0.5, 0.9)  # of two answers of a model to a task: nobody recorded it
INVENTED = Path("invented")  # in the place of a file with models
NORMAL_95 = 1.959964
KIND = "simulator"
LABELS = {"kind": KIND, "data_source": "synthetic", "evidence": False}


@dataclass
class PolicyComparison:
    """Scores of policies by name; for several seeds of PPO also the interquartile mean of their normalised scores, with
    a 95 % interval.

    `band` has normalised scores for other correlations of a model's answers. `over_static` is the mean return of
    trained policies minus that of the static router which is best on training tasks, with an interval over tasks.
    """

    splits: tuple[str, ...]
    tasks: int
    models: dict
    random: float
    full_knowledge: float
    rows: dict[str, Score] = field(default_factory=dict)
    band: dict[str, dict[str, float]] = field(default_factory=dict)
    seeds: int = 0
    iqm: float = 0.0
    interval: tuple[float, float] | None = None
    over_static: dict | None = None

    def as_json(self) -> dict:
        return asdict(self) | {"splits": list(self.splits), "level": self.level, **LABELS}

    @property
    def level(self) -> str:
        """Returns the name of the way in which the models that were asked are simulated."""
        return self.models["level"]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The policies, tasks and simulated models of a comparison. Routers and heuristics are fitted to the split train;
    fitting the heuristics takes a minute."""

    policies: Mapping[str, Path]  # checkpoints by name
    tables: Path
    models: Path | None
    splits: tuple[str, ...] = UNSEEN
    correlations: tuple[float, ...] = CORRELATIONS
    heuristics: bool = True

    @classmethod
    def between(
        cls,
        checkpoints: Sequence[Path],
        *,
        tables: Path | None = None,
        models: Path | None = None,
        splits: tuple[str, ...] = UNSEEN,
        correlations: tuple[float, ...] = CORRELATIONS,
        heuristics: bool = True,
    ) -> Contest:
        """Returns a contest of checkpoints; tables and models that are None are those that the first checkpoint learned
        with, and INVENTED as `models` means the invented ones. Raises FileReadError if such a file is gone."""
        first = load_policy(checkpoints[0]).config.env.kwargs if checkpoints else {}
        return cls(
            policies={f"PPO: {path}": path for path in checkpoints},
            tables=tables or learned_with(first, "tables", "--tasks") or SHIPPED,
            models=None if models == INVENTED else models or learned_with(first, "models", "--models"),
            splits=splits,
            correlations=correlations,
            heuristics=heuristics,
        )

    def run(self) -> PolicyComparison:
        """Plays all policies and returns their scores."""
        asked, tasks = open_models(self.models), load_packed(self.tables)
        train, unseen = tasks.of_split("train"), tasks.of_split(*self.splits)
        judge = Judge(unseen, asked)
        learned = {name: acting(load_policy(path)) for name, path in self.policies.items()}
        every = {**fixed_policies(train, asked, judge, heuristics=self.heuristics), **learned}
        played = play(judge, every)
        found = PolicyComparison(self.splits, len(unseen), asked.facts(), judge.random, judge.full_knowledge)
        found.rows = {name: judge.score_of(episodes) for name, episodes in played.items()}
        for correlation in self.correlations:
            other = Judge(unseen, asked.with_correlation(correlation))
            scores = {name: other.score_of(episodes).normalised for name, episodes in play(other, every).items()}
            found.band[f"{correlation:g}"] = scores
        if learned:
            normalised = [found.rows[name].normalised for name in learned]
            found.seeds, found.iqm = len(normalised), iqm(normalised)
            found.interval = bootstrap_interval(normalised) if len(normalised) > 1 else None
            by_task = {name: episodes.total.view(-1, len(unseen)).mean(0).numpy() for name, episodes in played.items()}
            static = best_static(train, asked)
            found.over_static = difference(np.mean([by_task[name] for name in learned], 0) - by_task[static], static)
        return found


def play(judge: Judge, policies: Mapping[str, Chooser]) -> dict[str, Episodes]:
    """Returns the episodes of each policy by name; random draws are the same at every call."""
    torch.manual_seed(0)
    return {name: judge.play(choose) for name, choose in policies.items()}


def fixed_policies(train: Packed, models: Models, judge: Judge, *, heuristics: bool) -> Mapping[str, Chooser]:
    found: dict[str, Chooser] = {"nothing": nothing} | static_routers()
    found["learned router"] = learned_router(train, models)
    if heuristics:
        action, _ = best_constant(judge)
        found[f"always {rules.action_name(action)}"] = constant(action)
        found["trials by suspicion, then escalate (tuned)"] = ochiai(train, models)
        found["best heuristic, which asks models (tuned)"] = tuned_heuristic(train, models)
    return found


def static_routers() -> dict[str, Chooser]:
    return {f"static router: {name}": static_router(tier) for tier, name in enumerate(rules.TIERS)}


def best_static(train: Packed, models: Models) -> str:
    judge, routers = Judge(train, models, repeats=2), static_routers()
    return max(routers, key=lambda name: judge.score(routers[name]).episode_return)


def difference(values: np.ndarray, against: str) -> dict:
    """Returns the mean of differences [tasks] with its 95 % interval; `against` names the policy that was
    subtracted."""
    half = NORMAL_95 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    return {"against": against, "difference": mean, "interval": [mean - float(half), mean + float(half)]}


def learned_with(world: Mapping, name: str, option: str) -> Path | None:
    """Returns the file that a policy learned with, by its name in the settings of the environment; None if it learned
    with none. Raises FileReadError, which names the command-line option, if the file is gone."""
    if name not in world:
        return None
    path = Path(str(world[name]))
    if not path.is_file():
        raise FileReadError(f"the policy learned with {path}, which is not there any more: give it with {option}")
    return path


def format_comparison(found: PolicyComparison) -> str:
    """Returns the comparison as a table of text."""
    told = [
        f"{found.tasks} tasks of {', '.join(found.splits)}; chance gets {found.random:.1f}, full knowledge {found.full_knowledge:.1f}"
    ]
    band = "".join(f"{f'rho {correlation}':>9}" for correlation in found.band)
    told.append(f"{'policy':<44}{'normalised':>11}{'solved':>9}{'return':>9}{'spent':>7}{band}")
    for name, score in found.rows.items():
        band = "".join(f"{scores[name]:>9.3f}" for scores in found.band.values())
        told.append(
            f"{name:<44}{score.normalised:>11.3f}{score.solved:>9.1%}{score.episode_return:>9.1f}{score.spent:>7.1f}{band}"
        )
    if found.interval is not None:
        low, high = found.interval
        told.append(f"PPO, {found.seeds} seeds: IQM {found.iqm:.3f} ({low:.3f} to {high:.3f})")
    if found.over_static is not None:
        low, high = found.over_static["interval"]
        told.append(
            f"PPO minus {found.over_static['against']}: {found.over_static['difference']:+.2f} in return ({low:+.2f} to {high:+.2f})"
        )
    if found.band:
        told.append("rho: the correlation of two answers of one model to one task, which nobody has recorded")
    told.append(f"What models answer is simulated ({found.level}); what trials do was executed.")
    return "\n".join(told)

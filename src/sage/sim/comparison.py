"""Routers, heuristics and trained policies on the same unseen tasks: `sage sim bench`, as code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from rl_training.api import Agent
from rl_training.evaluation import bootstrap_interval, iqm
from sage.files import FileReadError
from sage.sim.environment import rules
from sage.sim.environment.baselines import nothing
from sage.sim.environment.dynamics import LEVEL
from sage.sim.environment.packed import SHIPPED, load_packed
from sage.sim.routers import learned_router, static_router
from sage.sim.scoring import Judge, Score, best_constant, ochiai, tuned_heuristic
from sage.sim.training import acting, load_policy


@dataclass
class Comparison:
    """Scores by policy; of several seeds also their interquartile mean, with a 95 % interval."""

    splits: tuple[str, ...]
    tasks: int
    random: float
    full_knowledge: float
    rows: dict[str, Score] = field(default_factory=dict)
    seeds: int = 0
    iqm: float = 0.0
    interval: tuple[float, float] | None = None
    level: str = LEVEL

    def as_json(self) -> dict:
        return asdict(self) | {"splits": list(self.splits), "data_source": "synthetic"}


def compare(checkpoints: Sequence[Path], tables: Path | None, splits: tuple[str, ...]) -> Comparison:
    """`tables` are those of the first checkpoint, or of the package, if not given. Heuristics and routers learn from train."""
    agents = [load_policy(path) for path in checkpoints]
    tasks = load_packed(tables or tables_of(agents, checkpoints))
    train, judge = tasks.of_split("train"), Judge(tasks.of_split(*splits))
    found = Comparison(splits, len(judge.dynamics.tasks), judge.random, judge.full_knowledge)
    found.rows["nothing"] = judge.score(nothing)
    for tier, name in enumerate(rules.TIERS):
        found.rows[f"static router: {name}"] = judge.score(static_router(tier))
    found.rows["learned router"] = judge.score(learned_router(train))
    action, score = best_constant(judge)
    found.rows[f"always {rules.action_name(action)}"] = score
    found.rows["trials by suspicion, then escalate (tuned)"] = judge.score(ochiai(train))
    found.rows["best heuristic, which asks models (tuned)"] = judge.score(tuned_heuristic(train))
    torch.manual_seed(0)  # of what policies draw
    scores = [judge.score(acting(agent)) for agent in agents]
    found.rows |= {f"PPO: {path}": score for path, score in zip(checkpoints, scores, strict=True)}
    if scores:
        normalised = [score.normalised for score in scores]
        found.seeds, found.iqm = len(scores), iqm(normalised)
        found.interval = bootstrap_interval(normalised) if len(scores) > 1 else None
    return found


def tables_of(agents: Sequence[Agent], checkpoints: Sequence[Path]) -> Path:
    if not agents:
        return SHIPPED
    path = Path(str(agents[0].config.env.kwargs["tables"]))
    if not path.is_file():
        raise FileReadError(
            f"{checkpoints[0]} learned from {path}, which is not there any more: give tables with --tasks"
        )
    return path

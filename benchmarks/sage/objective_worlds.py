"""Tables as populations of quality and cost together, logs drawn from them, and the two bounds of the gate on such logs.

`checked` compares with `sage.evidence.quality_and_cost.estimate_both`; objectives.py stops if a number differs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gate import EPSILON, ROWS, World, draw_pair
from learn_from_log import PerCategory
from pools import FILES, load_pool
from quick_gate import Log, agree, clustered, gains, has_gone, is_refused, predict, unseen_outcomes

from rl_base.evaluation import Estimate, interval
from rl_base.evaluation.intervals import Method
from rl_base.evaluation.unseen import Unseen
from sage.evidence.quality_and_cost import COST_SCALE, estimate_both
from sage.outcomes.files import open_parquet
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTable
from sage.proof.evaluation import LEVEL
from sage.rl.logging_policies import Exploring
from sage.rl.replay import replay


class Worlds(NamedTuple):
    """One table as two populations on the same tasks."""

    quality: World
    cost: World
    table: OutcomeTable

    def difference(self, static: np.ndarray, candidate: np.ndarray) -> tuple[float, float]:
        gained, paid = (w.value(candidate) - w.value(static) for w in (self.quality, self.cost))
        return gained, paid


def load_table(name: str, folder: Path) -> OutcomeTable:
    """The models and tasks whose quality and cost are all known; the best model first."""
    kind, _, tasks = name.partition("-")
    if kind == "routerarena":
        import pyarrow.csv

        columns = ("task_id", "model", "score", "category", "cost_usd")
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "routerarena.csv"
            rows = open_parquet(folder / "routerarena_sub10.parquet").select(columns)
            pyarrow.csv.write_csv(rows, path)
            table = import_table("csv", path)
    elif kind == "routellm":
        table = import_table(kind, folder / FILES[kind])
    else:
        table = load_pool(kind, folder)
    table = table.select(~(np.isnan(table.cost_usd) | ~table.ran).any(axis=1))
    if tasks:
        table = table.select(np.random.default_rng(0).permutation(len(table))[: int(tasks)])
    return table.with_models(tuple(np.array(table.models)[np.argsort(-table.score.mean(axis=0))].tolist()))


def load(name: str, folder: Path) -> Worlds:
    return worlds_of(load_table(name, folder))


def worlds_of(table: OutcomeTable) -> Worlds:
    names, category = np.unique(table.category, return_inverse=True)
    found = []
    for values, most in ((table.score, 1.0), (table.cost_usd, float(table.cost_usd.max()))):
        share = np.stack([np.bincount(category, column, len(names)) for column in values.T], axis=1) / len(values)
        found.append(World(table.name, values, category, share, (0.0, most)))
    return Worlds(*found, table)


class Drawn(NamedTuple):
    """The same rows with their qualities, and with their costs."""

    quality: Log
    cost: Log


def draw_log(worlds: Worlds, rng: np.random.Generator, static: np.ndarray, candidate: np.ndarray) -> Drawn:
    num_tasks, size = worlds.quality.reward.shape
    cluster = rng.integers(num_tasks, size=ROWS)
    task = rng.integers(num_tasks, size=num_tasks)[cluster]
    category = worlds.quality.category[task]
    usual = static[category]
    action = np.where(rng.random(ROWS) < EPSILON, rng.integers(size, size=ROWS), usual)
    gains = worlds.difference(static, candidate)
    logs = []
    for world, gain in zip((worlds.quality, worlds.cost), gains, strict=True):
        reward = world.reward[task, action]
        bounds = (0.0, 1.0) if world is worlds.quality else (0.0, float(reward.max()))
        logs.append(Log(category, cluster, action, reward, usual, candidate[category], gain, size, bounds))
    return Drawn(*logs)


class Judged(NamedTuple):
    quality: Estimate
    cost: Estimate
    task: Estimate
    scale: float  # of costs
    per_task: float  # decisions of a task
    usable: bool

    def low(self, method: Method) -> float:
        return interval(self.quality, method=method, level=LEVEL).low

    def cost_bounds(self, method: Method) -> tuple[float, float]:
        found = interval(self.cost, method=method, level=LEVEL, scale=self.scale, skewed=True)
        return found.low, found.high

    def task_bounds(self, method: Method) -> tuple[float, float]:
        scale = self.scale * self.per_task
        found = interval(self.task, method=method, level=LEVEL, scale=scale, skewed=True)
        return found.low, found.high


def judged(drawn: Drawn) -> Judged:
    """As the gate does it, for policies that choose by category (`checked` compares)."""
    cluster = np.unique(drawn.cost.cluster, return_inverse=True)[1]
    rows = np.arange(len(drawn.cost.action))
    rest, seen = EPSILON / drawn.cost.size, np.ones(len(rows), bool)
    chance = np.where(drawn.cost.action == drawn.cost.static, 1 - EPSILON + rest, rest)
    found = []
    for log in drawn:
        predictions = predict(log, cluster, seen)
        unseen = (unseen_outcomes(log, table, cluster) for table in predictions)
        terms = (gains(log, chance, seen, table) for table in predictions)
        plain, informed = (clustered(term, cluster, one) for term, one in zip(terms, unseen, strict=True))
        found.append(informed if agree(plain, informed) else plain)
    log, table = drawn.cost, predictions[0]
    residual = (log.action == log.candidate) / chance * (log.reward - table[rows, log.action])
    own = clustered(table[rows, log.candidate] + residual, cluster)
    sizes = np.bincount(cluster)
    influence = own.influence * sizes.mean() + own.value * (sizes - sizes.mean())
    own_chance = np.where(log.candidate == log.static, 1 - EPSILON + rest, rest)
    ends = ((end - table[rows, log.candidate]) / own_chance * sizes.mean() for end in log.bounds)
    task = Estimate(own.name, own.value * sizes.mean(), influence, unseen=Unseen(*ends, own_chance, cluster))
    usable = not is_refused(log, cluster, chance, seen, 1.0) and not has_gone(log, cluster, chance, seen, 1.0)
    return Judged(*found, task, COST_SCALE * log.reward.mean(), float(sizes.mean()), usable)


def checked(worlds: Worlds, rng: np.random.Generator) -> None:
    """The parts of the gate itself must say the same of a log."""
    static, candidate = draw_pair(worlds.quality, rng, "random")
    drawn = draw_log(worlds, rng, static, candidate)
    found, log = judged(drawn), drawn.quality
    names = np.unique(worlds.table.category)
    policy = PerCategory({name: worlds.table.models[k] for name, k in zip(names, static, strict=True)})
    data = replay(worlds.table, Exploring(policy, EPSILON), ROWS)
    column = np.array([data.models.index(model) for model in worlds.table.models])
    propensity = np.full((ROWS, log.size), EPSILON / log.size)
    propensity[np.arange(ROWS), column[log.static]] += 1 - EPSILON
    fields = {
        "action": column[log.action],
        "propensity": propensity,
        "quality": log.reward,
        "cost_usd": drawn.cost.reward,
        "contexts": data.contexts._replace(
            category=names[log.category], task_id=np.char.zfill(log.cluster.astype(str), 6)
        ),
    }
    rows = type(data)(**{**vars(data), **fields})
    one_hot = np.eye(log.size)[column]
    both = estimate_both(rows, one_hot[log.candidate], one_hot[log.static], level=LEVEL, method="t")
    assert both.cost_usd is not None
    assert both.usd_per_task is not None
    for ours, theirs in ((found.quality, both.quality), (found.cost, both.cost_usd), (found.task, both.usd_per_task)):
        assert abs(ours.value - theirs.value) < 1e-9, (ours.value, theirs)
    assert abs(found.low("t") - both.quality.low) < 1e-9, (found.low("t"), both.quality)
    for (low, high), theirs in ((found.cost_bounds("t"), both.cost_usd), (found.task_bounds("t"), both.usd_per_task)):
        assert max(abs(low - theirs.low), abs(high - theirs.high)) < 1e-9, (low, high, theirs)

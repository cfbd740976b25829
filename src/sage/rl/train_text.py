"""The learner of text policies; texts decide only where they beat the category table on held-out tasks."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from rl_base.evaluation import interval
from rl_base.evaluation.estimate import ratio_estimate
from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log, predict_rewards, pseudo_rewards
from sage.evidence.objective import DEFAULT, Objective
from sage.evidence.quality_and_cost import version_of
from sage.evidence.routing_data import RoutingData
from sage.policies.cell_policy import CellPolicy
from sage.policies.cells import Cells
from sage.policies.features import VERSION
from sage.policies.learned_policy import LearnedPolicy, Training, hash_tasks
from sage.policies.margin_bins import MarginBins, measure_bins
from sage.policies.policy import Contexts, RoutingPolicy
from sage.policies.text.embedding import Embedder
from sage.policies.text.text_kernel import has_text
from sage.policies.text.text_policy import TextPolicy
from sage.rl.category_table import fit_cells, learn_table, usual_models
from sage.rl.cell_posterior import counts_of
from sage.rl.dollar_worth import WORTHS, ChoiceEstimator, quality_and_cost_values, with_quality_and_cost, within_limit
from sage.rl.text_lesson import Lesson, TextLesson, table_choices
from sage.rl.training_record import training_of

log = logging.getLogger(__name__)
NAME = "text"
LEAST_TASKS = 100  # with a text: fewer cannot show anything
FINE = 400  # worths of a dollar to choose from where all outcomes are known
LEVEL = 0.95  # of the two-sided interval of the gain over the table


@dataclass(frozen=True)
class TextGain:
    """The estimated gain of choosing by text over the category table, on rows that neither was learned from."""

    gain: float
    low: float  # of what was tested
    bins: MarginBins | None  # None: not shown, so that the table decides
    calibration: dict


def prove_known(text: TextLesson, usd_worth: float) -> TextGain:
    """Returns the gain of texts in known categories, with bins if it is shown.

    It is shown if predicted differences between models have a smaller squared error than those by cell alone, by a
    lower bound over tasks, and the estimated gain over the table is positive.
    """
    own = text.choices(text.worth(text.predicted, usd_worth))
    table = table_choices(text.lesson, text.lesson.worth(usd_worth), text.fold, new=False)
    truth, by_text, by_cell = (
        centred(text.worth(values, usd_worth)) for values in (text.targets, text.predicted, text.by_cell())
    )
    closer = ((by_cell - truth) ** 2 - (by_text - truth) ** 2).sum(axis=1)
    low = lower_bound(closer, text.lesson.task)
    gain = gains(text, usd_worth, own, table)
    acts = low > 0 and gain.mean() > 0
    return TextGain(float(gain.mean()), low, *bins_of(text, usd_worth, text.predicted, own, new=False, acts=acts))


def prove_new(text: TextLesson, usd_worth: float) -> TextGain | None:
    """Returns the gain of texts in new categories, with bins if a lower bound over categories is above 0.

    Choices are learned without the row's category. Returns None if there are too few categories.
    """
    left_out = text.without_category()
    if left_out is None:
        return None
    predicted, fold = left_out
    own = text.choices(text.worth(predicted, usd_worth))
    gain = gains(text, usd_worth, own, table_choices(text.lesson, text.lesson.worth(usd_worth), fold, new=True))
    low = lower_bound(gain, text.lesson.category)
    return TextGain(float(gain.mean()), low, *bins_of(text, usd_worth, predicted, own, new=True, acts=low > 0))


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=1, keepdims=True)


def gains(text: TextLesson, usd_worth: float, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns [n]: the reward of the choices `own` minus that of the choices `other` (int [n] each)."""
    values, rows = text.worth(text.targets, usd_worth), np.arange(len(own))
    return values[rows, own] - values[rows, other]


def lower_bound(values: np.ndarray, clusters: np.ndarray) -> float:
    estimate = ratio_estimate("text", values, np.ones(len(values)), clusters)
    return interval(estimate, level=LEVEL).low


def bins_of(
    text: TextLesson, usd_worth: float, predicted: np.ndarray, own: np.ndarray, *, new: bool, acts: bool
) -> tuple[MarginBins | None, dict]:
    """Returns the confidence of choices by text in bins of margins, and its reliability; None and {} if not `acts`.

    `predicted` [n, targets] are the predictions behind the choices `own` (int [n]); with `new`, categories count as the
    clusters.
    """
    if not acts:
        return None, {}
    usual, worth = text.lesson.incumbent, text.worth(predicted, usd_worth)
    differs = np.flatnonzero(own != usual)
    margins = worth[differs, own[differs]] - worth[differs, usual[differs]]
    clusters = (text.lesson.category if new else text.lesson.task)[differs]
    return measure_bins(margins, gains(text, usd_worth, own, usual)[differs], clusters)


def fit_text(lesson: Lesson, table: CellPolicy, usd_worth: float, text: TextLesson) -> LearnedPolicy:
    """Returns the text policy for a worth of a dollar; the table itself if texts are not shown to be better."""
    known, new = prove_known(text, usd_worth), prove_new(text, usd_worth)
    found: dict[str, float | int | str] = {"tasks_with_text": int(text.lesson.task.max()) + 1}
    found |= {"gain_over_table": known.gain, "smaller_error_lower_bound": known.low}
    if new is not None:
        found |= {"new_categories_gain_over_table": new.gain, "new_categories_lower_bound": new.low}
    new_bins = None if new is None else new.bins
    acts = [name for name, bins in (("known", known.bins), ("new", new_bins)) if bins is not None]
    found["text_decides_in"] = " and ".join(acts) + " categories" if acts else "nothing"
    training = replace(table.training, settings=table.training.settings | found)
    table = replace(table, training=training)
    if not acts:
        return table
    calibration = known.calibration or (new.calibration if new is not None else {})
    groups = np.concatenate([lesson.cell, len(lesson.cells) + lesson.cells.role_of_pair[lesson.cell]])
    num_rows = len(lesson.cells) + len(lesson.cells.roles)
    counts = counts_of(np.tile(lesson.incumbent, 2), groups, num_rows, len(lesson.models))
    return TextPolicy(
        name=table.name,
        models=table.models,
        training=replace(training, calibration=calibration),
        table=table,
        model=text.model(),
        tried=(~np.isnan(lesson.quality)).sum(axis=0) > 0,
        incumbent=counts.argmax(axis=1),
        settled=counts.max(axis=1) == counts.sum(axis=1),
        usd_worth=usd_worth,
        known=known.bins,
        new=new_bins,
    )


def learn_text(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    objective: Objective = DEFAULT,
    embedder: Embedder | None = None,
    seed: int = 0,
) -> LearnedPolicy:
    """Learns from a log: the category table from all rows, and what texts add from the rows that have any.

    An embedder reads the texts of stored prompts; without one, hashed words are read. With too few texts, the result is
    the table.
    """
    table = learn_table(data, static=static, objective=objective, name=NAME, seed=seed)
    version = version_of(data, objective)
    data = with_quality_and_cost(data) if objective.constrained else data
    cells = Cells.of(data.contexts)
    incumbent = incumbent_of(data, static)
    if objective.constrained:
        quality, cost = quality_and_cost_values(data, cells, seed)
    else:
        bandit = bandit_log(data, cells, objective.weights, shadows=True)
        quality, cost = pseudo_rewards(bandit, predict_rewards(bandit, seed)), None
    lesson = Lesson(data.contexts, data.models, quality, cost, incumbent.choice, cells, seed, embedder)
    texts = lesson.with_text()
    if texts.num_tasks < LEAST_TASKS:
        needed = ("a text or hashed words", "store_words in models.yaml, or store_prompts")
        needed = needed if embedder is None else ("a text to embed", "store_prompts in models.yaml")
        log.warning(
            f"fewer than {LEAST_TASKS} tasks have {needed[0]}, so this is the category table: set log.{needed[1]}, and log more"
        )
        return table
    text = TextLesson(texts)
    if not objective.constrained:
        assert isinstance(table, CellPolicy), "only a margin gives shares"
        return fit_text(lesson, table, 0.0, text)
    rows = np.flatnonzero(has_text(data.contexts, embedder))
    usd_worth, settings = worth_within(data.select(rows), cells, text, objective)
    training = training_of(data, NAME, version, seed=seed, against=incumbent.name, **settings)
    at_worth = table_at(lesson, usd_worth, NAME, training)
    found = fit_text(lesson, at_worth, usd_worth, text)
    cheaper = objective.max_points_worse is None or settings["cost_usd"] < float(table.training.settings["cost_usd"])
    return found if isinstance(found, TextPolicy) and cheaper else table


def worth_within(
    data: RoutingData, cells: Cells, text: TextLesson, objective: Objective
) -> tuple[float, dict[str, float]]:
    """Returns the worth of a dollar at which cross-fitted choices by text keep to the limit, and facts to record."""
    estimator = ChoiceEstimator(data, cells, text.lesson.incumbent, text.lesson.seed)
    scale = max(float(data.cost_usd.mean()), np.finfo(float).tiny)
    worths = [worth / scale for worth in WORTHS]
    points = [estimator.estimate(w, text.choices(text.worth(text.predicted, w))) for w in worths]
    chosen = within_limit(points, objective)
    return chosen.usd_worth, {
        "usd_worth": chosen.usd_worth,
        "quality": chosen.quality.value,
        "cost_usd": chosen.cost.value,
    }


def table_at(lesson: Lesson, usd_worth: float, name: str, training: Training) -> CellPolicy:
    return fit_cells(
        lesson.worth(usd_worth),
        lesson.cells,
        lesson.cell,
        lesson.incumbent,
        lesson.contexts.task_id,
        models=lesson.models,
        name=name,
        training=training,
        pessimism=0.0,
    )


def text_from_outcomes(
    contexts: Contexts,
    models: tuple[str, ...],
    quality: np.ndarray,
    cost_usd: np.ndarray | None = None,
    *,
    usd_worth: float = 0.0,
    keep_quality: float | None = None,
    incumbent: str | None = None,
    embedder: Embedder | None = None,
    seed: int = 0,
) -> LearnedPolicy:
    """Learns from outcomes [n, models] of all models on the same tasks (NaN: not run), at a worth of a dollar.

    With `keep_quality`, at the largest worth that keeps this share of the incumbent's quality on held-out tasks. Raises
    ValueError for a wrong shape or an unknown incumbent.
    """
    if quality.shape != (len(contexts.role), len(models)):
        raise ValueError(f"quality has shape {quality.shape} for {len(contexts.role)} tasks x {len(models)} models")
    if incumbent is not None and incumbent not in models:
        raise ValueError(f"incumbent={incumbent!r} is not one of the models {', '.join(models)}")
    cells = Cells.of(contexts)
    cell = cells.index(contexts)
    net = quality if cost_usd is None else quality - usd_worth * cost_usd
    usual = usual_models(net, cells, cell, None if incumbent is None else models.index(incumbent))
    lesson = Lesson(contexts, models, quality, cost_usd, usual[cell], cells, seed, embedder)
    hashes = hash_tasks(contexts.task_id)
    training = Training(NAME, "", "real", "given", VERSION, len(quality), seed=seed, task_hashes=hashes)
    texts = lesson.with_text()
    if texts.num_tasks < LEAST_TASKS:
        return table_at(lesson, usd_worth, NAME, training)
    text = TextLesson(texts)
    if keep_quality is not None:
        usd_worth = worth_keeping(text, keep_quality)
    return fit_text(lesson, table_at(lesson, usd_worth, NAME, training), usd_worth, text)


def worth_keeping(text: TextLesson, share: float) -> float:
    """Returns the largest worth of a dollar at which cross-fitted choices keep this share of the incumbent's quality.

    Returns 0 if none does.
    """
    assert text.lesson.cost is not None, "without costs there is nothing to trade quality for"
    quality, rows = text.lesson.filled(text.lesson.quality), np.arange(len(text.targets))
    needed = share * quality[rows, text.lesson.incumbent].sum()
    scale = float(np.nanmean(text.lesson.cost[rows, text.lesson.incumbent]))
    worths = np.geomspace(1e-3, 10.0, FINE) / max(scale, np.finfo(float).tiny)
    kept = [quality[rows, text.choices(text.worth(text.predicted, w))].sum() >= needed for w in worths]
    return float(worths[np.flatnonzero(kept)[-1]]) if any(kept) else 0.0

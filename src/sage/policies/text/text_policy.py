"""A policy that reads the text of a task, and decides by the category table where text was not shown to be better."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from sage.policies.cell_policy import CellPolicy
from sage.policies.cells import Cells
from sage.policies.learned_policy import LearnedPolicy, Training
from sage.policies.margin_bins import MarginBins
from sage.policies.policy import Contexts
from sage.policies.text.embedding import Embedder
from sage.policies.text.text_kernel import TextModel, has_text

EMBEDDING = "embedding"  # the files of the model, where texts are embedded
BIN_ARRAYS = ("edges", "mean", "deviation")


@dataclass(eq=False, kw_only=True)
class TextPolicy(LearnedPolicy):
    """A text policy: it takes the model with the highest predicted worth, which is quality less cost times `usd_worth`.

    Its confidence was measured on held-out tasks, in bins of the margin over the incumbent.
    """

    kind: ClassVar[str] = "text"
    table: CellPolicy  # decides without a text, and where the bins below are None
    model: TextModel  # predicts the quality (or reward) of every model, then the cost of every model, where costs count
    tried: np.ndarray  # bool [models]: models without data are never chosen
    incumbent: np.ndarray  # int64 [cells + roles]: what it takes most often there
    settled: np.ndarray  # bool [cells + roles]: it takes nothing else there
    usd_worth: float = 0.0  # quality that a dollar counts as: the operating point
    known: MarginBins | None = None  # of categories that were learned from
    new: MarginBins | None = None  # of categories never seen
    latest: tuple[Contexts, np.ndarray] | None = field(default=None, init=False, repr=False)  # predictions

    @property
    def cells(self) -> Cells:
        return self.table.cells

    def predicted(self, contexts: Contexts) -> np.ndarray:
        """Returns [n, models]: the predicted worth of every model.

        Predictions for the latest contexts are kept, because a choice and its confidence both need them.
        """
        latest = self.latest
        if latest is None or latest[0] is not contexts:
            latest = self.latest = contexts, self.model.predict(contexts, self.cells.index(contexts))
        quality, cost = latest[1][:, : len(self.models)], latest[1][:, len(self.models) :]
        return quality - self.usd_worth * cost if cost.shape[1] else quality

    def at(self, usd_worth: float) -> TextPolicy:
        """Returns the same policy with another worth of a dollar; its confidence stays as it was measured."""
        policy = replace(self, usd_worth=usd_worth)
        policy.latest = self.latest
        return policy

    def rows_of(self, contexts: Contexts, bins: MarginBins | None) -> np.ndarray:
        """Returns int64: the indices of the rows that have a text and to which `bins` apply.

        These are rows of known categories for `self.known`, and rows of new categories in known roles for `self.new`.
        None has no rows.
        """
        if bins is None or contexts.text is None:
            return np.zeros(0, np.int64)
        cell = self.cells.index(contexts)
        seen = cell < len(self.cells)
        return np.flatnonzero(
            (seen if bins is self.known else ~seen) & (cell >= 0) & has_text(contexts, self.model.embedder)
        )

    def scores(self, contexts: Contexts) -> np.ndarray:
        scores = self.table.scores(contexts)
        for bins in (self.known, self.new):
            rows = self.rows_of(contexts, bins)
            if len(rows):
                scores[rows] = np.where(self.tried, self.predicted(contexts)[rows], -np.inf)
        return scores

    def chances(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        chances, cell = self.table.chances(contexts, own), self.cells.index(contexts)
        for bins in (self.known, self.new):
            rows = self.rows_of(contexts, bins)
            if bins is None or not len(rows):
                continue
            worth, usual = self.predicted(contexts), self.incumbent[cell[rows]]
            same = self.settled[cell[rows]] & (own[rows] == usual)
            chances[rows] = np.where(same, 1.0, bins.chances(worth[rows, own[rows]] - worth[rows, usual]))
        return chances

    def arrays(self) -> dict[str, np.ndarray]:
        own = {f"table_{name}": values for name, values in self.table.arrays().items()}
        own |= {f"text_{name}": values for name, values in self.model.arrays().items()}
        own |= {name: getattr(self, name) for name in ("tried", "incumbent", "settled")}
        for part in ("known", "new"):
            bins = getattr(self, part)
            own |= {} if bins is None else {f"{part}_{name}": getattr(bins, name) for name in BIN_ARRAYS}
        return own

    def shapes(self) -> dict[str, tuple[int, ...]]:
        num_models, num_rows = len(self.models), len(self.cells) + len(self.cells.roles)
        num_targets = num_models if len(self.model.bias) == num_models else 2 * num_models
        needed = {f"text_{k}": shape for k, shape in self.model.shapes(len(self.cells), num_targets).items()}
        needed |= {"tried": (num_models,), "incumbent": (num_rows,), "settled": (num_rows,)}
        for part in ("known", "new"):
            bins = getattr(self, part)
            if bins is not None:
                needed |= {f"{part}_{name}": (len(bins.edges) + 1,) for name in ("mean", "deviation")}
        return needed

    def options(self) -> dict:
        own = {
            "usd_worth": self.usd_worth,
            "known_spread": None if self.known is None else self.known.spread,
            "new_spread": None if self.new is None else self.new.spread,
        }
        embedder = self.model.embedder
        return self.table.options() | own | ({} if embedder is None else {EMBEDDING: embedder.options()})

    @classmethod
    def from_parts(
        cls,
        name: str,
        models: tuple[str, ...],
        training: Training,
        cells: Cells,
        arrays: dict[str, np.ndarray],
        options: dict,
        folder: Path,
    ) -> TextPolicy:
        """Rebuilds a policy from the arrays and options of a checkpoint; `folder` is that of the file.

        Raises EmbeddingError if the policy embeds texts and the files of its model are missing or have changed.
        """
        own: dict = {"name": name, "models": models, "training": training}
        of_table: dict = {key: options[key] for key in ("pessimism", "spread")}
        of_table |= {"next_tasks": np.zeros_like(arrays["table_mean"])}  # of files from before there was one
        of_table |= part_of(arrays, "table_")
        own |= {key: arrays[key] for key in ("tried", "incumbent", "settled")}
        own |= {part: bins_from(arrays, part, options[f"{part}_spread"]) for part in ("known", "new")}
        embedder = Embedder.from_options(options[EMBEDDING], folder) if EMBEDDING in options else None
        return cls(
            **own,
            table=CellPolicy(name=name, models=models, training=training, cells=cells, **of_table),
            model=TextModel.from_arrays(part_of(arrays, "text_"), embedder),
            usd_worth=options["usd_worth"],
        )


def bins_from(arrays: dict[str, np.ndarray], part: str, spread: float | None) -> MarginBins | None:
    """Rebuilds the bins named `part` ("known" or "new") from a checkpoint's arrays; None if `spread` is None."""
    own: dict = {name: arrays[f"{part}_{name}"] for name in BIN_ARRAYS if f"{part}_{name}" in arrays}
    return None if spread is None else MarginBins(**own, spread=spread)


def part_of(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Returns the arrays whose names begin with `prefix`, without the prefix."""
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}

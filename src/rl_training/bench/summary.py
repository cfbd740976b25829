"""The summary of stored runs: verdicts, comparisons, and the aggregate over cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rl_base.evaluation.report import finite
from rl_training.bench.aggregate import Aggregate, aggregate
from rl_training.bench.comparison import Comparison, better, comparisons, refusals
from rl_training.bench.drift import drift
from rl_training.bench.gates import Verdict, judge, normalised, power_note
from rl_training.bench.records import check_one_protocol, read_cell, stored_cells
from rl_training.bench.tables import verdict_table
from rl_training.experiment.run_directory import write_atomically


@dataclass(frozen=True)
class Summary:
    """Verdicts, comparisons and aggregate of stored benchmark runs, as `bench learn` shows them in the end."""

    verdicts: list[Verdict]
    missing: list[str]  # cells without a run
    changed: dict[str, list[str]]  # cells with runs of other settings than they have now
    found: list[Comparison]
    refused: list[str]  # sentences on cells whose protocols are unlike
    claims: list[bool]  # which comparisons show that ours is better
    aggregate: Aggregate | None  # of all cells that have a floor and a published mean or a gate

    @property
    def passed(self) -> bool:
        """True if every cell has runs and no cell misses the score that it must reach; a cell without one passes."""
        return not self.missing and all(verdict.met is not False for verdict in self.verdicts)

    @property
    def notes(self) -> list[str]:
        """The sentences that stand under the table of verdicts."""
        lines = [] if self.aggregate is None else self.aggregate.sentences
        if self.verdicts:
            lines.append(power_note(min(v.seeds for v in self.verdicts), len(self.verdicts)))
        for cell, settings in self.changed.items():
            lines.append(f"{cell} has runs with other settings than it has now: {'; '.join(settings)}.")
        lines += self.refused
        if self.missing:
            lines.append(f"No runs yet: {', '.join(self.missing)}.")
        return lines

    def markdown(self) -> str:
        rows = [
            f"{one.sentence}; probability of improvement {one.improvement.probability:.2f} "
            f"({one.improvement.low:.2f} to {one.improvement.high:.2f}){', better by Holm at 5 %' if claim else ''}"
            for one, claim in zip(self.found, self.claims, strict=True)
        ]
        parts = [verdict_table(self.verdicts), "\n".join(rows), "\n\n".join(self.notes)]
        return "\n\n".join(part for part in parts if part)

    def to_json(self) -> dict:
        found = [asdict(one) | {"better": claim} for one, claim in zip(self.found, self.claims, strict=True)]
        return {
            "passed": self.passed,
            "verdicts": [asdict(verdict) | {"met": verdict.met} for verdict in self.verdicts],
            "missing": self.missing,
            "changed": self.changed,
            "comparisons": found,
            "refused": self.refused,
            "aggregate": self.aggregate and asdict(self.aggregate) | {"profile": self.aggregate.profile._asdict()},
            "notes": self.notes,
        }


def summarise(folder: Path, cells: Sequence[str]) -> Summary:
    """Returns a summary of the runs in `folder` of the chosen cells, with comparisons and the cells without runs.

    Comparisons are with stored cells of other libraries, and of variants of DQN with DQN.
    """
    stored = stored_cells(folder)
    present = [name for name in cells if name in stored]
    records = {name: read_cell(folder, name) for name in present}
    peers = [name for name in stored if name.removesuffix("-sb3") in present and name not in present]
    for name in [*present, *peers]:
        check_one_protocol(name, read_cell(folder, name))
    found = comparisons(folder, [*present, *peers])
    scales = [scores for name in present if (scores := normalised(name, records[name])) is not None]
    return Summary(
        verdicts=[judge(name, records[name]) for name in present],
        missing=[name for name in cells if name not in stored],
        changed={name: settings for name in present if (settings := drift(name, records[name]))},
        found=found,
        refused=refusals(folder, [*present, *peers]),
        claims=better(found),
        aggregate=aggregate(scales),
    )


def write_summary(summary: Summary, out: Path, suite: str) -> None:
    """Writes the summary to `out` as `learning-SUITE.json` and `.md`; infinite numbers and NaN are null in JSON."""
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / f"learning-{suite}.json", json.dumps(finite(summary.to_json()), indent=1) + "\n")
    write_atomically(out / f"learning-{suite}.md", f"# Learning: {suite}\n\n{summary.markdown()}\n")

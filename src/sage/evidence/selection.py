"""The selection of a log's rows by tenant, and of outcomes by the source that judged them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sage.evidence.cascades.cascade_records import CascadeEpisode
from sage.log.record_checks import JUDGES, PROXY
from sage.log.records import Decision, Outcome
from sage.log.redaction import redact

OTHER_TENANTS = "rows of other tenants, left out"
OTHER_SOURCES = "outcomes of other sources, counted as missing"


class SelectionError(ValueError):
    """A selection with a source that does not exist; the message lists those that do."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The tenants and sources that count; an empty tuple means all of them.

    Raises SelectionError for an unknown source.
    """

    sources: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for source in self.sources:
            if source not in JUDGES:
                raise SelectionError(f"source={source!r} must be one of {', '.join(JUDGES)}")

    def __str__(self) -> str:
        parts = [f"of tenant {', '.join(self.tenants)} alone"] if self.tenants else []
        parts += [f"judged by {', '.join(self.sources)} alone"] if self.sources else []
        return " and ".join(parts)

    def rows(
        self, rows: Iterable[tuple[Decision, Outcome | None]], dropped: Counter[str]
    ) -> Iterator[tuple[Decision, Outcome | None]]:
        """Returns the rows of the selected tenants, without quality, time-out and verdicts of other sources.

        What is taken away is counted in `dropped` by reason.
        """
        for decision, outcome in rows:
            if self.includes(decision.tenant):
                yield decision, self.without_untrusted_quality(outcome, dropped)
            else:
                dropped[OTHER_TENANTS] += 1

    def episodes(self, episodes: Iterable[CascadeEpisode], dropped: Counter[str]) -> Iterator[CascadeEpisode]:
        """Returns the cascades of the selected tenants, without the qualities that other sources judged.

        What is taken away is counted in `dropped` by reason.
        """
        for episode in episodes:
            if not self.includes(episode.tenant):
                dropped[OTHER_TENANTS] += 1
            elif episode.quality is not None and not self.trusts(episode.source):
                dropped[OTHER_SOURCES] += 1
                yield replace(episode, quality=None)
            else:
                yield episode

    def includes(self, tenant: str) -> bool:
        """Returns True if rows of this tenant are selected."""
        return not self.tenants or tenant in map(redact, self.tenants)

    def trusts(self, source: str) -> bool:
        """Returns True if outcomes of this source are selected; those of the proxy itself always are."""
        return not self.sources or source in (PROXY, *self.sources)

    def without_untrusted_quality(self, outcome: Outcome | None, dropped: Counter[str]) -> Outcome | None:
        """Returns the outcome without quality, time-out and verdicts if a source reported them that is not selected.

        The shadow's outcome is treated alike. Each stripped outcome is counted in `dropped`.
        """
        if outcome is None or not self.sources:
            return outcome
        shadow = self.without_untrusted_quality(outcome.shadow, dropped)
        if self.trusts(outcome.source) or (outcome.quality is None and not outcome.timed_out):
            return replace(outcome, shadow=shadow)
        dropped[OTHER_SOURCES] += 1
        return replace(outcome, quality=None, timed_out=False, verdicts=(), shadow=shadow)


EVERYTHING = Selection()

"""The draw: from the probabilities of the candidates to the decision as it is logged."""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass

import numpy as np

from sage.log.cascade_steps import STOP, Step
from sage.log.openings import OpeningHasher
from sage.log.records import UNLOGGED, Decision, Request
from sage.orchestrator.guard import OK, Candidates, Guard, Judgement, Serving, tokens_in, tokens_of
from sage.orchestrator.models_file import LogSettings, OutcomeSettings
from sage.policies import features
from sage.policies.policy import Contexts
from sage.words import hash_words


@dataclass(frozen=True)
class Draw:
    """Draws models, and writes down what they were drawn from."""

    random: random.Random
    guard: Guard
    openings: OpeningHasher
    kept: LogSettings
    outcomes: OutcomeSettings
    data_source: str

    def decision(
        self,
        request: Request,
        contexts: Contexts,
        candidates: Candidates,
        judgement: Judgement,
        step: Step | None,
        serving: Serving,
    ) -> Decision:
        """Draws the model, and returns the decision as it is logged."""
        chosen = draw(judgement.probabilities, self.random.random())
        model, reason = candidates.names[chosen], judgement.reason
        if chosen != judgement.preferred:
            chance, usual = judgement.probabilities[chosen], candidates.names[judgement.preferred]
            reason += f"; explored: {model} had a chance of {chance:.2g}, {usual} is preferred"
        inferred = bool(request.category) and not contexts.features[0, features.COLUMN["category_known"]]
        if inferred:
            reason += f"; category {request.category!r} inferred from the text"
        shadow, shadow_probabilities = self.shadow(contexts, candidates, judgement, chosen, step)
        if shadow is not None:
            reason += f"; in the shadow: {shadow}"
        first, stops = step is None or step.number == 0, step is not None and model == STOP
        tokens = tokens_of(request) if step is None else tokens_in(contexts.features)
        text = request.task if first else ""
        return Decision(
            id=step.cascade_id if step is not None and stops else uuid.uuid4().hex,
            time=now(),
            data_source=self.data_source,
            role=request.role,
            candidates=candidates.names,
            probabilities=tuple(judgement.probabilities.tolist()),
            model=model,
            policy=judgement.policy.name,
            policy_version=judgement.policy.version,
            features=tuple(contexts.features[0].tolist()),
            features_version=features.VERSION,
            task_id=request.task_id,
            category=request.category,
            tenant=request.tenant,
            session=request.session,
            verdict=judgement.verdict,
            confidence=judgement.confidence,
            reason=reason,
            prompt=request.task if self.kept.store_prompts and first else None,
            words=tuple(hash_words(text).tolist()) if self.kept.store_words and text else None,
            expected_cost_usd=None if stops else self.guard.reserved_usd(model, request, serving, tokens),
            category_inferred=inferred,
            cascade=step,
            shadow=shadow,
            shadow_probabilities=shadow_probabilities,
            outcome_probability=None if step is not None or self.outcomes.sample == 1 else self.outcomes.sample,
            follows=judgement.follows,
            fallbacks=candidates.fallbacks,
            opening=self.openings.hash(request.tenant, request.opening or text) if first else "",
        )

    def shadow(
        self, contexts: Contexts, candidates: Candidates, judgement: Judgement, chosen: int, step: Step | None
    ) -> tuple[str | None, tuple[float, ...] | None]:
        """Draws whether a second model is asked, and which; and how likely each was before the first one was drawn.

        Never in a cascade, nor where limits or the log are in trouble: such a call is paid and helps no user.
        """
        usable = step is None and candidates.verdict == OK and judgement.verdict != UNLOGGED
        given = self.guard.static.shadows(contexts, candidates.names) if usable else None
        if given is None:
            return None, None
        before = tuple(np.minimum(judgement.probabilities @ given, 1.0).tolist())
        at = self.random.random()
        if at >= given[chosen].sum():
            return None, before
        return candidates.names[draw(given[chosen], at / given[chosen].sum())], before


def now() -> float:
    """Seconds since 1970; a clock that is set before it says 0."""
    return max(time.time(), 0.0)


def draw(probabilities: np.ndarray, at: float) -> int:
    """The index at which the running sum passes `at`; never one with probability 0."""
    index = int(np.searchsorted(np.cumsum(probabilities), at * probabilities.sum(), side="right"))
    return min(index, int(np.flatnonzero(probabilities)[-1]))

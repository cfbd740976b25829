"""Self-consistency: an answer that a model gives again and again is more likely right."""

from __future__ import annotations

from sage.verifiers.verifier import Answer, Opinion, VerifierError


class SelfConsistency:
    """Passes an answer that at least a share of `agree` of all answers (itself among them) repeat, but for blanks and case."""

    needs_caller = True

    def __init__(self, agree: float = 0.6) -> None:
        if isinstance(agree, bool) or not isinstance(agree, int | float) or not 0 < agree <= 1:
            raise VerifierError(f"self_consistency.agree={agree!r} must be a share above 0, at most 1")
        self.agree = agree

    def verify(self, answer: Answer) -> Opinion:
        if not answer.samples:
            return Opinion("unknown", "no other answers were given to compare with")
        answers = [normalized(text) for text in (answer.text, *answer.samples)]
        same = answers.count(answers[0])
        return Opinion(
            "passed" if same >= self.agree * len(answers) else "failed", f"{same} of {len(answers)} answers agree"
        )


def normalized(text: str) -> str:
    return " ".join(text.split()).casefold()

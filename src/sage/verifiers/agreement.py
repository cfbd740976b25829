"""Self-consistency: a verifier that passes an answer which the model gives again and again."""

from __future__ import annotations

from sage.verifiers.verifier import Answer, Opinion, VerifierError


class SelfConsistency:
    """Verifier that passes an answer if at least a share `agree` of all answers, itself included, are equal to it.

    Blanks and case do not matter; without other answers it says 'unknown'.
    """

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

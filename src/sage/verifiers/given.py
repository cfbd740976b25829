"""A verifier whose verdict comes from the caller, who asks a judge."""

from __future__ import annotations

from sage.verifiers.verifier import Answer, Opinion


class CallerJudge:
    """Verifier that always says 'unknown', as a judge of the caller gives the verdict.

    The judge is a function given to `Router.cascade`, or its verdict is reported.
    """

    needs_caller = True

    def verify(self, answer: Answer) -> Opinion:
        return Opinion("unknown", "no judge was given")

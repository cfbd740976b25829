"""A verifier whose verdict comes from the caller: a judge that the caller asks."""

from __future__ import annotations

from sage.verifiers.verifier import Answer, Opinion


class Judged:
    """The verdict of a judge: a function that the caller gives to `Router.cascade`, or a verdict that it reports."""

    needs_caller = True

    def verify(self, answer: Answer) -> Opinion:
        return Opinion("unknown", "no judge was given")

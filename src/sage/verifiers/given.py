"""Verifiers whose verdict comes from the caller: tests that ran elsewhere, and a judge that the caller asks."""

from __future__ import annotations

from sage.verifiers.verifier import Answer, Opinion


class Tests:
    """The verdict of tests that the caller has run; with files, `SandboxTests` runs them."""

    def verify(self, answer: Answer) -> Opinion:
        return Opinion("unknown", "no verdict of tests was reported, and models.yaml names no tests.files to run")


class Judged:
    """The verdict of a judge: a function that the caller gives to `Router.cascade`, or a verdict that it reports."""

    def verify(self, answer: Answer) -> Opinion:
        return Opinion("unknown", "no judge was given")

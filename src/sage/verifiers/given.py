"""Verifiers whose verdict comes from the caller: tests that ran elsewhere, and a judge that the caller asks."""

from __future__ import annotations

from sage.verifiers.verifier import Answer, Opinion, VerifierError


class Tests:
    """The verdict of tests that the caller has run; sage runs none, as that would execute what a model wrote."""

    def __init__(self, command: object = None) -> None:
        if command is not None:
            raise VerifierError(
                f"tests.command={command!r} would execute what a model wrote, and sage does not until it has a sandbox: run the "
                "tests yourself and report verdicts={'tests': True} or --verdict tests=passed"
            )

    def verify(self, answer: Answer) -> Opinion:
        return Opinion("unknown", "no verdict of tests was reported, and sage runs none without a sandbox")


class Judged:
    """The verdict of a judge: a function that the caller gives to `Router.cascade`, or a verdict that it reports."""

    def verify(self, answer: Answer) -> Opinion:
        return Opinion("unknown", "no judge was given")

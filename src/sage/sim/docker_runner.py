"""The promised path of `sage.sandbox.docker_runner`."""

from sage.sandbox.docker_runner import Container, Docker, Engine

__all__ = ["Container", "Docker", "Engine"]

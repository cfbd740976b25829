"""Re-export of `sage.sandbox.docker_runner` under a promised path."""

from sage.sandbox.docker_runner import Container, Docker, Engine

__all__ = ["Container", "Docker", "Engine"]

"""The probe of an environment in its own process, so that a crash there does not end the learner."""

from __future__ import annotations

import ctypes
import itertools
import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector.utils import CloudpickleWrapper

from rl_training.distributed.engine import SamplerLostError
from rl_training.distributed.processes import END_S, LOOK_S, MARGIN_S, METHOD, PRELOADED, START_S, main_module_hidden
from rl_training.distributed.sampler_process import GONE, Reported, end_with_learner
from rl_training.envs import EnvConfig, VectorEnv
from rl_training.envs.env_processes import can_be_sent
from rl_training.envs.factory import EnvFactory
from rl_training.envs.failure import EnvFailedError, describe_exit
from rl_training.envs.make import FACTORIES, find_factory
from rl_training.envs.probe import probe

Build = Callable[[EnvConfig], VectorEnv]


class ProbeTask(NamedTuple):
    """The arguments of trying out an environment in another process: its config, and a function that builds it."""

    env: EnvConfig
    build: Build
    factory: EnvFactory | None  # what env.id names, where that is known to the learner's process only
    registered: Any  # gymnasium's own record of env.id, or None


class Answer(NamedTuple):
    """The result of trying out an environment in another process: a difference found, or the error that it raised.

    Describes an error if `said` is not empty; else `different` names in what a restored copy differs, or is None.
    """

    different: str | None = None
    error: BaseException | None = None  # itself, where that can be sent
    said: str = ""
    trace: str = ""


def probe_apart(config: EnvConfig, build: Build) -> str | None:
    """Tries out an environment in another process, and waits for the result.

    Returns, as text, in what a copy restored from a saved state differs, or None. Raises the error that the environment
    raised, or SamplerLostError if the process dies or hangs.
    """
    context: Any = multiprocessing.get_context(METHOD)
    if METHOD == "forkserver":
        context.set_forkserver_preload(PRELOADED)
    pipe, theirs = context.Pipe(duplex=False)
    beats = context.RawValue(ctypes.c_ulong, 0)
    task = CloudpickleWrapper(ProbeTask(config, build, find_factory(config.id), gym.registry.get(config.id)))  # pyrefly: ignore[bad-argument-type]
    process = context.Process(target=try_out, args=(task, theirs, beats), name="probe")
    with main_module_hidden():
        process.start()
    theirs.close()
    try:
        answer = wait_for(pipe, beats, config.timeout_s)
        process.join(END_S)
    except GONE:
        process.join(END_S)
        raise SamplerLostError(describe_exit(process.exitcode)) from None
    finally:
        pipe.close()
        process.kill()
        process.join()
    if answer.said:
        raise raised_error(config, answer)
    return answer.different


def wait_for(pipe: Connection, beats: Any, timeout_s: float | None) -> Answer:
    """Waits for the answer of the process that tries out an environment, and returns it; raises EOFError if that died.

    Raises SamplerLostError if `beats.value`, which that process counts up, stands still for `timeout_s` seconds and a
    margin. With None it waits for ever.
    """
    seen, since = 0, time.monotonic()
    for _ in itertools.count():
        if pipe.poll(LOOK_S):
            return pipe.recv()
        if beats.value != seen:
            seen, since = beats.value, time.monotonic()
        waited = time.monotonic() - since
        if timeout_s is not None and waited > timeout_s + (MARGIN_S if seen else START_S):
            raise SamplerLostError(f"has not answered for {waited:.0f} s (env.timeout_s={timeout_s:g})")
    raise AssertionError("never reached")


def raised_error(config: EnvConfig, answer: Answer) -> BaseException:
    """Returns the error that an answer with a non-empty `said` describes, with its traceback as a note.

    It is the original error or, if that could not be sent, an EnvFailedError.
    """
    error: BaseException = EnvFailedError(f"env.id={config.id!r} raised {answer.said} in its first steps: correct it")
    if answer.error is not None:
        error = answer.error
    error.add_note(f"raised where the environment was tried out:\n{answer.trace}")
    return error


def try_out(wrapped: CloudpickleWrapper, pipe: Connection, beats: Any) -> None:
    """Tries out the environment of a wrapped `ProbeTask` in this process, and sends an `Answer` through the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group: the learner decides, and ends this process
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=end_with_learner, daemon=True).start()
    threading.Thread(target=count, args=(beats,), daemon=True).start()
    logging.disable(logging.WARNING)  # samplers say the same
    task: Any = wrapped.fn
    with ReportedWhole(pipe):
        if task.registered is not None:
            gym.registry.setdefault(task.env.id, task.registered)
        if task.factory is not None:
            FACTORIES.setdefault(task.env.id, task.factory)
        pipe.send(Answer(probe(task.env, task.build)))


def count(beats: Any) -> None:
    """Counts `beats.value` up for ever, as a sign that this process can run Python; never returns."""
    for _ in itertools.count():
        beats.value += 1
        time.sleep(LOOK_S)


class ReportedWhole(Reported):
    """A context manager that sends an exception of its `with` block as an `Answer` through a pipe and suppresses it."""

    def message(self, error: Exception) -> tuple:
        said, trace = super().message(error)
        return Answer(None, error if can_be_sent(error) else None, said, trace)

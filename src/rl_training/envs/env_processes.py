"""Environments in processes of their own: one that dies, hangs or raises is named, and all processes are ended."""

from __future__ import annotations

import multiprocessing
import operator
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import reduction
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from rl_training.envs.conversion import check_numeric, stack_rows
from rl_training.envs.episode_columns import read_columns
from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.failure import EnvFailedError, describe_env, describe_exit
from rl_training.envs.result_checks import check_step
from rl_training.envs.spaces import check_same_spaces, convert_spec

PATIENCE = 5.0  # seconds for a process to end when it is asked to
DIED = (EOFError, BrokenPipeError, ConnectionResetError)


class EnvProcesses(AsyncVectorEnv):
    """Gymnasium's `AsyncVectorEnv`, one worker process per environment, with an EnvFailedError if one dies or hangs.

    Each call waits at most `timeout_s` seconds for the workers (None: for ever).
    """

    def __init__(self, builders: Sequence[Callable[[], gym.Env]], *, timeout_s: float | None = None) -> None:
        self.timeout_s, self.owner = timeout_s, os.getpid()
        self.seeds: Sequence[int | None] = [None] * len(builders)
        self.last_actions: Sequence[Any] = [None] * len(builders)
        try:
            with control_c_ignored():
                super().__init__(builders, autoreset_mode=AutoresetMode.SAME_STEP)
        except ValueError:
            self.close(terminate=True)
            raise

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds, self.last_actions = seed or self.seeds, [None] * self.num_envs
        with self.answering("reset"):
            self.reset_async(seed=seed, options=options)
            return self.reset_wait(self.timeout_s)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.last_actions = actions
        with self.answering("step"):
            self.step_async(actions)
            return self.step_wait(self.timeout_s)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        with self.answering(name):
            self.call_async(name, *args, **kwargs)
            return self.call_wait(self.timeout_s)

    @contextmanager
    def answering(self, method: str) -> Iterator[None]:
        """Ends all worker processes and raises an EnvFailedError if one dies or is too slow to answer in the block.

        `method` names the call in the message.
        """
        try:
            yield
        except DIED as error:
            if hasattr(error, "__notes__"):  # an environment raised it, and all are ended already
                raise
            index = self.find_dead()
            how = describe_exit(self.processes[index].exitcode)
            self.close(terminate=True)
            raise EnvFailedError(
                f"the worker process of {self.describe(index)} {how} during `{method}`: look for what ends the process there, "
                "such as a crash of a simulator or too little memory; env.vectorization='sync' shows it in this process"
            ) from None
        except multiprocessing.TimeoutError:
            index = next((i for i, pipe in enumerate(self.parent_pipes) if not pipe.poll(0)), 0)
            self.close(terminate=True)
            raise EnvFailedError(
                f"the worker process of {self.describe(index)} has not answered `{method}` for {self.timeout_s:g} s: correct "
                "the environment, or raise env.timeout_s (null waits for ever)"
            ) from None

    def describe(self, index: int) -> str:
        return describe_env(index, self.seeds[index], self.last_actions[index])

    def find_dead(self) -> int:
        """Waits up to 5 s for a worker process to end and returns the first ended one's index; 0 if none ends."""
        ended = wait([process.sentinel for process in self.processes], PATIENCE)
        index = next((i for i, process in enumerate(self.processes) if process.sentinel in ended), 0)
        self.processes[index].join(PATIENCE)
        return index

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        """Ends all workers and raises the error of the first environment that failed, with its traceback as a note.

        `successes` has one flag per environment; does nothing if all are True.
        """
        failed = [index for index, success in enumerate(successes) if not success]
        if not failed:
            return
        try:
            received = [self.error_queue.get(timeout=PATIENCE) for _ in failed]
        except queue.Empty:
            received = [(failed[0], None, RuntimeError("an error that could not be sent"), "no traceback")]
        index, _, error, trace = min(received, key=operator.itemgetter(0))
        error.add_note(f"raised in the worker process of {self.describe(index)}:\n{trace}")
        self.close(terminate=True)
        raise error

    def _check_spaces(self) -> None:
        spaces = []
        for name in ("observation_space", "action_space"):
            with self.answering("__init__"):
                self.call_async(name)
                spaces.append(self.call_wait(self.timeout_s))
        check_same_spaces(list(zip(*spaces, strict=True)))

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Ends the worker processes: unless `terminate` is True, asks them and waits up to 5 s, and then kills them.

        Does nothing in a forked copy of the process that started them.
        """
        if os.getpid() != self.owner:  # a forked process clears up what it inherited; the processes are not its own
            return
        pipes = [pipe for pipe in getattr(self, "parent_pipes", []) if pipe is not None and not pipe.closed]
        processes = getattr(self, "processes", [])
        for pipe in pipes if not terminate else []:
            try:
                pipe.send(("close", None))
            except BrokenPipeError:  # it has ended
                continue
        until = time.monotonic() + (0 if terminate else PATIENCE)
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
        for end in ("terminate", "kill"):
            for process in processes:
                if process.is_alive():
                    getattr(process, end)()
            for process in processes:
                process.join(1.0)
        for pipe in pipes:
            pipe.close()


class Guarded(gym.Wrapper):
    """A wrapper in a worker process that raises a ValueError for invalid results of `reset` and `step`.

    It replaces errors that cannot be pickled. Instead of infos it returns, at the end of an episode, a dict of the
    numbers under `is_success` and `keys`; otherwise {}.
    """

    def __init__(self, env: EpisodeLog, keys: tuple[str, ...]) -> None:
        super().__init__(env)
        self.index, self.keys = env.index, keys
        self.spec_of_obs = convert_spec(env.observation_space, env.action_space).obs

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with SendableErrors():
            obs, _ = self.env.reset(seed=seed, options=options)
            self.check_obs(obs)
            return obs, {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        with SendableErrors():
            answer = self.env.step(action)
            check_step(self.index, answer)
            obs, reward, terminated, truncated, info = answer
            self.check_obs(obs)
            columns = read_columns(info, self.keys) if terminated or truncated else {}
            return obs, np.asarray(reward).item(), terminated, truncated, columns

    def check_obs(self, obs: Any) -> None:
        check_numeric([obs], self.spec_of_obs)
        stack_rows([obs], self.spec_of_obs)


class SendableErrors:
    """A context manager that raises a RuntimeError with the same text for an error that cannot be pickled."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and not can_be_sent(error):
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


def can_be_sent(error: BaseException) -> bool:
    try:
        return isinstance(reduction.ForkingPickler.loads(reduction.ForkingPickler.dumps(error)), BaseException)
    except (reduction.pickle.PickleError, TypeError, AttributeError, ValueError, ImportError):
        return False


@contextmanager
def control_c_ignored() -> Iterator[None]:
    """Ignores Control-C in this process and in those started inside the block, which go on ignoring it after the block.

    Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():  # only there may handlers be changed
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""Samplers as Ray actors: on a running cluster, or on a local one that is started for the run."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from rl_training.core.arguments import ConfigError
from rl_training.distributed.engine import Engine, SamplerLostError
from rl_training.distributed.messages import Assignment, Block, Request
from rl_training.distributed.object_store import full_errors, when_there_is_room
from rl_training.distributed.sampler import Sampler
from rl_training.distributed.sent_trees import unwrap_tensors, wrap_tensors
from rl_training.envs.failure import EnvFailedError

log = logging.getLogger(__name__)
LOOK_S = 1.0  # between looks at whether an actor still steps
MARGIN_S = 5.0  # beyond env.timeout_s
CONNECT_S = 10.0
START_S = 300.0  # for an actor to be placed, to build environments and, at the first steps, to compile
CAPACITY = 512
BEATS = "beats"  # a thread of its own: calls of all others run one after the other, in order
OWN_CLUSTER: set[int] = set()  # the engines that use a cluster which was started here: it ends with the last of them


class RayEngine(Engine):
    """An engine with one Ray actor per sampler; requests are put into the object store once and sent by reference."""

    capacity = CAPACITY

    def __init__(
        self, assignments: Sequence[Assignment], *, slots: int, fragment: int, timeout_s: float | None
    ) -> None:
        self.ray = connect(len(assignments), id(self))
        self.capacity = max(fragment, CAPACITY)
        self.slots, self.timeout_s = slots, timeout_s
        self.assignments = [self.put(one) for one in assignments]
        self.actor_class = self.ray.remote(num_cpus=1, max_restarts=0, concurrency_groups={BEATS: 1})(Actor)
        self.actors: list[Any] = [None] * len(assignments)
        self.numbers = itertools.count()  # of what is asked
        self.posted: list[list[tuple[int, Any]]] = [[] for _ in assignments]
        self.is_built = [False] * len(assignments)
        self.has_stepped = [False] * len(assignments)
        self.check_room()

    def check_room(self) -> None:
        """Logs a warning if the cluster has fewer CPUs than there are samplers, because some will then wait.

        This is no error: more machines may still join.
        """
        cpus = self.cpus()
        if cpus < len(self.actors):
            log.warning(
                f"the Ray cluster has {cpus:g} CPUs, and {len(self.actors)} samplers ask for one each: those that find no place "
                f"wait up to {self.patience(0):g} s; use fewer sampling.workers, or add machines"
            )

    def cpus(self) -> float:
        return self.ray.cluster_resources().get("CPU", 0.0)

    def put(self, value: Any) -> Any:
        return when_there_is_room(self.ray, "what all samplers get", lambda: self.ray.put(value))

    def launch(self, index: int) -> None:
        if self.actors[index] is not None:
            self.ray.kill(self.actors[index])
        self.actors[index] = self.actor_class.remote(self.assignments[index], self.slots)
        self.is_built[index] = self.has_stepped[index] = False
        self.posted[index] = [(next(self.numbers), self.actors[index].ready.remote())]

    def publish(self, request: Request) -> Any:
        return self.put(wrap_tensors(request))

    def post(self, index: int, method: str, *arguments: Any) -> None:
        """Asks actor `index` to call a method of its sampler, without waiting for the answer.

        Waits only while Ray's object store has no room for the arguments; raises StoreFullError if that takes too long.
        """
        number, call, given = next(self.numbers), self.actors[index].call, wrap_tensors(arguments)
        what = f"what sampler {index} gets"
        reference = when_there_is_room(self.ray, what, lambda: call.remote(number, method, *given))
        self.posted[index].append((number, reference))

    def receive(self, index: int) -> Any:
        """Waits for actor `index`'s answer to its oldest open call, and returns it.

        Asks for the answer again while the object store has no room for it. Raises SamplerLostError if the actor is
        lost, EnvFailedError if it is not built in time, StoreFullError if the store stays full.
        """
        number, reference = self.posted[index].pop(0)
        again = (self.actors[index].again.remote(number) for _ in itertools.count())
        asked = itertools.chain([reference], again)
        what = f"what sampler {index} answers"
        answer = when_there_is_room(self.ray, what, lambda: self.answer(index, next(asked)))
        self.is_built[index] = True
        self.has_stepped[index] |= isinstance(answer, Block)
        return answer

    def answer(self, index: int, reference: Any) -> Any:
        self.wait(index, reference)
        errors = self.ray.exceptions
        try:
            return unwrap_tensors(self.ray.get(reference))
        except full_errors(self.ray):
            raise
        except errors.RayTaskError as error:
            raise SamplerLostError(f"raised {type(error.cause).__name__}: {error.cause}", str(error)) from error
        except errors.RayError as error:
            raise SamplerLostError(f"was lost: {first_line(error)}", str(error)) from error

    def wait(self, index: int, reference: Any) -> None:
        """Waits until the answer of actor `index` behind `reference` is ready.

        Raises SamplerLostError if the actor stops taking steps, EnvFailedError if it is not built in time.
        """
        seen, since = -1, time.monotonic()
        for _ in itertools.count():
            ready, _ = self.ray.wait([reference], timeout=LOOK_S)
            if ready:
                return
            beats = self.beats(index)
            if beats != seen:
                seen, since = beats, time.monotonic()
            waited, limit = time.monotonic() - since, self.patience(index)
            if limit is not None and waited > limit and not self.is_built[index]:
                raise EnvFailedError(
                    f"sampler {index} was not built within {waited:.0f} s: the Ray cluster has {self.cpus():g} CPUs, and "
                    f"{len(self.actors)} samplers ask for one each; use fewer sampling.workers, or add machines"
                )
            if limit is not None and waited > limit:
                raise SamplerLostError(f"has not taken a step for {waited:.0f} s (env.timeout_s={self.timeout_s:g})")

    def beats(self, index: int) -> int:
        """Returns the number of steps that actor `index` has begun; -1 if it does not answer in `LOOK_S` seconds."""
        errors = self.ray.exceptions
        try:
            asked = self.actors[index].count_beats.options(concurrency_group=BEATS).remote()
            return self.ray.get(asked, timeout=LOOK_S)
        except (errors.RayError, TimeoutError):
            return -1

    def patience(self, index: int) -> float | None:
        if not self.is_built[index]:
            return START_S + (self.timeout_s or 0.0)
        if self.timeout_s is None:
            return None
        return self.timeout_s + (MARGIN_S if self.has_stepped[index] else START_S)

    def close(self) -> None:
        if not self.ray.is_initialized():
            return
        for index, actor in enumerate(self.actors):
            if actor is not None:
                self.ray.kill(actor)
                self.actors[index] = None
        disconnect(self.ray, id(self))


class Actor:
    """A Ray actor that holds a sampler and reports from another thread how many steps it has begun."""

    def __init__(self, assignment: Assignment, slots: int) -> None:
        self.num_beats, self.slots = 0, slots
        self.answers: dict[int, Any] = {}  # the last `slots`, by number: the object store may have had no room for them
        self.sampler = Sampler(assignment, self.beat)

    def beat(self) -> None:
        self.num_beats += 1

    def count_beats(self) -> int:
        return self.num_beats

    def ready(self) -> None:
        """Returns as soon as the sampler is built."""

    def call(self, number: int, method: str, *arguments: Any) -> Any:
        if len(self.answers) == self.slots:
            del self.answers[min(self.answers)]
        answer = self.answers[number] = wrap_tensors(getattr(self.sampler, method)(*unwrap_tensors(arguments)))
        return answer

    def again(self, number: int) -> Any:
        return self.answers[number]


def connect(num_cpus: int, engine: int) -> Any:
    """Returns the module `ray`, connected to the cluster of RAY_ADDRESS or, without it, to a new local one.

    A connection that exists is used. The local cluster has `num_cpus` CPUs; `disconnect` with the same id `engine` ends
    it. Raises ConfigError if Ray is not installed or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "sampling.engine='ray' needs a package that is not installed: pip install 'rl-training[ray]', or use "
            "sampling.engine='processes'"
        ) from error
    if ray.is_initialized():
        OWN_CLUSTER.update([engine] if OWN_CLUSTER else [])
        return ray
    if os.environ.get("RAY_ADDRESS"):
        join(ray, os.environ["RAY_ADDRESS"])
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    start_local(ray, num_cpus)
    OWN_CLUSTER.add(engine)
    return ray


def join(ray: Any, address: str) -> None:
    """Connects to the cluster at `address`; raises ConfigError if it cannot be reached, without Ray's long retries."""
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdigit():
            socket.create_connection((host.removeprefix("ray://"), int(port)), timeout=CONNECT_S).close()
        ray.init(log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"RAY_ADDRESS={address!r} cannot be reached ({first_line(error)}): start a cluster there with `ray start --head`, or "
            "unset RAY_ADDRESS for one on this machine; a cluster that asks for a token needs RAY_AUTH_MODE=token"
        ) from error


def start_local(ray: Any, num_cpus: int) -> None:
    """Starts a local cluster with `num_cpus` CPUs and connects to it.

    Its actors get the learner's priority; by default theirs would be lower.
    """
    ray.init(
        address="local",  # Ray would look for a cluster that runs on this machine, and refuse to join it with num_cpus
        num_cpus=num_cpus,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.WARNING,
        _system_config={"worker_niceness": 0},
    )


def disconnect(ray: Any, engine: int) -> None:
    """Notes that the engine with the id `engine`, which was passed to `connect`, is done with Ray.

    Shuts down a cluster that this process started, once no engine uses it any more.
    """
    if engine in OWN_CLUSTER:
        OWN_CLUSTER.remove(engine)
        if not OWN_CLUSTER:
            ray.shutdown()


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]

"""Jobs with priorities, deadlines and workers."""

from __future__ import annotations

import heapq
import random

CHOICES = {"SLICE": (1, 2, 3), "AGING": (2, 4)}
SLICE = 2
AGING = 4


class Queue:
    """Gives the job with the highest priority; of equals, the one that came first."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, str]] = []
        self.count = 0
        self.gone: set[str] = set()

    def push(self, job: str, priority: int) -> None:
        heapq.heappush(self.heap, (-priority, self.count, job))
        self.count += 1
        self.gone.discard(job)

    def pop(self) -> str | None:
        while self.heap:
            _, _, job = heapq.heappop(self.heap)
            if job not in self.gone:
                return job
        return None

    def cancel(self, job: str) -> bool:
        known = any(job == waiting for _, _, waiting in self.heap)
        if known and job not in self.gone:
            self.gone.add(job)
            return True
        return False

    def waiting(self) -> int:
        return sum(job not in self.gone for _, _, job in self.heap)


class Queue__list:  # noqa: N801
    """Gives the job with the highest priority; of equals, the one that came first."""

    def __init__(self) -> None:
        self.jobs: list[tuple[int, str]] = []

    def push(self, job: str, priority: int) -> None:
        place = len(self.jobs)
        while place > 0 and self.jobs[place - 1][0] < priority:
            place -= 1
        self.jobs.insert(place, (priority, job))

    def pop(self) -> str | None:
        return self.jobs.pop(0)[1] if self.jobs else None

    def cancel(self, job: str) -> bool:
        left = [entry for entry in self.jobs if entry[1] != job]
        changed = len(left) < len(self.jobs)
        self.jobs = left
        return changed

    def waiting(self) -> int:
        return len(self.jobs)


def round_robin(jobs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """When each job ends, in the order of ending, if all take turns of SLICE units."""
    waiting = [(name, length) for name, length in jobs if length > 0]
    now, ended = 0, []
    while waiting:
        name, left = waiting.pop(0)
        used = min(SLICE, left)
        now += used
        if left > used:
            waiting.append((name, left - used))
        else:
            ended.append((name, now))
    return ended


def assign(lengths: list[int], workers: int) -> list[int]:
    """The load of each worker if every job, longest first, goes to the one with the least."""
    if workers < 1:
        raise ValueError("at least one worker")
    loads = [0] * workers
    for length in sorted(lengths, reverse=True):
        least = loads.index(min(loads))
        loads[least] += length
    return loads


def assign__heap(lengths: list[int], workers: int) -> list[int]:
    """The load of each worker if every job, longest first, goes to the one with the least."""
    if workers < 1:
        raise ValueError("at least one worker")
    heap = [(0, worker) for worker in range(workers)]
    for length in sorted(lengths, reverse=True):
        load, worker = heapq.heappop(heap)
        heapq.heappush(heap, (load + length, worker))
    return [load for load, _ in sorted(heap, key=lambda entry: entry[1])]


def late_jobs(jobs: list[tuple[str, int, int]]) -> list[str]:
    """Names of (name, length, deadline) that end late if the earliest deadline goes first."""
    now, late = 0, []
    for name, length, deadline in sorted(jobs, key=lambda job: (job[2], job[0])):
        now += length
        if now > deadline:
            late.append(name)
    return late


def most_jobs(jobs: list[tuple[int, int]]) -> int:
    """The largest number of (start, end) that one worker can do, one after the other."""
    free, count = 0, 0
    for start, end in sorted(jobs, key=lambda job: job[1]):
        if start >= free:
            free = end
            count += 1
    return count


def aged_order(jobs: list[tuple[str, int, int]]) -> list[str]:
    """Jobs (name, priority, waited) by priority, which rises by one for AGING units of waiting, at most to 9."""
    ranked = []
    for place, (name, priority, waited) in enumerate(jobs):
        ranked.append((-min(9, priority + waited // AGING), place, name))
    return [name for _, _, name in sorted(ranked)]


def idle_time(jobs: list[tuple[int, int]]) -> int:
    """Units in which a worker waits for the next (arrival, length), taken in the order of arrival."""
    now = idle = 0
    for arrival, length in sorted(jobs):
        if arrival > now:
            idle += arrival - now
            now = arrival
        now += length
    return idle


def arguments_Queue(rng: random.Random) -> tuple:  # noqa: N802
    names = list("abcdefgh")
    found: list[tuple] = []
    for _ in range(rng.randint(5, 12)):
        kind = rng.random()
        if kind < 0.5 and names:
            found.append(("push", names.pop(0), rng.randint(1, 3)))
        else:
            found.append(("pop",) if kind < 0.8 else ("cancel", rng.choice("abcd")))
    return (), [*found, ("waiting",), ("pop",)]


def arguments_round_robin(rng: random.Random) -> tuple:
    return ([(name, rng.randint(0, 7)) for name in "abcde"[: rng.randint(0, 5)]],)


def arguments_assign(rng: random.Random) -> tuple:
    return rng.choices(range(1, 9), k=rng.randint(0, 6)), rng.choice([0, 1, 2, 2, 3, 3])


def arguments_late_jobs(rng: random.Random) -> tuple:
    return ([(name, rng.randint(1, 5), rng.randint(1, 12)) for name in "abcde"[: rng.randint(0, 5)]],)


def arguments_most_jobs(rng: random.Random) -> tuple:
    starts = rng.choices(range(10), k=rng.randint(0, 6))
    return ([(start, start + rng.randint(1, 4)) for start in starts],)


def arguments_aged_order(rng: random.Random) -> tuple:
    return ([(name, rng.randint(1, 9), rng.randint(0, 20)) for name in "abcd"[: rng.randint(1, 4)]],)


def arguments_idle_time(rng: random.Random) -> tuple:
    return ([(rng.randint(0, 15), rng.randint(1, 5)) for _ in range(rng.randint(0, 5))],)

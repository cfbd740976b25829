"""A process that executes the runs of a study one after the other: jobs come in as lines of JSON, events go out.

It ends with its study: when its input is closed, a run that is under way is paused with a checkpoint.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from dataclasses import asdict
from typing import TextIO

from rl_training.tuning.job import PAUSE, Ended, Evaluated, Job, run_job


def main() -> int:
    """Executes jobs (training runs), one line of JSON each on standard input, until it ends; returns exit code 0.

    Writes their evaluations and ends as lines of JSON to standard output. Returns 130 if it was interrupted or nobody
    reads these any more.
    """
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an environment prints goes to the log, not among the events
    inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    working = threading.Event()
    threading.Thread(target=listen, args=(sys.stdin, inbox, working), daemon=True).start()
    try:
        for line in iter(inbox.get, None):
            working.set()
            ended = run_one(Job(**json.loads(line)), inbox, events)
            working.clear()
            send(events, ended)
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


def listen(source: TextIO, inbox: queue.SimpleQueue[str | None], working: threading.Event) -> None:
    """Puts the lines of `source`, jobs and answers of the study, into `inbox`; at their end puts None twice.

    If `working` is set then, as a job is under way, interrupts this process, as Ctrl-C would.
    """
    for line in source:
        inbox.put(line)
    inbox.put(None)
    inbox.put(None)  # for the run that waits for an answer, and for `main`
    if working.is_set():
        signal.raise_signal(signal.SIGINT)


def run_one(job: Job, inbox: queue.SimpleQueue[str | None], events: TextIO) -> Ended:
    def ask(step: int, mean: float) -> str | None:
        try:
            send(events, Evaluated(job.trial, step, mean))
        except BrokenPipeError:
            return PAUSE
        answer = inbox.get()
        return PAUSE if answer is None else json.loads(answer)

    return run_job(job, ask)


def send(events: TextIO, event: Evaluated | Ended) -> None:
    events.write(json.dumps({"kind": type(event).__name__, **asdict(event)}) + "\n")
    events.flush()


if __name__ == "__main__":
    sys.exit(main())

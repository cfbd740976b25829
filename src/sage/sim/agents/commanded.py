"""Policies of programs: a program gets a task as lines of JSON, and answers with calls of tools."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Event

from sage.files import FileWriteError
from sage.grading.task import Task
from sage.sandbox import Backend
from sage.sim.agents.episode import Budget, TextEpisode
from sage.sim.agents.process import AgentEndedError, AgentProcess
from sage.sim.agents.tools import descriptions
from sage.sim.policies import Named, PolicyError, RepairAttempt
from sage.sim.watched import DeadlineError, Watched

PROTOCOL = 1
DEADLINE_S = 600.0  # for whoever runs an agent without a deadline of their own


def commanded(command: str, transcripts: Path | None = None, budget: Budget | None = None) -> Named:
    """Returns a policy that starts the command once for every task; `transcripts` is a folder that gets a file of calls
    for every task, and None keeps none. Raises PolicyError if the program is not there."""
    words = words_of(command)
    budget = budget or Budget()

    def solve(backend: Backend, task: Task) -> RepairAttempt:
        watched = backend if isinstance(backend, Watched) else Watched(backend, DEADLINE_S, Event())
        transcript = Transcript(transcripts / f"{task.id}.jsonl" if transcripts else None)
        episode = TextEpisode(watched, task, budget, lambda call: transcript.add(asdict(call)))
        attempt = episode.attempt(converse(words, episode, watched))
        transcript.add({"ended": attempt.ended, "spent": attempt.cost})
        return attempt

    return Named(solve, {"agent": {"protocol": PROTOCOL, "sha256": hashes(words)}, "budget": asdict(budget)})


def converse(words: Sequence[str], episode: TextEpisode, watched: Watched) -> str:
    """Runs an agent until its episode, its process or its time ends; returns '' if the episode ended, otherwise how the
    agent ended."""
    start = {
        "protocol": PROTOCOL,
        "instruction": episode.task.instruction,
        "files": episode.workspace.listing(),
        "tools": descriptions(),
    }
    try:
        with AgentProcess(words) as agent:
            agent.tell({**start, **episode.state()}, watched)
            while not episode.ended:
                episode.act(agent.answer(watched))
                agent.tell(episode.state(), watched)
    except AgentEndedError as error:
        return str(error)
    except DeadlineError:
        return "deadline"
    return ""


def words_of(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise PolicyError(
            f"the policy's command {command!r} cannot be read ({error}): quote it as for a shell"
        ) from error
    if not words:
        raise PolicyError("the policy 'command:' names no program: write, for example, 'command:python my_agent.py'")
    if shutil.which(words[0]) is None:
        raise PolicyError(f"the program {words[0]!r} of the policy is not there or cannot be executed: check the path")
    return words


def hashes(words: Sequence[str]) -> dict[str, str]:
    """Returns the SHA-256 of every file that the command names, so that a run does not go on with another agent."""
    return {word: hashlib.sha256(Path(word).read_bytes()).hexdigest() for word in words if Path(word).is_file()}


class Transcript:
    """A file of calls, written line by line, so that it is complete also for a task that was cut short; nothing is
    written if the path is None."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        if path is not None:
            self.put("w", "")

    def add(self, values: Mapping[str, object]) -> None:
        if self.path is not None:
            self.put("a", json.dumps(values) + "\n")

    def put(self, mode: str, text: str) -> None:
        assert self.path is not None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise FileWriteError(
                f"{self.path} could not be written ({error.strerror}): free space or choose another --transcripts"
            ) from error

"""A run from its settings to its end: everything that it needs is opened, and closed whatever happens."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sage.agent.agent import Agent, Finished
from sage.agent.allowance import Allowance
from sage.agent.calls import CHAT, Caller
from sage.agent.host import Host
from sage.agent.opened_upstreams import open_upstreams
from sage.agent.prompts import TOOLS
from sage.agent.repository import read_repository
from sage.agent.tools import Toolbox, words_of
from sage.agent.trace import Trace
from sage.orchestrator.file_values import ModelsFileError
from sage.orchestrator.models_file import ModelsFile
from sage.sandbox import Backend, SandboxError
from sage.sandbox.choose import open_backend
from sage.serve.places import Places
from sage.serve.state import ServingState

TEST = "python -m pytest -q"


@dataclass(frozen=True, kw_only=True)
class Run:
    """The settings of `sage run`."""

    task: str
    repo: Path = Path()
    models: Path = Path("models.yaml")
    db: Path = Path("sage.db")
    test: str = TEST
    budget_usd: float | None = None
    max_steps: int = 40
    trace: Path | None = None
    unsafe: bool = False
    may_change_tests: bool = False


def execute(run: Run, tell: Callable[[str], None] = lambda _: None) -> Finished:
    """Runs the agent and returns its result; nothing of the repository is changed.

    Raises ValueError (with a sentence for the user) if a setting is wrong or something that it needs is missing.
    """
    if not run.task.strip():
        raise ValueError("the task is empty: say what is to be changed")
    words_of(run.test)
    table = ModelsFile.read(run.models)
    allowance = Allowance(table.models, run.budget_usd, run.max_steps)
    files = read_repository(run.repo, private_files(run, table))
    with ExitStack() as opened:
        opened.enter_context(ending_as_interrupted())
        backend = opened.enter_context(sandbox(run.unsafe))
        state, loop = opened.enter_context(open_upstreams(Places(run.models, run.db), table))
        check_speakers(state)
        trace = Trace(run.trace, [target.key for target in state.targets.values()])
        opened.callback(trace.close)
        run_id = f"run-{uuid.uuid4().hex}"
        trace.add("start", run=run_id, task=run.task, test=run.test, sandbox=backend.name, files=len(files))
        caller = Caller(state, loop, run_id, allowance, trace)
        try:
            return Agent(caller, Toolbox(backend, files, run.test, run.may_change_tests), run.task, tell).run()
        except KeyboardInterrupt:
            trace.add("end", ended="interrupted", succeeded=False, steps=allowance.steps, spent_usd=allowance.spent_usd)
            raise


@contextmanager
def ending_as_interrupted() -> Iterator[None]:
    """Turns SIGTERM into an interrupt during the block, so that log and trace are complete.

    Does nothing outside of the main thread, which alone can receive it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def sandbox(unsafe: bool) -> Iterator[Backend]:
    try:
        backend = Host() if unsafe else open_backend()
    except SandboxError as error:
        raise SandboxError(
            f"{error}. With --unsafe, commands of the models run on this machine, with all your rights"
        ) from error
    try:
        yield backend
    finally:
        backend.close()


def check_speakers(state: ServingState) -> None:
    for role in TOOLS:
        speakers = state.speakers(CHAT.name, role)
        if not speakers:
            raise ModelsFileError(
                f"no model answers chat for the role {role}: add chat to the dialects of one that serves it"
            )
        rule = state.logbook.router.cascades.rules.get(role)
        deaf = [name for name in (rule.ladder if rule else ()) if name not in speakers]
        if deaf:
            raise ModelsFileError(
                f"cascade.{role}.ladder has {deaf[0]!r}, whose upstream does not speak chat: leave it out"
            )


def private_files(run: Run, table: ModelsFile) -> list[Path]:
    """Returns the paths of sage's own files (keys, log, trace), which no model needs to see."""
    upstreams = [model.upstream for model in table.models.values() if model.upstream is not None]
    keys = [upstream.key_file for upstream in upstreams] + [table.serve.webhook_key_file, Path("sage-keys.json")]
    log = [run.db.with_name(run.db.name + ending) for ending in ("", "-wal", "-shm", "-journal")]
    return [path for path in (*keys, *log, run.trace) if path is not None]

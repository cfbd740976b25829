"""A new user's story: a service of four threads whose models change ten times, whose provider falls back to other models, whose
qualities come late, whose clock steps, whose disk is full for a while, and which is killed again and again."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sage import DecisionLog, Router
from sage.evidence.export_dataset import export
from sage.evidence.routing_data import RoutingData
from sage.orchestrator import model_router
from sage.report.report import summarize

NUM_MODELS = 12
MODELS = tuple(f"m{k}" for k in range(NUM_MODELS))
COST = {model: 0.01 * (k + 1) for k, model in enumerate(MODELS)}  # by which each can be told from all others
QUALITY = {model: (k + 1) / 16 for k, model in enumerate(MODELS)}
CLOCK_STEPS = (0.0, 86_400.0 * 3, -86_400.0 * 400, -1e12, 0.5)  # the fourth is before 1970
MODEL = "{{input_usd_per_mtok: 1, output_usd_per_mtok: {price}, latency_s: 2}}"


def write_table(folder: Path, epoch: int) -> tuple[str, ...]:
    """Three models; every change takes one away and brings a new one."""
    pool = MODELS[epoch : epoch + 3]
    lines = [f"  {name}: {MODEL.format(price=10 * (k + 1))}" for k, name in enumerate(pool)]
    rest = f"roles:\n  default: {{primary: {pool[0]}, fallback: {pool[1]}}}\n"
    settings = "exploration: 0.5\nbandit: {kind: contextual, keep: 1}\n"
    (folder / "models.yaml").write_text("models:\n" + "\n".join(lines) + "\n" + rest + settings)
    return pool


class Notes:
    """What the service was told, one whole line each, also by a process that is killed."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *words: str) -> None:
        os.write(self.handle, (" ".join(words) + "\n").encode())


def serve(folder: Path, epoch: int, calls: int) -> None:
    """Four threads that route, call a provider that may fall back, and report the cost of whoever answered."""
    pool = MODELS[epoch : epoch + 3]
    notes = Notes(folder / f"notes-{epoch}")
    clock = SimpleNamespace(
        time=lambda: time.time() + CLOCK_STEPS[int(time.monotonic() * 50 + epoch) % len(CLOCK_STEPS)]
    )
    model_router.time = clock  # pyrefly: ignore
    router = Router.open(folder / "sage.db", models=folder / "models.yaml", environment={})

    was_full = threading.Event()

    def work(thread: int) -> None:
        for number in count():
            if number >= calls and was_full.is_set():
                return
            made = router.route(role="coder", category=f"c{thread % 2}", task_id=f"{epoch}-{thread}-{number}")
            falls = (number + thread) % 5 == 0
            answered = pool[(pool.index(made.model) + 1) % len(pool)] if falls else made.model
            if made.logged:
                notes.write("routed", made.id, answered)
            status = router.outcome(made.id, cost_usd=COST[answered], model=answered if falls else None)
            notes.write("cost" if made.logged and status != "unlogged" else "other", made.id, status)
            if not made.logged:
                notes.write("unlogged", made.id)
                was_full.set()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    if epoch == 4:  # a disk that fills up while they work, and is freed again
        with router.log.file.connection() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))  # a dozen commits
    else:
        was_full.set()
    for thread in threads:
        thread.start()
    was_full.wait()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for thread in threads:
        thread.join()
    router.close()


def run_epoch(folder: Path, epoch: int, calls: int) -> None:
    """Every second process is killed in the middle of its work."""
    notes = folder / f"notes-{epoch}"
    killed = epoch % 2 == 1
    worker = multiprocessing.get_context("fork").Process(
        target=serve, args=(folder, epoch, 1_000_000 if killed else calls)
    )
    worker.start()
    while killed and not (notes.exists() and notes.stat().st_size > 180 * calls):
        assert worker.is_alive()
        time.sleep(0.002)
    if killed:
        os.kill(worker.pid, signal.SIGKILL)  # pyrefly: ignore
    worker.join()
    assert worker.exitcode == (-signal.SIGKILL if killed else 0)


def tell(folder: Path, epochs: int, calls: int) -> None:
    for epoch in range(epochs):
        write_table(folder, epoch)
        run_epoch(folder, epoch, calls)
    told = [line.split() for notes in folder.glob("notes-*") for line in notes.read_text().splitlines()]
    answered = {words[1]: words[2] for words in told if words[0] == "routed"}
    charged = {words[1] for words in told if words[0] == "cost"}
    unlogged = {words[1] for words in told if words[0] == "unlogged"}
    assert unlogged
    assert len(answered) > epochs * calls
    router = Router.open(folder / "sage.db", models=folder / "models.yaml", environment={})
    judge_all(router, answered)
    nothing_is_lost(router, answered, charged, unlogged)
    judged = Counter(answered.values())
    the_bandit_knows(router, judged)
    router.close()
    report_and_export_agree(folder, answered, judged)


def judge_all(router: Router, answered: dict[str, str]) -> None:
    """The next day, qualities come for all calls: by four threads, in another process than the one that routed."""
    late, statuses = list(answered.items()), []

    def judge(thread: int) -> None:
        for made, model in late[thread::4]:
            statuses.append(router.outcome(made, quality=QUALITY[model], at=0.0, model=model))

    threads = [threading.Thread(target=judge, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {"joined"}


def nothing_is_lost(router: Router, answered: dict[str, str], charged: set[str], unlogged: set[str]) -> None:
    """What was acknowledged is there, with every part, and is that of the model that answered."""
    rows = {decision.id: (decision, outcome) for decision, outcome in router.log.rows()}
    assert set(answered) <= set(rows)
    assert not unlogged & set(rows)
    counts = router.log.counts()
    assert counts["unlogged"] == len(unlogged)
    assert (counts["conflict"], counts["duplicate"]) == (0, 0)
    for made, model in answered.items():
        decision, outcome = rows[made]
        assert outcome is not None
        assert (outcome.model or decision.model, outcome.quality) == (model, QUALITY[model])
        assert outcome.cost_usd == (COST[model] if made in charged else outcome.cost_usd)
        assert outcome.cost_usd in (None, COST[model])


def the_bandit_knows(router: Router, judged: Counter[str]) -> None:
    """It has counted every outcome once, and its means are in the order of the true qualities."""
    assert router.bandit is not None
    router.bandit.store.read_at = 0.0
    router.bandit.current()
    tried, earned = (part.sum(axis=0) for part in router.bandit.bandit.statistics.of_models(MODELS))
    np.testing.assert_allclose(tried, [judged[model] for model in MODELS])
    means = earned[tried > 0] / tried[tried > 0]
    assert (np.diff(means) > 0).all()


def report_and_export_agree(folder: Path, answered: dict[str, str], judged: Counter[str]) -> None:
    shown = summarize(str(folder / "sage.db"))["by_model"]
    for model, number in judged.items():
        assert shown[model]["outcomes"] == number
        assert shown[model]["quality"] == pytest.approx(QUALITY[model])
        assert shown[model]["cost_usd"] == pytest.approx(COST[model])
    with_log = DecisionLog.open(folder / "sage.db")
    done = export(with_log, folder / "rows.jsonl", data_source="real")
    data = RoutingData.read(folder / "rows.jsonl")
    assert (done.rows, done.unreadable, with_log.damage()) == (len(answered), [], "")
    assert {data.decision_id[i]: data.models[data.action[i]] for i in range(len(data))} == answered
    assert json.loads((folder / "rows.jsonl").read_text().splitlines()[1])["model"] in MODELS


def test_nothing_is_lost_and_nothing_attributed_wrongly(tmp_path: Path) -> None:
    tell(tmp_path, epochs=10, calls=8)


@pytest.mark.slow
def test_the_same_for_longer(tmp_path: Path) -> None:
    tell(tmp_path, epochs=10, calls=400)

"""`sage serve` under faults for a long time: upstreams that fail, workers that are killed, a disk that is full.

.venv/bin/python benchmarks/sage/serve_soak.py --minutes 30 --rate 300        # writes results/serve_soak.json
.venv/bin/python benchmarks/sage/serve_soak.py --minutes 3 --rate 100 --out /tmp/soak.json

Two workers with keys and budgets, an upstream of which 6 % of the calls go wrong (`serve_faults.py`). Requests come at a fixed
rate, whether earlier ones are answered or not. Every minute a worker is killed (SIGKILL); in the middle, the disk that the log is on
is full for a minute (a tmpfs, for which you must be root; without it that part is left out, and the result says so). At the
end every request that was acknowledged, which is to say whose answer or error reached the client with a decision's id, must be in
the log, with probabilities that add up to 1 and with an outcome or a censoring.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
from serve_latency import HERE, family, free_port

from sage.files import write_json
from sage.log.budget_settings import TenantBudget
from sage.log.decision_log import DecisionLog
from sage.serve.access.keys import KeyFile

RESULT = HERE / "results" / "serve_soak.json"
DISK_MB = 512
FULL_S = 60.0
KILL_EVERY_S = 60.0
SAMPLE_S = 5.0
TENANTS = {"rich": None, "poor": 2.0, "poorer": 0.5}  # budgets in USD, of which the small ones end on the way
MODEL = "{{input_usd_per_mtok: {0}, output_usd_per_mtok: {0}, max_output_tokens: 100, upstream: {1}}}"
UPSTREAM = "{{url: 'http://127.0.0.1:{}/v1', timeout_s: 10, first_byte_s: 2, stall_s: 2}}"
TABLE = """models:
  small: {small}
  large: {large}
roles: {{default: {{primary: large, fallback: small}}}}
exploration: 0.2
serve: {{breaker_failures: 50}}
"""


class Answer(NamedTuple):
    """What a client got."""

    began: float
    ended: float
    tenant: str
    status: int
    decision_id: str
    complete: bool  # a stream may end with an error inside


@contextmanager
def disk(size_mb: int) -> Iterator[tuple[Path, bool]]:
    """A folder on a disk of its own, or an ordinary one where that is not allowed."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder], capture_output=True, check=False
        )
        try:
            yield Path(folder), mounted.returncode == 0
        finally:
            if mounted.returncode == 0:
                subprocess.run(["umount", "-l", folder], check=False)


async def load(port: int, keys: dict[str, str], rate: float, seconds: float) -> tuple[list[Answer], Counter[str]]:
    """Sends requests at a rate; what clients got, and how many got nothing."""
    answers: list[Answer] = []
    failed: Counter[str] = Counter()
    chance = random.Random(1)
    running: set[asyncio.Task] = set()

    async def one(number: int, tenant: str, streams: bool) -> None:
        body = {"model": "sage", "messages": [{"role": "user", "content": f"task {number} " * 20}], "stream": streams}
        headers = {"authorization": f"Bearer {keys[tenant]}", "x-session-id": f"s{number % 500}"}
        began = time.time()
        try:
            async with session.post("/v1/chat/completions", json=body, headers=headers) as answer:
                text = await answer.read()
                complete = answer.status == 200 and (not streams or text.rstrip().endswith(b"[DONE]"))
                found = answer.headers.get("x-sage-decision-id", "")
                answers.append(Answer(began, time.time(), tenant, answer.status, found, complete))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failed[type(error).__name__] += 1

    timeout = aiohttp.ClientTimeout(total=30)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=timeout, connector=connector) as session:
        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(began + number / rate - time.perf_counter(), 0))
            tenant = chance.choices(list(TENANTS), [0.8, 0.15, 0.05])[0]
            task = asyncio.ensure_future(one(number, tenant, chance.random() < 0.3))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)
    return answers, failed


class Troubles:
    """Kills workers, fills the disk, and watches memory meanwhile."""

    def __init__(self, server: subprocess.Popen, folder: Path, can_fill: bool, seconds: float) -> None:
        self.server, self.folder, self.can_fill = server, folder, can_fill
        self.began = time.time()
        middle = self.began + seconds / 2
        self.full = (middle, middle + FULL_S) if can_fill else (0.0, 0.0)
        self.end = self.began + seconds
        self.killed = 0
        self.memory: list[tuple[float, float]] = []  # seconds since the start, MB of the largest worker

    async def run(self) -> None:
        filled, next_kill = False, self.began + KILL_EVERY_S
        while time.time() < self.end:
            now = time.time()
            if self.can_fill and not filled and now >= self.full[0]:
                self.fill()
                filled, self.full = True, (time.time(), time.time() + FULL_S)
            if filled and now >= self.full[1]:
                (self.folder / "filler").unlink(missing_ok=True)
            near = self.can_fill and self.full[0] - 5 <= now <= self.full[1] + 10  # its counter would die with a worker
            if now >= next_kill and not near:
                self.kill()
                next_kill += KILL_EVERY_S
            self.sample()
            await asyncio.sleep(min(SAMPLE_S, max(self.end - time.time(), 0)))

    def workers(self) -> list[int]:
        """Processes with an event loop; the first of the family is their parent, and one tracks resources."""
        return [
            pid for pid in family(self.server.pid)[1:] if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def kill(self) -> None:
        workers = self.workers()
        if workers:
            os.kill(random.Random(self.killed).choice(workers), signal.SIGKILL)
            self.killed += 1

    def fill(self) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as file:
            for size in (2**20, 2**12, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def sample(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE") / 1e6
        sizes = []
        for pid in self.workers():
            try:
                sizes.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page)
            except (FileNotFoundError, ProcessLookupError):
                continue
        if sizes:
            self.memory.append((time.time() - self.began, max(sizes)))


def judge(db: Path, answers: list[Answer], full: tuple[float, float], margin_s: float = 1.0) -> dict:
    """What the log lacks of what clients were told, and what tenants have spent."""
    rows = {decision.id: (decision, outcome) for decision, outcome in DecisionLog(db).rows()}
    missing: Counter[str] = Counter()
    gap = 0
    for answer in answers:
        if not answer.decision_id:
            continue
        inside = full[0] - margin_s <= answer.ended and answer.began <= full[1] + margin_s
        decision, outcome = rows.get(answer.decision_id, (None, None))
        if decision is None:
            gap += inside
            missing["decision"] += not inside
        elif abs(sum(decision.probabilities) - 1) > 1e-6:
            missing["probabilities"] += 1
        elif outcome is None or (outcome.latency_s is None and not outcome.timed_out):
            missing["outcome inside" if inside else "outcome"] += 1
    spent: Counter[str] = Counter()
    for decision, outcome in rows.values():
        spent[decision.tenant] += (outcome.cost_usd or 0.0) if outcome is not None else 0.0
    overrun = {name: spent[name] / usd - 1 for name, usd in TENANTS.items() if usd is not None}
    return {
        "decisions": len(rows),
        "without_outcome": sum(outcome is None for _, outcome in rows.values()),
        "censored": sum(outcome is not None and outcome.timed_out for _, outcome in rows.values()),
        "missing_outside_the_full_minute": {name: count for name, count in missing.items() if count},
        "not_logged_while_full": gap,
        "counted_as_unlogged": DecisionLog(db).counts()["unlogged"],
        "spent_usd": {name: round(usd, 6) for name, usd in spent.items()},
        "budget_overrun": {name: round(value, 6) for name, value in overrun.items()},
    }


def soak(minutes: float, rate: float) -> dict:
    seconds = 60 * minutes
    with disk(DISK_MB) as (folder, can_fill):
        stub_port, port = free_port(), free_port()
        prices = {"small": 1, "large": 10}
        models = {name: MODEL.format(price, UPSTREAM.format(stub_port)) for name, price in prices.items()}
        (folder / "models.yaml").write_text(TABLE.format(**models))
        file = KeyFile(folder / "keys.json")
        budgets = {name: None if usd is None else TenantBudget(usd=usd, per="total") for name, usd in TENANTS.items()}
        keys = {name: file.add(name, tenant=name, budget=budget)[1] for name, budget in budgets.items()}
        stub = subprocess.Popen([sys.executable, str(HERE / "serve_faults.py"), str(stub_port)], stdout=subprocess.PIPE)
        words = [sys.executable, "-m", "sage", "serve", "--port", str(port), "--workers", "2", "--keys", "keys.json"]
        said = tempfile.TemporaryFile()  # noqa: SIM115 (the server writes to it for as long as it runs)
        server = subprocess.Popen(
            words, cwd=folder, stderr=said, stdout=said, env=dict(os.environ, OMP_NUM_THREADS="1")
        )
        try:
            asyncio.run(ready(port))
            troubles = Troubles(server, folder, can_fill, seconds)

            async def both() -> tuple[list[Answer], Counter[str]]:
                found, _ = await asyncio.gather(load(port, keys, rate, seconds), troubles.run())
                return found

            answers, failed = asyncio.run(both())
        finally:
            server.terminate()
            server.wait(60)
            stub.kill()
        result = judge(folder / "sage.db", answers, troubles.full)
        said.seek(0)
        errors = [line for line in said.read().decode(errors="replace").splitlines() if "Traceback" in line]
    later = [size for at, size in troubles.memory if at > seconds / 3]
    return {
        "minutes": minutes,
        "rate_per_s": rate,
        "acknowledged": sum(bool(answer.decision_id) for answer in answers),
        "answered": sum(answer.complete for answer in answers),
        "statuses": dict(Counter(str(answer.status) for answer in answers)),
        "got_nothing": dict(failed),
        "workers_killed": troubles.killed,
        "disk_was_full_s": FULL_S if can_fill else 0.0,
        "largest_worker_mb": {
            "after a third": round(later[0], 1),
            "at the end": round(later[-1], 1),
            "most": round(max(later), 1),
        },
        "tracebacks": len(errors),
        **result,
    }


async def ready(port: int) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(600):
            try:
                async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)
    raise RuntimeError("the server did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=300.0, help="requests per second")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    result = soak(options.minutes, options.rate)
    write_json(options.out, result)
    print(json.dumps(result, indent=1))
    sound = not result["missing_outside_the_full_minute"] and result["tracebacks"] == 0
    sound = sound and result["not_logged_while_full"] == result["counted_as_unlogged"]
    return 0 if sound and max(result["budget_overrun"].values()) <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())

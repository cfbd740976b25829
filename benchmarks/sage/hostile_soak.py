"""Honest clients of `sage serve` beside a hostile tenant and a hostile upstream: what they notice of them.

.venv/bin/python benchmarks/sage/hostile_soak.py                                       # writes results/hostile_soak.json
.venv/bin/python benchmarks/sage/hostile_soak.py --seconds 40 --phases 2 --out /tmp/hostile.json

Two workers, three honest tenants, and one hostile tenant with a valid key, whose attacks are in hostile_tenant.py. One model's
upstream is hostile (hostile_upstream.py); honest tenants are not routed to it. Phases without and with the hostile tenant take
turns, all at the same fixed rate of honest requests, so that a machine that others use is as busy in both. Then:

- the 99th percentile of honest requests in the hostile phases, over that of the others, is at most 1.5;
- no honest request fails, every one is in the log with its outcome, and so is every quality that was acknowledged;
- the server ends within 20 s of SIGTERM, no worker has more than 1,000 MB, and nothing is logged as a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import numpy as np
from hostile_tenant import ATTACKS
from serve_latency import HERE, family, free_port
from serve_soak import ready

from sage.files import write_json
from sage.log.decision_log import DecisionLog
from sage.serve.access.keys import KeyFile

RESULT = HERE / "results" / "hostile_soak.json"
HONEST, HOSTILE = ("team-a", "team-b", "team-c"), "mallory"
RATE = 30.0  # honest requests per second
MOST_RATIO, MOST_MB, MOST_END_S = 1.5, 1_000.0, 20.0
PAUSE_S = 2.0  # between phases, in which nothing is measured
UPSTREAM = "{{url: 'http://127.0.0.1:{0}/v1', dialects: [chat, messages]{1}}}"
MODEL = "{{input_usd_per_mtok: 1, output_usd_per_mtok: 1, upstream: " + UPSTREAM + "}}"
TABLE = """models:
  small: {honest}
  large: {honest}
  strange: {hostile}
roles:
  default: {{primary: large, fallback: small}}
  debugger: {{primary: strange, fallback: small}}
exploration: 0
serve: {{retries: 0}}
"""


class Honest(NamedTuple):
    """What an honest client got."""

    phase: int
    took_s: float
    status: int  # 0 where there was no answer
    complete: bool
    decision_id: str
    reported: bool  # the quality was acknowledged


async def honest_load(port: int, keys: dict[str, str], phase: int, seconds: float) -> list[Honest]:
    """Sends requests at a fixed rate, whether earlier ones are answered or not; half of them are followed by a quality."""
    chance, running, found = random.Random(phase), set(), []

    async def one(number: int) -> None:
        streams = chance.random() < 0.3
        body = {"model": "sage", "messages": [{"role": "user", "content": f"task {number} " * 20}], "stream": streams}
        headers = {"authorization": f"Bearer {keys[HONEST[number % len(HONEST)]]}", "x-session-id": f"{phase}-{number}"}
        began, status, complete, decision, reported = time.perf_counter(), 0, False, "", False
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.post("/v1/chat/completions", json=body, headers=headers) as answer:
                text, status = await answer.read(), answer.status
                decision = answer.headers.get("x-sage-decision-id", "")
                complete = status == 200 and (not streams or text.rstrip().endswith(b"[DONE]"))
        took_s = time.perf_counter() - began
        if decision and number % 2:
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                report = {"decision_id": decision, "quality": 1.0}
                async with session.post("/v1/outcomes", json=report, headers=headers) as answer:
                    reported = answer.status == 200
        found.append(Honest(phase, took_s, status, complete, decision, reported))

    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=timeout) as session:
        began = time.perf_counter()
        for number in range(int(RATE * seconds)):
            await asyncio.sleep(max(began + number / RATE - time.perf_counter(), 0))
            running.add(task := asyncio.create_task(one(number)))
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)
    return found


class Plan(NamedTuple):
    """How long, in how many phases, and which attacks."""

    seconds: float  # of a phase
    phases: int
    part: str  # of the names of attacks; empty for all


async def in_turns(port: int, keys: dict[str, str], plan: Plan) -> tuple[list[Honest], dict[str, Counter[str]]]:
    """Runs phases without (even) and with (odd) the hostile tenant; what honest clients got, and the attacker."""
    found, answers = [], {attack.name: Counter() for attack in ATTACKS if plan.part in attack.name}
    program, environment = HERE / "hostile_tenant.py", dict(os.environ, HOSTILE_KEY=keys[HOSTILE])
    await honest_load(port, keys, -1, min(plan.seconds, 5.0))  # connections and caches are made
    for phase in range(plan.phases):
        words, attack = [sys.executable, str(program), str(port), plan.part], None
        if phase % 2:
            attack = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
            await asyncio.sleep(PAUSE_S)  # it starts
        found += await honest_load(port, keys, phase, plan.seconds)
        if attack is not None:
            attack.terminate()
            told, _ = attack.communicate(timeout=60)
            for name, counts in json.loads(told).items():
                answers[name].update(counts)
        await asyncio.sleep(PAUSE_S)
    return found, answers


async def watch_memory(server: subprocess.Popen, most: list[float]) -> None:
    page = os.sysconf("SC_PAGE_SIZE") / 1e6
    while True:
        for pid in family(server.pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                most[0] = max(most[0], int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page)
        await asyncio.sleep(0.2)


def milliseconds(found: list[Honest], share: float) -> float:
    return round(1_000 * float(np.quantile([one.took_s for one in found], share)), 2)


def judge(db: Path, found: list[Honest]) -> dict:
    """What honest clients were told and the log lacks."""
    rows = {decision.id: outcome for decision, outcome in DecisionLog(db).rows()}
    lost: Counter[str] = Counter()
    for one in found:
        outcome = rows.get(one.decision_id)
        if one.status != 200 or not one.complete:
            lost[f"answer with status {one.status}"] += 1
        if one.decision_id and one.decision_id not in rows:
            lost["decision"] += 1
        elif one.decision_id and (outcome is None or outcome.latency_s is None):
            lost["outcome"] += 1
        elif one.reported and (outcome is None or outcome.quality != 1.0):
            lost["quality"] += 1
    return {"decisions_in_the_log": len(rows), "lost": dict(lost)}


def soak(plan: Plan) -> dict:
    with tempfile.TemporaryDirectory() as name:
        folder, ports = Path(name), {kind: free_port() for kind in ("honest", "hostile")}
        port, program = free_port(), HERE / "hostile_upstream.py"
        limits = ", timeout_s: 20, first_byte_s: 5, stall_s: 5"
        models = {"honest": MODEL.format(ports["honest"], ""), "hostile": MODEL.format(ports["hostile"], limits)}
        (folder / "models.yaml").write_text(TABLE.format(**models), encoding="utf-8")
        file = KeyFile(folder / "keys.json")
        keys = {tenant: file.add(tenant, tenant=tenant)[1] for tenant in (*HONEST, HOSTILE)}
        upstreams = [
            subprocess.Popen([sys.executable, str(program), str(at), kind], stdout=subprocess.PIPE)
            for kind, at in ports.items()
        ]
        words = [sys.executable, "-m", "sage", "serve", "--port", str(port), "--workers", "2", "--keys", "keys.json"]
        with (folder / "said.txt").open("wb") as said:
            environment = dict(os.environ, OMP_NUM_THREADS="1")
            server = subprocess.Popen(words, cwd=folder, stderr=said, stdout=said, env=environment)
        most = [0.0]

        async def everything() -> tuple[list[Honest], dict[str, Counter[str]]]:
            await ready(port)
            memory = asyncio.create_task(watch_memory(server, most))
            try:
                return await in_turns(port, keys, plan)
            finally:
                memory.cancel()

        try:
            found, answers = asyncio.run(everything())
        finally:
            began = time.perf_counter()
            server.terminate()
            ended_s = ended_after(server, began)
            for upstream in upstreams:
                upstream.kill()
                upstream.wait()
        lines = (folder / "said.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        result = judge(folder / "sage.db", found)
    return {
        "phases": plan.phases,
        "seconds_per_phase": plan.seconds,
        "honest_per_s": RATE,
        **timing(found, plan.phases),
        **result,
        "attacks_per_s": {attack.name: attack.per_s for attack in ATTACKS if attack.name in answers},
        "answers_to_attacks": {name: dict(counts) for name, counts in answers.items()},
        "largest_process_mb": round(most[0], 1),
        "ended_after_s": round(ended_s, 1),
        "tracebacks": sum("Traceback" in line for line in lines),
        "said": dict(Counter(line[:200] for line in lines if line and not line.startswith(" ")).most_common(20)),
    }


def ended_after(server: subprocess.Popen, began: float) -> float:
    try:
        server.wait(120)
    except subprocess.TimeoutExpired:
        for pid in reversed(family(server.pid)):
            os.kill(pid, 9)
        server.wait()
    return time.perf_counter() - began


def timing(found: list[Honest], phases: int) -> dict:
    """Percentiles of honest requests without and with the hostile tenant, together and by phase."""
    quiet, hostile = ([one for one in found if one.phase % 2 == odd] for odd in (0, 1))
    by_phase = [milliseconds([one for one in found if one.phase == phase], 0.99) for phase in range(phases)]
    return {
        "honest_requests": len(found),
        "p50_ms": {"without": milliseconds(quiet, 0.5), "with": milliseconds(hostile, 0.5)},
        "p99_ms": {"without": milliseconds(quiet, 0.99), "with": milliseconds(hostile, 0.99)},
        "p99_ratio": round(milliseconds(hostile, 0.99) / milliseconds(quiet, 0.99), 3),
        "p99_ms_by_phase": by_phase,
    }


def sound(result: dict) -> bool:
    fast = result["p99_ratio"] <= MOST_RATIO and result["ended_after_s"] <= MOST_END_S
    return fast and not result["lost"] and result["largest_process_mb"] <= MOST_MB and not result["tracebacks"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="of all phases together")
    parser.add_argument("--phases", type=int, default=10, help="an even number: without and with, in turns")
    parser.add_argument("--attacks", default="", metavar="TEXT", help="only those whose name has this text")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    if options.phases < 2 or options.phases % 2:
        parser.error(f"--phases {options.phases} must be an even number from 2: half of them are hostile")
    if not any(options.attacks in attack.name for attack in ATTACKS):
        parser.error(f"--attacks {options.attacks!r} is in none of: {'; '.join(attack.name for attack in ATTACKS)}")
    result = soak(Plan(options.seconds / options.phases, options.phases, options.attacks))
    write_json(options.out, result)
    print(json.dumps(result, indent=1))
    return 0 if sound(result) else 1


if __name__ == "__main__":
    sys.exit(main())

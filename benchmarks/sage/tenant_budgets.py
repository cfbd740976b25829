"""By how much a tenant's budget is overrun when many clients spend it at once through `sage serve`.

.venv/bin/python benchmarks/sage/tenant_budgets.py                       # writes results/tenant_budgets.json
.venv/bin/python benchmarks/sage/tenant_budgets.py --usd 0.2 --out /tmp/x.json

A stub upstream bills what it answers: it counts its own tokens at the prices of models.yaml, and this sum is what the budget
is compared with, not the server's own count. 32 clients ask two workers until nothing is served any more. Scenarios differ in what
is known of an answer's length, in faults of the upstream (a fifth of the calls to the cheap model fail, and the dear one is
asked), and in a worker that is killed while calls are in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import aiohttp
from aiohttp import web

from sage.files import write_json
from sage.log.budget_settings import TenantBudget
from sage.log.decision_log import DecisionLog
from sage.serve.access.keys import KeyFile

RESULT = Path(__file__).parent / "results" / "tenant_budgets.json"
PRICES = {"cheap": (0.1, 0.4), "dear": (1.0, 4.0)}  # USD per million tokens of input and of output
CLIENTS, WORKERS, LIMIT, TYPICAL = 32, 2, 1000, 500
SCENARIOS = {
    "the request limits the answer": {"max_tokens": True},
    "models.yaml limits the answer": {"model_limit": True},
    "nothing limits the answer": {},
    "faults, and dearer fallbacks": {"max_tokens": True, "faults": 0.2},
    "a worker is killed": {"max_tokens": True, "kills": 3},
}


class Stub:
    """Answers after some milliseconds, and bills; without a limit an answer is as long as chance wants, of the typical mean."""

    def __init__(self, faults: float, limited: bool) -> None:
        self.random, self.faults, self.limited, self.billed, self.calls = random.Random(0), faults, limited, 0.0, 0

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        model = json.loads(body)["model"]
        await asyncio.sleep(self.random.uniform(0.001, 0.02))
        if model == "cheap" and self.random.random() < self.faults:
            return web.json_response({"error": {"message": "overloaded"}}, status=503)
        tokens_in = len(body) // 3  # more than the four characters a token that are usual
        if self.limited:
            tokens_out = self.random.choice((LIMIT, self.random.randint(1, LIMIT)))
        else:
            tokens_out = int(self.random.lognormvariate(math.log(TYPICAL) - 0.5, 1.0)) + 1
        self.calls += 1
        self.billed += (tokens_in * PRICES[model][0] + tokens_out * PRICES[model][1]) / 1e6
        message = {"role": "assistant", "content": "x"}
        return web.json_response(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": model,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out},
            }
        )


def table(url: str, model_limit: bool) -> str:
    limit = f", max_output_tokens: {LIMIT}" if model_limit else ""
    models = "\n".join(
        f"  {name}: {{input_usd_per_mtok: {given}, output_usd_per_mtok: {answered}, output_tokens: {TYPICAL}{limit}, "
        f"upstream: {{url: '{url}'}}}}"
        for name, (given, answered) in PRICES.items()
    )
    roles = "roles: {default: {primary: cheap, fallback: dear}}"
    return f"models:\n{models}\n{roles}\nexploration: 0.5\nserve: {{retries: 0, breaker_failures: 1000000}}\n"


async def spend(session: aiohttp.ClientSession, url: str, key: str, body: dict, statuses: dict[int, int]) -> None:
    """Asks until a call is refused for the budget's sake."""
    while True:
        with suppress(aiohttp.ClientError):  # of a worker that was killed
            async with session.post(url, json=body, headers={"authorization": f"Bearer {key}"}) as response:
                await response.read()
                statuses[response.status] = statuses.get(response.status, 0) + 1
                if response.status == 402:
                    return


def workers_of(program: subprocess.Popen) -> list[int]:
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    return [int(pid) for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


async def run(
    folder: Path,
    usd: float,
    *,
    max_tokens: bool = False,
    model_limit: bool = False,
    faults: float = 0.0,
    kills: int = 0,
) -> dict:
    stub = Stub(faults, max_tokens or model_limit)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", stub.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # pyrefly: ignore
    (folder / "models.yaml").write_text(table(f"http://127.0.0.1:{port}/v1", model_limit))
    budget = TenantBudget(usd=usd, per="total")
    _, key = KeyFile(folder / "sage-keys.json").add("team", budget=budget)
    program = subprocess.Popen(
        [sys.executable, "-m", "sage", "serve", "--port", "0", "--workers", str(WORKERS)],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    url = (await asyncio.to_thread(program.stdout.readline)).split()[2]  # pyrefly: ignore
    body = {"model": "any", "messages": [{"role": "user", "content": "repair the parser " * 20}]}
    body |= {"max_tokens": LIMIT} if max_tokens else {}
    statuses: dict[int, int] = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        clients = [
            asyncio.ensure_future(spend(session, f"{url}/v1/chat/completions", key, body, statuses))
            for _ in range(CLIENTS)
        ]
        for number in range(kills):
            while stub.billed < usd * (number + 1) / (kills + 1):
                await asyncio.sleep(0.01)
            os.kill(workers_of(program)[-1], signal.SIGKILL)
        await asyncio.gather(*clients)
    program.send_signal(signal.SIGTERM)
    await asyncio.to_thread(program.wait)
    await runner.cleanup()
    log = DecisionLog(folder / "sage.db")
    counted = log.tenant_spent("team", budget, 0.0)
    log.close()
    return {
        "calls": stub.calls,
        "billed_usd": stub.billed,
        "counted_usd": counted,
        "overrun": max(stub.billed / usd - 1, 0.0),
        "unspent": max(1 - stub.billed / usd, 0.0),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--usd", type=float, default=1.0, help="the budget")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    found = {}
    for name, scenario in SCENARIOS.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = asyncio.run(run(Path(folder), options.usd, **scenario))
        print(
            f"{name}: overrun {found[name]['overrun']:.3%}, unspent {found[name]['unspent']:.3%}, {found[name]['calls']} calls"
        )
    write_json(options.out, {"budget_usd": options.usd, "clients": CLIENTS, "workers": WORKERS, "scenarios": found})


if __name__ == "__main__":
    main()

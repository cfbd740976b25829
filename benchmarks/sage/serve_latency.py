"""What `sage serve` adds to a call: latency, first byte, CPU and throughput against a stub, with everything logged.

.venv/bin/python benchmarks/sage/serve_latency.py                                # adds to results/serve_latency.json
.venv/bin/python benchmarks/sage/serve_latency.py --litellm VENV/bin/litellm     # LiteLLM's proxy in the same run
chrt -f 1 .venv/bin/python benchmarks/sage/serve_latency.py                      # before other programs

Starts a stub that answers at once, `sage serve` in front of it and, if asked, LiteLLM's proxy; sends requests of 1 kB over
one connection to each in turn, and takes the difference of neighbours. Then many connections at once. Every program has one
thread for arithmetic. On a machine that others use, their share is in the times: the CPU time per request stands beside
them. Every run is added to the file. At the end every request must be in the log with its outcome, or the run fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sage.files import write_json
from sage.log.decision_log import DecisionLog

HERE = Path(__file__).parent
RESULT = HERE / "results" / "serve_latency.json"
MODEL = "{{input_usd_per_mtok: {0}, output_usd_per_mtok: {0}, upstream: {{url: 'http://127.0.0.1:{1}/v1'}}}}"
TABLE = """models:
  small: {small}
  medium: {medium}
  large: {large}
roles:
  default: {{primary: medium, fallback: small, triggers: [{{when: task_complexity_score > 0.8, use: large}}]}}
exploration: 0.1
"""
LITELLM = """model_list:
  - model_name: medium
    litellm_params: {{model: openai/medium, api_base: 'http://127.0.0.1:{0}/v1', api_key: none}}
litellm_settings: {{telemetry: false}}
"""
LITELLM_ENVIRONMENT = {  # nothing from the network, and no key, as sage needs none here
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "PYTHONPATH": "",
}
TASK = "fix the parser in src/app/main.py when input is empty; ValueError: x = {} " * 12
SCHEDULERS = {os.SCHED_OTHER: "as others", os.SCHED_FIFO: "before others (fifo)"}
START_S = 180.0
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Program:
    """A server that runs, and where."""

    port: int
    process: subprocess.Popen
    start_s: float

    def cpu_s(self) -> float:
        """Of the process and its children, which ended or not."""
        return sum(cpu_of(pid) for pid in family(self.process.pid))

    def memory_mb(self) -> float:
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in family(self.process.pid)]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family(int(child)))]


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextmanager
def running(words: list[str], port: int, folder: Path, **more: str) -> Iterator[Program]:
    began, said = time.perf_counter(), folder / f"{port}.txt"
    with said.open("w") as output:
        environment = dict(os.environ, OMP_NUM_THREADS="1", **more)
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        while True:
            if process.poll() is not None or time.perf_counter() - began > START_S:
                raise RuntimeError(f"{words} did not start: {said.read_text()[-500:]}")
            try:
                Connection(port).request(False)
                break
            except (OSError, ValueError):
                time.sleep(0.02)
        yield Program(port, process, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait(30)


class Connection:
    """A client that is as small as it can be."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, stream: bool) -> tuple[float, float]:
        """Seconds to the first byte of an answer's body, and to its end."""
        began, received, first, needed = time.perf_counter(), b"", 0.0, -1
        self.socket.sendall(request_bytes(stream))
        while True:
            data = self.socket.recv(262_144)
            if not data:
                raise ValueError("the server closed the connection")
            received += data
            head = received.find(b"\r\n\r\n")
            if not first and 0 <= head < len(received) - 4:
                first = time.perf_counter() - began
            if head >= 0 and needed == -1:
                if not received.startswith(b"HTTP/1.1 200"):
                    raise ValueError(received[:300])
                needed = length_of(received[:head])
            complete = received.endswith(b"0\r\n\r\n") if needed is None else head + 4 + needed == len(received)
            if needed != -1 and complete:
                return first, time.perf_counter() - began


def length_of(head: bytes) -> int | None:
    lines = head.lower().split(b"\r\n")
    return next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)


def request_bytes(stream: bool, made: dict[bool, bytes] = {}) -> bytes:  # noqa: B006 (a cache)
    if stream not in made:
        body = json.dumps(
            {"model": "medium", "messages": [{"role": "user", "content": TASK}], "stream": stream}
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n"
        made[stream] = f"{head}content-type: application/json\r\nauthorization: Bearer sk-none\r\n\r\n".encode() + body
    return made[stream]


def sequential(programs: dict[str, Program], requests: int, stream: bool) -> dict:
    """Requests to all programs in turn; the first is the stub itself."""
    connections = {name: Connection(program.port) for name, program in programs.items()}
    times = {name: np.empty((requests, 2)) for name in programs}
    for connection in connections.values():
        for _ in range(20):
            connection.request(stream)
    before = {name: program.cpu_s() for name, program in programs.items()}
    for number in range(requests):
        for name, connection in connections.items():
            times[name][number] = connection.request(stream)
    direct = times["direct"]
    result = {"direct": {"end_ms": quantiles(direct[:, 1]), "first_byte_ms": quantiles(direct[:, 0])}}
    for name in list(programs)[1:]:
        added = times[name] - direct
        result[name] = {
            "added_ms": quantiles(added[:, 1]),
            "added_first_byte_ms": quantiles(added[:, 0]),
            "cpu_ms_per_request": round(1e3 * (programs[name].cpu_s() - before[name]) / requests, 3),
        }
    return result


def quantiles(seconds: np.ndarray) -> dict[str, float]:
    return {f"p{q}": round(1e3 * float(np.percentile(seconds, q)), 3) for q in (50, 90, 99)}


async def throughput(port: int, connections: int, seconds: float) -> tuple[int, float]:
    """Requests that were answered, and the time that they took."""
    end, done = time.perf_counter() + seconds, 0

    async def one() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        while time.perf_counter() < end:
            writer.write(request_bytes(False))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise ValueError(head)
            await reader.readexactly(length_of(head) or 0)
            done += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return done, time.perf_counter() - began


def loaded(program: Program, connections: int, seconds: float) -> dict:
    import uvloop

    before = program.cpu_s()
    done, took = uvloop.run(throughput(program.port, connections, seconds))
    cpu = round(1e3 * (program.cpu_s() - before) / done, 3)
    return {
        "requests_per_s": round(done / took),
        "cpu_ms_per_request": cpu,
        "connections": connections,
        "requests": done,
    }


def check_log(path: Path) -> dict[str, int]:
    """Every decision has its outcome, and probabilities that add up to 1; else the run is worth nothing."""
    counts = DecisionLog(path).counts()
    assert counts["without_outcome"] == counts["unlogged"] == 0, counts
    for decision, outcome in DecisionLog(path).rows():
        assert abs(sum(decision.probabilities) - 1) < 1e-6
        assert outcome is not None
        assert outcome.cost_usd is not None
    return {"decisions": counts["decisions"], "with_outcome": counts["with_outcome"]}


def measure(options: argparse.Namespace, folder: Path) -> dict:
    stub_port, port, many_port = free_port(), free_port(), free_port()
    prices = {"small": 0.25, "medium": 3, "large": 15}
    models = {name: MODEL.format(price, stub_port) for name, price in prices.items()}
    (folder / "models.yaml").write_text(TABLE.format(**models))
    result: dict = {}
    with ExitStack() as stack:
        start = lambda words, at, **more: stack.enter_context(running(words, at, folder, **more))  # noqa: E731
        programs = {"direct": start([sys.executable, str(HERE / "serve_stub.py"), str(stub_port)], stub_port)}
        serve = [sys.executable, "-m", "sage", "serve", "--port"]
        programs["sage"] = start([*serve, str(port), "--db", "one.db"], port)
        if options.litellm:
            lite_port = free_port()
            (folder / "litellm.yaml").write_text(LITELLM.format(stub_port))
            words = [options.litellm, "--config", "litellm.yaml", "--port", str(lite_port), "--host", "127.0.0.1"]
            programs["litellm"] = start(words, lite_port, **LITELLM_ENVIRONMENT)
        result["whole"] = sequential(programs, options.requests, stream=False)
        result["stream"] = sequential(programs, options.requests, stream=True)
        result["programs"] = {
            name: {"start_s": round(program.start_s, 2), "memory_mb": round(program.memory_mb())}
            for name, program in list(programs.items())[1:]
        }
        result["loaded"] = {name: loaded(program, 16, options.seconds) for name, program in programs.items()}
        two = start([*serve, str(many_port), "--db", "two.db", "--workers", "2"], many_port)
        result["loaded"]["sage, 2 workers"] = loaded(two, 16, options.seconds)
    result["log"] = {name: check_log(folder / f"{name}.db") for name in ("one", "two")}
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="one after another, to each program")
    parser.add_argument("--seconds", type=float, default=8.0, help="of many connections at once")
    parser.add_argument("--litellm", help="path of LiteLLM's program, in an environment of its own")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = measure(options, Path(name))
    how = {"scheduler": SCHEDULERS.get(os.sched_getscheduler(0), "other"), "load": os.getloadavg()[0]}
    result = {"cpus": os.cpu_count(), **how, "requests": options.requests, **result}
    print(json.dumps(result, indent=2))
    earlier = json.loads(options.out.read_text())["runs"] if options.out.exists() else []
    write_json(options.out, {"runs": [*earlier, result]})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Models that answer as a test says, over HTTP on loopback, and a project for them to change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sage.agent.prompts import DUTIES
from tests.sage.serve.scripted import Asked, Reply, Upstream, whole

TABLE = """
models:
  small: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2, upstream: {{url: "{url}", key_env: UP_KEY}}}}
  large: {{input_usd_per_mtok: 10, output_usd_per_mtok: 20, upstream: {{url: "{url}", key_env: UP_KEY}}}}
roles:
  default: {{primary: small, fallback: large}}
serve: {{retries: 0}}
"""
CASCADE = "cascade: {coder: {ladder: [small, large], verifiers: [tests], exploration: 0}}\n"
KEY = "upstream-key-of-the-tests"
USAGE = {"prompt_tokens": 1000, "completion_tokens": 30}
SMALL_USD, LARGE_USD = (1000 * 1 + 30 * 2) / 1e6, (1000 * 10 + 30 * 20) / 1e6
PROJECT = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    "conftest.py": "",
}
PLAN = "```plan\ncoder: add a function double(a) to calc.py\ntest_engineer: add a test of it\n```"
WRONG = "I add it.\n```write calc.py\ndef add(a, b):\n    return a - b\n\n\ndef double(a):\n    return add(a, a)\n```\n```done\n```"
RIGHT = (
    "```edit calc.py\n<<<<<<< SEARCH\n    return a + b\n=======\n    return a + b\n\n\ndef double(a):\n    return add(a, a)\n"
    ">>>>>>> REPLACE\n```\n```done\n```"
)
REPAIR = (
    "```edit calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n```\n"
    "```done\nthe sign was wrong\n```"
)
TEST = (
    "```write tests/test_double.py\nfrom calc import double\n\n\ndef test_double():\n    assert double(4) == 8\n```\n"
    "```done\n```"
)
APPROVE = "```approve\n```"

Said = str | Reply
Answers = dict[str, list[Said] | Callable[[str], Said]]  # by role: one after the other, or by the model's name


@dataclass
class Models:
    """What was asked of whom: (role, model) of every call, and the last words that it was told."""

    upstream: Upstream
    asked: list[tuple[str, str]]
    told: list[str]


def completion(text: str, finish: str = "stop") -> Reply:
    message = {"role": "assistant", "content": text}
    return whole({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE})


@contextmanager
def scripted(folder: Path, answers: Answers, extra: str = "") -> Iterator[Models]:
    """Writes models.yaml into the folder."""

    def answer(request: Asked) -> Reply:
        system, last = request.values["messages"][0]["content"], request.values["messages"][-1]["content"]
        role, model = next(role for role, duty in DUTIES.items() if duty in system), request.values["model"]
        found.asked.append((role, model))
        found.told.append(last)
        given = answers[role]
        said = given(model) if callable(given) else given.pop(0)
        return said if isinstance(said, Reply) else completion(said)

    found = Models(Upstream(answer), [], [])
    with serving(folder, found.upstream, extra):
        yield found


@contextmanager
def serving(folder: Path, upstream: Upstream, extra: str = "") -> Iterator[None]:
    """Both models of models.yaml, which is written into the folder, are the upstream."""
    ready, loop = threading.Event(), asyncio.new_event_loop()

    def serve() -> None:
        server = loop.run_until_complete(upstream.start())
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        (folder / "models.yaml").write_text(TABLE.format(url=url) + extra)
        ready.set()
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        server.close()
        loop.run_until_complete(asyncio.sleep(0))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()

"""`sage serve` with a real language model on this machine: every dialect is answered, logged and accounted for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sage.local_models.registry import Registry
from sage.log.decision_log import DecisionLog
from sage.settings import LOCAL_MODELS
from tests import needs
from tests.sage.local_models.smollm import SHA256, smollm_file

needs.import_package("xllamacpp")
TABLE = """\
models:
  small: {input_usd_per_mtok: 1, output_usd_per_mtok: 2, upstream: {local: smollm2, dialects: [chat, responses, messages]}}
roles:
  default: {primary: small, fallback: small}
"""
CHAT = [{"role": "user", "content": "hi"}]
REQUESTS = {
    "chat/completions": {"messages": CHAT, "max_tokens": 3},
    "responses": {"input": "hi", "max_output_tokens": 3},
    "messages": {"messages": CHAT, "max_tokens": 3},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Registry(tmp_path / "names").add("smollm2", smollm_file(), SHA256)
    (tmp_path / "models.yaml").write_text(TABLE, encoding="utf-8")
    return tmp_path


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The URL of a server, which has written all that it knows when this ends."""
    environment = {**os.environ, LOCAL_MODELS: str(folder / "names")}
    command = [sys.executable, "-m", "sage", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        yield next(word for word in said if word.startswith("http://"))
        process.terminate()


def ask(url: str, body: dict) -> tuple[str, Mapping[str, str]]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode(), response.headers


def test_every_dialect_reaches_the_model_and_the_log(folder: Path) -> None:
    decisions = []
    with serving(folder) as url:
        for path, body in REQUESTS.items():
            answer, headers = ask(f"{url}/v1/{path}", {"model": "any", "temperature": 0} | body)
            assert "Hello there!" in answer
            assert headers["x-sage-model"] == "small"
            decisions.append(headers["x-sage-decision-id"])
        ask(f"{url}/v1/outcomes", {"decision_id": decisions[0], "quality": 1.0})
    rows = {decision.id: (decision, outcome) for decision, outcome in DecisionLog.open(folder / "sage.db").rows()}
    assert set(rows) == set(decisions)
    for decision, outcome in rows.values():
        assert (decision.data_source, decision.probabilities) == ("real", (1.0,))
        assert outcome is not None
        assert outcome.tokens_out == 3
        assert outcome.cost_usd == pytest.approx((outcome.tokens_in + 2 * 3) / 1e6)
    assert rows[decisions[0]][1].quality == 1.0

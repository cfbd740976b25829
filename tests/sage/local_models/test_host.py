"""A real model in a process of its own: all dialects, and nothing is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sage.local_models import host
from sage.local_models.host import LocalServer
from sage.local_models.registry import LocalModelError, Registry, hash_of
from tests import needs
from tests.sage.local_models.smollm import SHA256, smollm_file

needs.import_package("xllamacpp")
CHAT = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    registry = Registry(tmp_path_factory.mktemp("names"))
    registry.add("smollm2", smollm_file(), SHA256)
    return registry


@pytest.fixture(scope="module")
def server(registry: Registry) -> Iterator[LocalServer]:
    with host.start("smollm2", registry=registry, context=256) as server:
        yield server


def post(server: LocalServer, path: str, **body: object) -> str:
    request = urllib.request.Request(
        f"{server.url}/{path}",
        json.dumps({"model": "smollm2", "temperature": 0} | body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


def test_it_answers_chat_completions_with_usage_and_its_name(server: LocalServer) -> None:
    answer = json.loads(post(server, "chat/completions", messages=CHAT, max_tokens=3))
    assert answer["choices"][0]["message"]["content"] == "Hello there!"
    assert (answer["model"], answer["usage"]["completion_tokens"]) == ("smollm2", 3)


def test_a_stream_gives_the_same_answer_piece_by_piece(server: LocalServer) -> None:
    lines = post(server, "chat/completions", messages=CHAT, max_tokens=3, stream=True).split("\n\n")
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    pieces = [choice["delta"].get("content") or "" for event in events for choice in json.loads(event)["choices"]]
    assert "".join(pieces) == "Hello there!"
    assert sum(map(bool, pieces)) == 3


def test_it_answers_responses(server: LocalServer) -> None:
    answer = json.loads(post(server, "responses", input="hi", max_output_tokens=3))
    assert answer["output"][0]["content"][0]["text"] == "Hello there!"


def test_it_answers_messages(server: LocalServer) -> None:
    answer = json.loads(post(server, "messages", messages=CHAT, max_tokens=3))
    assert answer["content"][0]["text"] == "Hello there!"
    assert answer["stop_reason"] == "max_tokens"


def test_pages_of_other_sites_and_prompts_of_others_are_out_of_reach(server: LocalServer) -> None:
    request = urllib.request.Request(f"{server.url}/models", headers={"origin": "https://elsewhere.example"})
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.headers["access-control-allow-origin"] not in ("*", "https://elsewhere.example")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.url.removesuffix('/v1')}/slots", timeout=60)
    assert refused.value.code in (404, 501)


def test_it_listens_on_loopback_only_and_ends_when_closed(registry: Registry) -> None:
    server = host.start("smollm2", registry=registry, context=256)
    assert server.url.startswith("http://127.0.0.1:")
    server.close()
    assert server.process.returncode == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{server.url}/models", timeout=5)


PARENT = """
import sys
from pathlib import Path
from sage.local_models import host
from sage.local_models.registry import Registry
server = host.start("smollm2", registry=Registry(Path(sys.argv[1])), context=256)
print(server.pid, flush=True)
input()
"""


def test_it_ends_when_its_parent_is_killed(registry: Registry) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(registry.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    for _ in range(200):
        if not is_running(pid):
            return
        time.sleep(0.05)
    pytest.fail("the host outlived its parent by ten seconds")


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def test_a_file_that_is_no_model_is_a_sentence(registry: Registry, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    registry.add("broken", broken, hash_of(broken))
    with pytest.raises(LocalModelError, match=r"broken\.gguf: 'broken' did not start"):
        host.start("broken", registry=registry)

"""The page about serving: its table is read, and its client runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from sage.orchestrator.models_file import ModelsFile
from tests.sage.serve.answers import CHAT, table
from tests.sage.serve.scripted import proxy, whole

PAGE = (Path(__file__).parents[3] / "docs" / "sage" / "serve.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    return found


def test_the_table_of_the_page_is_read() -> None:
    models = ModelsFile.parse(block("yaml")).models
    assert [model.upstream.dialects for model in models.values() if model.upstream] == [
        ("chat", "responses"),
        ("messages", "chat"),
    ]


def test_the_client_of_the_page_runs(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        environment = dict(os.environ, OPENAI_BASE_URL=f"{served.url}/v1", OPENAI_API_KEY="none")
        done = subprocess.run(
            [sys.executable, "-c", block("python")], env=environment, capture_output=True, text=True, check=False
        )
        ((decision, _),) = served.logged()
    assert done.stdout == f"first {decision.id}\nHi\n", done.stderr
    assert decision.role == "debugger"


def test_every_route_is_on_the_page(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        paths = {route.path.partition("{")[0].rstrip("/") for route in served.application.asgi.routes}
    assert [path for path in paths if path not in PAGE] == []

"""The pages about serving: their table is read, and their client runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.upstream_settings import Upstream
from tests.sage.serve.answers import CHAT, table
from tests.sage.serve.scripted import proxy, whole

PAGES = Path(__file__).parents[3] / "docs" / "sage"
PAGE = (PAGES / "serve.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


def test_the_table_of_the_page_is_read() -> None:
    models = ModelsFile.parse(blocks("yaml")[0]).models
    assert [model.upstream.dialects for model in models.values() if model.upstream] == [
        ("chat", "responses"),
        ("messages", "chat"),
    ]


def test_the_names_and_the_cascade_of_the_page_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checks").mkdir()
    Path("checks", "test_answer.py").write_text("def test_it():\n    pass\n")
    whole_table, names, cascade = blocks("yaml")
    named = ModelsFile.parse(whole_table[: whole_table.index("serve:")] + names).serve
    assert (named.names["vendor/fast"].pin, named.other_names) == ("small", "refuse")
    table = ModelsFile.parse(whole_table[: whole_table.index("serve:")] + cascade)
    assert table.serve.cascades == ("coder",)
    assert table.cascade["coder"].ladder == ("small", "large")


def test_the_client_of_the_page_runs(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        (client,) = blocks("python", (PAGES / "clients.md").read_text(encoding="utf-8"))
        environment = dict(os.environ, OPENAI_BASE_URL=f"{served.url}/v1", OPENAI_API_KEY="none")
        done = subprocess.run(
            [sys.executable, "-c", client], env=environment, capture_output=True, text=True, check=False
        )
        ((decision, _),) = served.logged()
    assert done.stdout == f"first {decision.id}\nHi\n", done.stderr
    assert decision.role == "debugger"


def test_every_route_is_on_the_page(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        paths = {route.path.partition("{")[0].rstrip("/") for route in served.application.asgi.routes}
    assert [path for path in paths if path not in PAGE] == []


def test_the_limits_of_the_page_are_the_defaults() -> None:
    rows = re.findall(r"^\| `(\w+(?:_s|_bytes))` \| (\d+) \|", PAGE, flags=re.MULTILINE)
    limits = {field.name: field.default for field in fields(Upstream) if field.name.endswith(("_s", "_bytes"))}
    assert {name: float(value) for name, value in rows} == limits

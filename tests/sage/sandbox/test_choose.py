"""A backend is opened only if it is seen to hold; nothing falls back to the host."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sage.cli.main import main
from sage.sandbox import Backend, SandboxError, choose, diagnosis
from sage.sandbox.escapes import ATTEMPTS
from sage.sandbox.image import Image
from sage.sandbox.zygote import Zygote
from tests.sage.sandbox.backends import opened
from tests.sage.sandbox.test_escape_check import Host


def missing() -> Backend:
    raise SandboxError("it is not installed: install it")


def test_the_essential_attempts_exist() -> None:
    assert {attempt.name for attempt in ATTEMPTS} >= choose.ESSENTIAL


def test_the_first_backend_that_holds_is_given(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in opened("zygote", image):
        monkeypatch.setattr(choose, "BACKENDS", {"missing": missing, "zygote": lambda: Zygote(image)})
        backend = choose.open_backend()
        assert backend.name == "zygote"
        backend.close()


def test_what_does_not_hold_is_refused_even_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "ESSENTIAL", {"read the host's file"})
    monkeypatch.setattr(choose, "BACKENDS", {"missing": missing, "host": lambda: Host(tmp_path)})
    with pytest.raises(SandboxError, match=r'without one\. host: it does not hold "read the host.s file"'):
        choose.open_backend("host")
    with pytest.raises(SandboxError, match="missing: it is not installed: install it; host: it does not hold"):
        choose.open_backend()
    with pytest.raises(SandboxError, match="'vm' is not known: use auto, missing or host"):
        choose.open_backend("vm")


def test_the_doctor_names_what_holds_and_what_does_not(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [attempt for attempt in ATTEMPTS if attempt.name in ("read the host's file", "be root", "no filter")]
    real = diagnosis.attempts
    monkeypatch.setattr(diagnosis, "attempts", lambda backend: real(backend, few))
    monkeypatch.setattr(diagnosis, "STARTS", 1)
    monkeypatch.setattr(diagnosis, "BACKENDS", {"missing": missing, "host": lambda: Host(tmp_path)})
    assert main(["doctor", "--sandboxes"]) == 1
    shown = capsys.readouterr().out
    assert "missing     cannot be used: it is not installed: install it" in shown
    assert "ESCAPED files: read the host's file" in shown
    assert "No sandbox holds on this host" in shown
    for _ in opened("zygote", image):
        monkeypatch.setattr(diagnosis, "BACKENDS", {"zygote": lambda: Zygote(image)})
        assert main(["sim", "doctor", "--json"]) == 0
        (facts,) = json.loads(capsys.readouterr().out)
        assert (facts["backend"], facts["holds"], facts["attempts"], facts["escapes"]) == ("zygote", True, 3, [])


def test_the_example_of_the_page_runs(image: Image) -> None:
    page = Path(__file__).parents[3] / "docs" / "sage" / "sandboxes.md"
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) if "6 * 7" in block]
    for _ in opened("zygote", image):
        env = {**os.environ, "SAGE_CACHE_DIR": str(image.root.parents[2])}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert done.stdout == "b'42\\n'\n", done.stderr

"""An environment that dies or hangs is one sentence and exit code 2."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rl_training.cli.main import main
from tests.envs.hostile import Scripted

CONFIG = """
algorithm: {{name: ppo, n_steps: 8, batch_size: 8, n_epochs: 1}}
env: {{id: "{module}:{name}", n_envs: 2, vectorization: {vectorization}, timeout_s: 1.5}}
training: {{seed: 1, total_timesteps: 16, compile: false}}
"""


class Dies(Scripted):
    def __init__(self) -> None:
        super().__init__(on_step=lambda count: os._exit(3) if count == 3 else None)


class Hangs(Scripted):
    def __init__(self) -> None:
        super().__init__(on_step=lambda count: time.sleep(600) if count == 3 else None)


@pytest.mark.parametrize(
    ("name", "vectorization", "sentence"),
    [
        ("Dies", "async", "ended with exit code 3 during `step`"),
        ("Hangs", "async", "has not answered `step` for 1.5 s"),
        ("Hangs", "sync", "has not come back for 1.5 s"),
    ],
)
def test_the_exit_code_is_2(
    name: str, vectorization: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(module=__name__, name=name, vectorization=vectorization))
    assert main(["train", str(path), "--quiet", "--run-dir", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "environment 0 (seed " in line
    assert sentence in line

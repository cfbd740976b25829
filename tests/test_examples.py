"""Every example runs as a user runs it, and prints what it promises."""

from pathlib import Path

import pytest

from tests.forked import run_script

FOLDER = Path(__file__).parent.parent / "examples"
PRINTS = {
    "action_masking.py": "with only 0 and 2 allowed, the action is 2",
    "callbacks.py": "stopped: the last 100 episodes reached 60",
    "custom_encoder.py": "encoder __main__:FourierFeatures",
    "custom_environment.py": "  - the same seed and actions gave different data: use only `self.np_random` for randomness",
    "native_environment.py": "catches more than three times as often as at random",
    "resume_exactly.py": "tensors of networks and optimizer are equal, bit for bit",
    "train_cartpole.py": "finished: 10000 steps, 780 updates",
}


def test_every_example_is_listed() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(PRINTS)


@pytest.mark.parametrize("name", PRINTS)
def test_example_runs(name: str, tmp_path: Path) -> None:
    done = run_script(FOLDER / name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert any(line.endswith(PRINTS[name]) for line in done.stdout.splitlines()), done.stdout
    assert not list(tmp_path.iterdir())  # an example leaves nothing behind

"""What version 0.1.0 wrote, in the middle of runs, loads, acts as it did, and finishes its run with the same numbers."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import rl_training

STORED = Path(__file__).parents[1] / "golden" / "checkpoints"  # see store_checkpoints.py beside them
NAMES = sorted(path.stem for path in STORED.glob("*.safetensors"))


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_0_1_0_acts_and_finishes_its_run_as_it_did(name: str) -> None:
    expected = load_file(STORED / f"{name}.safetensors")
    data = {"dataset": STORED / "pendulum.npz"} if name == "rlpd" else {}
    agent = rl_training.load(STORED / name, **data)
    begun = agent.progress.timesteps
    action, _ = agent.predict(expected["obs"].numpy())
    torch.testing.assert_close(torch.as_tensor(action), expected["action"])
    result = agent.learn(progress=False)
    assert result.status == "finished"
    assert agent.progress.timesteps > begun > 0
    agent.close()
    found = dict(agent.algorithm.named_parameters())
    for key, value in expected.items():
        if key.startswith("after."):
            torch.testing.assert_close(found[key.removeprefix("after.")].detach(), value, rtol=1e-4, atol=1e-5)


def test_all_kinds_of_state_are_among_them() -> None:
    assert NAMES == ["ppo", "rainbow_dqn", "recurrent_ppo", "rlpd", "sac"]

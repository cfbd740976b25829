"""The text of a peer that is no library: it measures, fails or hangs as it is asked to."""

import sys
from pathlib import Path

PYTHON = Path(sys.executable)
LIMIT = 120  # seconds
PPO = {
    "algorithm": "PPO",
    "env": "CartPole-v1",
    "n_envs": 2,
    "n_steps": 16,
    "batch_size": 16,
    "n_epochs": 2,
    "threads": 1,
}
FAKE = """
import os, time
from protocol import serve

def build(work):
    print("noise on standard output")
    if work["env"] == "broken":
        raise RuntimeError("no such environment")
    if work["env"] == "hangs":
        os.fork()  # the child holds the pipe open, as workers of an environment do
        time.sleep(600)
    return lambda num_steps: 1 / 0 if num_steps == 13 else time.sleep(600 if num_steps == 7 else 0)

serve({"PPO": build}, {"fake": "1.0"})
"""

"""How a peer is asked: one request per line on standard input ({"steps": n}), answered with a measurement each.

The caller can so alternate libraries within one run.
"""

import json
import sys
import time
from typing import Any


def serve(model: Any, versions: dict[str, str]) -> None:
    """Says which versions these are, then trains as asked until there are no more requests."""
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        num_steps = json.loads(line)["steps"]
        start = time.perf_counter()
        model.learn(num_steps, reset_num_timesteps=False)
        print(json.dumps({"steps_per_second": num_steps / (time.perf_counter() - start)}), flush=True)

"""The protocol of peers: the work as one JSON argument, then one request per line on standard input ({"steps": n}).

The first answer says which versions these are, or why the work cannot be done; then every request is answered with a
measurement. The caller can so alternate libraries within one run. What libraries print goes to standard error.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

Learn = Callable[[int], object]  # trains for so many further env steps
Build = Callable[[dict], Learn]


def serve(builders: Mapping[str, Build], versions: dict[str, str], *, devices: tuple[str, ...] = ("cpu",)) -> None:
    """Builds what the work names, then trains as asked until there are no more requests."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(record: dict) -> None:
        answers.write(json.dumps(record) + "\n")
        answers.flush()

    work = json.loads(sys.argv[1])
    device = work.setdefault("device", "cpu")
    if work["algorithm"] not in builders:
        return answer({"unavailable": f"it has no {work['algorithm']}"})
    if device not in devices:
        return answer({"unavailable": f"its script here does not use {device}"})
    whole = work.pop("whole", False)  # every request makes a new learner too
    build = partial(builders[work["algorithm"]], work)
    learn = None if whole else build()
    answer(versions)
    for line in sys.stdin:
        num_steps = json.loads(line)["steps"]
        start = time.perf_counter()
        (learn or build())(num_steps)
        answer({"steps_per_second": num_steps / (time.perf_counter() - start)})
    return None

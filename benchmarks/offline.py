"""Learning from data, checked: who is above whom, and whether a dataset keeps the updates fed.

python benchmarks/learn.py run --cells bc-cartpole discrete-cql-cartpole discrete-cql-cartpole-dqn rlpd-pendulum rlpd-pendulum-sac
python benchmarks/offline.py compare       # reads those results, writes benchmarks/results/offline.json, fails if a must is missed
python benchmarks/offline.py throughput    # writes benchmarks/results/offline_throughput.json
python benchmarks/offline.py switch        # from data to the environment: writes benchmarks/results/offline_switch.json
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from learn import FOLDER

from rl_training import BC, Dataset, DiscreteCQL
from rl_training.core import Box, Discrete, Spec
from rl_training.experience import LoggedSteps
from rl_training.experiment.run_directory import collect_metadata, write_atomically

RESULTS = Path(__file__).parent / "results"
T_975 = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}  # Student's t by degrees of freedom
ROWS = 10_000_000


def records(cell: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((FOLDER / cell).glob("seed*.json"))]


def scores(cell: str) -> list[float]:
    return [record["score"] for record in records(cell)]


def areas(cell: str) -> list[float]:
    """The mean over all evaluations, which are evenly spread: the area under the learning curve per step."""
    return [statistics.fmean(mean for _, mean in record["evaluations"]) for record in records(cell)]


def difference(name: str, a: list[float], b: list[float]) -> dict:
    """Seeds are paired: the lower bound of the mean difference, one-sided at 97.5 %."""
    gaps = [x - y for x, y in zip(a, b, strict=True)]
    mean, error = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
    low = mean - T_975[len(gaps) - 1] * error
    return {"claim": name, "a": a, "b": b, "mean_difference": mean, "standard_error": error, "lower_bound": low}


def compare() -> int:
    bc, cql, dqn = (scores(c) for c in ("bc-cartpole", "discrete-cql-cartpole", "discrete-cql-cartpole-dqn"))
    data = [record["data_mean_return"] for record in records("bc-cartpole")]
    checks = [
        difference("BC above the data's mean", bc, data),
        difference("DiscreteCQL above BC", cql, bc),
        difference("DiscreteCQL above plain offline DQN", cql, dqn),
        difference("RLPD's area to 3k steps above SAC's", areas("rlpd-pendulum"), areas("rlpd-pendulum-sac")),
    ]
    for check in checks:
        strict = "area" in check["claim"]  # there the lower bound is asked for, elsewhere the means
        check["holds"] = check["lower_bound" if strict else "mean_difference"] > 0
        print(
            f"{'holds ' if check['holds'] else 'MISSED'} {check['claim']}: {check['mean_difference']:.1f} +- "
            f"{check['standard_error']:.1f}, lower bound {check['lower_bound']:.1f}"
        )
    write_atomically(RESULTS / "offline.json", json.dumps({"checks": checks}, indent=1) + "\n")
    return 0 if all(check["holds"] for check in checks) else 1


def synthetic(rows: int, seed: int = 0) -> Dataset:
    """Synthetic steps of the size of a large log: 17 observations, 6 choices, episodes of 1,000."""
    rng = np.random.default_rng(seed)
    end = np.arange(rows) % 1000 == 999
    return Dataset.from_arrays(
        obs=rng.standard_normal((rows, 17), dtype=np.float32),
        action=rng.integers(0, 6, rows),
        reward=rng.standard_normal(rows, dtype=np.float32),
        terminated=np.zeros(rows, bool),
        truncated=end,
        last_obs=rng.standard_normal((int(end.sum()), 17), dtype=np.float32),
        spec=Spec(Box((17,), (-math.inf,) * 17, (math.inf,) * 17), Discrete(6)),
    )


def share_of_sampling(agent: DiscreteCQL | BC, updates: int) -> dict:
    """Times updates in the loop, then the same draws and gathers alone."""
    agent.learn(total_updates=200, progress=False)
    start = time.perf_counter()
    agent.learn(total_updates=updates, progress=False)
    whole = time.perf_counter() - start
    trainer = agent.trainer
    assert trainer is not None
    data, batch_size = trainer.plan.stores["data"], 256
    assert isinstance(data, LoggedSteps)
    start = time.perf_counter()
    for _ in range(updates):
        data.gather(data.columns, data.draw(batch_size))
    alone = time.perf_counter() - start
    return {
        "updates_per_second": updates / whole,
        "sampling_ms": 1e3 * alone / updates,
        "share_of_sampling": alone / whole,
    }


def throughput() -> int:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large"
        subprocess.run([sys.executable, __file__, "write", "--path", path], check=True)  # its memory is not ours
        start = time.perf_counter()
        mapped = Dataset.open(path)
        opened = time.perf_counter() - start
        before = resident_megabytes()
        large = DiscreteCQL(dataset=mapped, seed=0, compile=False, threads=1)
        of_large = share_of_sampling(large, 1_000)
        grown = {kind: after - before[kind] for kind, after in resident_megabytes().items()}
        small = DiscreteCQL(dataset=synthetic(50_000), seed=0, compile=False, threads=1)
        cloned = BC(dataset=synthetic(50_000), seed=0, compile=False, threads=1)
        result = {
            "rows": ROWS,
            "bytes_on_disk": sum(file.stat().st_size for file in path.rglob("*")),
            "open_seconds": opened,
            "discrete_cql_mapped": of_large,
            "resident_megabytes_grown": grown,  # pages of the file can be taken back at any time, anonymous ones not
            "discrete_cql_in_memory": share_of_sampling(small, 1_000),
            "bc_in_memory": share_of_sampling(cloned, 1_000),
            "metadata": collect_metadata() | {"command": "benchmarks/offline.py throughput"},
        }
    write_atomically(RESULTS / "offline_throughput.json", json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "metadata"}, indent=1))
    return 0 if opened < 2 else 1


def switch() -> int:
    """What the first env steps cost after learning from data: 10,000 updates, then 10,000 steps, evaluated every 500."""
    rows = []
    for seed in range(3):
        settings = [f"training.seed={seed}", "training.total_updates=10000", "training.total_timesteps=10000"]
        settings += [
            "evaluation.interval=500",
            "evaluation.episodes=10",
            "training.threads=1",
            "experience.train_freq=1",
        ]
        settings += ["algorithm.exploration_fraction=0.01", "algorithm.exploration_final_eps=0.02"]
        agent = DiscreteCQL.from_preset("discrete_cql/cartpole", overrides=settings)
        result = agent.learn(progress=False)
        agent.close()
        rows.append(
            {
                "seed": seed,
                "at_the_switch": result.switch_return,
                "dip": result.switch_dip,
                "at_the_end": result.eval_mean_return,
            }
        )
        print(rows[-1], flush=True)
    record = {"rows": rows, "metadata": collect_metadata() | {"command": "benchmarks/offline.py switch"}}
    write_atomically(RESULTS / "offline_switch.json", json.dumps(record, indent=1) + "\n")
    return 0


def resident_megabytes() -> dict[str, float]:
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    found = {words[0]: int(words[1]) / 1024 for words in lines if words and words[0] in ("RssAnon:", "RssFile:")}
    return {"anonymous": found["RssAnon:"], "of_files": found["RssFile:"]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["compare", "throughput", "switch", "write"])
    parser.add_argument("--path", help="with write: where to put the large synthetic dataset")
    options = parser.parse_args()
    if options.action == "write":
        synthetic(ROWS).save(options.path)
    else:
        sys.exit({"compare": compare, "throughput": throughput, "switch": switch}[options.action]())

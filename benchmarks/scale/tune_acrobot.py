"""Whether a search beats PPO's class defaults on Acrobot-v1, with the search killed and resumed on the way.

nice .venv/bin/python benchmarks/scale/tune_acrobot.py

Fixed beforehand: runs of 10,000 env steps, evaluated every 1,000 (10 deterministic episodes); a score is the mean of the last
five evaluations; 40 trials of three seeds each, two at a time, pruned by asha. The search is killed (SIGKILL) when 10 and 25
trials have ended, and started again with the same command. Then its best preset and the defaults are trained on five seeds
that no trial had. The claim is that the 95 % t interval of the paired differences of their scores lies above zero.

This is the second design. In the first, trials had one seed and 20,000 steps, in which the defaults reach -84 with some seeds and
-477 with others: the winners of two searches were better by 135 (-58 to 327) and 61 (-207 to 328), so the claim did not hold
(benchmarks/results/scale/tune_acrobot_first.json).

What is finished is skipped, so the whole can be interrupted. The result goes to benchmarks/results/scale/tune_acrobot.json.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rl_base.evaluation.intervals import t_quantile
from rl_training import Agent, RunConfig
from rl_training.config import load_config_values
from rl_training.config.overrides import apply_override
from rl_training.experiment.run_directory import collect_metadata, result_of, write_atomically
from rl_training.tuning.objective import Objective
from rl_training.tuning.runs import evaluations

HERE = Path(__file__).parent
PRESET = HERE / "ppo_acrobot_defaults.yaml"
OUT = HERE.parent / "results" / "scale" / "tune_acrobot.json"
OBJECTIVE = "last:5"
SEEDS = range(2000, 2005)
KILLED_AFTER = (10, 25)  # trials
SPACE = {
    "algorithm.learning_rate": "log:1e-4:5e-3",
    "algorithm.gamma": "choice:0.95,0.98,0.99,0.995",
    "algorithm.gae_lambda": "choice:0.8,0.9,0.95,0.98",
    "algorithm.ent_coef": "log:1e-5:0.03",
    "algorithm.n_epochs": "int:4:20",
    "algorithm.batch_size": "choice:32,64,128,256",
    "env.n_envs": "choice:1,4,8,16",
    "experience.n_steps": "choice:16,32,64,128,256",
}
SEARCH = ["--trials", "40", "--jobs", "2", "--objective", OBJECTIVE, "--seeds-per-trial", "3", "--seed", "10000"]
SEARCH += [word for path, form in SPACE.items() for word in ("--param", f"{path}={form}")]


def search(study: Path) -> list[dict]:
    """Runs the search, kills it where it is to be killed, and starts it again; returns what happened."""
    command = [sys.executable, "-m", "rl_training", "tune", str(PRESET), *SEARCH, "--out", str(study)]
    log = study.with_suffix(".events.json")
    events = json.loads(log.read_text()) if log.exists() else []
    if events and events[-1]["what"] == "finished":
        return events
    for kill_after in (*KILLED_AFTER[sum(event["what"] == "killed" for event in events) :], None):
        start, ended = time.time(), 0
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            ended = int(line.split("/")[0]) if line.split("/")[0].isdigit() else ended
            if kill_after is not None and ended >= kill_after:
                process.kill()
                break
        code = process.wait()
        what = "killed" if code == -9 else "finished" if code == 0 else "failed"
        events.append({"what": what, "trials_ended": ended, "seconds": round(time.time() - start, 1)})
        write_atomically(log, json.dumps(events))
        if what == "failed":
            sys.exit(f"the search ended with {code}")
    return events


def train(preset: Path, folder: Path) -> list[dict]:
    """Trains a preset on the fresh seeds; returns scores and evaluations."""
    found = []
    for seed in SEEDS:
        run = folder / f"seed{seed}"
        if result_of(run).get("status") != "finished":
            values = load_config_values(str(preset))
            for change in (f"training.seed={seed}", "training.threads=1"):
                values = apply_override(values, change)
            agent = (
                Agent.resume(run)
                if (run / "config.yaml").exists()
                else Agent(RunConfig.from_mapping(values), run_dir=run)
            )
            agent.learn(progress=False)
            agent.close()
        curve = evaluations(run)
        found.append({"seed": seed, "score": Objective.parse(OBJECTIVE).of(curve), "evaluations": curve})
        print(f"{folder.name} seed {seed}: {found[-1]['score']:.1f}", flush=True)
    return found


def t_interval(differences: list[float], level: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean of paired differences."""
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(len(differences))
    half = t_quantile((1 + level) / 2, len(differences) - 1) * error
    return mean - half, mean + half


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("runs/tune_acrobot"), help="folder of all runs")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    study = options.work / "study"
    events = search(study)
    trials = json.loads((study / "trials.json").read_text())
    best, defaults = train(study / "best.yaml", options.work / "best"), train(PRESET, options.work / "defaults")
    differences = [a["score"] - b["score"] for a, b in zip(best, defaults, strict=True)]
    low, high = t_interval(differences)
    record = {
        "claim": "95 % t interval of paired differences over 5 fresh seeds, best preset minus PPO's class defaults",
        "difference": statistics.fmean(differences),
        "interval_95": [low, high],
        "holds": low > 0,
        "best": best,
        "defaults": defaults,
        "preset": {key: value for key, value in load_config_values(str(study / "best.yaml")).items() if key != "about"},
        "search": {"command": SEARCH, "events": events, "states": Counter(trial["state"] for trial in trials)},
        "trials": trials,
        "metadata": collect_metadata() | {"command": "benchmarks/scale/tune_acrobot.py"},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out, json.dumps(record, indent=1) + "\n")
    print(
        f"difference {record['difference']:.1f}, 95 % interval {low:.1f} to {high:.1f}: {'holds' if low > 0 else 'fails'}"
    )
    return 0 if low > 0 else 1


if __name__ == "__main__":
    sys.exit(main())

"""Trains the policy on one task as `sage sim train` does, goes on, and prints what `sage sim bench` says of it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from sage.cli.main import main as sage
from sage.sim.comparison import INVENTED, Contest
from sage.sim.environment import baselines, packed
from sage.sim.environment.models import open_models
from sage.sim.recorded.fitting import fit_models
from tests.sage.sim.environment.test_dynamics import known_table
from tests.sage.sim.recorded_outcomes import drawn_table

SETTINGS = ["env.n_envs=64", "algorithm.n_steps=16", "algorithm.batch_size=256", "algorithm.learning_rate=3e-3"]
QUICK = ["evaluation.episodes=10", "training.threads=1"]


def main(folder: Path) -> None:
    baselines.LADDERS, baselines.TRIALS = ((), (4,)), (0, 8)  # what tuning chooses from
    tables = [replace(known_table(), id=split, split=split) for split in ("train", "val", "test_pkg")]
    packed.save(folder / "tables.npz", tables)
    train = ["sim", "train", "--tasks", str(folder / "tables.npz"), "--out", str(folder / "run")]
    assert sage([*train, "--steps", "3072", "--set", *SETTINGS, *QUICK]) == 0
    assert sage([*train, "--steps", "4096", "--set", *SETTINGS, *QUICK]) == 0  # goes on
    assert sage([*train, "--steps", "4096", "--seed", "1", "--set", *SETTINGS, *QUICK]) != 0
    bench = ["sim", "bench", "--checkpoint", str(folder / "run"), "--splits", "test_pkg"]
    assert sage([*bench, "--out", str(folder / "scores.json")]) == 0
    rows = json.loads((folder / "scores.json").read_text())["rows"]
    with_pack(folder, bench)
    with_models(folder, folder / "models.json", [*train[:4], "--steps", "1024", "--set", *SETTINGS, *QUICK])
    print("\n" + json.dumps({name.partition(":")[0]: row["normalised"] for name, row in rows.items()}))


def with_pack(folder: Path, bench: list[str]) -> None:
    """A pack of the bench with recorded models is recomputed; what was changed in it is found."""
    fit_models(drawn_table(100), "replay").save(folder / "models.json")
    assert sage([*bench, "--models", str(folder / "models.json"), "--run-pack-dir", str(folder / "pack")]) == 0
    verify = ["bench", "verify", str(folder / "pack")]
    assert sage(verify) == 0
    state = folder / "pack" / "policies" / "0" / "state.json"
    content = state.read_bytes()
    state.write_bytes(content + b" ")
    assert sage(verify) == 1
    state.write_bytes(content)
    manifest = folder / "pack" / "manifest.json"
    values = json.loads(manifest.read_text())
    values["contest"]["correlations"] = [0.0]
    manifest.write_text(json.dumps(values))
    assert sage(verify) == 1
    del values["contest"]["splits"]
    manifest.write_text(json.dumps(values))
    assert sage(verify) == 2
    compare = ["bench", "--compare-policy", "--checkpoint", str(folder / "run")]
    assert sage([*compare, "--suite", "suite.yaml"]) == 2
    assert sage([*compare, "--out", str(folder / "compared.json")]) == 0
    compared = json.loads((folder / "compared.json").read_text())
    rows, found = compared["rows"], compared["over_static"]
    gain = rows[f"PPO: {folder / 'run'}"]["episode_return"] - rows[found["against"]]["episode_return"]
    assert abs(found["difference"] - gain) < 1e-4
    assert compared["level"].startswith("invented: ")


def with_models(folder: Path, models: Path, train: list[str]) -> None:
    """A policy that learned with recorded models is judged with these, if no others are given."""
    run = folder / "recorded"
    assert sage([*train, "--models", str(models), "--out", str(run)]) == 0
    for given, level in ((None, "replay: "), (INVENTED, "invented: ")):
        assert open_models(Contest.between([run], models=given).models).level.startswith(level)
    models.unlink()
    assert sage(["sim", "bench", "--checkpoint", str(run)]) == 2  # and says which file is missing


if __name__ == "__main__":
    main(Path(sys.argv[1]))

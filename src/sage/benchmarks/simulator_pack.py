"""The run pack of `sage sim bench`: its policies and models, from which the comparison is computed again."""

from __future__ import annotations

import shutil
from pathlib import Path

from rl_training.experiment import find_checkpoint
from sage.benchmarks.run_pack import (
    MANIFEST,
    RESULTS,
    RunPackError,
    file_sha256,
    make_folder,
    write_manifest,
)
from sage.benchmarks.suite import BUNDLED
from sage.files import write_json
from sage.sim.comparison import Contest, PolicyComparison
from sage.sim.environment.packed import SHIPPED

MODELS, POLICIES = "models.json", "policies"
SEEDS = [0]  # of the draws that all policies share
SETTINGS = {"policies": list, "splits": list, "correlations": list, "heuristics": bool, "models": bool}


def write_simulator_pack(folder: Path, contest: Contest, found: PolicyComparison) -> None:
    """Writes the artefacts to the folder, the manifest last: a folder without one is not a run pack."""
    make_folder(folder)
    (folder / MANIFEST).unlink(missing_ok=True)
    write_json(folder / RESULTS, found.as_json())
    names = [RESULTS]
    if contest.models is not None:
        shutil.copyfile(contest.models, folder / MODELS)
        names.append(MODELS)
    for i, path in enumerate(contest.policies.values()):
        target = folder / POLICIES / str(i)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(find_checkpoint(path), target)
        names += sorted(file.relative_to(folder).as_posix() for file in target.rglob("*") if file.is_file())
    bundled = contest.tables == SHIPPED
    write_manifest(
        folder,
        found.as_json(),
        names,
        data={
            "table": f"{BUNDLED}{SHIPPED.stem}" if bundled else str(contest.tables.resolve()),
            "sha256": file_sha256(contest.tables),
        },
        seeds=SEEDS,
        contest={
            "policies": list(contest.policies),
            "splits": list(contest.splits),
            "correlations": list(contest.correlations),
            "heuristics": contest.heuristics,
            "models": contest.models is not None,
        },
    )


def run_again(folder: Path, manifest: dict) -> tuple[dict, list[int], str]:
    """Returns the results computed again, their seeds, and the hash of the tables.

    Raises RunPackError if the manifest's contest is damaged.
    """
    found = manifest.get("contest")
    given = found if isinstance(found, dict) else {}
    wrong = [name for name, kind in SETTINGS.items() if not isinstance(given.get(name), kind)]
    if wrong:
        raise RunPackError(f"{folder / MANIFEST}: contest.{wrong[0]} is not as a run pack has it: make the pack again")
    place = manifest["data"]["table"]
    tables = SHIPPED if place == f"{BUNDLED}{SHIPPED.stem}" else Path(place)
    contest = Contest(
        policies={name: folder / POLICIES / str(i) for i, name in enumerate(given["policies"])},
        tables=tables,
        models=folder / MODELS if given["models"] else None,
        splits=tuple(given["splits"]),
        correlations=tuple(given["correlations"]),
        heuristics=given["heuristics"],
    )
    return contest.run().as_json(), SEEDS, file_sha256(tables)

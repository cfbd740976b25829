"""Run packs: results with everything that is needed to compute them again and compare."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

import sage
from sage.benchmarks.runner import KINDS, run_suite
from sage.benchmarks.suite import BUNDLED, parse_suite, read_suite
from sage.files import read_text, write_json, write_text

FORMAT = 1
RESULTS, MANIFEST, SUITE, CHECKPOINT = "results.json", "manifest.json", "suite.yaml", "checkpoint"
WHOLE = ({RESULTS, SUITE}, {RESULTS, SUITE, CHECKPOINT})  # what a pack of a suite holds beside its manifest
SIMULATOR = "simulator"  # the kind of pack that `sage sim bench` writes
LIVE = "live"  # and that of `sage bench --compare-policy --live`
RELATIVE_TOLERANCE = 1e-9  # another machine may add up in another order


class RunPackError(ValueError):
    """A folder that is not a complete run pack; the message names what is missing."""


def write_pack(folder: Path, results: dict, suite_path: Path | None, checkpoint: Path | None) -> None:
    """Writes the artefacts to the folder, the manifest last: a folder without one is not a run pack.

    None as `suite_path` is the bundled suite; None as `checkpoint` adds no policy.
    """
    suite, text = read_suite(suite_path)
    make_folder(folder)
    (folder / MANIFEST).unlink(missing_ok=True)
    write_json(folder / RESULTS, results)
    write_text(folder / SUITE, text)
    names = [RESULTS, SUITE]
    if checkpoint is not None:
        shutil.copyfile(checkpoint, folder / CHECKPOINT)
        names.append(CHECKPOINT)
    table = suite.table if suite.table.startswith(BUNDLED) else str(Path(suite.table).resolve())
    data = {"table": table, "sha256": results["table"]["sha256"]}
    write_manifest(folder, results, names, data=data, seeds=list(suite.seeds))


def write_manifest(
    folder: Path, results: dict, artefacts: Sequence[str], *, data: dict, seeds: list[int], **settings: object
) -> None:
    """Writes the manifest, with the hashes of all artefacts.

    `data` holds the path of the table and its hash; `settings` are further facts on which the results depend.
    """
    manifest = {
        "format": FORMAT,
        "command": ["sage", *sys.argv[1:]],
        "code": {"version": version("rl-training"), "sha256": code_sha256()},
        "environment": {"python": platform.python_version(), "numpy": np.__version__, "platform": platform.platform()},
        "data": data | {"data_source": results["data_source"]},
        "seeds": seeds,
        "kind": results["kind"],
        "evidence": results["evidence"],
        "artefacts": {name: file_sha256(folder / name) for name in artefacts},
        "metrics": headline(results),
    }
    write_json(folder / MANIFEST, manifest | settings)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunPackError(f"{folder} cannot be made a folder ({error.strerror}): choose another place") from error


def verify(folder: Path) -> list[str]:
    """Computes the results of a pack again, and returns a sentence for each difference; an empty list if there is none.

    Raises RunPackError if the folder is not a complete run pack.
    """
    manifest = read_manifest(folder)
    damaged = [
        f"{name}: changed since the pack was written"
        for name, expected in manifest["artefacts"].items()
        if not (folder / name).is_file() or file_sha256(folder / name) != expected
    ]
    if damaged:
        return damaged
    table = manifest["data"]["table"]
    if not table.startswith(BUNDLED) and not Path(table).is_file():
        return [f"data: {table} is not there: bring the table back, then verify"]
    stored = json.loads(read_text(folder / RESULTS))
    again, seeds, sha256 = recomputed(folder, manifest)
    found = differences(stored, json.loads(json.dumps(again)), "results")
    if seeds != manifest["seeds"] or manifest["data"]["sha256"] != sha256:
        found.append("manifest: seeds or data are not those of the results")
    found += differences(manifest["metrics"], headline(again), "manifest metrics")
    if found and manifest["code"]["sha256"] != code_sha256():
        found.append(f"the code is not the one of the pack (version {manifest['code']['version']})")
    return found


def recomputed(folder: Path, manifest: dict) -> tuple[dict, list[int], str]:
    """Returns the results computed again, their seeds, and the hash of the table as it is now."""
    if manifest["kind"] == SIMULATOR:
        from sage.benchmarks.simulator_pack import run_again  # needs PyTorch

        return run_again(folder, manifest)
    if manifest["kind"] == LIVE:
        from sage.benchmarks.live_pack import run_again  # needs the client of upstreams

        return run_again(folder)
    suite = parse_suite(read_text(folder / SUITE), str(folder / SUITE))
    checkpoint = folder / CHECKPOINT if CHECKPOINT in manifest["artefacts"] else None
    place = manifest["data"]["table"]
    again = run_suite(folder / SUITE, table_path=place, kind=manifest["kind"], checkpoint=checkpoint)
    return again, list(suite.seeds), again["table"]["sha256"]


def read_manifest(folder: Path) -> dict:
    path = folder / MANIFEST
    if not path.is_file():
        raise RunPackError(
            f"{folder}: not a run pack, as {MANIFEST} is missing: make one with sage bench --run-pack-dir {folder}"
        )
    try:
        manifest = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise RunPackError(f"{path}: not whole JSON ({error}): make the pack again") from error
    fields = ("format", "code", "data", "seeds", "kind", "artefacts", "metrics")
    missing = [name for name in fields if not isinstance(manifest, dict) or name not in manifest]
    if missing or manifest["format"] != FORMAT:
        what = f"{missing[0]!r} is missing" if missing else f"format {manifest['format']!r} is not {FORMAT}"
        raise RunPackError(f"{path}: {what}: make the pack again")
    check_shape(manifest, path)
    return manifest


def check_shape(manifest: dict, path: Path) -> None:
    types = {"code": dict, "data": dict, "artefacts": dict, "metrics": dict, "seeds": list}
    wrong = [name for name, kind in types.items() if not isinstance(manifest[name], kind)]
    wrong += [] if manifest["kind"] in (*KINDS, SIMULATOR, LIVE) else ["kind"]
    whole = wrong or (
        RESULTS in manifest["artefacts"]
        if manifest["kind"] in (SIMULATOR, LIVE)
        else set(manifest["artefacts"]) in WHOLE
    )
    wrong += [] if whole else ["artefacts"]
    wrong += [] if wrong or {"table", "sha256"} <= set(manifest["data"]) else ["data"]
    wrong += [] if wrong or {"version", "sha256"} <= set(manifest["code"]) else ["code"]
    wrong += [] if wrong or isinstance(manifest["data"]["table"], str) else ["data"]
    if wrong:
        raise RunPackError(f"{path}: {wrong[0]!r} is not as a run pack has it: make the pack again")


def differences(stored: object, again: object, where: str) -> list[str]:
    """Returns a sentence for each place where two JSON values differ; numbers may differ by 1e-9 of their value."""
    if isinstance(stored, dict) and isinstance(again, dict):
        keys = [*stored, *(key for key in again if key not in stored)]
        return [line for key in keys for line in differences(stored.get(key), again.get(key), f"{where}: {key}")]
    if isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        return [
            line
            for i, pair in enumerate(zip(stored, again, strict=True))
            for line in differences(*pair, f"{where}[{i}]")
        ]
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (stored, again))
    same = math.isclose(stored, again, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12) if numbers else stored == again  # pyrefly: ignore
    return [] if same else [f"{where} is {again!r}, the pack says {stored!r}"]


def headline(results: dict) -> dict:
    """Returns the numbers of results that the manifest repeats: by row, or the difference and its interval."""
    if results["kind"] == SIMULATOR:
        return {name: row["normalised"] for name, row in results["rows"].items()}
    if results["kind"] == LIVE:
        parts = results["comparison"]
        return {name: {key: parts[name][key] for key in ("difference", "interval")} for name in ("quality", "cost_usd")}
    if results["kind"] == "compare_policy":
        found = results["comparison"]
        return {"difference": found["difference"], "interval_of_first_split": found["interval_of_first_split"]}
    if results["kind"] == "ablations":
        return {f"{row['factor']}: {row['level']}": row["difference"] for row in results["ablations"]}
    return {
        name: {"quality": row["quality"], "cost_usd": row["cost_usd"]} for name, row in results["baselines"].items()
    }


def file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def code_sha256() -> str:
    """Returns a hash of all of sage's source files, by name and content."""
    root = Path(str(sage.__file__)).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()

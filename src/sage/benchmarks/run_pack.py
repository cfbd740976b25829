"""Run packs: results with everything that is needed to compute them again and compare."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sage
from sage.benchmarks.runner import KINDS, run_suite
from sage.benchmarks.suite import BUNDLED, parse_suite, read_suite
from sage.files import read_text, write_json, write_text

FORMAT = 1
RESULTS, MANIFEST, SUITE, CHECKPOINT = "results.json", "manifest.json", "suite.yaml", "checkpoint"
WHOLE = ({RESULTS, SUITE}, {RESULTS, SUITE, CHECKPOINT})  # what a pack of a suite holds beside its manifest
SIMULATOR = "simulator"  # the kind of pack that `sage sim bench` writes
RELATIVE_TOLERANCE = 1e-9  # another machine may add up in another order


class RunPackError(ValueError):
    """A folder that is not a complete run pack; the message names what is missing."""


class PackKind(NamedTuple):
    """The way in which packs of one kind are computed again."""

    run_again: Callable[
        [Path, dict], tuple[dict, list[int], str]
    ]  # results, seeds and the table's hash, as they are now
    headline: Callable[[dict], dict]  # the numbers of the results that the manifest repeats


NO_OTHERS: Mapping[str, PackKind] = {}


def write_pack(
    folder: Path,
    results: dict,
    suite_path: Path | None,
    checkpoint: Path | None,
    *,
    metrics: dict | None = None,
    **settings: object,
) -> None:
    """Writes the artefacts to the folder, the manifest last: a folder without one is not a run pack.

    None as `suite_path` is the bundled suite; None as `checkpoint` adds no policy. `metrics` and `settings`
    are those of `write_manifest`.
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
    write_manifest(folder, results, names, data=data, seeds=list(suite.seeds), metrics=metrics, **settings)


def write_manifest(
    folder: Path,
    results: dict,
    artefacts: Sequence[str],
    *,
    data: dict,
    seeds: list[int],
    metrics: dict | None = None,
    **settings: object,
) -> None:
    """Writes the manifest, with the hashes of all artefacts.

    `data` holds the path of the table and its hash; `settings` are further facts on which the results depend,
    or replace fields of the manifest. `metrics` None: those that `headline` finds.
    """
    manifest = {
        "format": FORMAT,
        "command": ["sage", *sys.argv[1:]],
        "code": {"version": version("sage-routing"), "sha256": code_sha256()},
        "environment": {"python": platform.python_version(), "numpy": np.__version__, "platform": platform.platform()},
        "data": data | {"data_source": results["data_source"]},
        "seeds": seeds,
        "kind": results["kind"],
        "evidence": results["evidence"],
        "artefacts": {name: file_sha256(folder / name) for name in artefacts},
        "metrics": headline(results) if metrics is None else metrics,
    }
    write_json(folder / MANIFEST, manifest | settings)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunPackError(f"{folder} cannot be made a folder ({error.strerror}): choose another place") from error


def verify(folder: Path, others: Mapping[str, PackKind] = NO_OTHERS) -> list[str]:
    """Computes the results of a pack again, and returns a sentence for each difference; an empty list if there is none.

    `others` are kinds of packs that `sage bench` does not write. Raises RunPackError if the folder is not a complete run
    pack.
    """
    manifest = read_manifest(folder, others)
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
    kind = others.get(manifest["kind"], PackKind(run_again, headline))
    again, seeds, sha256 = kind.run_again(folder, manifest)
    found = differences(stored, json.loads(json.dumps(again)), "results")
    if seeds != manifest["seeds"] or manifest["data"]["sha256"] != sha256:
        found.append("manifest: seeds or data are not those of the results")
    found += differences(manifest["metrics"], kind.headline(again), "manifest metrics")
    if found and manifest["code"]["sha256"] != code_sha256():
        found.append(f"the code is not the one of the pack (version {manifest['code']['version']})")
    return found


def run_again(folder: Path, manifest: dict) -> tuple[dict, list[int], str]:
    """Returns the results computed again, their seeds, and the hash of the table as it is now."""
    if manifest["kind"] == SIMULATOR:
        from sage.benchmarks import simulator_pack  # needs PyTorch

        return simulator_pack.run_again(folder, manifest)
    suite = parse_suite(read_text(folder / SUITE), str(folder / SUITE))
    checkpoint = folder / CHECKPOINT if CHECKPOINT in manifest["artefacts"] else None
    place = manifest["data"]["table"]
    again = run_suite(folder / SUITE, table_path=place, kind=manifest["kind"], checkpoint=checkpoint)
    return again, list(suite.seeds), again["table"]["sha256"]


def format_differences(folder: Path, found: list[str]) -> str:
    """Returns what `verify` found as lines, the verdict last."""
    verdict = "does not hold" if found else "recomputed, and every number is the same"
    return "\n".join([*found, f"{folder}: {verdict}"])


def read_manifest(folder: Path, others: Mapping[str, PackKind] = NO_OTHERS) -> dict:
    """Returns the manifest of a pack; raises RunPackError if it is none of `sage bench` or of one of `others`."""
    path, manifest = folder / MANIFEST, parse_manifest(folder)
    fields = ("format", "code", "data", "seeds", "kind", "artefacts", "metrics")
    missing = [name for name in fields if name not in manifest]
    if missing or manifest["format"] != FORMAT:
        what = f"{missing[0]!r} is missing" if missing else f"format {manifest['format']!r} is not {FORMAT}"
        raise RunPackError(f"{path}: {what}: make the pack again")
    check_shape(manifest, path, others)
    return manifest


def kind_of(folder: Path) -> str:
    """Returns the kind that the manifest of a pack names, known or not."""
    return str(parse_manifest(folder).get("kind"))


def parse_manifest(folder: Path) -> dict:
    """Returns the fields of the manifest as they stand there, or none if it is no mapping."""
    path = folder / MANIFEST
    if not path.is_file():
        raise RunPackError(
            f"{folder}: not a run pack, as {MANIFEST} is missing: make one with sage bench --run-pack-dir {folder}"
        )
    try:
        manifest = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise RunPackError(f"{path}: not whole JSON ({error}): make the pack again") from error
    return manifest if isinstance(manifest, dict) else {}


def check_shape(manifest: dict, path: Path, others: Mapping[str, PackKind]) -> None:
    types = {"code": dict, "data": dict, "artefacts": dict, "metrics": dict, "seeds": list}
    wrong = [name for name, kind in types.items() if not isinstance(manifest[name], kind)]
    wrong += [] if manifest["kind"] in (*KINDS, SIMULATOR, *others) else ["kind"]
    whole = wrong or (
        set(manifest["artefacts"]) in WHOLE if manifest["kind"] in KINDS else RESULTS in manifest["artefacts"]
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
    if results["kind"] == "compare_policy":
        found = results["comparison"]
        return {"difference": found["difference"], "interval_of_first_split": found["interval_of_first_split"]}
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

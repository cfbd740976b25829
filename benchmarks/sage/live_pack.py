"""The run pack of a live comparison: models are not asked again, but all numbers are computed again from answers."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from live_comparison import LIVE, LiveSuite, Pair, results_of
from short_tasks.generate import fingerprint, generate

from sage.benchmarks.run_pack import CHECKPOINT, MANIFEST, RESULTS, PackKind, RunPackError, make_folder, write_manifest
from sage.benchmarks.suite import BUNDLED
from sage.files import read_text, write_json, write_text

PAIRS, MODELS = "pairs.jsonl", "models.yaml"


def write_live_pack(folder: Path, suite: LiveSuite, results: dict, pairs: list[Pair]) -> None:
    """Writes the artefacts to the folder, the manifest last: a folder without one is not a run pack."""
    make_folder(folder)
    (folder / MANIFEST).unlink(missing_ok=True)
    write_json(folder / RESULTS, results)
    write_text(folder / PAIRS, "".join(json.dumps(pair) + "\n" for pair in pairs))
    shutil.copyfile(suite.checkpoint, folder / CHECKPOINT)
    shutil.copyfile(suite.models, folder / MODELS)  # which names keys, and holds none
    data = {"table": f"{BUNDLED}short_tasks", "sha256": results["suite"]["sha256"]}
    write_manifest(
        folder,
        results,
        (RESULTS, PAIRS, CHECKPOINT, MODELS),
        data=data,
        seeds=[suite.seed],
        metrics=headline(results),
        command=["python", *sys.argv],
    )


def headline(results: dict) -> dict:
    """Returns the differences in quality and cost with their intervals."""
    parts = results["comparison"]
    return {name: {key: parts[name][key] for key in ("difference", "interval")} for name in ("quality", "cost_usd")}


def run_again(folder: Path, _: dict) -> tuple[dict, list[int], str]:
    """Returns the results computed again from the pairs, the seed, and the hash of the tasks as they are generated now.

    Raises RunPackError if the pack's files are damaged.
    """
    try:
        facts = json.loads(read_text(folder / RESULTS))["suite"]
        pairs = [json.loads(line) for line in read_text(folder / PAIRS).splitlines()]
        kept = {name: facts[name] for name in ("policy", "policy_version", "forced", "tasks", "seed")}
        results = results_of(pairs, kept)
    except (KeyError, TypeError, ValueError) as error:
        raise RunPackError(f"{folder}: {PAIRS} is not as a run pack has it ({error}): make the pack again") from error
    return results, [kept["seed"]], fingerprint(generate(kept["seed"]))


PACKS = {LIVE: PackKind(run_again, headline)}

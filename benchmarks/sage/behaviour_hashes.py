"""Whether sage still decides, learns, proves and scores the same, bit for bit, as before a change.

OMP_NUM_THREADS=1 PYTHONPATH=src .venv/bin/python benchmarks/sage/behaviour_hashes.py store
OMP_NUM_THREADS=1 PYTHONPATH=src .venv/bin/python benchmarks/sage/behaviour_hashes.py check [NAME ...]

Each case is a short run from a fixed seed on made-up data: exports, checkpoints, evaluations and verdicts, served
decisions, scores of benchmarks and of the simulator, and reports. `store` writes a hash of what each case gave to
benchmarks/results/sage_behaviour_hashes.json, beside the machine and the versions, because another processor rounds
differently; `check` runs the cases again (those whose names begin with a NAME) and exits with 1 if one differs.
`--values FOLDER` keeps what was hashed, a JSON file per case, to compare with those of another commit.

PYTHONPATH says which sage is run, so that one script judges two commits: it uses the command line, `sage.Router` and
names that it finds in whatever module defines them. Ids and times of decisions are no part of a hash.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import json
import math
import os
import platform
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save

import sage
from sage import Router

OUT = Path(__file__).resolve().parents[1] / "results" / "sage_behaviour_hashes.json"
RANDOM_ID = re.compile(r"\b[0-9a-f]{32}\b")  # of decisions and cascades; openings look like them
Case = Callable[[], object]
Made = list[sage.Decision]

# USD per million tokens of input and output, seconds of a call, what else there is, strengths, and how hard texts change them
MODELS = {
    "mini": (0.1, 0.4, 2, ", max_context: 400", (-0.6, 0.9, -0.9), -1.6),
    "small": (0.5, 2.0, 5, ", cached_input_usd_per_mtok: 0.05", (0.2, 0.6, -0.5), -1.0),
    "medium": (3.0, 15.0, 11, ", cached_input_usd_per_mtok: 0.3", (1.0, 0.3, 0.4), 0.1),
    "large": (
        15.0,
        75.0,
        25,
        ", cached_input_usd_per_mtok: 1.5, roles: [coder, planner, debugger]",
        (1.4, 0.8, 1.8),
        0.9,
    ),
}
CATEGORIES = ("parsing", "prose", "proofs")
ROLES = ("coder", "planner", "debugger", "reviewer", "documentation")
ROLES_FILE = """
roles:
  default: {primary: medium, fallback: small}
  coder:
    primary: small
    fallback: medium
    triggers:
      - {when: past_failures >= 2, use: large}
      - {when: task_complexity_score > 0.35 and has_code == 1, use: medium}
  documentation: {primary: mini, fallback: small}
"""
EASY = ("list", "the", "open", "files", "and", "say", "what", "each", "is", "for")
HARD = ("prove", "that", "the", "loop", "ends", "by", "an", "invariant")
SIGNS = ("\ndef f(x):\n    return x\n", "\nTraceback (most recent call last)\n", " see src/io/read.py", "", "", "")
LADDER = """
cascade:
  default: {ladder: [mini, small, medium], verifiers: [tests], exploration: 0.5, max_attempts: 2}
  coder: {ladder: [small, medium, large], verifiers: [tests], exploration: 0.5, budget_usd: 0.05}
"""
OBJECTIVES = {
    "": "",
    "weights": "objective: {weights: {quality: 1.0, cost: 2.0, latency: 0.1, retries: 0.05, timed_out: 0.3}}\n",
    "margin": "objective: {max_points_worse: 2}\n",
    "budget": "objective: {max_usd_per_task: 0.012}\n",
}
LEARNERS = {"dr": (), "table": (), "text": (), "bc": ("--updates", "300"), "cql": ("--updates", "500")}
FLOOR = 0.9  # of the confidence, where none is given
CASCADE_LEARNERS = ("fitted-q", "fitted-q-wide", "dqn", "auto")


def found(name: str) -> object:
    """The class or function of this name, in whatever module of sage defines it."""
    root = Path(sage.__file__).parent
    defines = re.compile(rf"^(?:class|def) {name}\b", re.MULTILINE)
    homes = [path for path in sorted(root.rglob("*.py")) if defines.search(path.read_text(encoding="utf-8"))]
    if len(homes) != 1:
        raise LookupError(f"{name} is defined in {len(homes)} modules of {root}")
    module = homes[0].relative_to(root.parent).with_suffix("").parts
    return getattr(import_module(".".join(part for part in module if part != "__init__")), name)


def run(*words: object) -> dict:
    """What a command said, and its exit code."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = import_module("sage.cli.main").main([str(word) for word in words])
        except SystemExit as end:
            code = end.code
    told = out.getvalue()
    try:
        told = json.loads(told)
    except json.JSONDecodeError:
        told = told.splitlines()
    return {"code": code, "out": told, "err": err.getvalue().splitlines()}


def done(*words: object) -> dict:
    """The same of a command that must succeed."""
    ran = run(*words)
    if ran["code"] != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {ran['err']}")
    return ran


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def settled(value: object, ids: dict[str, str] | None = None, drop: tuple[str, ...] = ()) -> object:
    """Plain values: drawn ids become numbers in the order in which they appear, and keys in `drop` go."""
    ids = {} if ids is None else ids
    if isinstance(value, Mapping):
        return {str(key): settled(item, ids, drop) for key, item in value.items() if key not in drop}
    if isinstance(value, list | tuple):
        return [settled(item, ids, drop) for item in value]
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype} {list(value.shape)} {content}"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return RANDOM_ID.sub(lambda match: ids.setdefault(match[0], f"id-{len(ids)}"), value)
    return value


def text_of(value: object) -> str:
    return json.dumps(settled(value), indent=1, sort_keys=True)


def table(name: str, extra: str = "") -> Path:
    """A models.yaml."""
    models = "".join(
        f"  {model}: {{input_usd_per_mtok: {cost}, output_usd_per_mtok: {dear}, latency_s: {seconds}{more}}}\n"
        for model, (cost, dear, seconds, more, *_) in MODELS.items()
    )
    path = Path(f"{name}.yaml")
    path.write_text(f"models:\n{models}{ROLES_FILE}{extra}", encoding="utf-8")
    return path


# Made-up data


def task_text(chance: random.Random) -> tuple[str, bool]:
    """A text, and whether its words say that it is hard."""
    hard = chance.random() < 0.5
    words = chance.choices(HARD if hard else EASY, k=chance.randint(3, 40))
    return f"{' '.join(words)}{chance.choice(SIGNS)}", hard


def solves(model: str, category: str, hard: bool, chance: random.Random) -> bool:
    strength = MODELS[model][4][CATEGORIES.index(category)] + (MODELS[model][5] if hard else -MODELS[model][5])
    return chance.random() < 1 / (1 + math.exp(-1.5 * strength))


def usd(model: str, chance: random.Random) -> float:
    return round((300 * MODELS[model][0] + 900 * MODELS[model][1]) / 1e6 * chance.uniform(0.6, 1.6), 8)


@cache
def outcome_table() -> Path:
    """What every model did on every task; hard tasks are those that say so."""
    chance, path = random.Random(11), Path("outcomes.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["task_id", "model", "score", "category", "cost_usd", "latency_s", "prompt", "role"])
        for number in range(900):
            text, hard = task_text(chance)
            category, role = chance.choice(CATEGORIES), chance.choice(ROLES[:3])
            for model in MODELS:
                score = float(solves(model, category, hard, chance))
                seconds = round(MODELS[model][2] * chance.uniform(0.5, 1.5), 3)
                rows.writerow([f"t{number}", model, score, category, usd(model, chance), seconds, text, role])
    done("data", "import", "csv", path, "--out", "outcomes.npz")
    return Path("outcomes.npz")


@cache
def replayed() -> Path:
    """Rows that count as evidence: a static table with exploration over the outcome table."""
    models = table("plain")
    done("rl", "replay", "--outcomes", outcome_table(), "--policy", "epsilon:0.5", "--rows", 5000, "--db", "replay.db",
         "--models", models)  # fmt: skip
    done("rl", "export", "--db", "replay.db", "--output", "replay.jsonl", "--data-source", "replay")
    return Path("replay.jsonl")


@cache
def synthetic() -> Path:
    models = table("plain")
    done("rl", "collect-synth", "--rows", 4000, "--epsilon", 0.3, "--db", "synth.db", "--models", models)
    done("rl", "export", "--db", "synth.db", "--output", "synth.jsonl")
    return Path("synth.jsonl")


def requests(count: int, seed: int) -> Iterator[dict]:
    """Calls of several tenants; two or so are about one task, and of some only the text says which."""
    chance = random.Random(seed)
    for number in range(count):
        text, hard = task_text(random.Random(f"{seed} {number // 2}"))
        request = {
            "role": ROLES[chance.randrange(len(ROLES))],
            "task": text,
            "task_id": "" if number % 7 < 2 else f"task-{seed}-{number // 2}",
            "category": "" if number % 11 == 0 else CATEGORIES[number // 2 % 3],
            "tenant": ("acme", "acme", "beta", "default")[number // 2 % 4],
            "session": f"session-{number // 5}",
            "past_failures": chance.choice((0, 0, 0, 1, 2)),
        }
        if chance.random() < 0.3:
            request |= {"probe_calls": chance.randint(1, 9), "probe_cost_usd": round(chance.random() / 50, 6)}
            request["probe_verified"] = chance.random() < 0.5
        yield {"request": request, "hard": hard, "category": CATEGORIES[number // 2 % 3]}


def row(made: sage.Decision) -> dict:
    """Everything that a decision says but when it was made."""
    return {name: value for name, value in made.to_json().items() if name != "time"}


def opened(db: str, models: Path, *, learned: Mapping[str, Path] | None = None, forced: bool = True) -> Router:
    """`learned`: checkpoints by the variable that names them. The key of openings is not drawn, as folds depend on them."""
    Path(f"{db}.task-key").write_bytes(bytes(range(32)))
    environment = {name: str(path) for name, path in (learned or {}).items()}
    if environment:
        environment |= {"SAGE_RL_POLICY": "1"} | ({"SAGE_RL_FORCE": "1"} if forced else {})
    return Router.open(db, models=models, environment=environment, seed=7)


def reported(router: Router, made: sage.Decision, asked: Mapping, chance: random.Random) -> list[str]:
    """Reports what came of a call: in parts, by several sources, of another model, or not at all."""
    kind, at, told = chance.random(), made.time + 1, []
    say = partial(router.outcome, made.id, at=at)
    quality = float(solves(made.model, asked["category"], asked["hard"], chance))
    cost, seconds = usd(made.model, chance), round(MODELS[made.model][2] * chance.uniform(0.5, 1.5), 3)
    if made.shadow is not None:
        other = float(solves(made.shadow, asked["category"], asked["hard"], chance))
        told.append(say(quality=other, cost_usd=usd(made.shadow, chance), shadow=True))
    if kind < 0.05:
        return told
    if kind < 0.10:
        return [*told, say(timed_out=True, latency_s=60.0)]
    if kind < 0.25:
        told += [say(cost_usd=cost, latency_s=seconds), say(quality=quality, source="ci")]
        return [*told, say(quality=1 - quality, source="client")]
    if kind < 0.30:
        return [*told, say(quality=quality, cost_usd=cost, latency_s=9.0, model=chance.choice(made.candidates))]
    if kind < 0.35:
        told.append(say(quality=1 - quality, cost_usd=cost))  # its latency stays unknown
        return [*told, router.correct(made.id, at=at, quality=quality)]
    given = {"quality": quality, "cost_usd": cost, "latency_s": seconds, "retries": int(kind < 0.45)}
    return [*told, say(**given, tokens_in=300, tokens_out=900)]


def served(router: Router, count: int, seed: int = 3, *, report: bool = True, **serving: object) -> list[object]:
    """Decisions of a router, and what became of the reports about them."""
    chance, rows = random.Random(seed + 1), []
    for asked in requests(count, seed):
        made = router.route(**asked["request"], **serving)
        rows.append([row(made), reported(router, made, asked, chance) if report else []])
    return rows


@cache
def router_log() -> tuple[Path, list[object]]:
    """Logged by a router that explores, with shadows and words; and its decisions."""
    extra = "exploration: {share: 0.4, among: [mini, small, medium], shadow: 0.2}\nlog: {store_words: true}\n"
    with opened("router.db", table("router", extra)) as router:
        return Path("router.db"), served(router, 1500)


@cache
def cascade_log(count: int = 1500) -> tuple[Path, list[object]]:
    with opened("cascades.db", table("ladder", LADDER)) as router:
        return Path("cascades.db"), cascaded(router, count)


def cascaded(router: Router, count: int) -> list[object]:
    """Cascades whose verifier is sometimes wrong; of a few nobody says how good the answer was."""
    chance, rows = random.Random(5), []
    for asked in requests(count, seed=6):
        task = router.cascade(**asked["request"] | {"task_id": f"cascade-{len(rows) // 2}"})
        right, steps = {}, []
        for attempt in task:
            right[attempt.id] = solves(attempt.model, asked["category"], asked["hard"], chance)
            verdict = right[attempt.id] if chance.random() < 0.9 else not right[attempt.id]
            known = None if chance.random() < 0.05 else verdict
            cost = None if chance.random() < 0.01 else usd(attempt.model, chance)
            said = task.report(verdicts={"tests": known}, cost_usd=cost, latency_s=1.0)
            steps.append([row(attempt), said])
        told = "nothing"
        if task.taken is not None and chance.random() < 0.97:
            told = task.outcome(quality=float(right[task.taken.id]))
        rows.append([steps, None if task.stopped is None else row(task.stopped), told])
    return rows


def exported(db: Path, name: str, *words: object) -> Path:
    """Rows of a router's log, with settled ids and times, so that every run learns from the same bytes."""
    done("rl", "export", "--db", db, "--output", "drawn.jsonl", *words)
    ids: dict[str, str] = {}
    path, lines = Path(f"{name}.jsonl"), []
    for number, line in enumerate(lines_of(Path("drawn.jsonl"))):
        lines.append(json.dumps(timed(settled(line, ids), number)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def timed(value: object, number: int) -> object:
    """With the row's number for every time."""
    if isinstance(value, dict):
        return {key: float(number) if key == "time" else timed(item, number) for key, item in value.items()}
    return [timed(item, number) for item in value] if isinstance(value, list) else value


@cache
def router_rows() -> Path:
    return exported(router_log()[0], "router", "--complete")


@cache
def cascade_rows() -> Path:
    return exported(cascade_log()[0], "cascades", "--cascades")


# Exports, learners, proofs


def export_of(rows: Callable[[], Path]) -> object:
    return lines_of(rows())


def export_mixed() -> object:
    """Of a log with rows of two sources, the stronger one; then only those of a session."""
    words, told = ("--db", "mixed.db", "--models", table("plain")), []
    made = done("rl", "collect-synth", "--rows", 300, "--seed", 5, "--json", *words)
    done("rl", "replay", "--outcomes", outcome_table(), "--policy", "uniform", "--rows", 80, *words)
    for chosen in ((), ("--session", made["out"]["session"])):
        told.append(run("rl", "export", "--db", "mixed.db", "--output", "mixed.jsonl", "--json", *chosen))
        told.append(lines_of(Path("mixed.jsonl")))
    return told


def export_selected() -> object:
    """Incomplete outcomes too; of a tenant, of a source."""
    db, found_rows = router_log()[0], {}
    for name, words in {"all": (), "tenant": ("--tenant", "acme"), "source": ("--source", "ci")}.items():
        said = run("rl", "export", "--db", db, "--output", "selected.jsonl", "--json", *words)
        found_rows[name] = [said, settled(lines_of(Path("selected.jsonl")), drop=("time",))]
    return found_rows


@cache
def learned(data: Callable[[], Path], learner: str, objective: str) -> tuple[Path, dict]:
    models, path = (
        table(f"objective-{objective}", OBJECTIVES[objective]),
        Path(f"{data.__name__}-{learner}-{objective}.st"),
    )
    words = ("--data", data(), "--out", path, "--models", models, "--json", *LEARNERS[learner])
    return path, done("rl", f"train-{learner}", *words)


def checkpoint(data: Callable[[], Path], learner: str, objective: str = "") -> tuple[Path, dict]:
    """A policy, and what its training said."""
    return learned(data, learner, objective)


@cache
def learned_cascade(learner: str, objective: str) -> tuple[Path, dict]:
    path, models = (
        Path(f"cascade-{learner}-{objective}.st"),
        table(f"ladder-{objective}", LADDER + OBJECTIVES[objective]),
    )
    price = () if objective else ("--price", 3.0)
    words = ("--data", cascade_rows(), "--out", path, "--learner", learner, *price, "--models", models, "--json")
    return path, done("rl", "train-cascade", *words)


def cascade_checkpoint(learner: str, objective: str = "") -> tuple[Path, dict]:
    """For a price or, with an objective, for that."""
    return learned_cascade(learner, objective)


@cache
def at_the_floor() -> tuple[Path, dict]:
    """A category table that is exactly as sure as the floor asks, in a cell in which it leaves the static table."""
    path, _ = checkpoint(replayed, "table")
    with safe_open(path, framework="numpy") as file:
        header = json.loads((file.metadata() or {})["header"])
        arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
    scaled = Path("at-the-floor.st")

    def confidences(spread: float) -> list[float]:
        header["options"]["spread"] = spread
        write_policy(scaled, header, arrays)
        with opened(
            "at-the-floor.db", table("open", "guard: {confidence_floor: 0.0}\n"), learned=policy_of(scaled)
        ) as router:
            cells = [{"role": role, "category": category} for role in ROLES[1:3] for category in CATEGORIES]
            return [router.route(**cell).confidence or 0.0 for cell in cells]

    for cell, sure in enumerate(confidences(1.0)):
        low, high = 1e-3, 1e3
        for _ in range(80 if 0.5 < sure < 1 else 0):
            middle = (low * high) ** 0.5
            now = confidences(middle)[cell]
            if now == FLOOR:
                return scaled, {"spread": middle}
            low, high = (middle, high) if now > FLOOR else (low, middle)
    raise LookupError(f"no cell is exactly {FLOOR} sure, whatever the spread")


def write_policy(path: Path, header: dict, arrays: dict[str, np.ndarray]) -> None:
    """A checkpoint of format 1."""
    text = json.dumps(header)
    digest = hashlib.sha256(text.encode())
    for name, values in sorted(arrays.items()):
        digest.update(f"{name} {values.dtype} {values.shape}".encode() + np.ascontiguousarray(values).tobytes())
    path.write_bytes(save(arrays, metadata={"header": text, "sha256": digest.hexdigest()}))


def policy_of(path: Path) -> dict[str, Path]:
    return {"SAGE_RL_CHECKPOINT": path}


def contents(trained: tuple[Path, dict]) -> object:
    """Header and tensors of a checkpoint, and what its training said."""
    path, said = trained
    with safe_open(path, framework="numpy") as file:
        header = json.loads((file.metadata() or {})["header"])
        tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    return {"header": header, "tensors": tensors, "said": said}


def proofs(data: Callable[[], Path], trained: Callable[[], tuple[Path, dict]], objective: str, cascade: bool) -> object:
    """Evaluations and verdicts, with both intervals and at several floors, and the verdict that is kept."""
    path = copied(trained()[0])
    models = table("judge", OBJECTIVES[objective] + (LADDER if cascade else ""))
    judged = ("--data", data(), "--checkpoint", path, "--models", models, "--json")
    told = {"evaluation": run("rl", "eval-offline", *judged, "--out", "evaluation.json")}
    for interval in ("anytime", "fixed-n"):
        told[f"gate {interval}"] = run("rl", "gate", *judged, "--interval", interval)
    for floor in () if cascade else (0.0, 0.5):
        told[f"gate above {floor}"] = run("rl", "gate", *judged, "--floor", floor, "--allow-synthetic")
    record = Path(f"{path}.gate.json")
    told["record"] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else None
    return settled(told, drop=("date", "checkpoint_sha256"))  # of a file whose parts have no fixed order


def copied(path: Path) -> Path:
    """Another checkpoint with this content, which is not judged yet."""
    copy = Path(f"copy-{path}")
    Path(f"{copy}.gate.json").unlink(missing_ok=True)
    copy.write_bytes(path.read_bytes())
    return copy


def looks() -> object:
    """A ledger counts looks: the second one with an interval for one look is refused."""
    path = copied(checkpoint(replayed, "dr")[0])
    Path("looks.db").unlink(missing_ok=True)
    done("rl", "collect-synth", "--rows", 60, "--db", "looks.db", "--models", table("plain"))
    told = []
    for data, interval in ((replayed, "anytime"), (replayed, "fixed-n"), (replayed, "fixed-n"), (synthetic, "fixed-n")):
        words = ("--data", data(), "--checkpoint", path, "--models", "plain.yaml", "--interval", interval)
        told.append(run("rl", "gate", *words, "--db", "looks.db", "--allow-synthetic", "--json"))
    return told


def mistakes() -> object:
    """Inputs that are refused in a sentence."""
    path = copied(checkpoint(replayed, "dr")[0])
    words = ("--data", cascade_rows(), "--checkpoint", path, "--models", table("plain"))
    other = cascade_checkpoint("fitted-q")[0]
    return [
        run("rl", "gate", "--data", replayed(), "--checkpoint", path, "--floor", 1.5),
        run("rl", "gate", *words),
        run("rl", "gate", "--data", cascade_rows(), "--checkpoint", other, "--floor", 0.5),
        run("rl", "train-bc", "--data", replayed(), "--out", "bc.st", "--models", table("limit", OBJECTIVES["margin"])),
        run("rl", "export", "--db", "none.db", "--output", "none.jsonl"),
    ]


def planned() -> object:
    models, told = table("plain"), {}
    data = ("--data", replayed(), "--models", models, "--json")
    told["plan"] = run("rl", "plan", *data, "--gain", 0.05, "--among", 2)
    told["plan fixed-n"] = run("rl", "plan", *data, "--gain", 0.02, "--power", 0.9, "--interval", "fixed-n")
    told["plausible"] = run("rl", "plausible", *data, "--out", "plausible.json")
    told["plausible file"] = json.loads(Path("plausible.json").read_text(encoding="utf-8"))
    trial = ("--checkpoint", checkpoint(replayed, "table")[0], "--floor", 0.6)
    told["trial"] = run("rl", "plausible", *data, "--out", "trial.json", *trial)
    return settled(told, drop=("date",))


def frontier(objective: str) -> object:
    models = table("frontier", OBJECTIVES[objective])
    told = run("rl", "frontier", "--data", replayed(), "--models", models, "--json", "--out", "frontier.html")
    return [told, Path("frontier.html").read_text(encoding="utf-8").splitlines()]


def analyzed() -> object:
    told = []
    for data in (replayed(), router_rows()):
        told.append([run("rl", "analyze-rewards", "--data", data, "--out", "rewards.json")])
        told[-1].append(json.loads(Path("rewards.json").read_text(encoding="utf-8")))
    return told


# What is served


def route(name: str, extra: str = "", count: int = 300, *, report: bool = True, **how: object) -> object:
    with opened(f"{name}.db", table(name, extra), **how) as router:
        return served(router, count, report=report)


def route_bandit(name: str, extra: str) -> object:
    """With a clock that stands still, and with one on which the bandit reads its state again at every call."""
    rows = []
    for step in (0.0, 2.0):
        clock = itertools.count(1000.0, step)
        with mock.patch("time.monotonic", lambda clock=clock: next(clock)):
            rows.append(route(f"{name}-{step:g}", extra))
    return rows


def route_learned(trained: Callable[[], tuple[Path, dict]]) -> object:
    """At several floors, of which one is a confidence that the policy has: there it decides."""
    path, rows = trained()[0], {}
    asked = partial(route, count=150, report=False, learned=policy_of(copied(path)))
    first = asked(f"{path.stem}-free", "guard: {confidence_floor: 0.0}\n")
    sure = sorted({made["confidence"] for made, _ in first if made["confidence"]})
    for floor in sorted({0.5, FLOOR, 1.0, *sure[len(sure) // 2 :][:1]}):
        rows[repr(floor)] = asked(f"{path.stem}-{floor}", f"guard: {{confidence_floor: {floor!r}}}\nexploration: 0.1\n")
    return [first, rows]


def route_promoted() -> object:
    """A checkpoint that the gate has judged, without force; then with another floor."""
    path = copied(checkpoint(replayed, "table")[0])
    words = ("--data", replayed(), "--checkpoint", path, "--models", table("plain"))
    verdict = run("rl", "gate", *words, "--interval", "fixed-n", "--json")
    asked = partial(route, count=60, report=False, learned=policy_of(path), forced=False)
    return [verdict["code"], asked("promoted"), asked("promoted-other", "guard: {confidence_floor: 0.8}\n")]


def route_cascade(learner: str) -> object:
    policy = {"SAGE_RL_CASCADE": copied(cascade_checkpoint(learner)[0])}
    with opened(f"cascade-{learner}.db", table("ladder", LADDER), learned=policy) as router:
        return cascaded(router, 120)


def route_budget() -> object:
    """Of sessions, by which time only cheaper models are left; and limits of latency."""
    return [
        route("budget", "exploration: 0.3\nguard: {budget_usd: 0.03}\n"),
        route("budget-fast", "guard: {budget_usd: 0.001, max_latency_s: 12}\n"),
        route("budget-slow", "exploration: 0.3\nguard: {max_latency_s: 1}\n", 50),
        route("budget-unreported", "exploration: 0.3\nguard: {budget_usd: 0.05}\n", report=False),
    ]


def route_serving() -> object:
    """What a server knows beside the request: who can be asked, the whole input, a tenant's budget."""
    serving, tenant = found("Serving"), found("TenantBudget")
    with opened("serving.db", table("serving", "exploration: 0.3\n")) as router:
        rows = served(router, 60, serving=serving(among=("mini", "medium"), tokens=380.0))
        rows += served(router, 60, seed=4, serving=serving(tokens=900.0, most_output_tokens=700))
        rows += served(router, 20, seed=5, serving=serving(among=("mini",), tokens=900.0))
        for at_end, most in (("cheaper", 500), ("refuse", 500), ("cheaper", None)):
            budget = tenant(usd=0.4, per="total", at_end=at_end)
            paid = serving(budget=budget, most_output_tokens=most, tokens=300.0)
            for asked in requests(80, seed=8):
                try:
                    made = router.route(**asked["request"] | {"tenant": f"{at_end}-{most}"}, serving=paid)
                except ValueError as error:
                    rows.append(str(error))
                    continue
                rows.append(row(made))
                if len(rows) % 3:
                    router.outcome(made.id, cost_usd=usd(made.model, random.Random(len(rows))))
    return rows


@cache
def held_log() -> tuple[Path, list[object]]:
    """Sessions that keep their model while its cache is worth it."""
    serving, hold, chance, rows = found("Serving"), found("Hold"), random.Random(9), []
    drew: dict[str, sage.Decision] = {}
    with opened("held.db", table("held", "exploration: 0.5\n")) as router:
        for asked in requests(400, seed=10):
            before = drew.get(asked["request"]["session"])
            kept = None
            if before is not None:
                tokens = chance.choice((0.0, 2e3, 2e4, 2e5))
                follows = before.follows or before.id
                kept = hold(model=before.model, cached_tokens=tokens, gain_usd=0.01, follows=follows)
            made = router.route(**asked["request"], serving=serving(hold=kept, tokens=None))
            drew[asked["request"]["session"]] = made
            rows.append([row(made), reported(router, made, asked, chance)])
    return Path("held.db"), rows


def held_rows() -> object:
    return [held_log()[1], lines_of(exported(held_log()[0], "held"))]


def explained() -> object:
    """Decisions made again, and what other policies would have done."""
    policies = ("--policy", checkpoint(replayed, "dr")[0], checkpoint(router_rows, "table")[0])
    db, rows = router_log()
    words = ("--db", db, "--models", "router.yaml", "--json")
    told = [run("explain", made["id"], *words, *policies) for made, _ in rows[:20]]
    return settled(told, drop=("time",))


# Benchmarks, the simulator, reports


def suite(name: str, **changes: object) -> Path:
    values = {"name": name, "table": "bundled:synthetic", "static": "medium", "seeds": [0, 1]} | changes
    path = Path(f"{name}.yaml")
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def bench(*words: object, **changes: object) -> object:
    return scored("bench", "--suite", suite("suite", **changes), *words)


def ablated() -> object:
    from ablation_setups import run_suite

    return run_suite(suite("suite", seeds=[0]))


def bench_checkpoint(trained: Callable[[], tuple[Path, dict]]) -> object:
    own = {"table": str(outcome_table()), "models": list(MODELS)}
    return bench("--compare-policy", "--checkpoint", trained()[0], **own)


def scored(*words: object) -> object:
    said = run(*words, "--out", "scores.json")
    if said["code"] != 0:
        return said
    return [said, json.loads(Path("scores.json").read_text(encoding="utf-8"))]


def played() -> object:
    """Random episodes, step by step."""
    make, rows = found("SoftwareTaskEnv"), []
    for split, shaping in (("train", True), ("test_pkg", False)):
        env = make(split=split, shaping=shaping)
        for seed in range(15):
            chance = np.random.default_rng(seed)
            seen, facts = env.reset(seed=seed)
            rows.append([seen, facts])
            ended = False
            while not ended:
                allowed = np.flatnonzero(seen["action_mask"])
                asks_or_tries = allowed[allowed > 5]  # the others include all that end an episode
                some = asks_or_tries if len(asks_or_tries) and chance.random() < 0.9 else allowed
                action = int(chance.choice(some))
                seen, reward, terminated, truncated, facts = env.step(action)
                ended = terminated or truncated
                rows.append([action, seen, float(reward), terminated, truncated, facts])
    return rows


def parallel_run(policy: str) -> object:
    """Lines of the parallel runner, without how long they took."""
    Path("run.jsonl").unlink(missing_ok=True)
    said = run("sim", "run", "--policy", policy, "--limit", 2, "--out", "run.jsonl", "--json")
    if said["code"] != 0:
        return said
    names = ("id", "split", "level", "family", "solved", "reason", "passes_visible", "solved_in_environment", "cost", "actions",
             "skipped")  # fmt: skip
    rows = [{name: line[name] for name in names if name in line} for line in lines_of(Path("run.jsonl"))]
    return sorted((line for line in rows if "id" in line), key=lambda line: line["id"])


TIMES = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?")


def report(db: Callable[[], Path], *words: object) -> object:
    """The page, without dates."""
    said = run("report", "--db", db(), "--out", "page.html", *words)
    page = Path("page.html").read_text(encoding="utf-8") if said["code"] == 0 else ""
    return [said, TIMES.sub("DATE", page).splitlines()]


def verifier_rates() -> object:
    return run("rl", "verifiers", "--db", cascade_log()[0], "--json")


def replay_db() -> Path:
    replayed()
    return Path("replay.db")


def synthetic_db() -> Path:
    synthetic()
    return Path("synth.db")


def all_cases() -> dict[str, Case]:
    cascades = {name: partial(cascade_checkpoint, name) for name in CASCADE_LEARNERS}
    cascades |= {f"auto {name}": partial(cascade_checkpoint, "auto", name) for name in ("margin", "budget")}
    cases: dict[str, Case] = {
        "export synthetic": partial(export_of, synthetic),
        "export replay": partial(export_of, replayed),
        "export router": partial(export_of, router_rows),
        "export cascades": partial(export_of, cascade_rows),
        "export selected": export_selected,
        "export mixed": export_mixed,
    }
    policies = {f"{learner} replay": (replayed, learner, "") for learner in LEARNERS}
    policies |= {f"{learner} router": (router_rows, learner, "") for learner in ("dr", "table", "text")}
    policies |= {f"{learner} synthetic": (synthetic, learner, "") for learner in ("dr", "cql")}
    for objective in filter(None, OBJECTIVES):
        policies |= {f"{learner} replay {objective}": (replayed, learner, objective) for learner in ("dr", "table")}
    for name, given in policies.items():
        trained = partial(checkpoint, *given)
        cases[f"learn {name}"] = partial(lambda trained: contents(trained()), trained)
        cases[f"prove {name}"] = partial(proofs, given[0], trained, given[2], False)
    for name, trained in cascades.items():
        cases[f"learn cascade {name}"] = partial(lambda trained: contents(trained()), trained)
        objective = name.partition(" ")[2]
        cases[f"prove cascade {name}"] = partial(proofs, cascade_rows, trained, objective, True)
    cases |= {
        "prove at the floor": partial(proofs, replayed, at_the_floor, "", False),
        "prove looks": looks,
        "prove mistakes": mistakes,
        "plan": planned,
        "rewards": analyzed,
        **{f"frontier {name or 'default'}": partial(frontier, name) for name in OBJECTIVES},
    }
    cases |= {
        "route static": partial(route, "static"),
        "route explored": partial(route, "explored", "exploration: 0.25\n"),
        "route explored among": partial(route, "among", "exploration: {share: 0.5, among: [mini, medium]}\n"),
        "route shadows": lambda: router_log()[1],
        "route ucb1": partial(route_bandit, "ucb1", "bandit: ucb1\n"),
        "route ucb1 weights": partial(
            route_bandit, "ucb1-w", "bandit: {kind: ucb1, keep: 0.99}\n" + OBJECTIVES["weights"]
        ),
        "route contextual": partial(route_bandit, "contextual", "bandit: contextual\nexploration: 0.05\n"),
        "route contextual noise": partial(
            route_bandit, "noise", "bandit: {kind: contextual, noise: 0.3, keep: 0.99}\n"
        ),
        **{f"route learned {name}": partial(route_learned, partial(checkpoint, replayed, name)) for name in LEARNERS},
        "route learned text router": partial(route_learned, partial(checkpoint, router_rows, "text")),
        "route learned at the floor": partial(route_learned, at_the_floor),
        "route promoted": route_promoted,
        "route cascade": lambda: cascade_log()[1],
        **{f"route cascade {name}": partial(route_cascade, name) for name in CASCADE_LEARNERS[:3]},
        "route budget": route_budget,
        "route serving": route_serving,
        "route explained": explained,
        "held sessions": held_rows,
    }
    cases |= {
        "bench baselines": bench,
        "bench baselines by category": partial(bench, held_out_by="category", train_fraction=0.7),
        "bench ablations": ablated,
        "bench policy": partial(bench, "--compare-policy", seeds=[0, 1, 2]),
        **{
            f"bench checkpoint {name}": partial(bench_checkpoint, partial(checkpoint, replayed, name))
            for name in LEARNERS
        },
        "bench checkpoint at the floor": partial(bench_checkpoint, at_the_floor),
        "bench checkpoint cascade": partial(bench_checkpoint, partial(cascade_checkpoint, "fitted-q")),
        "simulator episodes": played,
        "simulator scores": partial(scored, "sim", "bench", "--splits", "test_op", "--correlation"),
        **{f"simulator run {name}": partial(parallel_run, name) for name in ("oracle", "ochiai")},
        "report synthetic": partial(report, synthetic_db),
        "report replay": partial(report, replay_db),
        "report router": partial(report, lambda: router_log()[0]),
        "report router against": partial(report, lambda: router_log()[0], "--against", "small"),
        "report cascades": partial(report, lambda: cascade_log()[0]),
        "held report": partial(report, lambda: held_log()[0]),
        "verifiers": verifier_rates,
    }
    return cases


def fingerprint(name: str, case: Case, values: Path | None) -> str:
    with redirect_stderr(StringIO()):  # warnings name dates
        text = text_of(case())
    if values is not None:
        (values / f"{name.replace(' ', '_')}.json").write_text(text, encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine() -> dict[str, str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "torch": torch.__version__, "gymnasium": version("gymnasium"), "numpy": version("numpy")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("store", "check"))
    parser.add_argument("names", nargs="*", help="how names of cases begin; default: all")
    parser.add_argument("--file", type=Path, default=OUT)
    parser.add_argument("--values", type=Path, help="keep what is hashed in this folder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    values = None if arguments.values is None else arguments.values.resolve()
    if values is not None:
        values.mkdir(parents=True, exist_ok=True)
    cases = {
        name: case
        for name, case in all_cases().items()
        if not arguments.names or any(name.startswith(begin) for begin in arguments.names)
    }
    print(f"{Path(sage.__file__).parent}", file=sys.stderr)
    file, found_hashes = arguments.file.resolve(), {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, case in cases.items():
            found_hashes[name] = fingerprint(name, case, values)
            print(f"{found_hashes[name]}  {name}  {os.times().user:.1f} s", file=sys.stderr)
    if arguments.action == "store":
        file.write_text(json.dumps({"machine": machine(), "hashes": found_hashes}, indent=1) + "\n")
        print(f"{len(found_hashes)} hashes stored")
        return 0
    stored = json.loads(file.read_text())
    if stored["machine"] != machine():
        print(f"stored on {stored['machine']}, run on {machine()}: numbers may differ in the last bits")
    differ = [name for name, value in found_hashes.items() if stored["hashes"].get(name) != value]
    for name in differ:
        print(f"{name}: {found_hashes[name]}, stored {stored['hashes'].get(name)}")
    print(f"{len(found_hashes) - len(differ)} of {len(found_hashes)} equal")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

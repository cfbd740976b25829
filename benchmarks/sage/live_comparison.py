"""A live comparison: real models answer each task twice, chosen by static table and by policy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal, TypedDict, get_args

import numpy as np
from short_tasks.checking import verdict
from short_tasks.generate import PYTHON, fingerprint, generate
from short_tasks.task import ShortTask

from sage.agent.opened_upstreams import open_upstreams
from sage.benchmarks.runner import NORMAL_95, BenchError, number
from sage.log.records import Decision
from sage.orchestrator.guard import Serving
from sage.orchestrator.model_router import Router
from sage.orchestrator.models_file import ModelsFile
from sage.policies.checkpoint import load_policy
from sage.policies.learned_policy import was_seen
from sage.serve.logbook import Logbook
from sage.serve.places import Places
from sage.serve.state import ServingState
from sage.settings import CHECKPOINT, FORCE, POLICY
from sage.upstream.accounting import ANSWERED, FAILED, LEFT, bounded_usage, outcome_of
from sage.upstream.dialects.chat import Chat
from sage.upstream.dialects.dialect import dumps, texts_of
from sage.upstream.forwarding import Call
from sage.upstream.upstreams import CompleteAnswer, UpstreamError

LIVE = "live"  # the kind of its results
CHAT = Chat()
SYSTEM = "Be brief."
QUALITY = {"passed": 1.0, "failed": 0.0}
Side = Literal["off", "on"]
Part = Literal["quality", "cost_usd", "latency_s"]
SIDES: tuple[Side, ...] = get_args(Side)


class TaskAnswer(TypedDict):
    """The decision and outcome of one task on one side."""

    decision: str
    model: str
    quality: float | None  # None: its verifier could not tell
    cost_usd: float | None
    latency_s: float


class Pair(TypedDict):
    """Both answers to one task: with the policy off and on."""

    task: str
    category: str
    off: TaskAnswer
    on: TaskAnswer


@dataclass(frozen=True, kw_only=True)
class LiveSuite:
    """The tasks that are asked, and the files of models, log and policy."""

    models: Path
    db: Path
    checkpoint: Path
    tasks: int = 100
    seed: int = 0

    def chosen(self) -> list[ShortTask]:
        """Returns a random sample of the task set, without the tasks that the policy was learned from.

        Raises BenchError if there are too few of them.
        """
        tasks = generate(self.seed)
        training = load_policy(self.checkpoint).training
        seen = was_seen(np.array([task.id for task in tasks]), training.task_hashes)
        unseen = [task for task, known in zip(tasks, seen, strict=True) if not known]
        if not 2 <= self.tasks <= len(unseen):
            raise BenchError(
                f"--tasks {self.tasks} must be 2 to {len(unseen)}: so many tasks of seed {self.seed} are there that the policy "
                "was not learned from"
            )
        return Random(f"{self.seed}/live").sample(unseen, self.tasks)


def run_live(suite: LiveSuite, tell: Callable[[int], None] = lambda _: None) -> tuple[dict, list[Pair]]:
    """Asks all tasks; returns the results and the pairs that they are computed from.

    All calls are decisions in the log. `tell` gets the number of finished tasks. Raises BenchError if the policy cannot
    serve.
    """
    chosen, table, pairs = suite.chosen(), ModelsFile.read(suite.models), []
    switches = {POLICY: "1", CHECKPOINT: str(suite.checkpoint), FORCE: "1"}
    with (
        open_upstreams(Places(suite.models, suite.db), table) as (state, loop),
        Router.open(suite.db, models=suite.models, environment={}, needs_log=True) as off,
        Router.open(suite.db, models=suite.models, environment=switches, needs_log=True) as on,
    ):
        if on.policy is None:
            raise BenchError(f"the policy cannot serve: {on.served.problem}")
        sides = {"off": replace(state, logbook=Logbook(off)), "on": replace(state, logbook=Logbook(on))}
        order = Random(f"{suite.seed}/order")
        for done, task in enumerate(chosen, start=1):
            # Whoever is asked second may find the prompt in a cache: each side is second in half of the tasks.
            found = {side: answer(sides[side], loop, task) for side in order.sample(SIDES, 2)}
            pairs.append(Pair(task=task.id, category=task.category, off=found["off"], on=found["on"]))
            tell(done)
        facts = {"policy": on.policy.name, "policy_version": on.policy.version, "forced": on.served.forced}
    return results_of(pairs, facts | {"tasks": suite.tasks, "seed": suite.seed}), pairs


def answer(state: ServingState, loop: asyncio.Runner, task: ShortTask) -> TaskAnswer:
    """Asks a model for the answer to one task, checks it, and reports the outcome to the log.

    A failed call has quality 0. Raises BenchError if no model answers chat for the task's role.
    """
    role, router = "coder" if task.category == PYTHON else "planner", state.logbook.router
    among = tuple(state.speakers(CHAT.name, role))
    if not among:
        raise BenchError(f"no model of models.yaml answers chat for the role {role}: add one")
    decision = router.route(
        serving=Serving(among=among), role=role, task=task.prompt, task_id=task.id, category=task.category
    )
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.prompt}]
    body = {"model": decision.model, "messages": messages, "max_tokens": task.max_tokens, "temperature": 0}
    call = Call(CHAT, dumps(body), body, {}, order=state.fallbacks(role, decision.candidates, decision.model))
    began = time.perf_counter()
    try:
        given = loop.run(state.forwarder.answer(call))
    except UpstreamError as failure:
        return report_answer(state, decision, call, began, None, 0.0, FAILED, failure.timed_out)
    except KeyboardInterrupt:
        report_answer(state, decision, call, began, None, None, LEFT)
        raise
    assert isinstance(given, CompleteAnswer)
    message = given.values["choices"][0].get("message") or {}
    text = "\n".join(texts_of(message.get("content"), ("text",)))
    quality = QUALITY.get(verdict(task, text).verdict)
    return report_answer(state, decision, call, began, given, quality, ANSWERED)


def report_answer(
    state: ServingState,
    decision: Decision,
    call: Call,
    began: float,
    given: CompleteAnswer | None,
    quality: float | None,
    ended: str,
    timed_out: bool = False,
) -> TaskAnswer:
    """Reports the outcome of one call to the log, and returns it."""
    latency_s, model = time.perf_counter() - began, call.model or decision.model
    said = None if given is None else CHAT.usage(given.values)
    usage = bounded_usage(said, state.table.models[model], CHAT, call.values)
    fields = outcome_of(
        decision,
        model,
        latency_s=latency_s,
        attempts=call.attempts,
        ended=ended,
        usage=usage,
        price=state.table.models[model],
        timed_out=timed_out,
    )
    fields["quality"] = quality
    state.logbook.router.outcome(decision.id, **fields)
    return TaskAnswer(
        decision=decision.id, model=model, quality=quality, cost_usd=fields.get("cost_usd"), latency_s=latency_s
    )


def results_of(pairs: Sequence[Pair], facts: dict) -> dict:
    """Returns the results of the pairs; the same pairs give the same numbers."""
    judged = [pair for pair in pairs if pair["off"]["quality"] is not None and pair["on"]["quality"] is not None]
    tasks = generate(facts["seed"])
    return {
        "kind": LIVE,
        "data_source": "real",
        "evidence": True,
        "suite": {"name": "short_tasks", "sha256": fingerprint(tasks), **facts},
        "pairs": len(judged),
        "left_out": len(pairs) - len(judged),
        "same_model": sum(pair["off"]["model"] == pair["on"]["model"] for pair in judged),
        "comparison": {part: compare_part(judged, part) for part in get_args(Part)},
        "chosen": {side: counts_of([pair[side]["model"] for pair in judged]) for side in SIDES},
    }


def compare_part(pairs: Sequence[Pair], part: Part) -> dict:
    """Returns the means of both sides, and their paired difference with a 95 % interval over tasks."""
    off, on = (np.array([pair[side][part] for pair in pairs], np.float64) for side in SIDES)  # NaN for None
    difference = on - off
    half = NORMAL_95 * difference.std(ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.nan
    mean = difference.mean() if len(pairs) else np.nan
    return {
        "off": number(off.mean() if len(pairs) else np.nan),
        "on": number(on.mean() if len(pairs) else np.nan),
        "difference": number(mean),
        "interval": [number(mean - half), number(mean + half)],
    }


def counts_of(names: Sequence[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}


def format_live(results: dict) -> str:
    """Returns the results as a text table."""
    suite = results["suite"]
    lines = [
        f"{results['pairs']} tasks of {suite['name']}, each asked twice; {results['left_out']} could not be judged",
        f"{'':9}  {'policy off':>10}  {'policy on':>10}  difference (95 % over tasks)",
    ]
    for part, row in results["comparison"].items():
        low, high = row["interval"]
        if None in (row["off"], row["on"], low):
            lines.append(f"{part:9}  not known for all")
            continue
        lines.append(
            f"{part:9}  {row['off']:10.4g}  {row['on']:10.4g}  {row['difference']:+.4g} ({low:+.4g} to {high:+.4g})"
        )
    return "\n".join([*lines, *([suite["forced"]] if suite["forced"] else [])])

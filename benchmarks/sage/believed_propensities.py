"""Whether the log says what the evaluation believes: logged probabilities against `serving_distribution`, bit for bit.

.venv/bin/python benchmarks/sage/believed_propensities.py                 # writes results/believed_propensities.json
.venv/bin/python benchmarks/sage/believed_propensities.py --decisions 300 # in all; the test does with so few

Drives a real router, with its log, over made-up requests: the static table with triggers and exploration, evenly and among
plausible models; a category table and a network, loaded from checkpoints, with a floor above and below which they decide; a
policy that fails; both bandits; and cascades by the ladder, by a learned cascade and by a mixture of two. Some requests meet
limits (context, latency, a budget), some are of sessions that stay with their model.

Then computes the probabilities of every logged decision again, from the log's own fields (role, category, features, task,
candidates, and a cascade's attempts), models.yaml and the checkpoint, with the rules of the guard and its exploration. The
learned policy is asked about every decision, whoever made it, as the evaluation asks it. A bandit is compared as soon as it
has decided, because what it knows then is not logged.

`propensities_differ` counts decisions in which the logged model's probability is not the same float; it must be 0.
`probabilities_differ` and `verdicts_differ` compare all candidates, and the reason why the table or ladder stood in. `batch`
does the same with all rows at once, in the arrays that a proof reads, whose columns are all models by name.
Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cascade_replay import replay_cascade

from sage import Router
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.cascades.cascade_export import cascades, episode_of
from sage.evidence.routing_data import to_arrays
from sage.files import write_json
from sage.log.cascade_steps import STOP
from sage.log.records import HELD, ROLES, Decision, Outcome
from sage.orchestrator.cascade_tier import states_of
from sage.orchestrator.explanation import LIMITS, contexts_of
from sage.orchestrator.guard import Hold, Serving
from sage.orchestrator.promotion import Served
from sage.outcomes.synthetic import CATEGORIES, synthetic_table
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderByRole, LadderCascade
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.checkpoint import load_cascade, load_policy, save_policy
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.plausible import PlausibleModels
from sage.policies.policy import Contexts, RoutingPolicy
from sage.policies.serving import serving_distribution, step_distribution
from sage.rl.cascades.cascade_learning import learn_fitted_q
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from sage.rl.category_table import learn_table
from sage.rl.collect_synth import collect_synthetic
from sage.rl.train_cql import train_cql

RESULT = Path(__file__).parent / "results" / "believed_propensities.json"
MODELS = ("small", "medium", "large")
TABLE = """
models:
  small: {input_usd_per_mtok: 0.25, output_usd_per_mtok: 1.25, cached_input_usd_per_mtok: 0.02, latency_s: 2, max_context: 1500}
  medium: {input_usd_per_mtok: 3, output_usd_per_mtok: 15, cached_input_usd_per_mtok: 0.3, latency_s: 5}
  large: {input_usd_per_mtok: 15, output_usd_per_mtok: 75, cached_input_usd_per_mtok: 1.5, latency_s: 20}
roles:
  default: {primary: medium, fallback: small}
  coder:
    primary: small
    fallback: medium
    triggers:
      - {when: past_failures >= 2, use: large}
      - {when: task_complexity_score > 0.3, use: medium}
  planner: {primary: large, triggers: [{when: probe_calls > 5, use: small}]}
"""
LIMITED = "guard: {confidence_floor: 0.9, budget_usd: 0.2, max_latency_s: 10}\n"
FLOOR = "guard: {confidence_floor: 0.9}\n"
EVENLY = "exploration: 0.3\n"
AMONG = "exploration: {share: 0.3, among: plausible.json}\n"
CALLS = 20  # of a session
NUM_CASES = 12
DIFFER = ("propensities_differ", "probabilities_differ", "verdicts_differ")
LADDER = "cascade:\n  default: {ladder: [small, medium, large], exploration: 0.2}\n"
LADDER += "  coder: {ladder: [large, small, medium], max_attempts: 2, budget_usd: 0.1}\n"


@dataclass(kw_only=True)
class Unreliable:
    """A policy that fails on some roles, and gives no distribution on another."""

    base: LearnedPolicy
    name: str = "unreliable"
    version: str = "1"

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        if "reviewer" in contexts.role:
            raise ValueError("no reviewers")
        share = 0.5 if "debugger" in contexts.role else 1.0
        return share * self.base.probabilities(contexts, models, eligible)

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return self.base.confidence(contexts, models, eligible)


class Case(NamedTuple):
    """A models.yaml, and the learned policy that serves with it."""

    name: str
    table: str
    policy: RoutingPolicy | LearnedCascade | None = None
    checkpoint: Path | None = None


@dataclass
class Compared:
    """What logged decisions were found to be."""

    decisions: int = 0
    propensities_differ: int = 0
    probabilities_differ: int = 0
    verdicts_differ: int = 0
    explored: int = 0  # another model than the preferred one
    decided_by: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, decision: Decision, probabilities: np.ndarray, preferred: int, verdict: str) -> None:
        """Compares a logged decision with what is believed of its candidates."""
        believed = tuple(probabilities.tolist())
        chosen = decision.candidates.index(decision.model)
        self.decisions += 1
        self.propensities_differ += believed[chosen] != decision.probabilities[chosen]
        self.probabilities_differ += believed != decision.probabilities
        if decision.verdict not in (*LIMITS, HELD):  # whose only candidate nobody was asked about
            self.verdicts_differ += verdict != decision.verdict
        self.explored += chosen != preferred
        self.decided_by[decision.policy] += 1
        self.verdicts[decision.verdict] += 1


def cases(folder: Path, rows: int) -> Iterator[Case]:
    """Learns what has to be learned, from so many synthetic rows, and keeps it as checkpoints."""
    plausible = {(role, category): MODELS[i % 2 : i % 2 + 2] for i, role in enumerate(ROLES) for category in CATEGORIES}
    PlausibleModels(cells=plausible, elsewhere=("small",)).write(folder / "plausible.json")
    yield Case("static table, limits", TABLE + LIMITED + EVENLY)
    yield Case("static table, among plausible", TABLE + FLOOR + AMONG)
    data = collect_synthetic(rows, seed=0)
    table = learn_table(data)
    for name, policy in (("category table", table), ("network", train_cql(data, updates=rows // 10))):
        path = folder / f"{policy.name}.safetensors"
        save_policy(path, policy)
        yield Case(f"{name}, limits", TABLE + LIMITED + EVENLY, load_policy(path), path)
        yield Case(f"{name}, among plausible", TABLE + FLOOR + AMONG, load_policy(path), path)
    yield Case("a policy that fails", TABLE + FLOOR + EVENLY, Unreliable(base=table))
    yield Case("ucb1", TABLE + FLOOR + EVENLY + "bandit: ucb1\n")
    yield Case("contextual bandit", TABLE + FLOOR + EVENLY + "bandit: contextual\n")
    yield Case("cascade, ladder", TABLE + LIMITED + LADDER)
    logger = ExploringCascade(LadderCascade(MODELS), 0.4)
    episodes = replay_cascade(synthetic_table(rows // 5), logger, 2 * rows, verifier=SimulatedVerifier(), seed=0)
    cheap, good = learn_fitted_q(episodes, 4.0, wide=True), learn_fitted_q(episodes, 0.0)
    for name, cascade in (("learned", cheap), ("a mixture", replace(cheap, other=good, share=0.5))):
        path = folder / f"{name}.safetensors"
        save_policy(path, cascade)
        yield Case(f"cascade, {name}", TABLE + LIMITED + LADDER, load_cascade(path), path)


def opened(case: Case, folder: Path) -> Router:
    """A router that loads the checkpoint as in service; no gate has judged it."""
    models, environment = folder / "models.yaml", {}
    models.write_text(case.table)
    if case.checkpoint is not None:
        key = "SAGE_RL_CASCADE" if isinstance(case.policy, LearnedCascade) else "SAGE_RL_CHECKPOINT"
        environment = {"SAGE_RL_POLICY": "1", key: str(case.checkpoint), "SAGE_RL_FORCE": "1"}
    log = folder / f"{case.name.replace(' ', '_')}.db"
    router = Router.open(log, models=models, data_source="synthetic", environment=environment, seed=0)
    if isinstance(case.policy, Unreliable):
        router.served = Served(case.policy)
    return router


def request(generator: np.random.Generator, sessions: int) -> dict:
    """A request as callers make them: every role, with and without category, task id, failures and a probe."""
    words = (
        "fix",
        "the",
        "parser",
        "when",
        "input",
        "is",
        "empty;",
        "def f(x):",
        "ValueError",
        "src/app/main.py",
        "\n",
    )
    number = int(np.exp(generator.uniform(0, 8)))
    made: dict = {
        "role": str(generator.choice(ROLES)),
        "task": " ".join(generator.choice(words, number)),
        "category": str(generator.choice((*CATEGORIES, "never seen", ""))),
        "past_failures": int(generator.integers(4)),
        "session": f"s{generator.integers(sessions)}",
    }
    if generator.random() < 0.5:
        made["task_id"] = f"t{generator.integers(500)}"
    if generator.random() < 0.3:
        made |= {"probe_calls": int(generator.integers(10)), "probe_cost_usd": float(generator.random())}
    return made


def serving(generator: np.random.Generator) -> Serving:
    """Sometimes a session that has a long prompt in a model's cache, sometimes models that cannot be asked."""
    if generator.random() < 0.1:
        hold = Hold(model=str(generator.choice(MODELS)), cached_tokens=1e5, gain_usd=0.0, follows="earlier")
        return Serving(hold=hold, tokens=1e3)
    return Serving(among=MODELS[1:] if generator.random() < 0.1 else None)


def route(router: Router, decisions: int, compared: Compared) -> None:
    """Makes single decisions and reports outcomes; compares a bandit's at once."""
    generator, sessions = np.random.default_rng(1), decisions // CALLS
    for _ in range(decisions):
        decision = router.route(serving=serving(generator), **request(generator, sessions))
        if router.bandit is not None:
            compare_single(
                router, router.bandit.bandit, decision, compared
            )  # as it was, not what others taught it since
        if generator.random() < 0.5:
            cost = router.static.typical_cost(decision.model)
            router.outcome(decision.id, quality=float(generator.random() < 0.6), cost_usd=cost)


def run_cascades(router: Router, decisions: int) -> None:
    """Makes steps of cascades with everything reported before the next: verdicts, costs, time-outs and other models."""
    generator, made = np.random.default_rng(1), 0
    while made < decisions:
        task = router.cascade(**request(generator, decisions // CALLS))
        while (step := task.next()) is not None:
            made += 1
            given: dict = {"cost_usd": router.static.typical_cost(step.model) * float(generator.exponential())}
            if generator.random() < 0.1:
                given |= {"timed_out": True}
            elif generator.random() < 0.1:
                given |= {"model": str(generator.choice(MODELS))}
            passed = None if generator.random() < 0.1 else bool(generator.random() < 0.4)
            task.report(verdicts={"tests": passed}, **given)
        made += 1
        task.outcome(float(generator.random() < 0.6))


def compare_single(router: Router, policy: RoutingPolicy | None, decision: Decision, compared: Compared) -> None:
    names, eligible = decision.candidates, np.ones((1, len(decision.candidates)), bool)
    found = serving_distribution(policy, router.guard.rules, contexts_of(decision), names, eligible)
    compared.add(decision, found.probabilities[0], int(found.preferred[0]), str(found.verdict[0]))


def compare_step(router: Router, policy: LearnedCascade | None, decision: Decision, compared: Compared) -> None:
    assert decision.cascade is not None
    rule = router.cascades.rule(decision.role)
    states = states_of(contexts_of(decision), decision.cascade.attempts, rule.ladder)
    eligible = np.array([[name in decision.candidates for name in (*rule.ladder, STOP)]])
    found = step_distribution(policy, router.cascades.step_rules(rule), states, rule.ladder, eligible)
    columns = np.flatnonzero(eligible[0])
    preferred = int(np.searchsorted(columns, found.preferred[0]))
    compared.add(decision, found.probabilities[0, columns], preferred, str(found.verdict[0]))


def in_batch(router: Router, policy: RoutingPolicy | None, decisions: list[Decision]) -> dict:
    """All single decisions at once, in the arrays of a proof."""
    data = to_arrays(decisions, [Outcome(decision_id=d.id, time=d.time, quality=1.0) for d in decisions])
    rules = router.guard.rules._replace(failures=())
    try:
        found = serving_distribution(policy, rules, data.contexts, data.models, data.eligible)
    except ValueError as error:
        return {"raises": str(error)}
    return differences(found.probabilities, data.propensity, data.action)


def steps_in_batch(router: Router, policy: LearnedCascade | None) -> dict:
    """All steps at once, in the arrays of a proof; roles have their own share of exploration."""
    data = CascadeData.from_episodes(episode_of(rows) for rows in cascades(router.log))
    asked = policy or LadderByRole({role: rule.ladder for role, rule in router.cascades.rules.items()})
    role, believed = data.contexts.role[data.episode], np.zeros(data.propensity.shape)
    for name, rule in router.cascades.rules.items():
        rules = router.cascades.step_rules(rule)._replace(failures=())
        found = step_distribution(asked, rules, data.states, data.models, data.eligible)
        believed[role == name] = found.probabilities[role == name]
    return differences(believed, data.propensity, data.action)


def differences(believed: np.ndarray, logged: np.ndarray, action: np.ndarray) -> dict:
    rows = np.arange(len(action))
    return {
        "rows": len(action),
        "propensities_differ": int((believed[rows, action] != logged[rows, action]).sum()),
        "largest_difference": float(np.abs(believed - logged).max()),
    }


def run(case: Case, folder: Path, decisions: int) -> dict:
    """Routes, and compares what is logged with what is believed."""
    began, compared = time.perf_counter(), Compared()
    policy = case.policy
    with opened(case, folder) as router:
        if router.cascades.rules:
            assert policy is None or isinstance(policy, LearnedCascade)
            run_cascades(router, decisions)
            for decision, _ in router.log.rows():
                compare_step(router, policy, decision, compared)
            batch = steps_in_batch(router, policy)
        else:
            assert not isinstance(policy, LearnedCascade)
            route(router, decisions, compared)
            logged = [decision for decision, _ in router.log.rows()]
            for decision in logged if router.bandit is None else ():
                compare_single(router, policy, decision, compared)
            batch = {} if router.bandit is not None else in_batch(router, policy, logged)
    found = vars(compared) | {"decided_by": dict(compared.decided_by), "verdicts": dict(compared.verdicts)}
    return found | {"batch": batch, "seconds": round(time.perf_counter() - began, 1)}


def measure(decisions: int, rows: int = 2000) -> dict[str, dict]:
    """The results of every case, by its name: so many decisions in all, by policies that learn from so many rows."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for case in cases(Path(name), rows):
            found[case.name] = run(case, Path(name), -(-decisions // NUM_CASES))
            print(case.name, found[case.name], flush=True)
    return found


def total(found: Iterable[Mapping[str, int]], key: str) -> int:
    return sum(case.get(key, 0) for case in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=10_000, help="in all, at least")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    found = measure(options.decisions)
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "python": sys.version.split()[0]}
    sums = {key: total(found.values(), key) for key in ("decisions", *DIFFER)}
    sums["batch_propensities_differ"] = total((case["batch"] for case in found.values()), "propensities_differ")
    write_json(options.out, {"machine": machine | {"numpy": np.__version__}, **sums, "cases": found})
    print(sums)
    return 1 if any(sums[key] for key in (*DIFFER, "batch_propensities_differ")) else 0


if __name__ == "__main__":
    sys.exit(main())

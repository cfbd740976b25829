"""Live episodes: the same transitions as the compiled task, and nothing is run that was not asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from sage.grading.grading import grade
from sage.sandbox import Backend
from sage.sandbox.image import Image
from sage.sim.environment import baselines, packed, rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.growing import Growth, begun
from sage.sim.environment.live import LiveDynamics, played
from sage.sim.environment.models import ModelTiers
from sage.sim.environment.players import OCHIAI, playing
from sage.sim.environment.suspects import NUM_KINDS
from sage.sim.environment.tables import BETTER, REPAIRED, Table
from sage.sim.policies import SkippedError, named
from tests.forked import run_module
from tests.sage.sim.environment.small_task import TASK


@pytest.fixture
def growth(zygote: Backend) -> Growth:
    found = begun(zygote, TASK)
    assert found is not None
    return found


def kept_edits(table: Table, node: int) -> Iterator[tuple[list[int], int]]:
    """What to do at a node until an edit is kept, and the node that follows."""
    for slot, kind in product(range(len(table.slots)), range(NUM_KINDS)):
        results = table.nodes[node].result[slot, kind].tolist()
        kept = next((i for i, result in enumerate(results) if result in (-1, BETTER, REPAIRED)), None)
        if kept is not None and results[kept] >= 0:
            trials = [rules.TRY + slot * NUM_KINDS + kind] * (kept + 1)
            yield [rules.INSPECT + slot, *trials], int(table.nodes[node].leads[slot, kind, kept])


def solving_actions(table: Table) -> list[int]:
    """Two edits that are kept, after which the task is solved."""
    found = (
        [rules.LOCALISE, *first, *second, rules.RUN, rules.SUBMIT]
        for first, node in kept_edits(table, 0)
        for second, end in kept_edits(table, node)
        if table.nodes[end].solves and second[0] != first[0]
    )
    return next(found)


class Scripted:
    def __init__(self, actions: list[int]) -> None:
        self.actions = iter(actions)

    def predict(self, obs: object, mask: object) -> int:
        return next(self.actions)


def assert_same_transitions(compiled: SoftwareTaskDynamics, live: LiveDynamics, choose: baselines.Chooser) -> int:
    """Plays both with one policy, until the compiled one ends; returns the number of actions."""
    uniform = torch.rand(1, compiled.num_random, generator=torch.Generator().manual_seed(1))
    ours, theirs = compiled.initial(uniform), live.initial(uniform)
    for step in range(rules.HORIZON):
        seen, also_seen = compiled.observe(ours), live.observe(theirs)
        assert all(torch.equal(seen[name], also_seen[name]) for name in seen)
        action = choose(seen)
        ours, reward, terminated = compiled.step(ours, action)
        theirs, same_reward, same_end = live.step(theirs, action)
        assert torch.equal(ours, theirs)
        assert (reward, terminated) == (same_reward, same_end)
        if terminated:
            return step + 1
    return rules.HORIZON


def test_live_equals_compiled(table: Table, growth: Growth) -> None:
    """One table grows over all policies: each may ask for more of it than the one before."""
    compiled = SoftwareTaskDynamics(packed.packed([table]), shaping=False)
    live = LiveDynamics(growth)
    solving = iter(solving_actions(table))
    choosers = [lambda _: torch.tensor([next(solving)]), OCHIAI]
    choosers += [baselines.chance(torch.Generator().manual_seed(seed)) for seed in range(20)]
    assert sum(assert_same_transitions(compiled, live, choose) for choose in choosers) > 60
    assert [node.places for node in growth.table.nodes] == [node.places for node in table.nodes]


def test_only_what_is_asked_for_is_run(growth: Growth) -> None:
    live = LiveDynamics(growth)
    state = live.initial(torch.full((1, live.num_random), 0.5))
    for action in (rules.RUN, rules.LOCALISE):
        state, _, _ = live.step(state, torch.tensor([action]))
        live.observe(state)
    assert (growth.expanded, len(growth.table.nodes)) == (0, 1)
    state, _, _ = live.step(state, torch.tensor([rules.INSPECT]))
    live.observe(state)
    assert growth.expanded == 1
    assert BETTER in growth.table.nodes[0].result


def test_an_episode_ends_with_the_tree_that_its_policy_made(table: Table, growth: Growth, zygote: Backend) -> None:
    live = LiveDynamics(growth)
    uniform = torch.full((1, live.num_random), 0.5)
    episode = played(Scripted(solving_actions(table)), live, uniform)
    assert (episode.solved, episode.ended) == (True, "submit")
    assert grade(zygote, TASK, growth.files(episode.node)).solved
    assert episode.total == pytest.approx(rules.SOLVED - episode.spent)
    unfinished = played(Scripted([rules.LOCALISE] * rules.HORIZON), live, uniform)
    assert (unfinished.ended, unfinished.solved, len(unfinished.actions)) == ("horizon", False, rules.HORIZON)
    with pytest.raises(ValueError, match="chose action 999"):
        played(Scripted([999]), live, uniform)


def test_what_is_left_to_chance_depends_on_seed_and_task(zygote: Backend) -> None:
    drawn = []

    def make(generator: torch.Generator) -> Scripted:
        drawn.append(torch.rand(1, generator=generator).item())
        return Scripted([rules.STOP])

    for seed, task in ((3, TASK), (3, TASK), (4, TASK), (3, replace(TASK, id="other"))):
        attempt = playing(make, seed).solve(zygote, task)
        assert (attempt.files, attempt.ended, attempt.solved_in_environment) == (None, "stop", False)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_a_task_without_a_failing_test_is_skipped(zygote: Backend) -> None:
    with pytest.raises(SkippedError, match="nothing to try"):
        named("ochiai", 0).solve(zygote, replace(TASK, files=TASK.repaired()))


def test_a_saved_agent_plays_as_it_did(image: Image, tmp_path: Path) -> None:
    """In a process of its own, in which its algorithm is registered."""
    root = Path(__file__).parents[4]
    ended = run_module("tests.sage.sim.environment.play_by_pointer", tmp_path, cwd=root)
    assert ended.returncode == 0, ended.stderr
    same, level, refusal = ended.stdout.splitlines()[-3:]
    assert (same, level) == ("True True", ModelTiers().level)
    assert "was trained on something else than software tasks" in refusal

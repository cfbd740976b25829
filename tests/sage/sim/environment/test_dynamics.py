"""The rules of a software task, on a table whose every answer is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from rl_training.envs import check
from sage.sim.environment import baselines, packed, rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics, split, touched
from sage.sim.environment.models import ModelTiers
from sage.sim.environment.packed import Packed
from sage.sim.environment.suspects import NUM_KINDS, Slot
from sage.sim.environment.tables import BETTER, NOTHING, NUM_NODES, REPAIRED, Node, Table
from sage.sim.tasks.mutations import Edit
from tests.forked import run_module

EDIT = Edit(operator="constant", start=0, end=1, original="1", replacement="2", line=1, column=0, function="f")
SURE = ModelTiers(ability=(-99.0, -99.0, 99.0), escalated=99.0, plausible=1.0)


def known_table() -> Table:
    """Slot 0: kind 0 repairs half, and after it kind 1 of slot 1 the rest; kind 2 of slot 1 only seems to repair."""
    repairs = ((EDIT, EDIT), (EDIT,), (EDIT,)) + ((),) * (NUM_KINDS - 3)
    gains = ((0.75, -0.25), (0.5,), (-0.5,)) + ((),) * (NUM_KINDS - 3)
    looks, syntax = (0.5, 0.0, 0.0, 1.0, 0.0), (1.0,) * 8
    slots = [Slot("a.py", line, (0.9 - line / 10, *looks), syntax, repairs, gains) for line in (1, 2)]
    nodes = [Node((), 2, False, False), Node(((0, 0, 1),), 1, False, False)]
    nodes += [Node(((0, 0, 1), (1, 1, 0)), 0, True, True), Node(((1, 2, 0),), 0, True, False)]
    for node in nodes[:2]:
        for slot in range(2):
            node.result[slot, 0, :2] = node.result[slot, 1, 0] = node.result[slot, 2, 0] = NOTHING
    nodes[0].result[0, 0, 1], nodes[0].leads[0, 0, 1] = BETTER, 1
    nodes[0].result[1, 2, 0], nodes[0].leads[1, 2, 0] = REPAIRED, 3
    nodes[1].result[1, 1, 0], nodes[1].leads[1, 1, 0] = REPAIRED, 2
    return Table("known", "train", 1, np.zeros(12, np.float32), slots, nodes, 2, 3)


@pytest.fixture
def tasks() -> Packed:
    return replace(packed.packed([known_table()]), difficulty=np.zeros(1, np.float32))


def trial(slot: int, kind: int) -> int:
    return rules.TRY + slot * NUM_KINDS + kind


def played(dynamics: SoftwareTaskDynamics, *actions: int) -> tuple[float, dict[str, torch.Tensor], torch.Tensor]:
    """The return in the task's currency, the last observation and the last state; every action must be allowed."""
    state, total = dynamics.initial(torch.full((1, dynamics.num_random), 0.5)), 0.0
    for action in actions:
        assert dynamics.observe(state)["action_mask"][0, action] == 1, rules.action_name(action)
        state, reward, _ = dynamics.step(state, torch.tensor([action]))
        total += float(reward) / rules.SCALE
    return total, dynamics.observe(state), state


REPAIR = (rules.LOCALISE, rules.INSPECT, trial(0, 0), trial(0, 0), rules.INSPECT + 1, trial(1, 1))


def test_a_repair_in_two_edits_pays_its_reward_less_its_costs(tasks: Packed) -> None:
    total, _, state = played(SoftwareTaskDynamics(tasks, shaping=False), *REPAIR, rules.RUN, rules.SUBMIT)
    assert total == pytest.approx(50 - 1 - 2 * 0.1 - 3 * 0.25 - 0.5)
    assert SoftwareTaskDynamics(tasks).info(state)["is_success"].all()


def test_what_only_seems_to_repair_is_wrong_when_submitted(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks, shaping=False)
    total, seen, _ = played(dynamics, rules.LOCALISE, rules.INSPECT + 1, trial(1, 2), rules.RUN)
    assert seen["progress"][0, :4].tolist() == [0.0, 0.0, 1.0, 0.0]  # nothing fails that can be seen
    total, _, state = played(dynamics, rules.LOCALISE, rules.INSPECT + 1, trial(1, 2), rules.SUBMIT)
    assert total == pytest.approx(-20 - 1 - 0.1 - 0.25)
    assert not dynamics.info(state)["is_success"].any()


def test_reverting_goes_back_and_remembers_what_was_tried(tasks: Packed) -> None:
    _, seen, state = played(
        SoftwareTaskDynamics(tasks), rules.LOCALISE, rules.INSPECT + 1, trial(1, 2), rules.RUN, rules.REVERT
    )
    assert split(state).node.item() == 0
    assert seen["progress"][0, :4].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert seen["action_mask"][0, trial(1, 2)] == 0


def test_an_edit_that_was_kept_is_not_tried_again_after_a_revert(tasks: Packed) -> None:
    known = (rules.LOCALISE, rules.INSPECT, trial(0, 0), trial(0, 0), rules.REVERT)
    _, seen, state = played(SoftwareTaskDynamics(tasks), *known)
    assert split(state).node.item() == 0
    assert seen["action_mask"][0, trial(0, 0)] == 0
    assert seen["action_mask"][0, trial(0, 1)] == 1


def test_a_trial_skips_edits_that_the_tree_has_no_room_for(tasks: Packed) -> None:
    tasks.result[0, 0, 0, 0, 0] = -1
    dynamics = SoftwareTaskDynamics(tasks, shaping=False)
    total, _, state = played(dynamics, rules.LOCALISE, rules.INSPECT, trial(0, 0))
    assert (total, split(state).node.item()) == (pytest.approx(-1 - 0.1 - 0.25), 1)  # the second edit was made
    assert list(baselines.shortest(tasks, 0)) == pytest.approx([2 * (0.1 + 0.25)])


def test_the_gain_of_the_next_edit_is_seen_where_a_statement_was_inspected(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks)
    _, seen, _ = played(dynamics, rules.LOCALISE, rules.INSPECT)
    assert seen["edits"].view(16, -1)[:2, :4].tolist() == [[0.75, 0.5, -0.5, 0.0], [0.0] * 4]
    _, seen, _ = played(dynamics, rules.LOCALISE, rules.INSPECT, trial(0, 0), trial(0, 1))
    assert seen["edits"].view(16, -1)[0, :3].tolist() == [-0.25, 0.0, -0.5]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ((rules.STOP,), 0.0),
        ((rules.ESCALATE,), 50.0 - 25.0),
        ((rules.ASK + 4, rules.SUBMIT), 50.0 - 16.0),
        ((rules.ASK + 5, rules.SUBMIT), 50.0 - 24.0),
        ((rules.ASK, rules.SUBMIT), -20.0 - 3.0),  # it is fooled
    ],
)
def test_models_and_escalation(tasks: Packed, actions: tuple[int, ...], expected: float) -> None:
    assert played(SoftwareTaskDynamics(tasks, SURE, shaping=False), *actions)[0] == pytest.approx(expected)


def test_a_model_answers_as_its_ability_says(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks, shaping=False)
    state = dynamics.initial(torch.rand(20_000, dynamics.num_random, generator=torch.Generator().manual_seed(0)))
    for tier, ability in enumerate(ModelTiers().ability):
        after, _, _ = dynamics.step(state, torch.full((len(state),), rules.ASK + 2 * tier))
        wanted = 1 / (1 + np.exp(-1.3 * ability))
        assert (split(after).node == rules.ORACLE).float().mean().item() == pytest.approx(wanted, abs=0.01)


def test_a_second_answer_repeats_the_first_as_often_as_correlation_says(tasks: Packed) -> None:
    for correlation in (0.0, 1.0):
        dynamics = SoftwareTaskDynamics(tasks, ModelTiers(correlation=correlation, plausible=0.0), shaping=False)
        state = dynamics.initial(torch.rand(5_000, dynamics.num_random, generator=torch.Generator().manual_seed(0)))
        ask = torch.full((len(state),), rules.ASK + 2)
        once, _, _ = dynamics.step(state, ask)
        failed = once[split(once).node.squeeze(-1) == 0]
        again, _, _ = dynamics.step(failed, ask[: len(failed)])
        share = (split(again).node == rules.ORACLE).float().mean().item()
        assert share == pytest.approx((1 - correlation) / (1 + np.exp(-1.3 * 0.4)), abs=0.03)


def test_shaping_adds_the_same_to_every_way(tasks: Packed) -> None:
    """With gamma 1 the potentials cancel but for the first state's, which is 0 here."""
    plain, shaped = (SoftwareTaskDynamics(tasks, SURE, shaping=shaping, gamma=1.0) for shaping in (False, True))
    for actions in ((*REPAIR, rules.SUBMIT), (rules.ASK + 4, rules.REVERT, rules.STOP), (rules.ESCALATE,)):
        assert played(plain, *actions)[0] == pytest.approx(played(shaped, *actions)[0], abs=1e-4)


def test_nothing_is_seen_before_it_is_looked_for(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks)
    _, seen, _ = played(dynamics)
    assert not seen["slots"].any()
    assert not seen["action_mask"][0, rules.INSPECT :].any()
    _, seen, _ = played(dynamics, rules.LOCALISE)
    slots = seen["slots"].view(16, -1)
    assert slots[0, 0] == pytest.approx(0.8)
    assert slots[:3, 6].tolist() == [0.75, 0.75, 0.0]  # how strange it is
    assert not slots[:, 7:15].any()  # how it is written is seen by inspecting
    assert not seen["edits"].any()
    assert seen["action_mask"][0, rules.INSPECT : rules.TRY].tolist() == [1, 1] + [0] * 14
    _, seen, _ = played(dynamics, rules.LOCALISE, rules.INSPECT)
    assert seen["slots"].view(16, -1)[:2, 7].tolist() == [1.0, 0.0]
    assert seen["action_mask"][0, rules.TRY :].nonzero().flatten().tolist() == [0, 1, 2]


def test_nobody_can_be_asked_in_an_outage(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks, outage=0.3)
    drawn = torch.full((2, dynamics.num_random), 0.5)
    drawn[0, -1] = 0.2
    mask = dynamics.observe(dynamics.initial(drawn))["action_mask"]
    asks = [rules.ESCALATE, *range(rules.ASK, rules.INSPECT)]
    assert not mask[0, asks].any()
    assert mask[1, asks].all()
    assert mask[0].sum() + len(asks) == mask[1].sum()


def test_kinds_of_kept_edits_are_seen(tasks: Packed) -> None:
    _, seen, _ = played(SoftwareTaskDynamics(tasks), *REPAIR)
    assert seen["kept"][0, :3].tolist() == [1, 1, 0]


def test_hidden_results_are_not_in_the_observation(tasks: Packed) -> None:
    """Two tasks that differ only in what hidden tests say look the same until something is submitted."""
    other = replace(tasks, solves=~tasks.solves)
    for actions in (REPAIR, (rules.LOCALISE, rules.INSPECT + 1, trial(1, 2), rules.RUN)):
        ours, theirs = (played(SoftwareTaskDynamics(t), *actions)[1] for t in (tasks, other))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_what_the_mask_forbids_does_nothing_and_costs(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks, shaping=False)
    state = dynamics.initial(torch.full((1, dynamics.num_random), 0.5))
    for action in (trial(0, 0), trial(15, 11), rules.INSPECT, rules.REVERT):
        after, reward, terminated = dynamics.step(state, torch.tensor([action]))
        assert reward.item() / rules.SCALE == pytest.approx(-1)
        assert not terminated
        same = split(after)._replace(spent=split(state).spent, history=split(state).history)
        assert torch.equal(torch.cat(same, -1), state)


def test_one_action_is_allowed_as_the_mask_says() -> None:
    dynamics = SoftwareTaskDynamics(packed.load_packed(packed.SHIPPED).chosen(range(40)), outage=0.5)
    choose = baselines.chance(torch.Generator().manual_seed(0))
    state = dynamics.initial(torch.rand(40, dynamics.num_random, generator=torch.Generator().manual_seed(0)))
    table, every = dynamics.table(state.device), torch.arange(rules.NUM_ACTIONS)
    for _ in range(20):
        mask, s = dynamics.observe(state)["action_mask"] > 0, split(state)
        task, node = s.task.long().squeeze(-1), s.node.long().squeeze(-1)
        for action in every:
            same = torch.full_like(task, int(action))
            variant = dynamics.variants(s, table, task, node, touched(same)[1].unsqueeze(-1))
            assert torch.equal(dynamics.allows(s, table, task, node, same, variant), mask[:, action])
        state = dynamics.step(state, choose(dynamics.observe(state)))[0]


def test_no_money_leaves_submitting_and_stopping(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks)
    state = dynamics.initial(torch.full((1, dynamics.num_random), 0.5))
    split(state).spent.fill_(rules.MOST_SPENT)
    assert dynamics.observe(state)["action_mask"][0].nonzero().flatten().tolist() == [rules.SUBMIT, rules.STOP]


def test_no_policy_beats_full_knowledge(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks, shaping=False)
    uniform = baselines.draws(tasks, 300, seed=3)
    best = baselines.oracle_returns(dynamics, uniform)
    assert best.min().item() == pytest.approx(50 - 1 - 2 * 0.1 - 3 * 0.25)  # the repair above, without a check
    assert best.max() == best.min()  # no model is so cheap
    heuristic = baselines.Heuristic(tuple(range(NUM_KINDS)), trials=8, ladder=(0, 4), escalate=True)
    choosers = [baselines.nothing, baselines.chance(torch.Generator().manual_seed(0)), heuristic]
    for choose in choosers:
        assert (baselines.returns_of(choose, dynamics, uniform)[0] <= best + 1e-4).all()


def test_the_heuristic_repairs_what_its_order_finds(tasks: Packed) -> None:
    heuristic = baselines.Heuristic(tuple(range(NUM_KINDS)), trials=8, ladder=(4,), escalate=True)
    dynamics = SoftwareTaskDynamics(tasks, SURE, shaping=False)
    total, solved, spent = baselines.episodes_of(heuristic, dynamics, baselines.draws(tasks, 1, 0))
    assert solved.all()
    assert spent.item() == pytest.approx(50 - total.item())
    trials = (
        2 + 2 + 3
    )  # kind 0 twice, which keeps an edit; the rest of the first statement, and of the second up to kind 1
    assert total.item() == pytest.approx(50 - 1 - 2 * 0.1 - 0.5 - 0.25 * trials)


def test_tuning_takes_what_is_best_on_its_tasks(tasks: Packed) -> None:
    dynamics = SoftwareTaskDynamics(tasks, SURE, shaping=False)
    found = baselines.tuned(tasks, dynamics)
    assert found.trials >= 5  # after the first edit; 34 by the large model, 25 by escalating
    total, _ = baselines.returns_of(found, dynamics, baselines.draws(tasks, 1, 0))
    assert total.item() == pytest.approx(50 - 1 - 2 * 0.1 - 0.5 - 7 * 0.25)
    assert baselines.kind_order(tasks)[0] == 0  # nothing solves in one trial, so kinds stay in their order
    solving = replace(tasks, leads=np.where(tasks.result == REPAIRED, 2, tasks.leads).astype(np.int8))
    assert baselines.kind_order(solving)[0] == 2
    assert baselines.tuned(tasks, SoftwareTaskDynamics(replace(tasks, result=tasks.result * 0 - 1), SURE)).ladder == (
        4,
    )


def test_the_policy_is_trained_goes_on_and_is_compared(tmp_path: Path) -> None:
    """In a process of its own, in which its algorithm is registered."""
    ended = run_module("tests.sage.sim.environment.learn_by_pointer", tmp_path, cwd=Path(__file__).parents[4])
    assert ended.returncode == 0, ended.stderr
    assert "has a run with other settings (/training/seed): give the same, or choose another --out" in ended.stderr
    assert "contest.splits is not as a run pack has it: make the pack again" in ended.stderr
    assert "--suite is for policies that route" in ended.stderr
    assert "models.json, which is not there any more: give it with --models" in ended.stderr
    scores = json.loads(ended.stdout.splitlines()[-1])
    assert scores["PPO"] > 0.2 > scores["nothing"]
    assert scores["best heuristic, which asks models (tuned)"] > scores["learned router"]


def test_it_passes_the_checks_of_both_libraries(tmp_path: Path) -> None:
    packed.save(tmp_path / "tables.npz", [known_table()])
    check(lambda: SoftwareTaskDynamics(packed.packed([known_table()])), num_envs=3, num_steps=100)
    env = gymnasium.make("sage/SoftwareTask-v0", tables=tmp_path / "tables.npz", split="train")
    check_env(env.unwrapped, skip_render_check=True)
    first, facts = env.reset(seed=5)
    assert facts["task"] == "known"
    assert all(np.array_equal(first[name], env.reset(seed=5)[0][name]) for name in first)
    env.step(rules.SUBMIT)
    with pytest.raises(gymnasium.error.ResetNeeded, match="there is no open task"):
        env.step(rules.SUBMIT)
    with pytest.raises(ValueError, match="no compiled task is of the split test_pkg"):
        gymnasium.make("sage/SoftwareTask-v0", tables=tmp_path / "tables.npz", split="test_pkg")


def test_a_table_has_room_for_its_nodes(tasks: Packed) -> None:
    assert tasks.result.shape[1] == NUM_NODES
    assert tasks.solves[0].tolist() == [False, False, True, *[False] * (NUM_NODES - 3), True]

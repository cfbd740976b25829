"""What is due not at every update falls due exactly as often as it says."""

import pytest
import torch

from rl_training import DQN, PrioritizedDQN
from rl_training.api.training import build_run
from rl_training.core import Pass, Periodic
from rl_training.runtime import Trainer, build_update
from rl_training.runtime.compilation import block_size


@pytest.fixture
def trainer() -> Trainer:
    return build_run(DQN("CartPole-v1", compile=False, buffer_size=64, learning_starts=8)).trainer


def due(trainer: Trainer, a_pass: Pass, number: int = 1) -> tuple[str, ...]:
    """The methods of the next update, if it is the iteration's of that number."""
    return trainer.progress.due(a_pass, number)


def test_what_counts_updates_is_due_at_every_kth(trainer: Trainer) -> None:
    a_pass = Pass(1, 32, periodic=(Periodic("update_target", 3),))
    assert [n for n in range(1, 10) if "update_target" in due(trainer, a_pass)] == [3, 6, 9]


def due_with(trainer: Trainer, *, steps: int, updates: int, every: int, total: int = 60) -> list[tuple[int, int]]:
    """When a method that counts env steps is due: env steps at the iteration, and which of its updates."""
    a_pass = Pass(updates, 32, periodic=(Periodic("update_target", every, "env_steps"),))
    found = []
    for now in range(steps, total + 1, steps):
        trainer.progress.updated_at, trainer.progress.env_steps = now - steps, now
        for number in range(1, updates + 1):
            methods = due(trainer, a_pass, number)
            assert methods in (("update",), ("update", "update_target"))
            if len(methods) == 2:
                found.append((now, number))
    return found


def test_what_counts_env_steps_is_due_once_when_a_multiple_is_passed(trainer: Trainer) -> None:
    found = due_with(trainer, steps=4, updates=1, every=10)
    assert found == [(12, 1), (20, 1), (32, 1), (40, 1), (52, 1), (60, 1)]


def test_updates_of_an_iteration_are_spread_over_its_env_steps(trainer: Trainer) -> None:
    # Two updates after every 4 steps stand for steps 2 and 4 of these: 10 is passed by the first, 20 by the second.
    found = due_with(trainer, steps=4, updates=2, every=10)
    assert found == [(12, 1), (20, 2), (32, 1), (40, 2), (52, 1), (60, 2)]
    # Three after every 12 steps stand for 4, 8 and 12.
    assert due_with(trainer, steps=12, updates=3, every=6, total=24) == [(12, 2), (12, 3), (24, 2), (24, 3)]


def test_one_update_per_env_step_does_what_is_due_after_every_step(trainer: Trainer) -> None:
    """What gradient_steps=-1 asks for."""
    assert due_with(trainer, steps=4, updates=4, every=1, total=12) == [
        (n, k) for n in (4, 8, 12) for k in (1, 2, 3, 4)
    ]
    assert due_with(trainer, steps=4, updates=4, every=3, total=12) == [(4, 3), (8, 2), (12, 1), (12, 4)]


def test_more_updates_than_env_steps_do_nothing_twice(trainer: Trainer) -> None:
    assert due_with(trainer, steps=2, updates=4, every=1, total=4) == [(2, 2), (2, 4), (4, 2), (4, 4)]
    # Fewer updates than what falls due: it is not made up for.
    assert due_with(trainer, steps=4, updates=1, every=1, total=12) == [(4, 1), (8, 1), (12, 1)]


def test_one_step_is_built_for_every_set_of_methods_and_kept(trainer: Trainer) -> None:
    a_pass = Pass(1, 32, periodic=(Periodic("update_target", 2),))
    executor = trainer.executor(trainer.plan.phases[0])
    steps = [executor.step_for(due(trainer, a_pass), a_pass) for _ in range(6)]
    assert set(executor.steps) == {("update",), ("update", "update_target")}
    assert steps[0] is steps[2] is steps[4]
    assert steps[1] is steps[3] is steps[5]
    assert steps[0] is not steps[1]


def test_an_update_returns_metrics_and_tells_the_replay_what_surprised() -> None:
    settings = {"buffer_size": 64, "learning_starts": 8, "batch_size": 8}
    trainer = build_run(PrioritizedDQN("CartPole-v1", compile=False, **settings)).trainer
    trainer.run(stop_at=4)
    replay = trainer.experience
    storage, _ = replay.prepare(trainer.algorithm)
    draw = next(next(iter(replay.draws(Pass(1, 8)))))
    batch, before = replay.gather(storage, draw), storage.priority[0].clone()
    expected = trainer.algorithm.loss(batch).rows["priority"]
    update = build_update(trainer.algorithm, replay, ("update", "update_target"), compiled=False, device=trainer.device)
    metrics = update(storage, draw)
    assert metrics.keys() == {"loss", "q_mean", "td_error", "epsilon", "learning_rate"}
    assert all(value.shape == () for value in metrics.values())
    before.view(-1)[batch.columns["row"]] = (expected.double() + 1e-6) ** 0.6
    torch.testing.assert_close(storage.priority[0], before)


@pytest.mark.parametrize(
    ("epochs", "also", "size"),
    [
        (1, (), 1),
        (10, (), 10),
        (40, (), 20),
        (23, (), 1),
        (20, (Periodic("update_actor", 20), Periodic("update_target", 1)), 20),
        (20, (Periodic("update_actor", 2),), 20),
        (20, (Periodic("update_actor", 3),), 1),
        (20, (Periodic("update_target", 1, "env_steps"),), 1),
    ],
)
def test_updates_share_a_graph_where_few_graphs_do_for_all(epochs: int, also: tuple[Periodic, ...], size: int) -> None:
    assert block_size(Pass(epochs, 32, periodic=also)) == size


def test_random_actions_fill_the_replay_and_the_policy_acts_afterwards(trainer: Trainer) -> None:
    asked = []
    collect = trainer.collector.collect

    def remember(policy, num_steps):
        asked.append((policy, num_steps))
        return collect(policy, num_steps)

    trainer.collector.collect = remember
    trainer.run(stop_at=16)
    assert asked == [(trainer.random_policy, 8), (trainer.algorithm.policy, 4), (trainer.algorithm.policy, 4)]
    assert trainer.progress.gradient_steps == 3

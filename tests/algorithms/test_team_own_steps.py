"""Transitions of agents that wait, die and come back, as drawn from a replay: by hand for the runners of `tests/relay.py`."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import rl_training
from rl_training import IndependentQ
from rl_training.core import AgentGroup, Box, Column, Discrete, Spec, StepBatch, TeamSpec, tree_map
from rl_training.envs import NativeTeamEnv, TeamDynamics, TeamStep
from rl_training.envs.vector import same_trees
from rl_training.experience import Replay
from rl_training.experiment.checkpoint import difference
from rl_training.runtime import make_collector
from tests.relay import LENGTH, Relay
from tests.replays import build_replay

SMALL = {"backend": "native", "seed": 0, "compile": False, "threads": 1, "gamma": 0.5}
NUM_ENVS = 2
# By row and runner: the reward, the discount and the time of the next observation, None where it terminated. Runner 0 acts,
# waits, acts and dies. Runner 1 acts up to its truncation, after which it observes nothing, and in its second life.
# Runner 2 acts once.
DEAD = -1
FIRST_EPISODE = {
    (0, 0): (1 + 2, 0.5, 2), (2, 0): (4, 0, None),
    (0, 1): (1, 0.5, 1), (1, 1): (2, 0.5, 2), (2, 1): (3, 0.5, DEAD), (4, 1): (5, 0, None),
    (2, 2): (8 + 16 + 64, 0, None),
}  # fmt: skip
TWO_STEPS = FIRST_EPISODE | {
    (0, 0): (3 + 0.5 * 4, 0, None), (0, 1): (1 + 0.5 * 2, 0.25, 2), (1, 1): (2 + 0.5 * 3, 0.25, DEAD)
}  # fmt: skip
TEAM = [2, 36, 15, 16, 69]  # what all earn together
WHOLE_TEAM = {
    place: (sum(TEAM[place[0] : place[0] + num]), *FIRST_EPISODE[place][1:])
    for place, num in {(0, 0): 2, (2, 0): 1, (0, 1): 1, (1, 1): 1, (2, 1): 1, (4, 1): 1, (2, 2): 3}.items()
}


def filled(
    agent: IndependentQ, num_steps: int, *, limit: int | None = None, buffer_size: int = 200, **settings
) -> Replay:
    """A replay of steps of the runners, as a run of the agent would build it."""
    env, columns = NativeTeamEnv(Relay(), NUM_ENVS, max_episode_steps=limit), agent.algorithm.columns
    replay = build_replay(env.spec, NUM_ENVS, gamma=0.5, columns=columns, buffer_size=buffer_size, **settings)
    policy = agent.algorithm.policy
    replay.add(make_collector(env, policy, seed=0, columns=columns).collect(policy, num_steps))
    return replay


def of_runners(agent: IndependentQ, replay: Replay, times: range) -> StepBatch:
    """All that the runners' DQN would see of some times, [time, env, runner, ...]."""
    rows = torch.tensor([time % replay.ring.slots * NUM_ENVS + env for time in times for env in range(NUM_ENVS)])
    batch = agent.algorithm.agent_batch("runner", replay.take(replay.columns, rows))
    return tree_map(lambda x: x.unflatten(0, (len(times), NUM_ENVS, 3)), batch)


def check(found: StepBatch, expected: dict, times: range) -> None:
    for env in range(NUM_ENVS):
        counted = [(times[time], runner) for time, runner in found.weight[:, env].nonzero().tolist()]
        assert sorted(counted) == sorted(expected)
        for (time, runner), (reward, discount, following) in expected.items():
            place = (time - times[0], env, runner)
            assert (found.reward[place].item(), found.discount[place].item()) == (reward, discount)
            if following is not None:
                seen = found.next_obs["observation"][place]
                assert (seen.argmax().item() if seen.any() else DEAD) == following
                assert found.next_obs["action_mask"][place].any()  # also of who was cut off and may do nothing


@pytest.mark.parametrize(
    ("num_steps", "settings", "expected"),
    [
        (LENGTH, {}, FIRST_EPISODE),
        (LENGTH + 1, {}, FIRST_EPISODE | {(5, 1): (1, 0.5, 1)}),  # runner 0 waits: what follows is not known yet
        (
            LENGTH + 2,
            {},
            FIRST_EPISODE | {(5, 0): (3, 0.5, 2), (5, 1): (1, 0.5, 1), (6, 1): (2, 0.5, 2)},
        ),
        (LENGTH, {"n_steps": 2}, TWO_STEPS),
        (LENGTH + 2, {"n_steps": 2}, TWO_STEPS | {(5, 0): (3, 0.5, 2), (5, 1): (2, 0.25, 2), (6, 1): (2, 0.5, 2)}),
        (LENGTH, {"longest_wait": 2}, {place: x for place, x in FIRST_EPISODE.items() if place != (2, 2)}),
        (LENGTH, {"learns_from": "team"}, WHOLE_TEAM),
    ],
)
def test_transitions_equal_those_computed_by_hand(num_steps: int, settings: dict, expected: dict) -> None:
    agent = IndependentQ(Relay, n_envs=NUM_ENVS, **SMALL | settings)
    replay = filled(agent, num_steps, n_steps=settings.get("n_steps", 1))
    check(of_runners(agent, replay, range(num_steps)), expected, range(num_steps))


def test_a_time_limit_cuts_agents_off_also_while_they_wait() -> None:
    agent = IndependentQ(Relay, n_envs=NUM_ENVS, **SMALL)
    found = of_runners(agent, filled(agent, 4, limit=4), range(4))
    expected = {place: x for place, x in FIRST_EPISODE.items() if place[0] < 4}
    check(found, expected | {(2, 2): (8 + 16, 0.5, 4)}, range(4))


def test_an_episode_that_will_not_go_on_ends_the_transitions_in_it() -> None:
    agent = IndependentQ(Relay, n_envs=NUM_ENVS, **SMALL)
    replay = filled(agent, LENGTH + 1)
    replay.cut()
    check(of_runners(agent, replay, range(LENGTH, LENGTH + 1)), {(5, 0): (1, 0.5, 1), (5, 1): (1, 0.5, 1)}, range(5, 6))


def test_a_full_ring_is_followed_around_and_never_into_its_oldest_rows() -> None:
    agent = IndependentQ(Relay, n_envs=NUM_ENVS, **SMALL)
    replay, stored = filled(agent, 4 * LENGTH + 1, buffer_size=12), range(3 * LENGTH, 4 * LENGTH + 1)  # 6 of 21
    expected = {(3 * LENGTH + time, runner): x for (time, runner), x in FIRST_EPISODE.items()}
    check(of_runners(agent, replay, stored), expected | {(4 * LENGTH, 1): (1, 0.5, 1)}, stored)


@pytest.mark.compiled
def test_what_is_drawn_is_one_graph_and_the_same_bits() -> None:
    agent = IndependentQ(Relay, n_envs=NUM_ENVS, n_steps=2, longest_wait=4, **SMALL)
    replay = filled(agent, 3 * LENGTH, n_steps=2)
    draw = replay.draw(32)
    traced = torch.compile(replay.gather, fullgraph=True, backend="eager")(replay.columns, draw)
    assert same_trees(replay.gather(replay.columns, draw), traced)


class Promises(TeamDynamics):
    """In even steps the first agent chooses, for which it is paid while it waits; in odd steps the second is to repeat it."""

    seen = Box((3,), (0.0,) * 3, (1.0,) * 3)
    spec = TeamSpec.of([AgentGroup("voice", ("voice_0", "voice_1"), seen, Discrete(2))], reward="sum", lives=True)
    max_episode_steps, num_random = 10, 0

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform.new_zeros(len(uniform), 2)  # whose turn it is, and what was said

    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        turn, said = state.long().unbind(-1)
        chosen = action["voice"].gather(-1, turn[:, None])[:, 0]
        reward = torch.stack([(turn == 1) & (said == 1), (turn == 1) & (chosen == said)], -1).float()
        nobody = torch.zeros(len(state), 2, dtype=torch.bool)
        after = torch.stack([1 - turn, chosen], -1).float()
        return TeamStep(after, reward, nobody[:, 0], terminated=nobody, truncated=nobody)

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        turn, said = state.long().unbind(-1)
        seen = torch.cat([F.one_hot(said, 2), turn[:, None]], -1).float()
        acting = F.one_hot(turn, 2)
        return {"voice": seen[:, None].expand(-1, 2, -1), "alive": torch.ones_like(acting), "acting": acting}


RUN = SMALL | {
    "n_envs": 8, "train_freq": 8, "learning_starts": 400, "batch_size": 64, "learning_rate": 3e-3,
    "target_update_interval": 80, "exploration_fraction": 0.5, "net_arch": [32],
}  # fmt: skip


def test_agents_learn_from_what_they_earn_while_they_wait() -> None:
    agent = IndependentQ(Promises, **RUN)
    agent.learn(3_000, progress=False)
    assert agent.evaluate(2).mean == 10.0  # at random 5
    start = Promises().observe(torch.zeros(1, 2))
    q = agent.algorithm.q_values(start, "voice")[0, 0]
    # With two more choices after it, each discounted once: 1 + 0.5 + 0.25 ... to a time limit that it does not see.
    torch.testing.assert_close(q, torch.tensor([1.0, 2.0]), atol=0.15, rtol=0.0)


def test_rows_are_drawn_again_until_their_transitions_are_complete() -> None:
    """In a game of two agents who take turns, nobody of the newest row has a complete transition."""
    agent = IndependentQ(Promises, prioritized=True, **RUN)
    algorithm, env = agent.algorithm, NativeTeamEnv(Promises(), 1)
    replay = build_replay(env.spec, 1, gamma=0.5, columns=algorithm.columns, buffer_size=8, prioritized=True)
    replay.add(make_collector(env, algorithm.policy, seed=0, columns=algorithm.columns).collect(algorithm.policy, 5))
    priority = replay.columns.priority[0].view(-1)

    def learn(*rows: int) -> None:
        batch = replay.take(replay.columns, torch.tensor(rows))
        batch = batch._replace(
            columns=batch.columns | {"probability": torch.ones(len(rows)), "row": torch.tensor(rows)}
        )
        replay.feedback(replay.columns, batch, algorithm.update(batch).rows)

    learn(0, 1, 2, 3, 4)
    errors = priority[:5] ** (1 / replay.settings.per_alpha)
    torch.testing.assert_close(errors[4], errors[:4].mean(), atol=1e-5, rtol=0.0)
    learn(4)  # where none of a batch is complete, as a new one
    assert priority[4] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("spec", "shape", "said"),
    [
        (Spec(Promises.seen, Discrete(2)), (8,), "'own_steps' of every step, .*: one agent has no own steps; drop it"),
        (TeamSpec.of(Promises.spec.members), (8,), r"TeamSpec.lives is False; drop it, or use lives=True"),
        (Promises.spec, (), r"its shape is \(\), not \(the longest wait in env steps,\); .* shape=\(32,\)"),
    ],
)
def test_a_column_of_own_steps_that_means_nothing(spec: Spec, shape: tuple[int, ...], said: str) -> None:
    columns = (Column("own_steps", shape, source="episode"),)
    with pytest.raises(ValueError, match=said):
        build_replay(spec, NUM_ENVS, gamma=0.5, columns=columns, buffer_size=8)


def test_prioritised_rows_and_several_own_steps_resume_exactly(tmp_path: Path) -> None:
    settings = RUN | {"n_steps": 2, "prioritized": True, "buffer_size": 160, "total_timesteps": 640}
    make = partial(IndependentQ, Promises, **settings)
    straight, paused = make(), make()
    straight.learn(progress=False)
    paused.learn(stop_at=488, progress=False)
    paused.save(tmp_path / "model")
    resumed = rl_training.load(tmp_path / "model", trust=["tests"])
    resumed.learn(progress=False)
    first, second = (agent.snapshot().state["algorithm"] for agent in (straight, resumed))
    assert difference(first, second) is None
    priority = straight.trainer.experience.columns.priority[0]
    assert priority.isfinite().all()

"""Checkpoints of a replay: every bit comes back, only new rows are written, and no checkpoint needs another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

import rl_training
from rl_training.core import Transition
from rl_training.experience import Replay, RowLog
from rl_training.experiment import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from rl_training.experiment.checkpoint import difference, read_manifest, sha256
from tests.experience.test_replay import assert_true_steps, draw, give_back, make_replay, part, tagged_steps
from tests.experience.test_ring_frame_stacks import make as make_stacked
from tests.experience.test_ring_frame_stacks import only_images, record

CAPACITY = 60  # of three environments: 20 slots each and one that waits
STEPS = tagged_steps(100, seed=5, terminated=0.05, truncated=[0.0, 0.05, 0.1])


def save(path: Path, replay: Replay) -> dict:
    """Saves a replay as a run does, and returns the manifest."""
    save_checkpoint(path, Checkpoint({}, {}, {"experience": replay.state_dict()}, timesteps=replay.added))
    return read_manifest(path)


def restore(path: Path, replay: Replay) -> Replay:
    replay.load_state_dict(load_checkpoint(path).state["experience"])
    return replay


def fresh(**settings) -> Replay:
    return make_replay(capacity=CAPACITY, **settings)


def rows_files(path: Path) -> dict[str, int]:
    """The segments of a checkpoint and their inodes."""
    return {file.name: file.stat().st_ino for file in sorted(path.glob("rows-*"))}


def rows_in(path: Path) -> list[int]:
    """How many rows every segment holds."""
    log = load_checkpoint(path).state["experience"]["rows"]
    return [int((segment.stop - segment.start).sum()) for segment in log.segments]


def test_a_segment_stays_as_it_was_made() -> None:
    replay = fresh()
    replay.add(part(STEPS, 0, 10))
    (segment,) = replay.state_dict()["rows"].segments
    stop = segment.stop.tolist()
    replay.add(part(STEPS, 10, 20))
    assert segment.stop.tolist() == stop


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("num_steps", [0, 5, 35, 100])
def test_every_bit_comes_back_and_goes_on_the_same(num_steps, prioritized, tmp_path) -> None:
    original = fresh(prioritized=prioritized, n_steps=3)
    original.add(part(STEPS, 0, num_steps // 2))
    if num_steps:
        batch = draw(original, 16)
        give_back(original, batch, batch.reward.abs())
    save(tmp_path / "first", original)  # two segments are read back
    original.add(part(STEPS, num_steps // 2, num_steps))
    save(tmp_path / "second", original)
    restored = restore(tmp_path / "second", fresh(prioritized=prioritized, n_steps=3, seed=9))
    assert difference(original.state_dict(), restored.state_dict()) is None
    further = tagged_steps(20, seed=6)
    results = []
    for replay in (original, restored):
        replay.add(further)
        batch = draw(replay, 64)
        give_back(replay, batch, batch.reward.abs())
        results.append((batch, replay.state_dict()))
    for a, b in zip(results[0][0], results[1][0], strict=True):
        assert difference(a, b) is None
    assert difference(results[0][1], results[1][1]) is None


@pytest.mark.parametrize("prioritized", [False, True])
def test_stacked_frames_come_back(prioritized, tmp_path) -> None:
    steps = only_images(record(70, 2, 4))
    original, restored = (make_stacked(2, 4, capacity=40, prioritized=prioritized) for _ in range(2))
    for end in (30, 50):
        original.add(part(steps, max(0, original.added // 2), end))
        save(tmp_path / f"step-{end}", original)
    restore(tmp_path / "step-50", restored)
    batches = []
    for replay in (original, restored):
        replay.add(part(steps, 50, 70))
        batches.append(draw(replay, 200))
    assert difference(original.state_dict(), restored.state_dict()) is None
    assert torch.equal(batches[0].obs, batches[1].obs)
    assert torch.equal(batches[0].next_obs, batches[1].next_obs)


def test_the_canonical_form_holds_all_rows_in_order() -> None:
    replay = fresh()
    for start in range(0, 100, 10):
        replay.add(part(STEPS, start, start + 10))
        log = replay.state_dict()["rows"]
    assert isinstance(log, RowLog)
    assert len(log.segments) > 1
    whole = fresh()
    whole.add(STEPS)
    other = whole.state_dict()["rows"]
    assert len(other.segments) == 1
    assert difference(log.live(), other.live()) is None
    tags = log.live()["obs"][:, 0]
    per_env = [tags[(tags >= low) & (tags < low + 100_000)] for low in (0, 100_000, 200_000)]
    assert torch.equal(torch.cat(per_env), tags)  # environment by environment, and in each the order of time
    assert all((column.diff() > 0).all() for column in per_env)
    assert [len(column) for column in per_env] == [CAPACITY // 3] * 3


def test_the_second_checkpoint_links_the_first_segment_and_writes_new_rows_only(tmp_path) -> None:
    replay = fresh()
    replay.add(part(STEPS, 0, 10))
    first = save(tmp_path / "a", replay)
    replay.add(part(STEPS, 10, 13))
    second = save(tmp_path / "b", replay)
    old, new = rows_files(tmp_path / "a"), rows_files(tmp_path / "b")
    assert list(old) == ["rows-0000.safetensors"]
    assert list(new) == ["rows-0000.safetensors", "rows-0001.safetensors"]
    assert old["rows-0000.safetensors"] == new["rows-0000.safetensors"]
    counts = rows_in(tmp_path / "b")
    added = advance(part(STEPS, 10, 13))
    assert counts == [advance(part(STEPS, 0, 10)), added]
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "b").iterdir() if file.name != "manifest.json"}
    assert second["bytes"] == sum(sizes.values())
    assert second["new_bytes"] == sum(sizes.values()) - sizes["rows-0000.safetensors"]
    assert first["bytes"] == first["new_bytes"]
    assert first["seconds"] >= 0
    assert set(second["sha256"]) == set(sizes)
    third = save(tmp_path / "c", replay)  # nothing new
    assert rows_files(tmp_path / "c") == new
    assert third["new_bytes"] < second["new_bytes"]


def test_what_is_linked_keeps_its_hash(tmp_path, monkeypatch) -> None:
    hashed = []

    def spy(path: Path) -> str:
        hashed.append(path.name)
        return sha256(path)

    monkeypatch.setattr("rl_training.experiment.checkpoint.sha256", spy)
    replay = fresh()
    replay.add(part(STEPS, 0, 10))
    first = save(tmp_path / "a", replay)["sha256"]
    assert "rows-0000.safetensors" in hashed
    replay.add(part(STEPS, 10, 13))
    hashed.clear()
    second = save(tmp_path / "b", replay)["sha256"]
    assert sorted(hashed) == ["rows-0001.safetensors", "state.json", "tensors.safetensors"]
    assert second["rows-0000.safetensors"] == first["rows-0000.safetensors"]
    restored = restore(tmp_path / "b", fresh())  # a resumed run goes on linking
    hashed.clear()
    third = save(tmp_path / "c", restored)["sha256"]
    assert sorted(hashed) == ["state.json", "tensors.safetensors"]
    assert {name: value for name, value in third.items() if "rows" in name} == {
        name: sha256(tmp_path / "c" / name) for name in rows_files(tmp_path / "c")
    }


def advance(steps: Transition) -> int:
    return steps.reward.numel() + int((steps.truncated & ~steps.terminated).sum())


def test_overwritten_segments_are_dropped(tmp_path) -> None:
    replay = fresh()
    for number, start in enumerate(range(0, 100, 5)):
        replay.add(part(STEPS, start, start + 5))
        save(tmp_path / f"step-{number:02d}", replay)
        counts = rows_in(tmp_path / f"step-{number:02d}")
        assert sum(counts) < 2 * CAPACITY
        restored = restore(tmp_path / f"step-{number:02d}", fresh())
        assert_true_steps(restored, part(STEPS, 0, start + 5), 1)
    inodes = [set(rows_files(tmp_path / f"step-{number:02d}").values()) for number in range(20)]
    assert inodes[0] <= inodes[1]
    assert not inodes[0] & inodes[-1]
    assert len(inodes[-1]) <= 5


def test_no_checkpoint_needs_another(tmp_path) -> None:
    replay = fresh()
    for number in range(3):
        replay.add(part(STEPS, 5 * number, 5 * number + 5))
        save(tmp_path / f"step-{number}", replay)
    for number in (0, 1):
        shutil.rmtree(tmp_path / f"step-{number}")
    assert_true_steps(restore(tmp_path / "step-2", fresh()), part(STEPS, 0, 15), 1)
    replay.add(part(STEPS, 15, 20))
    save(tmp_path / "step-3", replay)
    assert len(set(rows_files(tmp_path / "step-2").values()) & set(rows_files(tmp_path / "step-3").values())) == 3
    assert difference(restore(tmp_path / "step-3", fresh()).state_dict(), replay.state_dict()) is None


def test_saving_again_at_the_same_place(tmp_path) -> None:
    """As the best checkpoint of a run is."""
    replay = fresh()
    for end in range(5, 60, 5):
        replay.add(part(STEPS, end - 5, end))
        save(tmp_path / "best", replay)
        assert difference(restore(tmp_path / "best", fresh()).state_dict(), replay.state_dict()) is None
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_when_the_files_are_gone_all_is_written_anew(tmp_path) -> None:
    replay = fresh()
    for number in range(2):
        replay.add(part(STEPS, 5 * number, 5 * number + 5))
        save(tmp_path / f"step-{number}", replay)
    for number in range(2):
        shutil.rmtree(tmp_path / f"step-{number}")
    replay.add(part(STEPS, 10, 13))
    manifest = save(tmp_path / "step-2", replay)
    assert rows_in(tmp_path / "step-2") == [advance(part(STEPS, 0, 13))]
    assert manifest["bytes"] == manifest["new_bytes"]
    assert_true_steps(restore(tmp_path / "step-2", fresh()), part(STEPS, 0, 13), 1)


def test_after_a_cut_all_is_written_anew(tmp_path) -> None:
    steps = tagged_steps(20, seed=5, terminated=0.0, truncated=0.0)
    replay = fresh(n_steps=3)
    replay.add(part(steps, 0, 10))
    save(tmp_path / "a", replay)
    replay.cut()
    replay.add(part(steps, 10, 12))
    manifest = save(tmp_path / "b", replay)
    assert manifest["bytes"] == manifest["new_bytes"]
    assert len(rows_files(tmp_path / "b")) == 1
    assert not set(rows_files(tmp_path / "a").values()) & set(rows_files(tmp_path / "b").values())
    steps.truncated[9] = True
    assert_true_steps(restore(tmp_path / "b", fresh(n_steps=3)), part(steps, 0, 12), 3)


def test_a_failed_save_loses_no_rows(tmp_path, monkeypatch) -> None:
    replay = fresh()
    replay.add(part(STEPS, 0, 10))

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr("rl_training.data.files.sync", fail)
        with pytest.raises(CheckpointError, match="could not be written"):
            save(tmp_path / "a", replay)
    assert list(tmp_path.iterdir()) == []
    replay.add(part(STEPS, 10, 20))
    save(tmp_path / "b", replay)
    assert_true_steps(restore(tmp_path / "b", fresh()), part(STEPS, 0, 20), 1)


@pytest.mark.parametrize("kind", ["flipped", "truncated", "missing"])
@pytest.mark.parametrize("name", ["rows-0000.safetensors", "rows-0001.safetensors"])
def test_damage_names_the_file(name, kind, tmp_path) -> None:
    replay = fresh()
    for number in range(2):
        replay.add(part(STEPS, 5 * number, 5 * number + 5))
        save(tmp_path / f"model-{number}", replay)
    file = tmp_path / "model-1" / name
    content = file.read_bytes()
    file.unlink()  # a link: the other checkpoint keeps its own
    if kind == "flipped":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif kind == "truncated":
        file.write_bytes(content[: len(content) // 2])
    expected = "is missing" if kind == "missing" else r"does not match its checksum \(truncated or changed\)"
    with pytest.raises(CheckpointError, match=rf"model-1 is damaged: {name} {expected}"):
        load_checkpoint(tmp_path / "model-1")
    load_checkpoint(tmp_path / "model-0")


def trained(seed: int) -> rl_training.DQN:
    agent = rl_training.DQN("CartPole-v1", buffer_size=200, learning_starts=20, seed=seed)
    agent.learn(40, progress=False)
    return agent


def test_a_saved_agent_goes_on_exactly(tmp_path) -> None:
    whole, agent = (
        rl_training.DQN("CartPole-v1", buffer_size=80, learning_starts=20, n_steps=3, seed=1) for _ in range(2)
    )
    whole.learn(200, progress=False)
    agent.learn(200, stop_at=90, progress=False)
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model")
    loaded.learn(110, progress=False)
    states = []
    for one in (whole, loaded):
        state = one.snapshot().state
        del state["progress"]["wall_time"]
        states.append({**state, "algorithm": dict(state["algorithm"])})
        one.close()
    assert difference(states[0], states[1]) is None


def test_two_agents_that_save_at_the_same_place_keep_their_own_rows(tmp_path) -> None:
    one, other = trained(1), trained(2)
    mine = rows_of(one)
    one.save(tmp_path / "model")
    other.save(tmp_path / "model")
    one.save(tmp_path / "mine")
    state = load_checkpoint(tmp_path / "mine").state["experience"]
    assert torch.equal(state["rows"].live()["obs"], mine)


def rows_of(agent: rl_training.DQN) -> Tensor:
    return agent.snapshot().state["experience"]["rows"].live()["obs"]


def test_a_pause_between_the_last_random_step_and_the_first_update_changes_nothing() -> None:
    states = []
    for stop_at in (None, 10):
        greedy = {"exploration_initial_eps": 0.0, "exploration_final_eps": 0.0}
        agent = rl_training.DQN("CartPole-v1", buffer_size=80, learning_starts=10, train_freq=16, seed=1, **greedy)
        agent.learn(40, stop_at=stop_at, progress=False)
        if stop_at:
            agent.learn(stop_at=40, progress=False)
        states.append(rows_of(agent))
        agent.close()
    assert torch.equal(*states)

"""Segments: written once, linked afterwards, and the same rows however they were cut."""

from __future__ import annotations

import os
import random
import shutil

import pytest
import torch

from rl_training.experience import RowLog, Segment
from rl_training.experience.segments import numbers_between


def segment(start: list[int], stop: list[int]) -> Segment:
    """Rows that know where they belong: 1000 * environment + number."""
    env, number = numbers_between(torch.tensor(start), torch.tensor(stop))
    return Segment(
        torch.tensor(start), torch.tensor(stop), {"obs": 1000 * env + number, "twice": torch.stack([env, number], 1)}
    )


def test_numbers_go_environment_by_environment() -> None:
    env, number = numbers_between(torch.tensor([3, 0, 7]), torch.tensor([6, 0, 9]))
    assert env.tolist() == [0, 0, 0, 2, 2]
    assert number.tolist() == [3, 4, 5, 7, 8]


def test_a_file_gives_every_row_back(tmp_path) -> None:
    one = segment([3, 0], [6, 2])
    one.rows["strided"] = torch.arange(10.0).reshape(2, 5).T  # not contiguous
    rows = dict(one.rows)
    assert one.write(tmp_path / "rows")
    assert one.rows is not None  # not before the file has its final name
    one.written_to(tmp_path / "rows", "a hash")
    opened = Segment.open(tmp_path / "rows", "a hash")
    for kept in (one, opened):
        assert kept.rows is None
        assert kept.available
        assert kept.sha256 == "a hash"
        assert kept.start.tolist() == [3, 0]
        assert kept.stop.tolist() == [6, 2]
        assert kept.read().keys() == rows.keys()
        assert all(torch.equal(column, rows[name]) for name, column in kept.read().items())


def test_the_second_write_is_a_link(tmp_path) -> None:
    one = segment([0], [4])
    one.write(tmp_path / "a")
    one.written_to(tmp_path / "a", "a hash")
    assert not one.write(tmp_path / "b")
    assert (tmp_path / "a").stat().st_ino == (tmp_path / "b").stat().st_ino
    (tmp_path / "a").unlink()
    assert not one.available
    one.written_to(tmp_path / "b", "a hash")
    assert one.available
    assert one.read()["obs"].tolist() == [0, 1, 2, 3]


def test_without_links_it_is_copied(tmp_path, monkeypatch) -> None:
    one = segment([0], [4])
    one.write(tmp_path / "a")
    one.written_to(tmp_path / "a", "a hash")

    def refuse(source: object, target: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert one.write(tmp_path / "b")  # bytes were written
    assert (tmp_path / "a").stat().st_ino != (tmp_path / "b").stat().st_ino
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_that_another_replaced_is_not_taken_for_ours(tmp_path) -> None:
    one, other = segment([0], [4]), segment([5], [7])
    one.write(tmp_path / "a")
    one.written_to(tmp_path / "a", "a hash")
    other.write(tmp_path / "new")
    shutil.move(tmp_path / "new", tmp_path / "a")
    assert not one.available
    with pytest.raises(FileNotFoundError, match="a are gone or were replaced"):
        one.read()
    with pytest.raises(FileNotFoundError, match="a are gone or were replaced"):
        one.write(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_file_that_was_changed_is_not_taken_for_ours(tmp_path) -> None:
    one = segment([0], [4])
    one.write(tmp_path / "a")
    one.written_to(tmp_path / "a", "a hash")
    with (tmp_path / "a").open("ab") as file:
        file.write(b" ")
    assert not one.available


def test_a_file_stays_ours_when_it_is_linked_and_its_folder_renamed(tmp_path) -> None:
    one = segment([0], [4])
    (tmp_path / "before").mkdir()
    one.write(tmp_path / "before" / "a")
    (tmp_path / "before").rename(tmp_path / "after")
    one.written_to(tmp_path / "after" / "a", "a hash")
    os.link(tmp_path / "after" / "a", tmp_path / "b")
    assert one.available


def test_live_rows_do_not_depend_on_the_segments() -> None:
    oldest, stop, rng = [4, 0, 9], [10, 3, 9], random.Random(0)
    expected = [4, 5, 6, 7, 8, 9, 1000, 1001, 1002]
    assert RowLog(torch.tensor(oldest), [segment([0, 0, 2], stop)]).live()["obs"].tolist() == expected
    for _ in range(20):
        position, segments = [0, 0, 2], []
        while position != stop:
            ahead = [min(p + rng.randint(0, 4), s) for p, s in zip(position, stop, strict=True)]
            segments.append(segment(position, ahead))
            position = ahead
        live = RowLog(torch.tensor(oldest), segments).live()
        assert live["obs"].tolist() == expected
        assert (1000 * live["twice"][:, 0] + live["twice"][:, 1]).tolist() == expected
    assert RowLog(torch.tensor(oldest)).live() == {}
    assert RowLog(torch.tensor(stop), [segment([0, 0, 2], stop)]).live()["obs"].tolist() == []

"""Rows come out the same from the log, its export and memory; what is no log is refused in one sentence."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.export_dataset import export
from sage.evidence.export_file import read_records
from sage.evidence.routing_data import RoutingData, RoutingDataError
from sage.evidence.selection import OTHER_TENANTS, Selection, SelectionError
from sage.log.decision_log import DecisionLog
from sage.pipeline.inputs import (
    check_seed,
    describe,
    find_models_file,
    floor_of,
    read_cascades,
    read_decisions,
    select_from,
)
from sage.rl.replay import append_to_log
from tests.sage.evidence.cascades.test_cascade_data import attempt, episode, stop
from tests.sage.rl.made_logs import made_log

TABLE = """
models:
  big: {input_usd_per_mtok: 3, output_usd_per_mtok: 15}
roles:
  default: {primary: big}
guard: {confidence_floor: 0.7}
"""
ALL = Selection()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log of three tenants, and its exports of all rows and of one tenant's."""
    folder = tmp_path_factory.mktemp("log")
    made = replace(made_log(90), tenant=np.array(["acme", "beta", "corp"])[np.arange(90) % 3])
    with closing(DecisionLog.open(folder / "sage.db")) as log:
        append_to_log(log, made, "s")
        export(log, folder / "rows.jsonl")
        export(log, folder / "acme.jsonl", selection=Selection(tenants=("acme",)))
    return folder


def test_the_log_its_export_and_its_rows_are_the_same(folder):
    records = list(read_records(folder / "rows.jsonl"))
    arrays = RoutingData.read(folder / "rows.jsonl", gaps=True)
    for log in (folder / "sage.db", str(folder / "rows.jsonl"), records, iter(records), arrays):
        found = read_decisions(log, ALL)
        assert (found.rows.sha256, found.selection) == (arrays.sha256, "")
    assert read_decisions(folder / "sage.db", ALL).where == str(folder / "sage.db")
    assert read_decisions(records, ALL).where == "the log"


def test_one_tenants_rows_are_the_same_wherever_they_are_chosen(folder):
    wanted = select_from((), "acme")
    expected = RoutingData.read(folder / "acme.jsonl", gaps=True).sha256
    arrays = RoutingData.read(folder / "rows.jsonl", gaps=True)
    for log in (folder / "sage.db", folder / "rows.jsonl", arrays):
        found = read_decisions(log, wanted)
        assert found.rows.sha256 == expected
        assert found.selection == "of tenant acme alone (60 rows of other tenants, left out)"


def test_sentences_about_a_log_name_it_and_not_a_copy(folder):
    with pytest.raises(ValueError, match=r"sage\.db has no decision of tenant nobody"):
        read_decisions(folder / "sage.db", select_from((), "nobody"))


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("nowhere.jsonl", "nowhere.jsonl: there is no such file: make it with `sage log export"),
        (7, "log=7 must be the path of a log or of its export, or rows"),
        ([("a", None)], "log: row 1 is a tuple: give pairs of a Decision and its Outcome"),
        ([episode(attempt("a", True), stop())], "log: row 1 is a CascadeEpisode"),
        (CascadeData.from_episodes([episode(attempt("a", True), stop())]), "log: these are rows of cascades"),
    ],
)
def test_what_is_no_log_of_decisions_is_refused(log, sentence):
    with pytest.raises(RoutingDataError) as error:
        read_decisions(log, ALL)
    assert str(error.value).startswith(sentence)


def test_episodes_are_the_same_as_records_and_as_arrays(tmp_path):
    episodes = [replace(episode(attempt("a", True), stop(), name=str(i)), tenant="ab"[i % 2]) for i in range(4)]
    data = CascadeData.from_episodes(episodes)
    data.write(tmp_path / "e.jsonl")
    for log in (tmp_path / "e.jsonl", episodes, data):
        assert read_cascades(log, ALL).rows.sha256 == data.sha256
        assert len(read_cascades(log, select_from((), "a")).rows) == 2
    with pytest.raises(RoutingDataError, match="log: row 1 is a int: a cascade needs rows of CascadeEpisode"):
        read_cascades([1], ALL)
    with pytest.raises(RoutingDataError, match="log: these are rows of single decisions"):
        read_cascades(made_log(20), ALL)


def test_arrays_do_not_know_who_judged():
    with pytest.raises(ValueError, match=r"sources=\('ci',\): arrays do not keep who judged"):
        read_decisions(made_log(20), select_from("ci", ()))


def test_a_selection_is_checked_and_described():
    assert select_from("ci", ["a", "b"]) == Selection(sources=("ci",), tenants=("a", "b"))
    assert describe(Selection(), Counter({"x": 1})) == ""
    assert describe(select_from("ci", ()), Counter()) == "judged by ci alone (nothing dropped)"
    assert describe(select_from((), "a"), Counter({OTHER_TENANTS: 1_200})) == (
        "of tenant a alone (1,200 rows of other tenants, left out)"
    )
    with pytest.raises(SelectionError, match="source='me' must be one of"):
        select_from("me", ())


@pytest.mark.parametrize("seed", [-1, 1.0, True, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match=f"seed={seed!r} must be a whole number"):
        check_seed(seed)


def test_the_table_of_this_folder_is_taken_if_it_is_about_the_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_models_file(None, ["big"]) is None
    (tmp_path / "models.yaml").write_text(TABLE)
    found = find_models_file(None, ["big", "else"])
    assert found is not None
    assert (floor_of(found, None), floor_of(found, 0.2), floor_of(None, None)) == (0.7, 0.2, 0.9)
    assert find_models_file(None, ["else"]) is None
    with pytest.raises(ValueError, match=r"models\.yaml has none of the log's models \(else\)"):
        find_models_file("models.yaml", ["else"])

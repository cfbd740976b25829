import json
from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.export_file import write_records
from sage.evidence.routing_data import RoutingData, RoutingDataError
from sage.log.records import Decision, Outcome
from sage.words import hash_words


def record(i=0, task="t", candidates=("small", "large"), probabilities=(0.25, 0.75), model="large", **outcome):
    decision = Decision(
        id=f"d{i}",
        time=100.0 + i,
        data_source="replay",
        role="coder",
        candidates=candidates,
        probabilities=probabilities,
        model=model,
        policy="static",
        policy_version="abc",
        features=(0.5, i),
        features_version=1,
        task_id=f"{task}{i}",
        category="python",
    )
    values = {"quality": 0.5, "cost_usd": 0.1, "latency_s": 2.0} | outcome
    return decision, Outcome(decision_id=decision.id, time=200.0, **values)


def written(tmp_path, records):
    path = tmp_path / "rows.jsonl"
    write_records(path, records)
    return path


def test_columns_are_what_the_lines_say(tmp_path):
    rows = [
        record(0),
        record(1, candidates=("tiny",), probabilities=(1.0,), model="tiny", quality=None, timed_out=True, retries=2),
    ]
    data = RoutingData.read(written(tmp_path, rows))
    assert data.models == ("large", "small", "tiny")
    assert data.eligible.tolist() == [[True, True, False], [False, False, True]]
    assert data.propensity.tolist() == [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0]]
    assert data.action.tolist() == [0, 2]
    assert data.quality[0] == 0.5
    assert np.isnan(data.quality[1])
    assert (data.retries.tolist(), data.timed_out.tolist()) == ([0, 2], [False, True])
    assert data.contexts.features.tolist() == [[0.5, 0.0], [0.5, 1.0]]
    assert data.contexts.task_id.tolist() == ["t0", "t1"]
    assert data.reward().tolist() == pytest.approx([0.5 - 0.02 - 0.05 / 60, 0 - 0.02 - 0.05 / 60 - 0.1 / 3 - 0.2])


def test_what_the_log_kept_of_a_text_comes_back(tmp_path):
    rows = [record(0), record(1), record(2)]
    words = tuple(hash_words("fix it").tolist())
    rows[0] = replace(rows[0][0], prompt="fix it", words=words), rows[0][1]
    rows[1] = replace(rows[1][0], words=words), rows[1][1]
    data = RoutingData.read(written(tmp_path, rows))
    assert data.contexts.text is not None
    text, kept, nothing = data.contexts.text
    assert (text, kept.tolist(), nothing) == ("fix it", list(words), "")
    data.write(tmp_path / "again.jsonl")
    assert RoutingData.read(tmp_path / "again.jsonl").sha256 == data.sha256
    other = replace(rows[1][0], words=words[:-1])
    assert RoutingData.read(written(tmp_path, [rows[0], (other, rows[1][1]), rows[2]])).sha256 != data.sha256
    assert RoutingData.read(written(tmp_path, [record(0)])).contexts.text is None


def test_an_outcome_belongs_to_the_model_that_answered(tmp_path):
    rows = [record(0, model="large"), record(1, model="large", quality=0.0), record(2, model="small")]
    rows[1] = rows[1][0], replace(rows[1][1], model="small")
    data = RoutingData.read(written(tmp_path, rows))
    assert [data.models[k] for k in data.action] == ["large", "small", "small"]
    # large is answered by small in half of its rows: 0.75 / 2 moves over
    np.testing.assert_allclose(data.propensity, [[0.375, 0.625]] * 3)
    data.write(tmp_path / "again.jsonl")
    assert RoutingData.read(tmp_path / "again.jsonl").sha256 == data.sha256
    unmoved = RoutingData.read(written(tmp_path, [(row, replace(told, model=row.model)) for row, told in rows]))
    assert unmoved.propensity.tolist() == [[0.75, 0.25]] * 3


def test_an_answer_of_nobody_who_could_be_chosen_is_refused(tmp_path):
    decision, outcome = record()
    with pytest.raises(RoutingDataError, match="line 1: 'elsewhere' answered and was not among the candidates"):
        RoutingData.read(written(tmp_path, [(decision, replace(outcome, model="elsewhere"))]))


def test_weights_are_true_where_a_provider_falls_back():
    """Choices by known probabilities, a provider that falls back by chance: every model's mean weight is 1, and weighting
    gives each model its own quality."""
    generator = np.random.default_rng(0)
    quality = {"large": 0.9, "medium": 0.6, "small": 0.2}
    rows = []
    for i in range(6000):
        eligible = ["large", "small", "medium"][: generator.integers(2, 4)]
        chances = generator.dirichlet([4.0] * len(eligible))
        model = eligible[generator.choice(len(eligible), p=chances)]
        fell = {"small": "large", "medium": "small"}.get(model) if generator.random() < 0.3 else None
        earned = float(generator.random() < quality[fell or model])
        decision, outcome = record(i, candidates=tuple(eligible), probabilities=tuple(chances), model=model)
        rows.append((decision, replace(outcome, quality=earned, model=fell)))
    data = RoutingData.from_records(rows)
    weight = 1 / data.propensity[np.arange(len(data)), data.action]
    for k, model in enumerate(data.models):
        answered, possible = data.action == k, data.eligible[:, k].sum()
        assert weight[answered].sum() / possible == pytest.approx(1.0, abs=0.08)
        assert np.average(data.quality[answered], weights=weight[answered]) == pytest.approx(quality[model], abs=0.05)


def test_a_decision_without_a_task_is_its_own_task(tmp_path):
    decision, outcome = record(7)
    line = decision.to_json() | {"task_id": "", "outcome": outcome.to_json()}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(line) + "\n")
    assert RoutingData.read(path).contexts.task_id.tolist() == ["d7"]


def test_written_and_read_again_is_the_same(tmp_path):
    data = RoutingData.read(written(tmp_path, [record(i, latency_s=None) for i in range(5)]))
    data.write(tmp_path / "again.jsonl")
    again = RoutingData.read(tmp_path / "again.jsonl")
    assert again.sha256 == data.sha256
    assert again.select(np.array([1, 0, 2, 3, 4])).sha256 != data.sha256
    assert again.time.tolist() == [100, 101, 102, 103, 104]


def test_no_task_is_on_both_sides_and_row_order_plays_no_part():
    rows = [record(i) for i in range(40)] + [
        (Decision(**{**vars(d), "id": f"again{d.id}"}), Outcome(decision_id=f"again{d.id}", time=1.0, quality=1.0))
        for d, _ in (record(i) for i in range(40))
    ]
    data = RoutingData.from_records(rows)
    train, test = data.split_by_task(0.75, seed=3)
    assert (len(train), len(test)) == (60, 20)
    assert not set(train.contexts.task_id) & set(test.contexts.task_id)
    backwards, _ = data.select(np.arange(80)[::-1]).split_by_task(0.75, seed=3)
    assert set(backwards.contexts.task_id) == set(train.contexts.task_id)
    assert set(data.split_by_task(0.75, seed=4)[0].contexts.task_id) != set(train.contexts.task_id)
    with pytest.raises(ValueError, match="fraction=1"):
        data.split_by_task(1.0, seed=0)


def changed(line, **changes):
    return json.dumps(json.loads(line) | changes)


BAD_SECOND_LINES = {
    "cut in half": (lambda line: line[: len(line) // 2], "line 2: not a whole JSON object"),
    "another schema": (lambda line: changed(line, schema=2), "line 2: schema=2"),
    "another source": (lambda line: changed(line, data_source="real"), "line 2: data_source is 'real' after 'replay'"),
    "other features": (lambda line: changed(line, features=[1.0]), "line 2: features version 1 with 1 features after"),
    "other features version": (lambda line: changed(line, features_version=2), "line 2: features version 2"),
    "sum of two": (lambda line: changed(line, probabilities=[1.0, 1.0]), "line 2: .*add up to 2"),
    "impossible choice": (lambda line: changed(line, probabilities=[1.0, 0.0]), "line 2: .*could not have been chosen"),
    "no outcome": (
        lambda line: line.replace('"outcome"', '"result"'),
        "line 2: a line is a decision with an 'outcome'",
    ),
    "no outcome but a text": (
        lambda line: changed(line, outcome="good"),
        "line 2: a line is a decision with an 'outcome'",
    ),
    "not an object": (lambda line: "[1, 2]", "line 2: a line is a decision with"),
    "unknown field": (lambda line: changed(line, colour="red"), "line 2: 'colour' is not a field"),
    "NaN": (lambda line: line.replace('"quality": 0.5', '"quality": NaN'), "line 2: NaN is not a number"),
    "quality of two": (lambda line: line.replace('"quality": 0.5', '"quality": 2.0'), "line 2: quality=2.0"),
    "twice": (lambda line: line.replace("d1", "d0"), "line 2: decision 'd0' is there twice"),
    "someone else's outcome": (
        lambda line: changed(line, id="d9"),
        "line 2: the outcome is of decision 'd1', not 'd9'",
    ),
}


@pytest.mark.parametrize("kind", BAD_SECOND_LINES)
def test_a_bad_line_is_refused_with_its_number(tmp_path, kind):
    spoil, message = BAD_SECOND_LINES[kind]
    path = written(tmp_path, [record(0), record(1)])
    first, second = path.read_text().splitlines()
    path.write_text(first + "\n" + spoil(second))
    with pytest.raises(RoutingDataError, match=message):
        RoutingData.read(path)


def test_decisions_without_an_outcome_are_read_only_where_they_are_asked_for(tmp_path):
    timed_out = record(3, quality=None, timed_out=True, cost_usd=None, latency_s=None)
    rows = [record(0), (record(1)[0], None), record(2, quality=None), timed_out]
    path = written(tmp_path, rows)
    assert RoutingData.read(path).decision_id.tolist() == ["d0", "d3"]
    data = RoutingData.read(path, gaps=True)
    assert data.observed.tolist() == [True, False, False, True]
    assert data.select(data.observed).sha256 == RoutingData.read(path).sha256
    assert np.isnan(data.reward()).tolist() == [False, True, True, False]
    assert data.reward()[3] == pytest.approx(-0.2 - 0.05 - 0.2)  # what nobody saw of a time-out counts in full
    data.write(tmp_path / "again.jsonl")
    assert RoutingData.read(tmp_path / "again.jsonl", gaps=True).sha256 == data.sha256
    with pytest.raises(RoutingDataError, match="holds no decision with an outcome"):
        RoutingData.read(written(tmp_path, rows[1:3]), gaps=True)


def test_no_file_and_no_rows_are_refused(tmp_path):
    with pytest.raises(RoutingDataError, match="no such file"):
        RoutingData.read(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(RoutingDataError, match="holds no decision"):
        RoutingData.read(tmp_path / "empty.jsonl")


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = written(tmp_path, [record(0)])
    before = path.read_text()

    def breaks():
        yield record(1)
        raise RuntimeError("the producer failed")

    with pytest.raises(RuntimeError):
        write_records(path, breaks())
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]

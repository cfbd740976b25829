import numpy as np
import pytest

from sage.outcomes.files import OutcomeFileError
from sage.outcomes.table import OutcomeTable, OutcomeTableError
from tests import needs


def table(**changes):
    values = {
        "name": "small",
        "models": ("a", "b"),
        "task_id": np.array(["t0", "t1", "t2", "t3"]),
        "category": np.array(["x", "x", "y", "y"]),
        "role": np.array(["coder"] * 4),
        "score": np.array([[0, 1], [0.5, np.nan], [1, 1], [0, 0]], float),
        "cost_usd": np.array([[0.1, 1.0]] * 4),
        "latency_s": np.full((4, 2), np.nan),
        "data_source": "synthetic",
        "prompt": np.array(["one", "two\n", "", "ü" * 50], dtype=object),
        "licence": "CC0",
        "provenance": "made for a test",
    }
    return OutcomeTable(**values | changes)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("prompt", [None, table().prompt])
def test_saved_and_opened_again_is_the_same(tmp_path, suffix, prompt):
    if suffix == ".parquet":
        needs.import_package("pyarrow")
    saved = table(prompt=prompt)
    saved.save(tmp_path / f"table{suffix}")
    opened = OutcomeTable.open(tmp_path / f"table{suffix}")
    assert opened.sha256 == saved.sha256
    assert opened.description() == saved.description()
    assert opened.ran.tolist() == [[True, True], [True, False], [True, True], [True, True]]
    assert (opened.prompt is None) == (prompt is None)


def test_the_hash_sees_every_value():
    hashes = {
        table().sha256,
        table(name="other").sha256,
        table(score=np.zeros((4, 2))).sha256,
        table(category=np.array(["x", "x", "x", "y"])).sha256,
        table(prompt=None).sha256,
        table(cost_kind="estimate").sha256,
    }
    assert len(hashes) == 6


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "table.npz"
    table().save(path)
    with np.load(path) as file:
        columns = dict(file)
    columns["score"][0, 0] = 1.0
    np.savez_compressed(path, **columns)
    with pytest.raises(OutcomeTableError, match="does not match its sha256"):
        OutcomeTable.open(path)


def test_a_file_that_was_cut_or_is_something_else_is_refused(tmp_path):
    path = tmp_path / "table.npz"
    table().save(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(OutcomeFileError, match="not an outcome table"):
        OutcomeTable.open(path)
    with pytest.raises(OutcomeFileError, match="no such file"):
        OutcomeTable.open(tmp_path / "none.npz")
    with pytest.raises(OutcomeFileError, match=r"suffix '\.csv' is not known"):
        OutcomeTable.open(tmp_path / "table.csv")


def test_parts_share_no_task_and_no_category():
    many = table(
        task_id=np.array([f"t{i // 2}" for i in range(40)]),
        role=np.array(["coder", "reviewer"] * 20),
        category=np.array([f"c{i // 8}" for i in range(40)]),
        prompt=None,
        **{name: np.full((40, 2), 0.5) for name in ("score", "cost_usd", "latency_s")},
    )
    for by, key in (("task", "task_id"), ("category", "category")):
        first, second = many.split(by=by, fraction=0.6, seed=1)
        assert (len(first), len(second)) == (24, 16)
        assert not set(getattr(first, key)) & set(getattr(second, key))
        assert many.split(by=by, fraction=0.6, seed=1)[0].sha256 == first.sha256
    with pytest.raises(OutcomeTableError, match="by='day'"):
        many.split(by="day")


def test_models_are_taken_by_name():
    swapped = table().with_models(("b", "a"))
    assert swapped.score[0].tolist() == [1.0, 0.0]
    assert table().with_models(("b",)).cost_usd.tolist() == [[1.0]] * 4
    with pytest.raises(OutcomeTableError, match="no model 'c'"):
        table().with_models(("c",))


def test_contexts_follow_the_rows():
    contexts = table().contexts()
    assert contexts.category.tolist() == ["x", "x", "y", "y"]
    assert contexts.task_id.tolist() == ["t0", "t1", "t2", "t3"]
    assert contexts.features.shape[0] == 4
    assert not np.array_equal(contexts.features[0], contexts.features[3])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": np.full((4, 2), 1.5)}, "score of task 't0' by 'a' is 1.5: it must be between 0 and 1"),
        ({"cost_usd": np.full((4, 2), -1.0)}, "cost_usd of task 't0' by 'a' is -1.0"),
        ({"latency_s": np.full((4, 2), np.inf)}, "latency_s of task 't0' by 'a' is inf"),
        ({"score": np.zeros((4, 3))}, "score has shape"),
        ({"models": ("a", "a")}, "different names"),
        ({"role": np.array(["wizard"] * 4)}, "role 'wizard'"),
        ({"data_source": "guess"}, "data_source='guess'"),
        ({"cost_kind": "free"}, "cost_kind='free'"),
        ({"task_id": np.array(["t0", "t0", "t2", "t3"])}, "task 't0' is there 2 times"),
    ],
)
def test_a_table_that_cannot_be_true_is_refused(changes, message):
    with pytest.raises(OutcomeTableError, match=message):
        table(**changes)

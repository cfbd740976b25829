import numpy as np
import pytest

from sage.outcomes.files import OutcomeFileError
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTableError
from tests import needs

HEADER = "task_id,model,score,category,cost_usd\n"


def csv_file(tmp_path, text):
    path = tmp_path / "team.csv"
    path.write_text(text)
    return path


def parquet_file(tmp_path, columns):
    pq = needs.import_package("pyarrow.parquet")
    import pyarrow as pa

    path = tmp_path / "pack.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_csv_rows_become_cells_and_runs_their_mean(tmp_path):
    table = import_table(
        "csv", csv_file(tmp_path, HEADER + "t1,big,1,x,0.5\nt0,big,0,y,\nt1,big,0,x,0.7\nt1,small,0.25,x,0.1\n")
    )
    assert (table.models, table.task_id.tolist(), table.category.tolist()) == (
        ("big", "small"),
        ["t1", "t0"],
        ["x", "y"],
    )
    np.testing.assert_allclose(table.score, [[0.5, 0.25], [0, np.nan]])
    np.testing.assert_allclose(table.cost_usd, [[0.6, 0.1], [np.nan, np.nan]])
    assert (table.data_source, table.cost_kind, table.prompt, table.name) == ("real", "measured", None, "team")
    assert set(table.role) == {"coder"}


def test_csv_without_costs_says_so_and_synthetic_is_labelled(tmp_path):
    table = import_table("csv", csv_file(tmp_path, "task_id,model,score\nt,m,1\n"), synthetic=True)
    assert (table.cost_kind, table.data_source) == ("none", "synthetic")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task_id,model\nt,m\n", "the column 'score' is missing"),
        ("task_id,model,score,colour\nt,m,1,red\n", "the column 'colour' is not known"),
        (HEADER + "t,m,good,x,1\n", "line 2: score='good' is not a number"),
        (HEADER + "t,m,nan,x,1\n", "line 2: score='nan' is not a number"),
        (HEADER + "t,m,1,x,1\n,m,1,x,1\n", "line 3: task_id is empty"),
        (HEADER + "t,m,2,x,1\n", "score of task 't' by 'm' is 2.0"),
        (HEADER + "t,m,1,x,-1\n", "cost_usd of task 't' by 'm' is -1.0"),
        (HEADER + "t,m,1,x\n", "line 2: not 5 values"),
        (HEADER + "t,m,1,x,1,2\n", "line 2: not 5 values"),
        (HEADER + "t,m,1,x,1\nt,n,1,y,1\n", "task 't' has two categories"),
        ("task_id,model,score,role\nt,m,1,wizard\n", "line 2: role 'wizard'"),
        (HEADER, "there is no row"),
        ("", "the column 'task_id' is missing"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path, text, message):
    with pytest.raises(OutcomeTableError, match=message):
        import_table("csv", csv_file(tmp_path, text))


def test_prices_become_an_estimated_cost(tmp_path):
    path = parquet_file(
        tmp_path,
        {
            "task_id": ["t0", "t1"],
            "model": ["m", "m"],
            "score": [1.0, 0.0],
            "category": ["x", "x"],
            "prompt": ["p" * 4000, None],
            "price_in_per_mtok": [2.0, 2.0],
            "price_out_per_mtok": [10.0, 10.0],
        },
    )
    table = import_table("llmrouter", path)
    expected = (1000 * 2 + 256 * 10) / 1e6
    np.testing.assert_allclose(table.cost_usd, [[expected], [expected]])
    assert (table.cost_kind, table.licence) == ("estimate", "MIT")


def test_roles_of_one_task_are_rows_of_their_own(tmp_path):
    columns = {
        "task_id": ["t", "t"],
        "model": ["m", "m"],
        "score": [1.0, 0.0],
        "category": ["x", "x"],
        "role": ["coder", "debugger"],
        "contest_date": ["2024-01-01"] * 2,
    }
    table = import_table("livecodebench", parquet_file(tmp_path, columns))
    assert list(zip(table.role, table.score[:, 0], strict=True)) == [("coder", 1.0), ("debugger", 0.0)]
    assert table.cost_kind == "none"


def test_the_wrong_pack_and_broken_files_are_refused(tmp_path):
    path = parquet_file(tmp_path, {"task_id": ["t"], "model": ["m"], "score": [1.0]})
    with pytest.raises(OutcomeTableError, match="not the swebench file, as the column 'category' is missing"):
        import_table("swebench", path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(OutcomeFileError, match="not a whole Parquet file"):
        import_table("swebench", path)
    with pytest.raises(OutcomeTableError, match="kind='excel' is not known"):
        import_table("excel", path)

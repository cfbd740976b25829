import json
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from sage.files import FileWriteError
from sage.policies import checkpoint
from sage.policies.cells import Cells
from sage.policies.checkpoint import PolicyLoadError, load_policy, save_policy
from sage.policies.network_policy import NetworkPolicy
from sage.rl.category_table import learn_table
from tests.sage.rl.made_logs import MODELS, made_contexts, made_log

CONTEXTS = made_contexts(np.array(["code", "prose", "law"]), np.array(["x", "y", "z"]))
ALL = np.ones((3, 3), bool)


@pytest.fixture(scope="module")
def table():
    return learn_table(made_log(2_000))


def network(table) -> NetworkPolicy:
    rng, cells = np.random.default_rng(0), Cells(table.cells.pairs)
    width = CONTEXTS.features.shape[1] + len(cells)
    layers = tuple(
        (rng.normal(size=(o, i)).astype(np.float32), rng.normal(size=o).astype(np.float32))
        for i, o in ((width, 8), (8, 3))
    )
    return NetworkPolicy(
        name="cql",
        models=MODELS,
        training=table.training,
        cells=cells,
        layers=layers,
        tried=np.array([True, True, False]),
        incumbent=np.zeros(2, np.int64),
        settled=np.array([True, False]),
        edges=np.array([0.1]),
        mean=np.array([np.nan, 0.2]),
        deviation=np.array([np.nan, 0.1]),
        spread=1.5,
    )


def test_a_file_that_cannot_be_written_is_told_in_a_sentence(tmp_path, table):
    with pytest.raises(FileWriteError, match="could not be written"):
        save_policy(tmp_path / ("p" * 250), table)  # the temporary name is too long
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["cells", "network"])
@pytest.mark.parametrize("suffix", ["joblib", "safetensors", "x"])
def test_a_policy_comes_back_as_it_was(tmp_path, table, kind, suffix):
    policy = table if kind == "cells" else network(table)
    path = tmp_path / "new" / f"policy.{suffix}"
    save_policy(path, policy)
    again = load_policy(path)
    assert (again.kind, again.name, again.models, again.version) == (kind, policy.name, MODELS, policy.version)
    for ask in ("probabilities", "confidence"):
        before, after = (getattr(p, ask)(CONTEXTS, MODELS, ALL) for p in (policy, again))
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(again.training.task_hashes, policy.training.task_hashes)
    assert replace(again.training, task_hashes=None) == replace(policy.training, task_hashes=None)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_network_of_other_inputs_or_outputs_is_refused(table):
    whole = network(table)
    (first, bias), last = whole.layers
    for layers in (((first[:, 1:], bias), last), ((first, bias), (last[0][:2], last[1][:2])), ((first, bias),)):
        with pytest.raises(ValueError, match="has shape"):
            replace(whole, layers=layers)


def test_the_version_changes_with_what_the_choices_depend_on(table):
    assert replace(table, pessimism=1.0).version != table.version
    assert replace(table, mean=table.mean + 1e-9).version != table.version
    assert replace(table).version == table.version


def damaged(path, table, fault: str):
    save_policy(path, table)
    content = bytearray(path.read_bytes())
    match fault:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "pickle":
            path.write_bytes(pickle.dumps({"model": 1}))
        case "changed byte":
            content[-20] ^= 1
            path.write_bytes(content)
        case "foreign":
            save_file({"weight": np.zeros(3)}, path)
        case "folder":
            path.unlink()
            path.mkdir()


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("missing", "no such file"),
        ("empty", "not a policy file or was cut"),
        ("cut", "not a policy file or was cut"),
        ("pickle", "pickles are never read"),
        ("changed byte", "does not match its sha256"),
        ("foreign", "not a policy of sage"),
        ("folder", "no such file"),
    ],
)
def test_a_file_that_cannot_serve_gets_a_sentence(tmp_path, table, fault, sentence):
    path = tmp_path / "p.safetensors"
    damaged(path, table, fault)
    with pytest.raises(PolicyLoadError, match=sentence) as error:
        load_policy(path)
    assert str(path) in str(error.value)


def rewrite(path, change):
    """A file that is whole, and whose header is changed."""
    text, _, arrays = checkpoint.read_file(path)
    header = json.loads(text)
    change(header, arrays)
    text = json.dumps(header)
    save_file(arrays, path, metadata={"header": text, "sha256": checkpoint.content_hash(text, arrays)})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda h, a: h.update(format_version=2), "'sage policy' version 2"),
        (lambda h, a: h.update(format="other"), "it is a 'other' version 1"),
        (lambda h, a: h.update(kind="forest"), "kind 'forest' are not known"),
        (lambda h, a: h["training"].update(features_version=99), "features version 99"),
        (lambda h, a: h.pop("models"), "'models' is missing"),
        (lambda h, a: h.update(models=[1, 2, 3]), r"models=\[1, 2, 3\] must be texts"),
        (lambda h, a: h["options"].update(spread="wide"), "spread='wide' must be a finite number"),
        (lambda h, a: h["options"].update(pessimism=-1.0), "pessimism=-1.0 must be a finite number"),
        (lambda h, a: h["training"].update(surprise=1), "surprise"),
        (lambda h, a: a.pop("mean"), "'mean' is missing"),
        (lambda h, a: a.update(mean=a["mean"][:, :2].copy()), "mean has shape .3, 2. where the policy needs .3, 3."),
    ],
)
def test_a_file_of_another_sage_gets_a_sentence(tmp_path, table, change, sentence):
    path = tmp_path / "p.safetensors"
    save_policy(path, table)
    rewrite(path, change)
    with pytest.raises(PolicyLoadError, match=sentence):
        load_policy(path)


def test_a_file_from_before_new_tasks_counted_decides_as_it_did(tmp_path, table):
    path, pessimistic = tmp_path / "p.safetensors", replace(table, pessimism=1.645)
    save_policy(path, pessimistic)
    rewrite(path, lambda h, a: a.pop("next_tasks"))
    expected = table.mean - 1.645 * table.spread * table.deviation
    np.testing.assert_allclose(load_policy(path).scores(CONTEXTS)[:2], expected[:2])
    assert (pessimistic.scores(CONTEXTS)[:2, 1:] < expected[:2, 1:]).all()


def test_deciding_needs_no_torch(tmp_path, table):
    path = tmp_path / "p.safetensors"
    save_policy(path, network(table))
    code = (
        "import sys; from sage.policies.checkpoint import load_policy; from sage.policies.features import contexts_of;"
        "from sage.log.records import Request; import numpy as np;"
        f"p = load_policy({str(path)!r}); c = contexts_of([Request(role='coder', category='code')]);"
        "print(p.probabilities(c, p.models, np.ones((1, 3), bool)).sum(), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.0", "False"]

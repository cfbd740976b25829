"""Texts embedded by a user's model: vectors by hand, files that are checked, and a real model where the extra is installed."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sage.cli import main
from sage.evidence.routing_data import RoutingData
from sage.policies.checkpoint import PolicyLoadError, load_policy, save_policy
from sage.policies.text.embedding import MOST_TOKENS, Embedder, EmbeddingError
from sage.policies.text.text_kernel import has_text
from sage.policies.text.text_policy import TextPolicy
from sage.rl.train_text import learn_text
from tests.sage.rl.text_logs import MODELS, text_contexts, text_log

VOCABULARY = {word: index for index, word in enumerate(["[UNK]", "prove", "the", "theorem", "add", "two", "numbers"])}
TABLE = np.random.default_rng(0).normal(size=(len(VOCABULARY), 4)).astype(np.float32)
EVERYONE = np.ones((60, 2), bool)


class Session:
    """Looks tokens up in TABLE, as the real model below does."""

    def __init__(self, inputs: tuple[str, ...] = ("input_ids",), table: np.ndarray = TABLE) -> None:
        self.inputs, self.table = inputs, table

    def get_inputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in self.inputs]

    def run(self, names: None, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [self.table[given["input_ids"]]]


class Tokens:
    def encode(self, text: str) -> SimpleNamespace:
        return SimpleNamespace(ids=[VOCABULARY.get(word, 0) for word in text.split()])


@pytest.fixture
def files(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"weights")
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path / "model.onnx", tmp_path / "tokenizer.json"


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(Embedder, "loaded", (Session(), Tokens()))


def prompts() -> RoutingData:
    """A log that kept the texts themselves."""
    data = text_log()
    return replace(data, contexts=data.contexts._replace(text=text_contexts(len(data), categories=("a", "b"))[0].text))


@pytest.mark.usefixtures("fake")
def test_a_vector_is_the_mean_of_the_tokens_of_length_1(files):
    mean = (TABLE[VOCABULARY["prove"]] + TABLE[VOCABULARY["theorem"]] + TABLE[0]) / 3
    found = Embedder.of(*files).embed(["prove theorem loudly", "add"])
    np.testing.assert_allclose(found[0], mean / np.linalg.norm(mean), rtol=1e-6)
    np.testing.assert_allclose(found[1], TABLE[4] / np.linalg.norm(TABLE[4]), rtol=1e-6)
    np.testing.assert_allclose(Embedder.of(*files).embed(["  "])[0], TABLE[0] / np.linalg.norm(TABLE[0]), rtol=1e-6)


@pytest.mark.parametrize(
    ("session", "sentence"),
    [
        (Session(("input_ids", "pixels")), "asks for input_ids, pixels"),
        (Session(table=TABLE[:, None]), r"shape \(1, 2, 1, 4\) for one text"),
        (Session(table=np.full_like(TABLE, np.nan)), "of finite numbers"),
        (Session(table=TABLE[:0]), "fails on the tokens"),
    ],
)
def test_a_model_of_another_kind_gets_a_sentence(files, monkeypatch, session, sentence):
    monkeypatch.setattr(Embedder, "loaded", (session, Tokens()))
    with pytest.raises(EmbeddingError, match=sentence):
        Embedder.of(*files)


def test_files_and_packages_that_are_missing_get_a_sentence(files, monkeypatch):
    with pytest.raises(EmbeddingError, match=r"other\.onnx: there is no such file"):
        Embedder.of(files[0].with_name("other.onnx"), files[1])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbeddingError, match="need onnxruntime, which is not installed: install the extra `embed`"):
        Embedder.of(*files)


@pytest.mark.usefixtures("fake")
def test_a_policy_that_embeds_is_saved_with_the_content_of_its_files(files, tmp_path):
    policy, contexts = learn_text(prompts(), embedder=Embedder.of(*files)), text_contexts(60, seed=5)[0]
    assert isinstance(policy, TextPolicy)
    path = tmp_path / "policy.safetensors"
    save_policy(path, policy)
    again = load_policy(path)
    assert again.version == policy.version
    for ask in ("probabilities", "confidence"):
        before, after = (getattr(one, ask)(contexts, MODELS, EVERYONE) for one in (policy, again))
        np.testing.assert_array_equal(before, after)
    assert len(np.unique(again.probabilities(contexts, MODELS, EVERYONE), axis=0)) == 2  # by text, within one category

    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for one in (path, *files):
        one.rename(moved / one.name)
    assert load_policy(moved / path.name).version == policy.version  # the files lie beside it
    (moved / "model.onnx").write_bytes(b"other weights")
    with pytest.raises(PolicyLoadError, match=r"model\.onnx has the sha256 .* restore that file, or train again$"):
        load_policy(moved / path.name)
    (moved / "model.onnx").unlink()
    with pytest.raises(PolicyLoadError, match="there is no such file"):
        load_policy(moved / path.name)


@pytest.mark.usefixtures("fake")
def test_hashed_words_are_no_text_to_embed(files, caplog):
    embedder, data = Embedder.of(*files), text_log()
    assert not has_text(data.contexts, embedder).any()
    assert learn_text(data, embedder=embedder).kind == "cells"
    assert "have a text to embed, so this is the category table: set log.store_prompts in models.yaml" in caplog.text


def test_a_model_without_its_tokenizer_is_refused(tmp_path, capsys):
    prompts().write(tmp_path / "log.jsonl")
    given = ["--data", str(tmp_path / "log.jsonl"), "--out", str(tmp_path / "p"), "--embed", "model.onnx"]
    assert main(["rl", "train-text", *given]) == 2
    assert "embed and tokenizer belong together" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


@pytest.fixture
def real(tmp_path):
    """TABLE and VOCABULARY as files that other programs could have written."""
    missing = "needs the extra `embed` and onnx: .venv/bin/uv pip install onnx onnxruntime tokenizers"
    onnx, tokenizers, _ = (pytest.importorskip(name, reason=missing) for name in ("onnx", "tokenizers", "onnxruntime"))
    helper, kind = onnx.helper, onnx.TensorProto
    tokens = helper.make_tensor_value_info("input_ids", kind.INT64, ["texts", "tokens"])
    vectors = helper.make_tensor_value_info("last_hidden_state", kind.FLOAT, ["texts", "tokens", 4])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "lookup",
        [tokens],
        [vectors],
        [onnx.numpy_helper.from_array(TABLE, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "model.onnx"))
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.enable_padding(length=32)  # which would change the mean
    words.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "model.onnx", tmp_path / "tokenizer.json"


def test_a_real_model_gives_the_same_vectors_and_serves(real, tmp_path, monkeypatch):
    texts = ["prove the theorem", "add two numbers and so on"]
    found, cut = np.split(Embedder.of(*real).embed([*texts, "add " * MOST_TOKENS, "add " * MOST_TOKENS + "prove"]), 2)
    np.testing.assert_array_equal(*cut)
    monkeypatch.chdir(tmp_path)
    prompts().write("log.jsonl")
    given = [
        "--data",
        "log.jsonl",
        "--out",
        "p.safetensors",
        "--embed",
        real[0].name,
        "--tokenizer",
        real[1].name,
        "--holdout",
        "0.01",
    ]
    assert main(["rl", "train-text", *given]) == 0
    assert load_policy("p.safetensors").kind == "text"
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "loaded", (Session(), Tokens()))
        np.testing.assert_allclose(found, Embedder.of(*real).embed(texts), rtol=1e-5)


@pytest.mark.parametrize("which", [0, 1])
def test_real_files_that_cannot_be_read_get_a_sentence(real, which):
    real[which].write_text("not what it says")
    with pytest.raises(EmbeddingError, match="cannot be read"):
        Embedder.of(*real)

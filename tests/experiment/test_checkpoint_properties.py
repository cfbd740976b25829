"""Any state comes back to the last bit, and any damaged byte is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rl_training.experience import RowLog, Segment
from rl_training.experiment import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from rl_training.experiment.checkpoint import difference
from tests.properties import examples

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
KEYS = st.text(max_size=4) | st.sampled_from(["", "/", "a", "a/b", "b", "0"])


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    values = torch.randint(-9, 10, shape, generator=generator) / 7
    return values.to(draw(st.sampled_from(DTYPES))).permute(tuple(reversed(range(len(shape)))))


LEAVES = st.one_of(
    tensors(),
    tensors(),
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
)
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
    ),
    max_size=4,
)


@settings(parent=examples(80), suppress_health_check=list(HealthCheck))
@example(state={"a/b": torch.zeros(2), "a": {"b": torch.ones(2)}, "": {"a": {"b": torch.ones(1)}}})
@given(state=TREES)
def test_a_state_is_itself_after_saving_and_loading(tmp_path: Path, state: dict) -> None:
    save_checkpoint(tmp_path / "model", Checkpoint({"x": 1}, {}, state, 3))
    assert difference(load_checkpoint(tmp_path / "model").state, state) is None


SPACE = set(b" \t\r\n")  # of JSON
STATE = {
    "weights": torch.arange(12.0).reshape(3, 4),
    "rows": RowLog(torch.tensor([0]), [Segment(torch.tensor([0]), torch.tensor([3]), {"x": torch.arange(3)})]),
    "counts": [1, 2.5, "text", None, True],
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    save_checkpoint(path, Checkpoint({"algorithm": {"name": "ppo"}}, {"obs": [1]}, STATE, 7, ({"kind": "load"},)))
    return path


@examples(200)
@given(data=st.data())
def test_a_damaged_byte_is_found_wherever_it_is(saved: Path, data: st.DataObject) -> None:
    """Space between the entries of the manifest may change: what they say does not."""
    file = data.draw(st.sampled_from(sorted(saved.iterdir())))
    content = file.read_bytes()
    place, change = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(1, 255))
    shortened = data.draw(st.booleans()) and data.draw(st.booleans())
    damaged = bytes([content[place] ^ change])
    file.write_bytes(content[:place] if shortened else content[:place] + damaged + content[place + 1 :])
    try:
        if file.name == "manifest.json" and not shortened and {content[place], *damaged} <= SPACE:
            assert difference(load_checkpoint(saved).state["weights"], STATE["weights"]) is None
        else:
            with pytest.raises(CheckpointError, match=re.escape(str(saved))):
                load_checkpoint(saved)
    finally:
        file.write_bytes(content)
    assert difference(load_checkpoint(saved).state["counts"], STATE["counts"]) is None

"""Where compiled code is kept: below our cache, unless the user says where or nothing can be written there."""

import os
from pathlib import Path

import pytest
import torch

from rl_training.runtime.cache_folder import COMPILER_CACHE, cache_folder, keep_compiled_code, processor_key
from rl_training.runtime.compilation import compile_graph


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a shell without settings; what a test sets is undone."""
    monkeypatch.setenv(COMPILER_CACHE, "")
    monkeypatch.delenv(COMPILER_CACHE)
    monkeypatch.setenv("RL_TRAINING_CACHE", str(tmp_path))


def test_the_cache_is_in_the_home_unless_a_variable_says_where(tmp_path: Path, monkeypatch) -> None:
    assert cache_folder("peers") == tmp_path / "peers"
    monkeypatch.delenv("RL_TRAINING_CACHE")
    assert cache_folder("peers") == Path.home() / ".cache" / "rl-training" / "peers"


def test_compiled_code_is_kept_before_anything_is_compiled(tmp_path: Path) -> None:
    compile_graph(lambda x: x + 1, torch.device("cpu"))
    assert os.environ[COMPILER_CACHE] == str(tmp_path / "inductor" / processor_key())
    assert list((tmp_path / "inductor").iterdir()) == [tmp_path / "inductor" / processor_key()]


def test_a_users_own_place_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER_CACHE, "/mine")
    keep_compiled_code()
    assert os.environ[COMPILER_CACHE] == "/mine"
    assert not list(tmp_path.iterdir())


def test_a_default_that_torch_has_written_is_no_choice(tmp_path: Path) -> None:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    written = cache_dir()  # which many parts of the compiler call when they are imported
    assert os.environ[COMPILER_CACHE] == written
    keep_compiled_code()
    assert os.environ[COMPILER_CACHE] == str(tmp_path / "inductor" / processor_key())


def test_where_nothing_can_be_written_torch_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("RL_TRAINING_CACHE", str(tmp_path / "file"))
    keep_compiled_code()
    assert COMPILER_CACHE not in os.environ


def test_without_a_home_torch_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RL_TRAINING_CACHE")
    monkeypatch.setattr(Path, "home", homeless)
    keep_compiled_code()
    assert COMPILER_CACHE not in os.environ


def test_processors_with_other_instructions_do_not_share_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own key has no processor in it, and code for another one ends the process."""

    def key_of(text: str) -> str:
        monkeypatch.setattr(Path, "read_text", lambda path, encoding: text)
        return processor_key()

    assert key_of("cpu MHz: 1\nflags: avx2") == key_of("cpu MHz: 2\nflags: avx2")
    assert key_of("flags: avx2") != key_of("flags: avx2 avx512f")

"""Archives that are harmful or broken are refused with a sentence, and nothing of them is executed."""

import os
import pickle
import sys
import tracemalloc
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl_training import CheckpointError
from rl_training.api.sb3 import import_sb3
from rl_training.api.sb3.archive import Archive
from rl_training.api.sb3.inert_pickle import MOST_OPCODES, Name
from rl_training.api.sb3.tensor_files import read_tensors
from tests.api.sb3.bad_archives import (
    BOMB,
    BROKEN,
    CANARY,
    COMMAND,
    HARMFUL,
    Calls,
    members,
    pickled,
    policy,
    two_directories,
    with_members,
    with_settings,
    zipped,
)
from tests.api.sb3.goldens import FOLDER, STATISTICS, golden

EVENTS: list[str] = []  # of the interpreter, while WATCHED
WATCHED: list[bool] = []
RUNNING = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pickle.find_class")
RUNNING += ("exec", "compile", "import", "socket.connect", "ctypes.dlopen", "os.remove", "os.rename", "os.symlink")
MOST_MEMORY = BOMB - 10 * 2**20


def listen(event: str, arguments: tuple) -> None:
    if not WATCHED or not (event in RUNNING or (event == "open" and arguments[1] not in ("r", "rb", None))):
        return
    if sys._getframe(1).f_code.co_filename != typing.__file__:  # which evaluates annotations of ours
        EVENTS.append(f"{event} {arguments}")


@pytest.fixture(scope="module")
def audit() -> None:
    """Every import, command, file and piece of code that the interpreter is asked for; it cannot be taken off again."""
    sys.addaudithook(listen)
    golden("ppo_normalized")  # whose modules are imported now


@pytest.fixture
def nothing_runs(audit: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own, in which nothing may appear, and nothing may be executed."""
    monkeypatch.chdir(tmp_path)
    EVENTS.clear()
    yield tmp_path
    assert EVENTS == []
    assert not [path for path in tmp_path.rglob("*") if path.name == CANARY]


def refusal_of(path: Path, **arguments: object) -> str:
    """The sentence with which an archive is refused."""
    WATCHED.append(True)
    try:
        with pytest.raises(ValueError) as caught:  # noqa: PT011  (the callers compare the sentence)
            import_sb3(path, **arguments)
    finally:
        WATCHED.clear()
    return str(caught.value)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [*HARMFUL, *BROKEN])
def test_it_is_refused_with_a_sentence_and_nothing_is_executed(nothing_runs: Path, name: str) -> None:
    make, sentence = (HARMFUL | BROKEN)[name]
    archive = nothing_runs / "model.zip"
    archive.write_bytes(make())
    tracemalloc.start()
    try:
        said = refusal_of(archive)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sentence in said
    assert said.startswith(str(archive))
    assert "\n" not in said
    assert len(said) < 700
    assert peak < MOST_MEMORY


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (pickled(Calls(os.system, COMMAND)), f"would run {os.system.__module__}.system"),
        (pickled({"obs_rms": Calls(eval, "1")}), "would run builtins.eval"),
        (pickled([1]), "holds a list instead of a VecNormalize"),
        (b"", "is a damaged pickle"),
        (STATISTICS.read_bytes()[:-200], "is a damaged pickle"),
    ],
    ids=["a command", "eval", "something else", "nothing", "half of it"],
)
def test_statistics_are_read_as_carefully(nothing_runs: Path, content: bytes, sentence: str) -> None:
    file = nothing_runs / "vecnormalize.pkl"
    file.write_bytes(content)
    said = refusal_of(FOLDER / "ppo_normalized.zip", vecnormalize=file)
    assert sentence in said
    assert said.startswith(str(file))


def test_statistics_of_another_model_are_refused(nothing_runs: Path) -> None:
    said = refusal_of(FOLDER / "sac_dict.zip", vecnormalize=STATISTICS)
    assert "normalises ['']" in said


def test_a_missing_file_and_a_folder_are_refused(nothing_runs: Path) -> None:
    assert "does not exist" in refusal_of(nothing_runs / "missing.zip")
    assert "is a folder" in refusal_of(nothing_runs)


def test_the_canary_appears_where_such_a_pickle_is_loaded(
    audit: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests above watch can happen."""
    monkeypatch.chdir(tmp_path)
    WATCHED.append(True)
    try:
        pickle.loads(pickled(Calls(os.system, COMMAND)))
    finally:
        WATCHED.clear()
        seen = list(EVENTS)
        EVENTS.clear()
    assert (tmp_path / CANARY).exists()
    assert [event.partition(" ")[0] for event in seen][:2] == ["pickle.find_class", "os.system"]


def test_an_archive_that_is_not_harmful_is_imported(nothing_runs: Path) -> None:
    archive = nothing_runs / "model.zip"
    archive.write_bytes(zipped(members()))
    WATCHED.append(True)
    agent = import_sb3(archive)
    WATCHED.clear()
    assert agent.config.name == "ppo"


RUNNERS = (
    "os.system",
    "posix.system",
    "subprocess.run",
    "builtins.exec",
    "importlib.import_module",
    "os.path.os.system",
)


def test_names_that_run_something_are_known() -> None:
    assert all(Name(*path.rsplit(".", 1)).is_harmful for path in RUNNERS)
    assert not Name("numpy", "dtype").is_harmful


def test_torch_gets_the_records_that_were_checked() -> None:
    found, wanted = read_tensors(two_directories()), policy()
    assert isinstance(found, dict)
    assert found.keys() == wanted.keys()
    assert all((found[name] == wanted[name]).all() for name in wanted)


def test_the_pickles_of_an_archive_have_so_many_opcodes_in_all(nothing_runs: Path) -> None:
    path = nothing_runs / "model.zip"
    path.write_bytes(with_settings(one=b"N" * 60 + b".", two=b"N" * 60 + b"."))
    archive = Archive(path)
    archive.opcodes = MOST_OPCODES - 100
    archive.value("one")
    archive.value("one")  # which is read once
    with pytest.raises(CheckpointError, match="'two' that has too many opcodes"):
        archive.value("two")


def test_a_version_is_printable(nothing_runs: Path) -> None:
    path = nothing_runs / "model.zip"
    path.write_bytes(with_members(_stable_baselines3_version=b"\x1b[2J2.9\n"))
    assert Archive(path).version == "\\x1b[2J2.9"

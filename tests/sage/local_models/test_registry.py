"""Names of local models: nothing is named whose hash was not seen."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sage.cli.main import main
from sage.local_models.registry import LocalModelError, Registry
from sage.settings import LOCAL_MODELS, local_models_folder
from tests.sage.local_models.smollm import smollm_file

CONTENT = b"GGUF and the rest"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "names")


def test_a_named_file_is_found_again_by_another_process(registry: Registry, file: Path) -> None:
    added = registry.add("small", file, SHA256.upper())
    assert Registry(registry.folder).get("small") == added
    assert (added.file, added.sha256, added.size) == (str(file), SHA256, len(CONTENT))


def test_a_name_that_was_removed_is_gone_and_its_file_is_not(registry: Registry, file: Path) -> None:
    registry.add("small", file, SHA256)
    registry.remove("small")
    assert registry.models() == []
    assert file.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "content", "sha256", "told"),
    [
        ("small", CONTENT, "0" * 64, f"its sha256 is {SHA256}, not 000"),
        ("small", CONTENT, "abc", "64 hexadecimal digits"),
        ("small", b"PK\3\4 a zip", SHA256, "not a GGUF file"),
        ("small", b"", SHA256, "not a GGUF file"),
        ("small", None, SHA256, "there is no such file"),
        ("../small", CONTENT, SHA256, "NAME='../small' must be"),
        ("", CONTENT, SHA256, "NAME='' must be"),
    ],
)
def test_what_is_not_the_right_file_is_refused(
    registry: Registry, file: Path, name: str, content: bytes | None, sha256: str, told: str
) -> None:
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(LocalModelError, match=told):
        registry.add(name, file, sha256)
    assert registry.models() == []


def test_a_file_that_changed_afterwards_is_not_served(registry: Registry, file: Path) -> None:
    registry.add("small", file, SHA256)
    os.utime(file, ns=(1, 1))
    assert registry.checked("small").sha256 == SHA256  # another time, the same content
    file.write_bytes(CONTENT[::-1].replace(b"FUGG", b"") + b"x")
    with pytest.raises(LocalModelError, match="not a GGUF file"):
        registry.checked("small")
    file.write_bytes(CONTENT + b"x")
    with pytest.raises(LocalModelError, match="no longer the file that was added as 'small'"):
        registry.checked("small")


def test_a_damaged_name_is_said_in_a_sentence(registry: Registry, file: Path) -> None:
    registry.add("small", file, SHA256)
    registry.path("small").write_text('{"name": "small"}', encoding="utf-8")
    with pytest.raises(LocalModelError, match=r"small\.json: not what `sage models add` writes"):
        registry.get("small")


def test_the_commands_add_list_and_remove(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(LOCAL_MODELS, str(tmp_path / "names"))
    assert main(["models", "add", "small", "--file", str(file), "--sha256", SHA256]) == 0
    capsys.readouterr()
    assert main(["models", "list", "--json"]) == 0
    assert [model["name"] for model in json.loads(capsys.readouterr().out)] == ["small"]
    assert main(["models", "add", "other", "--file", str(file), "--sha256", "0" * 64]) == 2
    assert "its sha256 is" in capsys.readouterr().err
    assert main(["models", "remove", "small"]) == 0
    assert main(["models", "remove", "small"]) == 2
    assert "no local model is called 'small' (there are: none yet)" in capsys.readouterr().err


def test_where_names_are_kept(tmp_path: Path) -> None:
    assert local_models_folder({LOCAL_MODELS: str(tmp_path)}) == tmp_path
    assert local_models_folder({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "sage" / "models"
    assert local_models_folder({"XDG_DATA_HOME": "relative"}) == Path.home() / ".local" / "share" / "sage" / "models"


def test_a_model_of_an_installed_package_needs_no_name(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "names")
    file = smollm_file()
    model = registry.checked("smollm2")
    assert (Path(model.file), registry.models(), registry.ready()) == (file, [], "smollm2")
    with pytest.raises(LocalModelError, match="uninstall the package"):
        registry.remove("smollm2")
    other = tmp_path / "other.gguf"
    other.write_bytes(CONTENT)
    registry.add("smollm2", other, SHA256)  # a name that was given counts more
    assert registry.get("smollm2").file == str(other)

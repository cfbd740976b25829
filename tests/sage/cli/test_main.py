"""The command line as a user types it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sage.cli import main
from sage.local_models.registry import Registry
from sage.log.decision_log import DecisionLog
from sage.log.records import ROLES
from sage.orchestrator.models_file import ModelsFile


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SAGE_RL_POLICY", raising=False)
    assert main(["init"]) == 0
    capsys.readouterr()
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_route_and_outcome_as_in_the_readme(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = answer(capsys, "route", "--role", "coder", "--task", "fix the flaky test")
    assert sum(made["probabilities"]) == pytest.approx(1.0)
    words = (made["id"], "--quality", "1", "--cost", "0.012", "--latency", "3.4")
    assert answer(capsys, "outcome", *words) == {"decision_id": made["id"], "status": "joined"}
    [(decision, joined)] = DecisionLog.open(folder / "sage.db").rows(data_source="real")
    assert json.loads(json.dumps(decision.to_json())) == made
    assert joined is not None
    assert (joined.quality, joined.cost_usd, joined.latency_s) == (1.0, 0.012, 3.4)


def test_a_command_ends_whatever_its_output_leads_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as after `>&-`
    assert main(["doctor"]) == 0
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["route", "--role", "coder"]) == 4
    assert capsys.readouterr().err == "error: standard output: No space left on device; everything else is done\n"
    assert len(list(DecisionLog.open(folder / "sage.db").rows(data_source="real"))) == 1


@pytest.mark.parametrize("role", ROLES)
def test_every_role(folder: Path, capsys: pytest.CaptureFixture[str], role: str) -> None:
    made = answer(capsys, "route", "--role", role)
    assert made["role"] == role
    assert max(zip(made["probabilities"], made["candidates"], strict=True))[1] == (
        "small" if role in ("documentation", "memory_optimizer") else "medium"
    )


def test_every_flag_reaches_the_record(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--task-id t --category c --tenant me --session s --data-source synthetic --past-failures 2 --probe-verified false"
    made = answer(capsys, "route", "--role", "coder", "--probe-calls", "3", "--probe-cost", "0.5", *flags.split())
    assert [made[name] for name in ("task_id", "category", "tenant", "session")] == ["t", "c", "me", "s"]
    assert made["data_source"] == "synthetic"
    assert "task_complexity_score > 0.8" in made["reason"]  # two failures, and a probe that failed
    more = "--retries 2 --timed-out --tokens-in 9 --tokens-cached 4 --tokens-out 5 --provenance tests"
    answer(capsys, "outcome", made["id"], *more.split())
    [(_, joined)] = DecisionLog.open(folder / "sage.db").rows()
    assert joined is not None
    assert (joined.retries, joined.timed_out, joined.tokens_in) == (2, True, 9)
    assert (joined.tokens_cached, joined.tokens_out, joined.provenance) == (4, 5, "tests")


def test_an_outcome_in_two_parts_and_its_correction(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = answer(capsys, "route", "--role", "coder")["id"]
    words = ("--cost 0.5 --model large", "--quality 1", "--quality 0", "--quality 0 --correct")
    said = [answer(capsys, "outcome", made, *text.split())["status"] for text in words]
    assert said == ["joined", "joined", "conflict", "corrected"]
    [(_, joined)] = DecisionLog.open(folder / "sage.db").rows()
    assert joined is not None
    assert (joined.cost_usd, joined.model, joined.quality) == (0.5, "large", 0.0)


def test_text_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["route", "--role", "coder"]) == 0
    said = capsys.readouterr().out
    assert "static table: coder gets medium" in said
    assert "medium 0.933" in said


def test_an_outcome_of_nobody_is_kept_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["route", "--role", "coder"])
    assert main(["outcome", "nobody", "--quality", "1"]) == 1
    assert "has no decision 'nobody'; the outcome is kept" in capsys.readouterr().err
    assert DecisionLog.open(folder / "sage.db").counts()["unknown"] == 1


@pytest.mark.parametrize(
    ("exploration", "said"),
    [
        ("exploration: {shadow: 0.2}", "in 20% of calls a second model is asked in the shadow;"),
        ("exploration: {share: 0.1, shadow: 0.2}", "10% of calls explore, in 20% of calls a second model is asked"),
        ("exploration: 0\nbandit: ucb1", "the bandit ucb1 explores;"),
        ("exploration: 0", "nothing explores, so nothing is learned;"),
    ],
)
def test_the_doctor_knows_every_way_to_explore(
    folder: Path, capsys: pytest.CaptureFixture[str], exploration: str, said: str
) -> None:
    models = folder / "models.yaml"
    models.write_text(models.read_text().replace("exploration: 0.1\n", f"{exploration}\n", 1))
    assert main(["doctor"]) == 0
    assert said in capsys.readouterr().out


def test_init_names_a_model_of_this_machine_and_serve_says_what_is_missing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find, modules = importlib.util.find_spec, {"xllamacpp"}
    monkeypatch.setenv("SAGE_MODELS_DIR", str(folder / "names"))
    known = {name: find(name) for name in ("starlette", "uvicorn", "httptools", "aiohttp")}  # of `sage serve`
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: known.get(name) or (name in modules or None))
    assert main(["init", "--force"]) == 0
    assert "`sage serve` needs the upstream of each of them" in capsys.readouterr().out
    assert main(["serve"]) == 2
    assert "models.small, models.medium, models.large have no upstream, so they cannot" in capsys.readouterr().err
    (folder / "names").mkdir()
    (folder / "names" / "broken.json").write_text("{")
    (folder / "tiny.gguf").write_bytes(b"GGUF")
    Registry().add("tiny", folder / "tiny.gguf", hashlib.sha256(b"GGUF").hexdigest())
    assert main(["init", "--force"]) == 0
    assert "`sage serve` answers for all of them with tiny" in capsys.readouterr().out
    table = ModelsFile.read("models.yaml")
    assert [model.upstream and model.upstream.local for model in table.models.values()] == ["tiny"] * 3
    modules.clear()  # without the program that serves it
    assert main(["init", "--force"]) == 0
    assert all(model.upstream is None for model in ModelsFile.read("models.yaml").models.values())


def test_init_replaces_only_when_told(folder: Path) -> None:
    (folder / "models.yaml").write_text("mine")
    assert main(["init"]) == 2
    assert (folder / "models.yaml").read_text() == "mine"
    assert main(["init", "--force"]) == 0
    assert "models:" in (folder / "models.yaml").read_text()


def test_doctor_finds_all_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["route", "--role", "coder"])
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 0
    found = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert found["routing"]["text"] == "routed, logged and joined"
    assert found["policy"]["text"] == "off: the static table rules"
    assert "1 decisions" in found["log"]["text"]


def test_doctor_names_what_is_broken(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGE_RL_POLICY", "1")
    monkeypatch.setenv("SAGE_RL_CHECKPOINT", "nowhere.safetensors")
    (folder / "sage.db").write_text("not a log" * 100)
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "BAD  policy: the checkpoint cannot serve: nowhere.safetensors: there is no such file" in said
    assert "BAD  log: sage.db cannot be used as a log" in said


def test_a_policy_that_cannot_serve_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGE_RL_POLICY", "1")
    monkeypatch.setenv("SAGE_RL_CHECKPOINT", "models.yaml")
    assert main(["route", "--role", "coder", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("warning: the checkpoint cannot serve: models.yaml")
    assert said.err.count("\n") == 1
    assert json.loads(said.out)["verdict"] == "policy_unusable"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "code",
    [
        "import sage",
        "from sage import Router",
        "from sage.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from sage.cli import main\nmain(['route', '--role', 'coder'])",
        "from sage.cli import main\nmain(['doctor'])",
    ],
)
def test_routing_starts_without_torch(folder: Path, code: str) -> None:
    assert run(f"{code}\nimport sys\nprint('torch' in sys.modules)").endswith("False\n")


def test_routing_loads_no_other_commands(folder: Path) -> None:
    show = "import sys\nprint([m[9:-9] for m in sys.modules if m.startswith('sage.cli.') and m.endswith('_commands')])"
    code = f"from sage.cli import main\nmain(['route', '--role', 'coder'])\n{show}"
    assert run(code).endswith("['route']\n")
    assert run(code.replace("['route'", "['log', 'route'")).endswith("['log', 'route']\n")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The commands that a page of help shows."""
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    page = capsys.readouterr().out.split("\ncommands:\n")[1].split("\n\n")[0]
    return re.findall(r"^    ([a-z-]+)", page, re.MULTILINE)


def test_the_first_page_shows_ten_commands_and_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    first = "init serve status report train prove promote rollback run doctor"
    assert shown(capsys) == first.split()
    with pytest.raises(SystemExit):
        main(["--help"])
    groups, begin = capsys.readouterr().out.split("\ngroups")[1].split("\n\n")
    assert re.findall(r"^  ([a-z]+)", groups, re.MULTILINE) == ["log", "keys", "models", "sim", "bench", "lab"]
    assert begin.startswith("to begin:")


@pytest.mark.parametrize(
    ("group", "commands"),
    [
        ("log", "export outcome erase digest import info route explain"),
        ("lab", "plan plausible frontier verifiers collect-synth replay analyze-rewards"),
        ("sim", "compile fit-models train bench image generate audit run"),
    ],
)
def test_a_group_shows_its_commands_and_no_former_ones(
    capsys: pytest.CaptureFixture[str], group: str, commands: str
) -> None:
    assert shown(capsys, group) == commands.split()


@pytest.mark.parametrize(
    ("words", "hint"),
    [("trian", "there is no 'trian', do you mean 'train'?"), ("log xyz", "there is no 'xyz'"), ("log", "ACTION")],
)
def test_an_unknown_command_is_one_sentence_with_the_nearest(
    capsys: pytest.CaptureFixture[str], words: str, hint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split())
    said = capsys.readouterr().err
    assert (end.value.code, said.count("\n")) == (2, 1)
    assert hint in said


def test_a_reader_that_leaves_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -c 'from sage.cli import main; import sys; sys.exit(main([\"doctor\"]))' | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "sage", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: sage")

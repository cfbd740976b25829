"""Verifiers say passed, failed or unknown, run nothing that a model wrote, and never raise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sage.log.cascade_steps import Verdict
from sage.log.record_checks import RecordError
from sage.verifiers import registry, source
from sage.verifiers.agreement import SelfConsistency
from sage.verifiers.json_schema import JsonSchema
from sage.verifiers.registry import build
from sage.verifiers.source import Lint, SourceCheck, Syntax, Types, python_source
from sage.verifiers.verifier import Answer, Opinion, Verifier, VerifierError, ask, verify
from tests import needs

SCHEMA = {
    "type": "object",
    "required": ["name", "size"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["a", 1]}},
        "either": {"anyOf": [{"type": "null"}, {"const": 2}]},
    },
    "additionalProperties": False,
}


def word(verifier: Verifier, text: str, *samples: str) -> str:
    return verifier.verify(Answer(text=text, samples=samples)).verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"name": "x", "size": 3}', "passed"),
        ('{"name": "x", "size": 3.0, "tags": ["a", 1.0], "either": null}', "passed"),
        ('{"name": "x", "size": 3, "either": 2}', "passed"),
        ('{"name": "x", "size": 3, "either": 3}', "failed"),
        ('{"name": "x"}', "failed"),
        ('{"name": "", "size": 3}', "failed"),
        ('{"name": "x", "size": 10}', "failed"),
        ('{"name": "x", "size": true}', "failed"),
        ('{"name": "x", "size": 3, "tags": [true]}', "failed"),
        ('{"name": "x", "size": 3, "tags": ["a", "a", "a"]}', "failed"),
        ('{"name": "x", "size": 3, "more": 1}', "failed"),
        ('["name"]', "failed"),
        ("{", "failed"),
        ("[" * 100_000, "failed"),
    ],
)
def test_json_schema(text: str, verdict: str) -> None:
    assert word(JsonSchema(SCHEMA), text) == verdict


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ('{"name": "x"}', "the answer has no 'size'"),
        ('{"name": 7, "size": 3}', "the answer.name is no string"),
        ('{"name": "x", "size": 3, "tags": ["a", "b"]}', "the answer.tags[1] is none of the allowed values"),
        ('{"name": "x", "size": 10}', "the answer.size breaks maximum"),
        ('{"name": "x", "size": 3, "either": 3}', "the answer.either fits nothing of anyOf"),
        ('{"name": "x", "size": 3, "sk-secret": 1}', "the answer has a key that is not allowed"),
        ('{"name": "x", "size": NaN}', "not JSON, or too deep"),
    ],
)
def test_a_failure_names_no_value_and_no_key_of_the_answer(text: str, source: str) -> None:
    assert JsonSchema(SCHEMA).verify(Answer(text=text)) == Opinion("failed", source)


def test_keys_that_a_model_wrote_are_not_named() -> None:
    schema = {"additionalProperties": {"type": "integer"}}
    assert JsonSchema(schema).verify(Answer(text='{"sk-secret": "x"}')).source == "the answer.* is no integer"


def test_a_schema_may_refer_to_itself() -> None:
    checks = JsonSchema(
        {"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}
    )
    assert [word(checks, text) for text in ("[[], [[]]]", "[[1]]", "[" * 900 + "]" * 900)] == [
        "passed",
        "failed",
        "failed",
    ]


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        (("42",), "unknown"),
        (("42", "42", " 42\n", "41"), "passed"),
        (("42", "41", "41", "42"), "failed"),
        (("YES", "yes", "no"), "passed"),
    ],
)
def test_self_consistency(texts: tuple[str, ...], verdict: str) -> None:
    assert word(SelfConsistency(), *texts) == verdict


@pytest.mark.parametrize(
    ("text", "syntax", "lint"),
    [
        ("import os\nprint(os.sep)\n", "passed", "passed"),
        ("print(nobody)\n", "passed", "failed"),
        ("def f(:\n", "failed", "failed"),
        ("return 1\n", "failed", "failed"),
        ("I say:\n```python\nx = 1\n```\nand\n```py\nprint(x)\n```\n", "passed", "passed"),
        ("I say nothing in Python.", "failed", "failed"),
        ('x = "\\d"\n', "passed", "passed"),  # a warning of the compiler, which is not held against it
        ("\udcff", "failed", "failed"),
    ],
)
def test_source_is_judged(text: str, syntax: str, lint: str) -> None:
    assert word(Syntax(), text) == syntax
    if source.found("ruff"):
        assert word(Lint(), text) == lint


@pytest.mark.skipif(not source.found("pyrefly"), reason=needs.package("pyrefly"))
def test_types_are_judged() -> None:
    assert word(Types(), "import not_installed_anywhere\nx: int = 1\n") == "passed"
    assert word(Types(), "x: int = 'a'\n") == "failed"


def test_nothing_is_run(tmp_path: Path) -> None:
    path = tmp_path / "made"
    text = f"open({str(path)!r}, 'w').close()\nraise SystemExit(3)\n"
    for verifier in (Syntax(), Lint(), Types()):
        assert word(verifier, text) in ("passed", "unknown")
    assert not path.exists()


def test_a_check_that_hangs_or_crashes_is_unknown() -> None:
    hangs = SourceCheck("python", ["-c", "while True: pass"], 0.2)
    assert hangs.verify(Answer(text="")) == Opinion("unknown", "python took more than 0.2 s")
    crashes = SourceCheck("python", ["-c", "import os; os.abort()"], 20)
    assert crashes.verify(Answer(text="")).verdict == "unknown"
    assert SourceCheck("no-such-tool", [], 20).verify(Answer(text="")).source == "no-such-tool is not installed"
    assert word(Syntax(), "x = 1\n" * 300_000) == "unknown"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("```js\nx\n```", "```js\nx\n```"),
        ("```js\nx\n```\nand\n```Python title=a\ny\n```", "y\n"),
        ("```python\r\ny\r\n```\r\n", "y\r\n"),
        ("So:\n```\ny\n```\nDone.", "y\n"),
        ("```py\ny\n```\n```\nits output\n```\n", "y\n"),
        ("```bash\nx\n```\nSo:\n```python3\ny\n", "y\n"),  # ended by a stop sequence
    ],
)
def test_the_python_of_an_answer_is_found(text: str, source: str) -> None:
    assert python_source(text) == source


def test_tests_without_files_are_those_of_the_caller() -> None:
    opinion = build("tests", {}).verify(Answer(text="x"))
    assert opinion == Opinion("unknown", "no verdict of tests was reported, and no tests.files are given to run")


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("lint", {"rules": ["F"]}, "'rules' is not a setting of lint: known are select, time_limit_s"),
        ("lint", {"select": ["--fix"]}, "must be a list of rules of ruff"),
        ("types", {"tool": "sh"}, "types.tool='sh' must be one of pyrefly, mypy"),
        ("syntax", {"time_limit_s": 0}, "must be a number of seconds above 0"),
        ("self_consistency", {"agree": 2}, "must be a share above 0, at most 1"),
        ("json_schema", {}, "json_schema.schema=None must be a mapping"),
        ("json_schema", {"schema": {"pattern": "(a+)+"}}, "'pattern' is not understood"),
        ("json_schema", {"schema": {"items": {"minimun": 1}}}, r"schema.items: 'minimun' is not understood"),
        ("json_schema", {"schema": {"format": "email"}}, "formats are not checked"),
        (
            "json_schema",
            {"schema": {"$ref": "https://json-schema.org/x"}},
            "must begin with '#': no other file is read",
        ),
        ("json_schema", {"schema": {"items": {"$ref": "#/$defs/none"}}}, "leads nowhere: define it"),
        ("json_schema", {"schema": {"minLength": "3"}}, r"schema.minLength='3' is wrong"),
        (
            "json_schema",
            {"schema": {"properties": {"a": {"type": "text"}}}},
            r"properties.a.type='text' must be one of",
        ),
        ("judge", {"model": "x"}, "'model' is not a setting of judge: known are none"),
    ],
)
def test_settings_are_refused_in_a_sentence(name: str, settings: dict, sentence: str) -> None:
    with pytest.raises(VerifierError, match=sentence):
        build(name, settings)


class Fails:
    def verify(self, answer: Answer) -> Opinion:
        raise RuntimeError(f"cannot read {answer.text}")


def test_a_verifier_that_fails_makes_the_answer_unknown() -> None:
    assert ask("mine", Fails(), Answer(text="x")).verdict == "unknown"
    assert (
        ask("judge", lambda answer: 1 / 0, Answer(text="x")).source == "it failed (ZeroDivisionError: division by zero)"
    )
    assert ask("judge", lambda answer: "maybe", Answer(text="x")).verdict == "unknown"


def test_verdicts_that_were_given_are_not_asked_for() -> None:
    asked = {"tests": Fails(), "judge": lambda answer: answer.text == "good"}
    assert verify(None, asked, {}) == ()
    assert verify(Answer(text="good"), asked, {"tests": False, "by_hand": None}) == (
        Verdict(verifier="tests", verdict="failed", source="given by the caller"),
        Verdict(verifier="by_hand", verdict="unknown", source="given by the caller"),
        Verdict(verifier="judge", verdict="passed", source="a function of the caller"),
    )
    with pytest.raises(RecordError, match="the verdict tests='yes' must be true, false or one of"):
        verify(None, asked, {"tests": "yes"})


def test_an_installed_package_brings_a_verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_checks.py").write_text(
        "class Short:\n"
        "    def __init__(self, most=3):\n"
        "        self.most = most\n"
        "    def verify(self, answer):\n"
        "        return ('passed' if len(answer.text) <= self.most else 'failed'), 'short'\n"
    )
    info = tmp_path / "my_checks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-checks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sage.verifiers]\nshort = my_checks:Short\nbroken = my_checks:Nobody\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.declared.cache_clear()
    try:
        assert {"short", "broken", "lint"} <= set(registry.names())
        assert ask("short", build("short", {"most": 4}), Answer(text="four")).verdict == "passed"
        with pytest.raises(VerifierError, match=r"my_checks:Nobody, declared as 'broken' of sage.verifiers, cannot be"):
            build("broken", {})
    finally:
        registry.declared.cache_clear()
        sys.modules.pop("my_checks", None)

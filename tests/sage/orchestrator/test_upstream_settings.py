"""The sections of models.yaml that `sage serve` needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage.orchestrator.file_values import ModelsFileError
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.upstream_settings import ServeSettings, Upstream

ROLES = "\nroles:\n  default: {primary: m}\n"


def table(upstream: str, extra: str = "") -> ModelsFile:
    model = f"models:\n  m: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2, upstream: {upstream}}}"
    return ModelsFile.parse(model + ROLES + extra, Path("/etc/sage"))


def test_a_full_upstream_is_read() -> None:
    found = table(
        "{url: 'https://api.example.com/v1/', dialects: [chat, messages], model: big, key_file: key, timeout_s: 60, "
        "first_byte_s: 3, stall_s: 9, first_content_s: 20, content_gap_s: 30, max_answer_bytes: 4000, "
        "max_compressed_bytes: 400, max_stream_bytes: 9000}"
    )
    assert found.models["m"].upstream == Upstream(
        url="https://api.example.com/v1",
        dialects=("chat", "messages"),
        model="big",
        key_file=Path("/etc/sage/key"),
        timeout_s=60,
        first_byte_s=3,
        stall_s=9,
        first_content_s=20,
        content_gap_s=30,
        max_answer_bytes=4000,
        max_compressed_bytes=400,
        max_stream_bytes=9000,
    )
    assert table("{local: smol}").models["m"].upstream == Upstream(local="smol")


@pytest.mark.parametrize(
    ("upstream", "sentence"),
    [
        ("{}", "models.m.upstream needs either url"),
        ("{url: 'http://a/v1', local: b}", "models.m.upstream needs either url"),
        ("{url: ftp://a}", "models.m.upstream.url must be a URL such as"),
        ("{url: 'http:///v1'}", "models.m.upstream.url must be a URL such as"),
        ("{url: 'http://a:99999'}", "models.m.upstream.url must be a URL such as"),
        ("{url: 7}", "models.m.upstream.url must be a URL such as"),
        ("{url: 'http://me:word@a/v1'}", "must have no user, password or query"),
        ("{url: 'http://a/v1?key=x'}", "must have no user, password or query"),
        ("{url: 'http://a', dialects: [smalltalk]}", "models.m.upstream.dialects='smalltalk' is not known"),
        ("{url: 'http://a', dialects: chat}", "models.m.upstream.dialects='chat' must be a list"),
        ("{url: 'http://a', key_env: sk-1234}", "must be the name of an environment variable"),
        ("{url: 'http://a', key_env: A, key_file: b}", "has key_env and key_file: give one"),
        ("{url: 'http://a', timeout_s: 0}", "models.m.upstream.timeout_s=0 must be above 0"),
        ("{url: 'http://a', content_gap_s: -1}", "models.m.upstream.content_gap_s=-1 must be a finite number"),
        ("{url: 'http://a', max_answer_bytes: 0.5}", "models.m.upstream.max_answer_bytes=0.5 must be a whole"),
        (
            "{url: 'http://a', max_stream_bytes: 0}",
            "models.m.upstream.max_stream_bytes=0 must be a whole number above 0",
        ),
        ("{url: 'http://a', stall: 1}", "models.m.upstream: 'stall' is not a setting"),
        ("{local: ''}", "models.m.upstream.local='' must be a name"),
        ("7", "models.m.upstream is 7"),
    ],
)
def test_a_bad_upstream_is_a_sentence(upstream: str, sentence: str) -> None:
    with pytest.raises(ModelsFileError) as raised:
        table(upstream)
    assert sentence in str(raised.value)
    assert "sk-1234" not in str(raised.value)  # it may be the key itself
    assert "word" not in str(raised.value).replace("password", "")


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ("{role: cook}", "serve.role='cook' is not known"),
        ("{retries: -1}", "serve.retries=-1 must be a whole number"),
        ("{affinity_usd: -1}", "serve.affinity_usd=-1 must be a finite number"),
        ("{breaker_failures: 0}", "serve.breaker_failures=0 must be a whole number above 0"),
        ("{port: 1}", "serve: 'port' is not a setting"),
    ],
)
def test_a_bad_section_serve_is_a_sentence(section: str, sentence: str) -> None:
    with pytest.raises(ModelsFileError) as raised:
        table("{url: 'http://a'}", f"serve: {section}\n")
    assert sentence in str(raised.value)


def test_what_is_not_given_has_its_default() -> None:
    assert table("{url: 'http://a'}").serve == ServeSettings()
    assert table("{url: 'http://a'}", "serve: {retries: 0, role: planner}\n").serve == ServeSettings(
        retries=0, role="planner"
    )


def test_cached_input_has_its_own_prices() -> None:
    text = """models:
  m: {input_usd_per_mtok: 10, output_usd_per_mtok: 20, cached_input_usd_per_mtok: 1, cache_write_usd_per_mtok: 12.5}
"""
    model = ModelsFile.parse(text + ROLES).models["m"]
    assert model.cost_usd(1e6, 1e6) == 30
    assert model.cost_usd(1e6, 0, cached_tokens=5e5, written_tokens=2e5) == pytest.approx(3 + 0.5 + 2.5)

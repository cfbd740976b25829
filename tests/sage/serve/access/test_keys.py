"""Keys are shown once and kept as hashes; what others change in their file counts at once; files of others' eyes are refused."""

from __future__ import annotations

import json
import re
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rl_base import file_lock
from sage.cli import main
from sage.log.budget_settings import TenantBudget
from sage.log.decision_log import DecisionLog
from sage.log.redaction import redact
from sage.serve.access.keys import KeyFile, KeyFileError, LiveKeys
from sage.serve.access.rate_limits import Buckets
from sage.serve.feedback.ci_events import tenant_secret
from sage.upstream.secrets import Secret, SecretError, secret_of
from tests import needs
from tests.sage.examples import decision, written


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def test_a_key_opens_and_its_text_is_nowhere_in_the_file(file: KeyFile) -> None:
    key, text = file.add("ada", tenant="team", requests_per_minute=5)
    found = file.read().find(text)
    assert found == key
    assert (key.tenant, key.requests_per_minute) == ("team", 5)
    stored = file.path.read_text()
    assert text not in stored
    assert text.rpartition("-")[2] not in stored
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_what_is_not_the_key_does_not_open(file: KeyFile) -> None:
    _, text = file.add("ada")
    _, other = file.add("bob")
    keys = file.read()
    mixed = text.rpartition("-")[0] + "-" + other.rpartition("-")[2]
    for wrong in ("", "sk-sage-", text[:-1], text + "0", text.upper(), mixed, keys.keys[0].sha256, keys.keys[0].id):
        assert keys.find(wrong) is None, wrong


def test_redaction_knows_the_shape_of_a_key(file: KeyFile) -> None:
    _, text = file.add("ada")
    assert text not in redact(f"my key is {text}, use it")


def test_keys_from_before_there_were_roles_call_models(file: KeyFile) -> None:
    _, text = file.add("ada")
    stored = json.loads(file.path.read_text())
    del stored["keys"][0]["role"], stored["keys"][0]["models"]
    file.path.write_text(json.dumps(stored))
    key = file.read().find(text)
    assert key is not None
    assert (key.role, key.allowed) == ("call", None)
    for changes in ({"role": "root"}, {"role": ["operator"]}, {"models": []}, {"models": {"allow": "all"}}):
        file.path.write_text(json.dumps(stored | {"keys": [stored["keys"][0] | changes]}))
        with pytest.raises(KeyFileError, match="must be"):
            file.read()


def test_a_revoked_key_opens_no_more_and_its_name_is_free(file: KeyFile) -> None:
    _, text = file.add("ada")
    file.revoke("ada")
    assert file.read().find(text) is None
    with pytest.raises(KeyFileError, match="no key 'ada' that is valid"):
        file.revoke("ada")
    _, again = file.add("ada")
    assert file.read().find(again).number == 1


def test_a_file_that_others_may_read_is_refused(file: KeyFile) -> None:
    file.add("ada")
    for mode in (0o640, 0o604, 0o620):
        file.path.chmod(mode)
        with pytest.raises(SecretError, match="chmod 600"):
            file.read()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "a b"}, "NAME='a b'"),
        ({"name": ""}, "NAME=''"),
        ({"name": "ada", "tenant": "../x"}, "tenant='../x'"),
        ({"name": "ghp_" + "a1B2" * 9}, "looks like a secret"),
        ({"name": "ada", "role": "admin"}, "role='admin' must be one of call, metrics, operator"),
        ({"name": "ada", "allow": [""]}, "names of models that the key may ask for"),
        ({"name": "ada", "requests_per_minute": 0}, "requests-per-minute=0"),
        ({"name": "ada", "budget": TenantBudget(usd=float("nan"))}, "budget-usd=nan"),
        ({"name": "ada", "budget": TenantBudget(usd=1, per="week")}, "per='week'"),
    ],
)
def test_bad_wishes_get_a_sentence(file: KeyFile, arguments: dict, sentence: str) -> None:
    with pytest.raises(KeyFileError, match=sentence.replace("(", r"\(")):
        file.add(**arguments)
    assert not file.path.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"format": 2, "keys": [], "budgets": {}}',
        '{"format": 1, "keys": [{"id": 1}], "budgets": {}}',
        '{"format": 1, "keys": [], "budgets": {"a": {"usd": -1}}}',
        "[" * 100_000,
    ],
)
def test_a_broken_file_is_refused(file: KeyFile, text: str) -> None:
    file.path.write_text(text)
    file.path.chmod(0o600)
    with pytest.raises(KeyFileError):
        file.read()


@pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)
def test_many_threads_add_keys_and_none_is_lost(file: KeyFile) -> None:
    threads = [threading.Thread(target=file.add, args=(f"k{i}",)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.name for key in file.read().keys) == sorted(f"k{i}" for i in range(12))


def test_a_running_server_hears_of_changes_within_a_second(file: KeyFile) -> None:
    now = [0.0]
    _, first = file.add("ada")
    live = LiveKeys(file.path, clock=lambda: now[0])
    assert live.current().find(first) is not None
    file.revoke("ada")
    _, second = file.add("bob")
    now[0] = 1.0
    assert live.current().find(first) is None
    assert live.current().find(second) is not None


@pytest.mark.parametrize("harm", ["removed", "broken", "opened"])
def test_a_file_that_cannot_be_read_any_more_opens_for_nobody(file: KeyFile, harm: str) -> None:
    now = [0.0]
    _, text = file.add("ada")
    live = LiveKeys(file.path, clock=lambda: now[0])
    assert live.current().find(text) is not None
    content = file.path.read_text()
    if harm == "removed":
        file.path.unlink()
    elif harm == "broken":
        file.path.write_text(content[:-20])
    else:
        file.path.chmod(0o644)
    now[0] = 1.0
    assert live.current().find(text) is None
    assert live.problem
    file.path.write_text(content)
    file.path.chmod(0o600)
    now[0] = 2.0
    assert live.current().find(text) is not None
    assert live.problem == ""


def test_a_bucket_holds_a_minute_and_fills_evenly() -> None:
    buckets = Buckets()
    assert [buckets.take(3, 4, 1000.0) for _ in range(4)] == [0.0] * 4
    assert buckets.take(3, 4, 1000.0) == pytest.approx(15.0)
    assert buckets.take(2, 4, 1000.0) == 0.0  # another key
    assert buckets.take(3, 4, 1014.9) == pytest.approx(0.1)
    assert buckets.take(3, 4, 1015.0) == 0.0
    assert buckets.take(3, 4, 1015.0) == pytest.approx(15.0)
    assert buckets.take(3, 4, 15.0) == pytest.approx(15.0)  # a clock that was set back costs a minute at most


def test_workers_share_a_bucket(tmp_path: Path) -> None:
    one, two = Buckets(tmp_path / "limits"), Buckets(tmp_path / "limits")
    taken = [bucket.take(0, 3, 5.0) for bucket in (one, two, one, two)]
    assert taken == [0.0, 0.0, 0.0, pytest.approx(20.0)]
    one.close()
    two.close()


def test_secrets_come_from_the_environment_or_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("s3cret\n")
    with pytest.raises(SecretError, match="chmod 600"):
        secret_of("models.a.upstream", path=path)
    path.chmod(0o600)
    assert secret_of("models.a.upstream", path=path).reveal() == "s3cret"
    assert secret_of("x", variable_name="KEY", environment={"KEY": "s3cret"}).reveal() == "s3cret"
    assert secret_of("x") is None


@pytest.mark.parametrize("value", ["", "  ", "two\nlines-of-s3cret", "a\x00s3cret", "s3crét"])
def test_bad_secrets_are_refused_without_being_shown(value: str) -> None:
    with pytest.raises(SecretError, match="upstream names KEY") as raised:
        secret_of("models.a.upstream", variable_name="KEY", environment={"KEY": value})
    assert "s3c" not in str(raised.value)


def test_a_secret_is_shown_by_nothing_that_prints() -> None:
    secret = Secret("s3cret")
    shown = f"{secret} {secret!r} {[secret]} %s" % secret
    assert "s3cret" not in shown


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "add", "ada", "--tenant", "team", "--budget-usd", "5", "--per", "day", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["key"].startswith(f"sk-sage-{made['id']}-")
    assert (made["tenant"], made["budget_usd"], made["per"]) == ("team", 5.0, "day")
    assert main(["keys", "add", "bob", "--requests-per-minute", "60"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("sk-sage-")
    assert "start `sage serve` again" not in shown
    assert main(["keys", "add", "zoe", "--keys", "new.json"]) == 0
    assert "start `sage serve` again" in capsys.readouterr().out
    assert main(["keys", "revoke", "ada"]) == 0
    assert main(["keys", "add", "prom", "--role", "metrics", "--allow", "a", "--allow", "b/c"]) == 0
    assert main(["keys", "list"]) == 0
    listed = capsys.readouterr().out
    assert re.search("ada  tenant team  role call .*\n", listed)
    assert re.search("prom  tenant prom  role metrics .*  models a, b/c\n", listed)
    assert "revoked" in listed
    assert "60 requests/minute" in listed
    assert made["key"] not in listed
    assert main(["keys", "add", "bob"]) == 2
    assert main(["keys", "add", "eve", "--per", "day"]) == 2
    assert "give --budget-usd" in capsys.readouterr().err


def test_budgets_are_changed_and_what_is_spent_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "add", "ada", "--tenant", "team"]) == 0
    assert main(["keys", "budget", "team", "--budget-usd", "5", "--per", "total"]) == 0
    assert KeyFile("sage-keys.json").read().budgets == {"team": TenantBudget(usd=5.0, per="total")}
    with closing(DecisionLog("sage.db")) as log:
        log.append(decision("a", tenant="team", expected_cost_usd=1.25))
    assert main(["keys", "list"]) == 0
    assert "1.25 of 5 USD/total" in capsys.readouterr().out
    assert main(["keys", "budget", "team"]) == 0
    assert KeyFile("sage-keys.json").read().budgets == {}
    assert main(["keys", "budget", "nobody", "--budget-usd", "5"]) == 2
    assert "no key of a tenant 'nobody'" in capsys.readouterr().err


def test_the_secret_of_a_tenants_webhooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    models = written(tmp_path, "serve: {webhook_key_file: ci-secret}\n")
    (tmp_path / "ci-secret").write_text("s3cret")
    assert main(["keys", "webhook", "team"]) == 2
    (tmp_path / "ci-secret").chmod(0o600)
    assert main(["keys", "webhook", "team", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"path": "/v1/webhooks/ci/team", "secret": tenant_secret("s3cret", "team")}
    assert main(["keys", "webhook", "a/b"]) == 2
    models.write_text(
        models.read_text().replace("webhook_key_file", "webhook_key_env").replace("ci-secret", "'s3 cret'")
    )
    assert main(["keys", "webhook", "team"]) == 2
    error = capsys.readouterr().err
    assert "serve.webhook_key_env must be the name of an environment variable" in error
    assert "s3 cret" not in error

"""Keys of callers. A key is shown once, when it is made; the file holds a salted hash of it.

A key has 256 random bits, so nobody can guess one from its hash, and a fast hash is enough: slow ones protect passwords
that people choose.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from sage.files import FileReadError
from sage.log.budget_settings import PERIODS, TenantBudget
from sage.log.redaction import redact
from sage.process_lock import ProcessLock
from sage.upstream.secrets import SecretError, read_private, write_private

log = logging.getLogger(__name__)
KEY_FILE = Path("sage-keys.json")
PREFIX = "sk-sage-"  # a shape that sage's redaction, and that of others, knows as a key
FORMAT = 1
MOST_KEYS = 65_536
LOOK_EVERY_S = 1.0
PATIENCE_S = 10.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
NOBODY = "0" * 64
CALL, METRICS, OPERATOR = "call", "metrics", "operator"
ROLES = {
    CALL: "calls models, and reports outcomes of its own tenant",
    METRICS: "reads /metrics, which is about all tenants, and nothing else",
    OPERATOR: "does both",
}


class KeyFileError(ValueError):
    """A key file that cannot be used, or a change of it that is refused; the message says why and how to go on."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """The stored facts about a key: name, tenant, limits, and the salted hash of its text."""

    id: str
    name: str
    tenant: str
    salt: str
    sha256: str
    created: float  # seconds since 1970
    revoked: float | None = None
    requests_per_minute: int | None = None
    role: str = CALL  # one of ROLES; that of keys from before there were others
    models: dict | None = None  # {"allow": names of models that it may ask for}; all if None
    number: int = field(default=0, compare=False)  # its place in the file, which never changes

    @property
    def allowed(self) -> tuple[str, ...] | None:
        return None if self.models is None else tuple(self.models["allow"])

    def opens_with(self, given: str) -> bool:
        return hmac.compare_digest(hashed(given, self.salt), self.sha256) and self.revoked is None


@dataclass(frozen=True)
class Keys:
    """All keys, and the budgets of their tenants."""

    keys: tuple[Key, ...] = ()
    budgets: dict[str, TenantBudget] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {key.id: key for key in self.keys})

    def find(self, given: str) -> Key | None:
        """Returns the key with the text `given`; None if there is none or it is revoked."""
        found = self._by_id.get(id_in(given))  # pyrefly: ignore
        if found is None:
            hmac.compare_digest(hashed(given, ""), NOBODY)  # an unknown id takes as long as a wrong key
            return None
        return found if found.opens_with(given) else None

    @property
    def active(self) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if key.revoked is None)


class KeyFile:
    """The file of `sage keys`, which several processes may change."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self) -> Keys:
        """Returns the keys of the file, none if there is no file; raises KeyFileError or SecretError if it cannot be
        used."""
        return parse(read_private(self.path), self.path) if self.path.exists() else Keys()

    def add(
        self,
        name: str,
        *,
        tenant: str | None = None,
        budget: TenantBudget | None = None,
        requests_per_minute: int | None = None,
        role: str = CALL,
        allow: Sequence[str] = (),
    ) -> tuple[Key, str]:
        """Makes a key; returns it with its text, which is stored nowhere. A budget becomes that of the whole tenant.
        Raises KeyFileError if a value is not valid or the name is taken."""
        tenant = name if tenant is None else tenant
        check_name("NAME", name)
        check_name("tenant", tenant)
        check_limits(budget, requests_per_minute)
        check_role(role)
        models = {"allow": list(allow)} if allow else None
        check_models(models)
        with self._changing() as known:
            if any(key.name == name for key in known.active):
                raise KeyFileError(f"there is a key {name!r} already: revoke it first, or choose another name")
            if len(known.keys) == MOST_KEYS:
                raise KeyFileError(f"{self.path} has {MOST_KEYS} keys, the most there can be: begin a new file")
            key_id, salt = secrets.token_hex(4), secrets.token_hex(16)
            if any(key.id == key_id for key in known.keys):
                raise KeyFileError("the new key has the id of another one by chance: try again")
            text = f"{PREFIX}{key_id}-{secrets.token_hex(32)}"
            key = Key(
                id=key_id,
                name=name,
                tenant=tenant,
                salt=salt,
                sha256=hashed(text, salt),
                created=time.time(),
                requests_per_minute=requests_per_minute,
                role=role,
                models=models,
                number=len(known.keys),
            )
            self._write(Keys((*known.keys, key), known.budgets | ({} if budget is None else {tenant: budget})))
        return key, text

    def revoke(self, name_or_id: str) -> Key:
        """Revokes a key and returns it; running servers follow within a second. Raises KeyFileError if no valid key has
        the name or id."""
        with self._changing() as known:
            for key in known.active:
                if name_or_id in (key.name, key.id):
                    gone = replace(key, revoked=time.time())
                    self._write(Keys(tuple(gone if k is key else k for k in known.keys), known.budgets))
                    return gone
        raise KeyFileError(f"{self.path} has no key {name_or_id!r} that is valid: `sage keys list` shows them")

    def set_budget(self, tenant: str, budget: TenantBudget | None) -> None:
        """Sets the budget of a tenant, or removes it if None; raises KeyFileError if the tenant has no key."""
        check_limits(budget, None)
        with self._changing() as known:
            if all(key.tenant != tenant for key in known.keys):
                raise KeyFileError(f"{self.path} has no key of a tenant {tenant!r}: `sage keys list` shows them")
            kept = {name: other for name, other in known.budgets.items() if name != tenant}
            self._write(Keys(known.keys, kept if budget is None else kept | {tenant: budget}))

    @contextmanager
    def _changing(self) -> Iterator[Keys]:
        """Yields the keys of the file while other processes cannot change it; raises KeyFileError if it is locked for
        PATIENCE_S seconds."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        turn = ProcessLock(self.path.with_name(self.path.name + "-lock"))
        turn.open()
        try:
            with turn.taken(PATIENCE_S):
                yield self.read()
        except TimeoutError as error:
            raise KeyFileError(f"{self.path} is being changed by another process: try again") from error
        finally:
            turn.close()

    def _write(self, keys: Keys) -> None:
        values = {
            "format": FORMAT,
            "keys": [{name: value for name, value in asdict(key).items() if name != "number"} for key in keys.keys],
            "budgets": {tenant: {"usd": budget.usd, "per": budget.per} for tenant, budget in keys.budgets.items()},
        }
        write_private(self.path, json.dumps(values, indent=2, allow_nan=False) + "\n")


class LiveKeys:
    """The keys of a running server, which follow changes of the file within a second.

    If the file cannot be read any more, no key is valid, because a revocation may be in it.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.file = KeyFile(path)
        self.clock = clock
        self.problem = ""
        self._keys = Keys()
        self._seen: tuple[int, ...] | None = None
        self._next_look = -math.inf

    def current(self) -> Keys:
        """Returns the keys; looks at the file at most once in LOOK_EVERY_S seconds."""
        if (now := self.clock()) >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            self._look()
        return self._keys

    def _look(self) -> None:
        try:
            found = self.file.path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)
            if seen == self._seen:
                return
            self._seen = None
            self._keys, problem = self.file.read(), ""
            self._seen = seen
        except (OSError, KeyFileError, SecretError, FileReadError) as error:
            self._seen, self._keys, problem = None, Keys(), f"the key file cannot be used: {error}"
        if problem and problem != self.problem:
            log.error(problem)
        self.problem = problem


def id_in(given: str) -> str:
    return given[len(PREFIX) :].partition("-")[0] if given.startswith(PREFIX) else ""


def hashed(key: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}{key}".encode("utf-8", "surrogateescape")).hexdigest()


def check_name(field_name: str, value: str) -> None:
    if not NAME.fullmatch(value):
        raise KeyFileError(f"{field_name}={value!r} must be 1 to 64 letters, digits and . _ @ -")
    if redact(value) != value:  # or the log could not tell it from others
        raise KeyFileError(f"{field_name} looks like a secret: choose another name")


def check_role(role: object) -> None:
    if not isinstance(role, str) or role not in ROLES:
        raise KeyFileError(f"role={role!r} must be one of {', '.join(ROLES)}")


def check_models(models: object) -> None:
    if models is None:
        return
    names = models.get("allow") if isinstance(models, dict) and set(models) == {"allow"} else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise KeyFileError(
            f"models={models!r} must be {{allow: [NAME, ...]}}: names of models that the key may ask for"
        )


def check_limits(budget: TenantBudget | None, requests_per_minute: int | None) -> None:
    if budget is not None:
        if not is_number(budget.usd) or not 0 < budget.usd <= 1e9:
            raise KeyFileError(f"budget-usd={budget.usd!r} must be above 0 and at most 1e9")
        if budget.per not in PERIODS:
            raise KeyFileError(f"per={budget.per!r} must be one of {', '.join(PERIODS)}")
    if requests_per_minute is not None and not (type(requests_per_minute) is int and 1 <= requests_per_minute <= 10**6):
        raise KeyFileError(f"requests-per-minute={requests_per_minute!r} must be a whole number from 1 to 1,000,000")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse(text: str, path: Path) -> Keys:
    """Returns the keys in the text of a key file; raises KeyFileError if anything is not understood, because it may be
    a limit."""
    try:
        values = json.loads(text)
        if values["format"] != FORMAT:
            raise KeyFileError(f"{path} has format {values['format']!r}, this sage reads {FORMAT}: use a new file")
        names = {field.name for field in fields(Key)} - {"number"}
        keys = []
        for number, given in enumerate(values["keys"]):
            if not set(given) <= names or not all(isinstance(given[name], str) for name in ("id", "salt", "sha256")):
                raise KeyFileError(f"{path}: keys[{number}] is not one that `sage keys add` wrote: add the key anew")
            keys.append(Key(**given, number=number))
            check_name("name", keys[-1].name)
            check_name("tenant", keys[-1].tenant)
            check_limits(None, keys[-1].requests_per_minute)
            check_role(keys[-1].role)
            check_models(keys[-1].models)
        budgets = {tenant: TenantBudget(**given) for tenant, given in values["budgets"].items()}
        for budget in budgets.values():
            check_limits(budget, None)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, RecursionError) as error:
        raise KeyFileError(
            f"{path} is not a key file of sage ({type(error).__name__}): check which file it is"
        ) from error
    return Keys(tuple(keys), budgets)

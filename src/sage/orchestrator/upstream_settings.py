"""The sections of models.yaml for `sage serve`: where each model is asked, and how requests are served."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from sage.log.budget_settings import AT_END
from sage.log.records import ROLES
from sage.orchestrator.file_values import (
    ModelsFileError,
    choice,
    entries,
    non_negative_number,
    positive_integer,
    section,
)

DIALECTS = ("chat", "responses", "messages", "embeddings")
ROUTE, REFUSE = "route", "refuse"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The address of a model, either `url` or `local`, with the limits of its calls."""

    url: str | None = None  # base URL, as SDKs take it
    local: str | None = None  # a model of `sage models add`, which `sage serve` starts
    dialects: tuple[str, ...] = ("chat",)  # that it speaks
    model: str | None = None  # its name there; the name in models.yaml if None
    key_env: str | None = None  # environment variable that holds its key
    key_file: Path | None = None  # or the file that does
    timeout_s: float = 600.0  # for the whole answer
    first_byte_s: float = 30.0  # until a stream begins
    stall_s: float = 120.0  # that a stream may be silent
    first_content_s: float = 300.0  # until a stream's first content, whatever else it sends
    content_gap_s: float = 300.0  # from one content to the next
    max_answer_bytes: int = 32 * 2**20  # of a whole answer or an error, decompressed
    max_compressed_bytes: int = 16 * 2**20  # of one that comes compressed, as it arrives
    max_stream_bytes: int = 256 * 2**20  # of a stream in all


@dataclass(frozen=True, kw_only=True)
class NameRule:
    """The rule for requests that ask for this name instead of a model: a role, a model, or an error."""

    role: str | None = None  # of the request, unless x-sage-role says another
    pin: str | None = None  # the model that answers; routed if None
    refuse: bool = False

    @property
    def summary(self) -> str:
        if self.refuse:
            return "is refused"
        return " and ".join(
            [f"has the role {self.role}"] * bool(self.role) + [f"is answered by {self.pin}"] * bool(self.pin)
        )


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    role: str = "coder"  # of requests that name none
    retries: int = 1  # of one model, before another one is asked
    max_retry_after_s: float = 2.0  # that an upstream may ask to wait; where it asks for more, another model is asked
    affinity_usd: float = 0.01  # what it is worth to follow the router in the middle of a session
    cache_s: float = 300.0  # that an upstream keeps a prompt in its cache
    breaker_failures: int = 5  # in a row, after which a model is not asked at an endpoint
    breaker_s: float = 30.0  # for how long
    at_budget_end: str = "cheaper"  # of a tenant's budget: models that still fit, or `refuse` once one does not
    shadow_answers_s: float = 0.0  # that answers of shadows are kept on disk for whoever judges them; none are if 0
    cascades: tuple[str, ...] = ()  # roles whose requests are answered by their cascade
    names: dict[str, NameRule] = field(default_factory=dict)  # of models, as clients send them
    other_names: str = ROUTE  # what becomes of names that are neither there nor models, or `refuse`
    webhook_key_env: str | None = None  # environment variable with the secret that CI signs its webhooks with
    webhook_key_file: Path | None = None  # or the file that has it


def parse_upstream(value: object, place: str, folder: Path = Path()) -> Upstream | None:
    """Returns the upstream at a place, None if there is none; the file of a key is looked for in `folder`.

    Raises ModelsFileError for a mistake.
    """
    if value is None:
        return None
    given = section(Upstream, value, place)
    if ("url" in given) == ("local" in given):
        raise ModelsFileError(f"{place} needs either url, as an SDK takes it, or local, a name of `sage models add`")
    for key in ("local", "model"):
        if key in given and (not isinstance(given[key], str) or not given[key].strip()):
            raise ModelsFileError(f"{place}.{key}={given[key]!r} must be a name")
    if "url" in given:
        given["url"] = checked_url(given["url"], f"{place}.url")
    if "dialects" in given:
        given["dialects"] = checked_dialects(given["dialects"], f"{place}.dialects")
    check_key_places(given, place, folder)
    for key in ("timeout_s", "first_byte_s", "stall_s", "first_content_s", "content_gap_s"):
        if key in given:
            given[key] = positive(given[key], f"{place}.{key}")
    for key in ("max_answer_bytes", "max_compressed_bytes", "max_stream_bytes"):
        if key in given:
            given[key] = positive_integer(given[key], f"{place}.{key}")
    return Upstream(**given)


def check_key_places(given: dict, place: str, folder: Path, prefix: str = "") -> None:
    """Raises ModelsFileError if `given` names both a variable and a file for a secret, or names one wrongly.

    Makes the file's path one in `folder`. A secret itself is never in models.yaml.
    """
    env, file = f"{prefix}key_env", f"{prefix}key_file"
    if env in given and file in given:
        raise ModelsFileError(f"{place} has {env} and {file}: give one of them")
    if env in given and not (isinstance(given[env], str) and VARIABLE.fullmatch(given[env])):
        raise ModelsFileError(  # the value is not repeated: it may be the key itself
            f"{place}.{env} must be the name of an environment variable, such as OPENAI_API_KEY"
        )
    if file in given:
        if not isinstance(given[file], str):
            raise ModelsFileError(f"{place}.{file}={given[file]!r} must be the path of a file")
        given[file] = folder / given[file]


def parse_serve(value: object, folder: Path = Path()) -> ServeSettings:
    given = section(ServeSettings, value, "serve")
    check_key_places(given, "serve", folder, "webhook_")
    if "role" in given:
        choice(given["role"], "serve.role", ROLES)
    if "cascades" in given:
        roles = given["cascades"]
        if not isinstance(roles, list):
            raise ModelsFileError(f"serve.cascades={roles!r} must be a list of roles, such as [coder]")
        given["cascades"] = tuple(str(choice(role, "serve.cascades", ROLES)) for role in roles)
    if "names" in given:
        given["names"] = {name: parse_name(name, rule) for name, rule in entries(given["names"], "serve.names")}
    if "other_names" in given:
        choice(given["other_names"], "serve.other_names", (ROUTE, REFUSE))
    if "at_budget_end" in given:
        choice(given["at_budget_end"], "serve.at_budget_end", AT_END)
    if "retries" in given and given["retries"] != 0:
        given["retries"] = positive_integer(given["retries"], "serve.retries")
    if "breaker_failures" in given:
        given["breaker_failures"] = positive_integer(given["breaker_failures"], "serve.breaker_failures")
    for key in ("max_retry_after_s", "affinity_usd", "cache_s", "breaker_s", "shadow_answers_s"):
        if key in given:
            given[key] = non_negative_number(given[key], f"serve.{key}")
    return ServeSettings(**given)


def parse_name(name: str, value: object) -> NameRule:
    place = f"serve.names.{name}"
    given = section(NameRule, value, place)
    if "role" in given:
        choice(given["role"], f"{place}.role", ROLES)
    if given.get("pin") is True:
        given["pin"] = name
    elif given.get("pin") is False:
        del given["pin"]
    if "pin" in given and not isinstance(given["pin"], str):
        raise ModelsFileError(f"{place}.pin={given['pin']!r} must be a model, or true if the name is one")
    if not isinstance(given.get("refuse", False), bool):
        raise ModelsFileError(f"{place}.refuse={given['refuse']!r} must be true or false")
    if not given or (given.get("refuse") and len(given) > 1) or given == {"refuse": False}:
        raise ModelsFileError(f"{place} must say a role, a model to pin, or refuse: true")
    return NameRule(**given)


def checked_url(value: object, place: str) -> str:
    """Returns the URL without a slash at its end; raises ModelsFileError if it is none, or has a user or a query.

    The message does not repeat the URL, which may hold a secret.
    """
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:
        raise ModelsFileError(f"{place} must be a URL such as https://api.example.com/v1") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ModelsFileError(f"{place} must have no user, password or query: give the key by key_env or key_file")
    return str(value).rstrip("/")


def checked_dialects(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ModelsFileError(f"{place}={value!r} must be a list of {', '.join(DIALECTS)}")
    return tuple(str(choice(name, place, DIALECTS)) for name in value)


def positive(value: object, place: str) -> float:
    if (number := non_negative_number(value, place, most=math.inf)) == 0:
        raise ModelsFileError(f"{place}=0 must be above 0")
    return number

"""Removal of secrets from text before it is stored.

Two searches: for keys that are known by their shape, and for values behind a name such as `DB_PASS=`. The second one
spares code, placeholders and descriptions: `token = next(tokens)`, `password: str`, `api_key=$API_KEY`,
`PWD=/home/me`, `get_secret: Reads a secret`.
"""

from __future__ import annotations

import re

REMOVED = "[secret removed]"
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
# The searches take long, so only words that may be a key and lines with a name are searched; all repeats are bounded.
LONG_WORD = re.compile(r"\S{11,}")
SHAPE = re.compile(
    r"""
      \b(?:sk|rk|pk|gsk|xai|pplx)[-_](?:[A-Za-z0-9]{1,20}[-_]){0,4}[A-Za-z0-9_-]{16,}  # OpenAI, Anthropic, Stripe, Groq ...
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bgl(?:pat|dt|rt|ptt|agent)-[\w-]{16,}
    | \b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b
    | \bAIza[\w-]{30,} | \bya29\.[\w-]{20,} | \bGOCSPX-[\w-]{20,} | \b1//0[\w-]{30,}
    | \bxox[abeoprs]-[\w-]{10,} | \bxapp-\d-[\w-]{20,}
    | (?<=hooks\.slack\.com/services/)T\w{6,}/B\w{6,}/\w{16,} | (?<=/api/webhooks/)\d{15,}/[\w-]{30,}
    | \b(?:hf|npm|pypi|dop_v1|doo_v1|shpat|shpss|shpca|glsa|lin_api|dckr_pat|figd|sbp|r8|PMAK|NRAK)[-_][A-Za-z0-9]{20,}[\w-]{0,200}
    | \bSG\.[\w-]{16,}\.[\w-]{16,} | \bkey-[0-9a-f]{32}\b | \b[0-9a-f]{32}-us\d{1,2}\b  # SendGrid, Mailgun, Mailchimp
    | \b(?:SK|AC)[0-9a-f]{32}\b | \bdapi[0-9a-f]{32}\b | \bsq0[a-z]{3}-[\w-]{20,}  # Twilio, Databricks, Square
    | \bhv[sb]\.[\w-]{20,} | \b\w{14}\.atlasv1\.[\w-]{40,} | \b\w{3}[78]Q~[\w.~-]{30,}  # Vault, Terraform, Azure
    | \b\d{8,10}:AA[\w-]{32,} | \bAGE-SECRET-KEY-1[A-Z0-9]{50,}  # Telegram, age
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{5,}  # a signed web token
    | (?<=://)[^\s/:@]{0,200}:[^\s/@]{1,200}(?=@)  # a password in an address
    """,
    re.VERBOSE,
)
NAMES = ("pass", "pwd", "secret", "credential", "key", "token", "auth", "sig", "sas", "bearer", "-u")
PLAIN = r"(?:user|username|login)\s{1,3}\S{1,200}\s{1,3}"  # of .netrc
NAMED = re.compile(
    rf"""
    (?P<kept>
        (?:
            (?P<sure> pass(?:word|wd|phrase) | pwd | secret | credential
                | (?:api|access|account|private|signing|encryption|shared|master|auth|storage|service|license)[_-]?key
                | (?:access|auth|refresh|session|bot|bearer|id|api|client|personal|webhook)[_-]?token )
            | (?<![a-z]) (?: pass | token | auth | sig | sas ) (?![a-z])
        )
        (?:s|[_-]?(?:id|key|access[_-]?key|value|text|prod|dev|test|live|\d{{1,2}})){{0,2}}
        (?P<between> \\?["']?\]? \s{{0,3}} (?: => | := | [:=] ) \s{{0,3}} )
        (?P<quote> \\?["'] )?
        | authorization \\?["']? \s{{0,3}} [:=] \s{{0,3}} \\?["']? (?: (?:basic|bearer|digest|token|apikey) \s{{1,3}} )?
        | (?<![a-z]) bearer \s (?= [\w.~+/-]{{12}} )
        | (?<=\s) -u \s{{0,2}} [^\s:'"]{{1,100}} :
        | (?<=\s) --? (?: password | passphrase | token | secret | api-key | auth-token ) \s{{1,3}}
        | {PLAIN} password \s{{1,3}}
    )
    (?P<value> (?(quote) [^"'\\\n]{{4,4000}} | [^\s"'`,;&<>(){{}}]{{4,4000}} ) )
    (?P<call> \( )?
    """,
    re.VERBOSE | re.IGNORECASE,
)
NO_VALUE = re.compile(
    r"""(?: none | null | nil | true | false | undefined | str(?:ing)? | int | bytes | bool(?:ean)? | optional | required
    | any | object | number | text | varchar | include | same-origin | redacted | removed | bearer | basic
    | x{3,} | \*{3,} | \.{3,} | _{3,} )\W* \Z
    | \$ | % | < | \{ | \[secret | \[[A-Z_ ]{1,40}\] \Z
    | (?: os | process | self | this | config | settings | env | args | options | request | response | ctx | secrets? ) [.\[]""",
    re.VERBOSE | re.IGNORECASE,
)
IDENTIFIER = re.compile(r"[A-Za-z_.]+\]?\Z")
LONGEST_NAME = 60  # characters before the part that was found
NAME_BEFORE = re.compile(r"[\w-]*\Z")
FOLDER = re.compile(r"(?:[A-Za-z]:|~|\.{1,2})?[\\/][\w .@+~\\/-]*\Z")
TEST = re.compile(r"[\w-]+(?:/[\w.-]+)+\.[a-z]{1,4}(?:::\S*)?\Z")
ACTION = re.compile(  # the beginning of a tool's or a function's name
    r"(?:[\w-]*__)?(?:add|change|check|create|delete|fetch|find|generate|get|hash|has|is|list|load|make|manage|parse|read"
    r"|remove|request|reset|revoke|rotate|save|scan|store|update|validate|verify|write)(?:[_-]|(?<=[a-z])(?=[A-Z]))",
)
PROSE = re.compile(r"[A-Za-z']+\Z")
MORE_PROSE = re.compile(r" [A-Za-z']+(?:[ .,;:!?]|\Z)")
# `sk-learn-compatible`, and no `sk-live-...`; a part of a key that is drawn at random is longer, or has digits or capitals.
WORDS = re.compile(r"[a-z]{2,4}[-_](?!(?:live|test|proj|ant|or|sage|svcacct|admin)[-_])[a-z]{1,15}(?:[-_][a-z]{1,15})+")


def redact(text: str) -> str:
    """Returns the text with a marker in place of everything that looks like a key, token, password or private key."""
    if "PRIVATE KEY" in text:
        text = PRIVATE_KEY.sub(REMOVED, text)
    if has_name(text):
        lines = text.split("\n")
        text = "\n".join(NAMED.sub(without_value, line) if has_name(line) else line for line in lines)
    return LONG_WORD.sub(without_key, text)


def has_name(text: str) -> bool:
    lowered = text.lower()
    return any(name in lowered for name in NAMES)


def without_key(word: re.Match[str]) -> str:
    return word[0] if word[0].isalpha() and word[0][1:].islower() else SHAPE.sub(without_shape, word[0])


def without_shape(found: re.Match[str]) -> str:
    return found[0] if WORDS.fullmatch(found[0]) else REMOVED


def without_value(found: re.Match[str]) -> str:
    return found["kept"] + REMOVED if is_value(found) else found[0]


def is_value(found: re.Match[str]) -> bool:
    """Returns True if the match is a secret value behind its name, and not code that makes one."""
    value, between = found["value"], found["between"]
    if NO_VALUE.match(value) or (between is not None and is_description(found)):
        return False
    if between is None or found["quote"]:  # behind a header, a flag or within quotes
        return True
    if found["call"] or (IDENTIFIER.match(value) and is_code(found)):
        return False
    return len(value) >= 6 or (found["sure"] is not None and "=" in between)


def is_code(found: re.Match[str]) -> bool:
    """Returns True for a name before code or prose, such as `token = next_token` and `auth: required`.

    `DB_PASS=letmein` and `password: letmein` give False.
    """
    between = found["between"]
    return between != between.strip() and ("=" in between or found["sure"] is None)


def is_description(found: re.Match[str]) -> bool:
    """Returns True for a name before text that is no secret, such as `PWD=/home/me` or `PASS: tests/test_a.py`.

    `reset_password: Resets the password` is another example; `DB_PWD=/x9` gives False.
    """
    line, value, between = found.string, found["value"], found["between"]
    before = NAME_BEFORE.search(line[max(0, found.start() - LONGEST_NAME) : found.start()])
    name = (before[0] if before else "") + found["kept"].partition(between)[0]
    if name in ("PWD", "OLDPWD", "pwd"):
        return FOLDER.match(value) is not None
    if name == "PASS" and not found["quote"]:  # as runners of tests report it
        return ":" in between and TEST.match(value) is not None
    if ":" not in between or not ACTION.match(name):
        return False
    if found["quote"]:
        return all(PROSE.match(word.strip(".,;:()")) for word in value.split()) and " " in value.strip()
    return PROSE.match(value) is not None and MORE_PROSE.match(line, found.end("value")) is not None

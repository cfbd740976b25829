"""Settings files that no longer fit what their documentation demands: ini, TOML, JSON and env files."""

from __future__ import annotations

import json
import random

Values = dict[str, dict[str, int | str]]
FORMATS = ("ini", "toml", "json", "env")
SECTIONS = {  # section: key to (kind, values to choose from, what the documentation says)
    "server": {
        "port": ("int", (8080, 9000, 8443), "the port, from 1024 to 65535"),
        "workers": ("int", (2, 4, 8), "processes, from 1 to 16"),
        "host": ("str", ("localhost", "internal"), "the name to listen on"),
        "debug": ("bool", (False,), "off in production"),
    },
    "store": {
        "path": ("str", ("data/main.db", "data/shop.db"), "the database, below data/"),
        "timeout_s": ("int", (5, 10, 30), "seconds, from 1 to 60"),
        "pool": ("int", (3, 6), "connections, fewer than `server.workers` times 4"),
    },
    "log": {
        "level": ("str", ("info", "warning"), "info, warning or error"),
        "keep_days": ("int", (7, 14, 30), "days, from 1 to 90"),
        "file": ("str", ("logs/app.log", "logs/web.log"), "below logs/"),
    },
    "mail": {
        "sender": ("str", ("shop@host.test", "ops@host.test"), "an address with one @"),
        "retries": ("int", (1, 3, 5), "from 0 to 9"),
        "backoff_s": ("int", (2, 4), "seconds, fewer than `store.timeout_s`"),
    },
}
READER = '''"""Reads the settings and says what is wrong with them."""

from __future__ import annotations

import configparser
import json
import re
import sys
import tomllib
from pathlib import Path


def read(path):
    """Sections of text, as they are written."""
    text = Path(path).read_text(encoding="utf-8")
    if path.endswith(".ini"):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(text)
        return {name: dict(parser[name]) for name in parser.sections()}
    if path.endswith(".toml"):
        return tomllib.loads(text)
    if path.endswith(".json"):
        return json.loads(text)
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, separator, value = line.partition("=")
            section, _, key = name.partition("__")
            if not separator or not key or name != name.upper():
                raise ValueError(f"the line {line!r} is not understood")
            found.setdefault(section.lower(), {})[key.lower()] = value
    return found


def convert(value, kind):
    if kind == "str" or not isinstance(value, str):
        if type(value).__name__ != kind:
            raise ValueError(f"{value!r} is not {kind}")
        return value
    if kind == "bool":
        return {"true": True, "false": False}[value.lower()]
    if not re.fullmatch(r"[0-9]+", value):
        raise ValueError(f"{value!r} is not a number")
    return int(value)


def load(path, kinds):
    """Settings with their kinds; a ValueError or KeyError for what is missing, unknown or of another kind."""
    raw = read(path)
    for section in raw:
        for key in raw[section]:
            if key not in kinds.get(section, {}):
                raise KeyError(f"{section}.{key} is not known")
    return {
        section: {key: convert(raw[section][key], kind) for key, kind in keys.items()} for section, keys in kinds.items()
    }


KINDS = json.loads(Path(__file__).with_name("kinds.json").read_text(encoding="utf-8"))


def main():
    try:
        load(KINDS["path"], KINDS["kinds"])
    except (ValueError, KeyError) as error:
        sys.exit(f"settings: {error}")
    print("settings: ok")


if __name__ == "__main__":
    main()
'''


def write(kind: str, values: Values, order: random.Random) -> str:
    """Returns a settings file with comments, in the format `kind`."""
    sections = list(values)
    order.shuffle(sections)
    if kind == "json":
        return json.dumps({section: values[section] for section in sections}, indent=2) + "\n"
    lines = ["# settings of the service; see docs/settings.md"]
    for section in sections:
        if kind != "env":
            lines += ["", f"[{section}]"]
        for key, value in values[section].items():
            if kind == "env":
                lines.append(
                    f"{section}__{key}".upper() + f"={str(value).lower() if isinstance(value, bool) else value}"
                )
            elif kind == "toml":
                lines.append(f"{key} = {json.dumps(value)}")
            else:
                lines.append(f"{key} = {str(value).lower() if isinstance(value, bool) else value}")
    return "\n".join(lines) + "\n"


def break_values(values: Values, rng: random.Random) -> tuple[str, Values]:
    """Returns the name of one fault, drawn at random, and the settings that have it."""
    broken = {section: dict(keys) for section, keys in values.items()}
    section = rng.choice(sorted(broken))
    key = rng.choice(sorted(broken[section]))
    value = broken[section][key]
    kind = rng.choice(("missing_key", "misspelt_key", "wrong_kind", "wrong_section", "wrong_value", "swapped_values"))
    if kind == "missing_key":
        del broken[section][key]
    elif kind == "misspelt_key":
        place = rng.randrange(1, len(key))
        broken[section] = {
            name if name != key else key[:place] + key[place + 1 :]: v for name, v in broken[section].items()
        }
    elif kind == "wrong_kind":
        broken[section][key] = f"{value}s" if isinstance(value, int) and not isinstance(value, bool) else 7
    elif kind == "wrong_section":
        other = rng.choice([name for name in sorted(broken) if name != section])
        broken[other][key] = broken[section].pop(key)
    elif kind == "wrong_value":
        broken[section][key] = (
            (not value) if isinstance(value, bool) else value * 1000 if isinstance(value, int) else f"/tmp/{value}"
        )
    else:
        same = [name for name in sorted(broken[section]) if type(broken[section][name]) is type(value) and name != key]
        if same:
            broken[section][key], broken[section][same[0]] = broken[section][same[0]], value
    return kind, broken


def settings_files(seed: int) -> tuple[dict[str, str], dict[str, str], list[tuple[str, dict[str, str]]]]:
    """Returns the files of the service, its tests, and its faults: for each a name and the files that it changes."""
    rng = random.Random(f"configs:{seed}")
    kind = rng.choice(FORMATS)
    chosen = sorted(rng.sample(sorted(SECTIONS), 3))
    values: Values = {
        section: {key: rng.choice(options) for key, (_, options, _) in SECTIONS[section].items()} for section in chosen
    }
    path = f"config/settings.{kind}" if kind != "env" else "config/service.env"
    kinds = {section: {key: SECTIONS[section][key][0] for key in keys} for section, keys in values.items()}
    rows = [
        f"| {section} | {key} | {values[section][key]} | {SECTIONS[section][key][2]} |"
        for section in chosen
        for key in values[section]
    ]
    order = rng.randrange(10**6)
    files = {
        path: write(kind, values, random.Random(order)),
        "service/__init__.py": '"""A service with settings."""\n',
        "service/settings.py": READER,
        "service/kinds.json": json.dumps({"path": path, "kinds": kinds}, indent=2) + "\n",
        "docs/settings.md": "\n".join(
            ["# Settings", "", "| section | key | production | meaning |", "|---|---|---|---|", *rows, ""]
        ),
    }
    keys = [(section, key) for section in chosen for key in values[section]]
    rng.shuffle(keys)
    tests = {
        "tests/test_settings.py": checks(values, keys[: len(keys) // 2]),
        "tests/test_hidden_settings.py": checks(values, keys[len(keys) // 2 :]),
    }
    faults = []
    for _ in range(12):
        name, broken = break_values(values, rng)
        if rng.random() < 0.4:
            _, broken = break_values(broken, rng)
        faults.append((name, {path: write(kind, broken, random.Random(order))}))
    return files, tests, faults


def checks(values: Values, keys: list[tuple[str, str]]) -> str:
    lines = ['"""Checks of the settings in production."""', "", "from service.settings import KINDS, load", ""]
    for section, key in keys:
        value = values[section][key]
        expected = f"is {value}" if isinstance(value, bool) else f"== {value!r}"
        lines += ["", f"def test_{section}_{key}():", '    settings = load(KINDS["path"], KINDS["kinds"])']
        lines += [f'    assert settings["{section}"]["{key}"] {expected}', ""]
    return "\n".join(lines)

"""Keyword arguments by section, and the error for those that no section knows."""

from __future__ import annotations

from collections.abc import Mapping

from rl_training.config.names_of_others import ALIASES
from rl_training.config.parsing import field_names, nearest, shortened
from rl_training.config.registry import ALGORITHMS, experience_of, whose
from rl_training.config.run_config import RunConfig
from rl_training.config.sections import SECTIONS, TrainingConfig
from rl_training.config.translation import kwargs_translated
from rl_training.core import AlgorithmConfig
from rl_training.core.arguments import CallError, ConfigError
from rl_training.envs import EnvConfig


def config_from_keywords(name: str, env_id: str, keywords: dict[str, object]) -> RunConfig:
    """Builds the config of algorithm `name` in environment `env_id` from settings of any section, or whole sections.

    Raises ConfigError for keywords that are unknown, given twice or invalid.
    """
    sections = sort_keywords(name, keywords)
    values = sections | {
        "algorithm": {"name": name} | sections.get("algorithm", {}),
        "env": {"id": env_id} | sections.get("env", {}),
    }
    return RunConfig.from_mapping(values)


def keyword_homes(name: str, store: object = None) -> dict[str, str]:
    """Returns the section of every keyword that algorithm `name` takes, aliases included, by keyword.

    `store` names the experience store whose settings count; None means the algorithm's usual one.
    """
    fields = {
        "algorithm": [*field_names(ALGORITHMS[name].config), *ALGORITHMS[name].config.absent],
        "experience": field_names(experience_of(name, store)),
        "env": [field for field in field_names(EnvConfig) if field != "id"],
        "training": field_names(TrainingConfig),
    }
    known = [place for place, (home, field) in ALIASES.items() if field in fields[home]]
    homes = {alias: section for section, alias in reversed(known)}
    return homes | {field: section for section, names in fields.items() for field in names}


def sort_keywords(name: str, keywords: dict[str, object], store: object = None) -> dict[str, dict]:
    """Returns keyword arguments grouped by section, such as {"env": {"n_envs": 4}, "training": {}}.

    `store` is the experience store if the keywords name none; None means the usual one of algorithm `name`. Raises
    ConfigError for keywords that are unknown or given twice.
    """
    homes = keyword_homes(name, named_store(keywords) or store)
    values: dict[str, dict] = {"training": {}}
    for key, value in keywords.items():
        if key in SECTIONS:
            if key == "phases":
                values[key] = value  # pyrefly: ignore (a list, unlike the others)
                continue
            if not isinstance(value, dict):
                raise ConfigError(f"{key}={shortened(value)} must be a mapping of settings, e.g. {key}={{...}}")
            values[key] = joined(key, values.get(key, {}), value)
        elif key in homes:
            section = homes[key]
            values[section] = joined(section, values.get(section, {}), {key: value})
        elif key == "policy_kwargs":
            raise ConfigError(
                f"policy_kwargs={shortened(value)} is not a setting of {name}: {kwargs_translated(value)}"
            )
        else:
            raise ConfigError(
                f"{key}={value!r} is not a setting of {name}: {whose(key, name, None, [*homes, *SECTIONS])}"
            )
    return values


def named_store(keywords: dict[str, object]) -> object:
    """Returns the store that keywords name by `store=` or `experience={"store": ...}`; None if they name none."""
    section = keywords.get("experience")
    return keywords.get("store", section.get("store") if isinstance(section, dict) else None)


def joined(section: str, some: dict, others: dict) -> dict:
    """Returns the union of two mappings of settings of one section; raises ConfigError if a setting is in both."""
    for key in others:
        if key in some:
            raise ConfigError(
                f"{section}.{key} is given twice, as {some[key]!r} and {others[key]!r} (directly and in {section}={{...}}): "
                "give it once"
            )
    return some | others


def explain_settings(
    kind: type[AlgorithmConfig], by_position: tuple[object, ...], settings: Mapping[str, object]
) -> CallError:
    """Returns (does not raise) the CallError for a config class called with positional or unknown arguments."""
    if by_position:
        value = shortened(by_position[0])
        return CallError(f"{kind.__name__}({value}) does not say which setting it is: name it, e.g. gamma=0.99")
    field, value = next((name, value) for name, value in settings.items() if name not in field_names(kind))
    name = next((name for name, entry in ALGORITHMS.items() if entry.config is kind), None)
    advice = nearest(field, field_names(kind)) if name is None else place_of(field, name, shortened(value))
    return CallError(f"{kind.__name__} has no field {field!r}: {advice}")


def place_of(field: str, name: str, value: str) -> str:
    """Returns advice about a field that the config class of algorithm `name` lacks, as the end of an error message.

    The advice is the field's section, its name here, or the most similar field; `value` is its text in an example.
    """
    entry = ALGORITHMS[name]
    if field in entry.config.absent:
        return f"it has no effect, because {entry.config.absent[field].why}; leave it out"
    home, ours = ALIASES.get(("algorithm", field), (keyword_homes(name).get(field), field))
    if home == "algorithm":
        return f"here it is called {ours}"
    call = f"{entry.title}(env, {entry.config.__name__}(...), "
    if home is not None and ours in keyword_homes(name):
        return f"{ours} is a setting of {home}, give it beside the config, {call}{ours}={value})"
    if field in SECTIONS:
        return f"it is a section of its own, give it beside the config, {call}{field}={value})"
    return whose(field, name, "algorithm")


AlgorithmConfig.refusal = staticmethod(explain_settings)

"""One managed class per algorithm, made from its registration; `names.pyi` declares them for type checkers."""

import dataclasses
import textwrap
from inspect import Parameter, Signature

from rl_training.algorithms import AGENTS
from rl_training.api.agent import Agent
from rl_training.config.parsing import to_plain
from rl_training.config.registry import experience_of
from rl_training.config.sections import TrainingConfig
from rl_training.core.registry import Entry
from rl_training.envs import EnvConfig

ABOUT = """{about}

`{title}(env, {config}(...), seed=1)` and `{title}(env, gamma=0.9, seed=1)`: settings of the algorithm are fields of
`{config}` or keywords; all others are keywords, and `evaluation`, `checkpoint`, `data` and `phases` are whole sections.
These are the settings with their defaults; docs/configuration.md explains them."""


def keywords(kind: type, own_defaults: dict[str, object]) -> list[Parameter]:
    """Returns the fields of the settings class `kind`, without `id`, as keyword parameters for a signature.

    `own_defaults` maps fields to defaults that replace those of the class.
    """
    found = []
    for field in dataclasses.fields(kind):
        made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        default = to_plain(own_defaults.get(field.name, made)) if field.name != "id" else None
        found.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=field.type))
    return [parameter for parameter in found if parameter.name != "id"]


def agent_class(name: str, entry: Entry) -> type[Agent]:
    """Creates the agent class of a registered algorithm, whose signature and docstring list all settings."""
    kinds = {"algorithm": entry.config, "experience": experience_of(name), "env": EnvConfig, "training": TrainingConfig}
    sections = {title: keywords(kind, dict(entry.config.needs.settings)) for title, kind in kinds.items()}
    about = [ABOUT.format(about=entry.about, title=entry.title, config=entry.config.__name__)]
    for title, settings in sections.items():
        listed = ", ".join(f"{setting.name}={setting.default!r}" for setting in settings)
        about.append(textwrap.fill(f"{title}: {listed}", 110, subsequent_indent="    "))
    given = [p for p in Signature.from_callable(Agent).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    signature = Signature([*given, *(setting for settings in sections.values() for setting in settings)])
    attributes = {"name": name, "__doc__": "\n\n".join(about), "__signature__": signature, "__module__": __name__}
    return type(entry.title, (Agent,), attributes)


CLASSES = {title: agent_class(name, entry) for title, (name, entry) in AGENTS.items()}
globals().update(CLASSES)
__all__ = [*CLASSES]

"""Lookup of the settings that an algorithm takes, and registration of algorithms from outside the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import rl_training.algorithms  # noqa: F401  (its import registers the package's own)
from rl_training.config.names_of_others import SETTINGS, SETTINGS_ADVICE
from rl_training.config.parsing import field_names, nearest
from rl_training.core import Algorithm, AlgorithmConfig
from rl_training.core.arguments import ConfigError
from rl_training.core.registry import ALGORITHMS, Tier, describe_package, register
from rl_training.experience import ExperienceSettings
from rl_training.experience.settings import STORES, stores_for


def setting_sections(name: str) -> dict[str, str]:
    """Returns a mapping from every setting of algorithm `name` to its section, "algorithm" or "experience"."""
    own = field_names(ALGORITHMS[name].config)
    return dict.fromkeys(field_names(experience_of(name)), "experience") | dict.fromkeys(own, "algorithm")


def experience_of(name: str, store: object = None) -> type[ExperienceSettings]:
    """Returns the settings class of the experience store `store` for algorithm `name`; None means its usual store.

    Raises ConfigError if the algorithm does not learn from that store.
    """
    kind = ALGORITHMS[name].config.needs.experience
    if store is None:
        return next(iter(stores_for(kind).values()))
    STORES.load(str(store))
    stores = stores_for(kind)
    if not isinstance(store, str) or store not in stores:
        hint = nearest(str(store), list(stores))
        raise ConfigError(f"experience.store={store!r} is not a store that {name} learns from: {hint}")
    return stores[store]


def origin(name: str) -> str | None:
    """Returns "package NAME VERSION" or "module NAME" for an algorithm from outside; None for this package's own."""
    module, point = ALGORITHMS[name].algorithm.__module__, ALGORITHMS.declared.get(name)
    if module.partition(".")[0] == "rl_training":
        return None
    return f"package {describe_package(point)}" if point is not None else f"module {module}"


def register_algorithm(
    name: str, algorithm: type[Algorithm], config: type[AlgorithmConfig], about: str = "", tier: Tier = "contrib"
) -> None:
    """Adds an algorithm from outside the package, for this process: configs may then say `algorithm.name: <name>`.

    A checkpoint holds only the name. Before you load one, register the algorithm, or install a package that declares
    the name as an entry point. The config class declares in `needs` what the algorithm learns from, as `RolloutConfig`
    and `OffPolicyConfig` do, and which settings of that experience have another default. Raises ValueError if the name
    is taken, or if `needs` does not fit the algorithm.
    """
    check_needs(algorithm, config)
    register(name, algorithm, config, about, tier)


def check_needs(algorithm: type[Algorithm], config: type[AlgorithmConfig]) -> None:
    """Raises ValueError if the experience declared in `config.needs` does not fit the algorithm's methods and settings.

    `needs` must say "rollout" exactly if the algorithm has `prepare`, name only settings of its experience, and give a
    default for each one that has none; `config` must not have fields of the same names.
    """
    needs, refused = config.needs, f"{algorithm.__name__} cannot be run: "
    takes_rollouts = algorithm.prepare is not Algorithm.prepare
    if takes_rollouts != (needs.experience == "rollout"):
        raise ValueError(
            f"{refused}it has {'a' if takes_rollouts else 'no'} `prepare` for rollouts, and {config.__name__} declares needs of "
            f"a method that learns from {needs.experience}: use Needs({'rollout' if takes_rollouts else 'replay'!r}, ...)"
        )
    usual = next(iter(stores_for(needs.experience).values()))
    known = {field.name: field for field in dataclasses.fields(usual)}
    for field in needs.settings:
        if field not in known:
            raise ValueError(f"{refused}{config.__name__}.needs: {field} is not a setting of {usual.__name__}")
    for field in dataclasses.fields(config):
        if field.name in known:
            raise ValueError(
                f"{refused}{config.__name__}.{field.name} is a setting of its experience: declare its default, "
                f"needs = Needs({needs.experience!r}, {{{field.name!r}: ...}})"
            )
    missing = [n for n, f in known.items() if f.default is dataclasses.MISSING and n not in needs.settings]
    if missing:
        raise ValueError(
            f"{refused}{config.__name__}.needs says nothing of {missing[0]}: give it a default, "
            f"needs = Needs({needs.experience!r}, {{{missing[0]!r}: ...}})"
        )


def whose(setting: str, name: str, section: str | None = None, others: Sequence[str] = ()) -> str:
    """Returns advice about a setting that a section of algorithm `name` lacks, as the end of an error message.

    The advice is its section, other algorithms that have it, or the most similar setting, also among `others`;
    `section` None means any section.
    """
    homes = setting_sections(name)
    if setting in homes:
        return f"it is {homes[setting]}.{setting}"
    owners = [owner for owner in ALGORITHMS if setting in setting_sections(owner)]
    if owners and setting not in SETTINGS | SETTINGS_ADVICE:
        return f"it is one of {', '.join(owners[:3])}{' and others' * (len(owners) > 3)}, leave it out"
    own = [field for field, home in homes.items() if section in (None, home)]
    return nearest(setting, [*own, *others], {f: f"{home}.{f}" for f, home in homes.items() if f not in own})

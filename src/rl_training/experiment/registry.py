"""The algorithms by name: the one place where the package's own are listed and others are added."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from rl_training.algorithms import (
    A2CAlgorithm,
    A2CConfig,
    BCAlgorithm,
    BCConfig,
    C51Config,
    CrossQAlgorithm,
    CrossQConfig,
    DDPGConfig,
    DiscreteCQLAlgorithm,
    DiscreteCQLConfig,
    DiscreteSACAlgorithm,
    DiscreteSACConfig,
    DoubleDQNConfig,
    DQNAlgorithm,
    DQNConfig,
    DuelingDQNConfig,
    IQNConfig,
    NoisyDQNConfig,
    NStepDQNConfig,
    PPOAlgorithm,
    PPOConfig,
    PQNAlgorithm,
    PQNConfig,
    PrioritizedDQNConfig,
    QRDQNConfig,
    RainbowDQNConfig,
    RecurrentPPOAlgorithm,
    RecurrentPPOConfig,
    REDQConfig,
    RLPDAlgorithm,
    RLPDConfig,
    SACAlgorithm,
    SACConfig,
    TD3Algorithm,
    TD3Config,
    TQCAlgorithm,
    TQCConfig,
    TRPOAlgorithm,
    TRPOConfig,
)
from rl_training.core import Algorithm, AlgorithmConfig
from rl_training.experience import ExperienceSettings
from rl_training.experience.settings import stores_for
from rl_training.experiment.foreign_names import SETTINGS, SETTINGS_ADVICE
from rl_training.experiment.parsing import ConfigError, field_names, nearest


class Entry(NamedTuple):
    algorithm: type[Algorithm]
    config: type[AlgorithmConfig]

    @property
    def places(self) -> dict[str, str]:
        """The sections in which its settings are, by name."""
        usual = next(iter(stores_for(self.config.needs.experience).values()))
        return dict.fromkeys(field_names(usual), "experience") | dict.fromkeys(field_names(self.config), "algorithm")


ALGORITHMS: dict[str, Entry] = {
    "ppo": Entry(PPOAlgorithm, PPOConfig),
    "a2c": Entry(A2CAlgorithm, A2CConfig),
    "trpo": Entry(TRPOAlgorithm, TRPOConfig),
    "recurrent_ppo": Entry(RecurrentPPOAlgorithm, RecurrentPPOConfig),
    "dqn": Entry(DQNAlgorithm, DQNConfig),
    "double_dqn": Entry(DQNAlgorithm, DoubleDQNConfig),
    "dueling_dqn": Entry(DQNAlgorithm, DuelingDQNConfig),
    "prioritized_dqn": Entry(DQNAlgorithm, PrioritizedDQNConfig),
    "n_step_dqn": Entry(DQNAlgorithm, NStepDQNConfig),
    "noisy_dqn": Entry(DQNAlgorithm, NoisyDQNConfig),
    "c51": Entry(DQNAlgorithm, C51Config),
    "qr_dqn": Entry(DQNAlgorithm, QRDQNConfig),
    "iqn": Entry(DQNAlgorithm, IQNConfig),
    "rainbow_dqn": Entry(DQNAlgorithm, RainbowDQNConfig),
    "discrete_sac": Entry(DiscreteSACAlgorithm, DiscreteSACConfig),
    "pqn": Entry(PQNAlgorithm, PQNConfig),
    "ddpg": Entry(TD3Algorithm, DDPGConfig),
    "td3": Entry(TD3Algorithm, TD3Config),
    "sac": Entry(SACAlgorithm, SACConfig),
    "redq": Entry(SACAlgorithm, REDQConfig),
    "tqc": Entry(TQCAlgorithm, TQCConfig),
    "crossq": Entry(CrossQAlgorithm, CrossQConfig),
    "bc": Entry(BCAlgorithm, BCConfig),
    "discrete_cql": Entry(DiscreteCQLAlgorithm, DiscreteCQLConfig),
    "rlpd": Entry(RLPDAlgorithm, RLPDConfig),
}


def experience_of(name: str, store: object = None) -> type[ExperienceSettings]:
    """The settings of what an algorithm learns from: of the store that is named, or of the usual one."""
    stores = stores_for(ALGORITHMS[name].config.needs.experience)
    if store is None:
        return next(iter(stores.values()))
    if not isinstance(store, str) or store not in stores:
        hint = nearest(str(store), list(stores))
        raise ConfigError(f"experience.store={store!r} is not a store that {name} learns from: {hint}")
    return stores[store]


def register_algorithm(name: str, algorithm: type[Algorithm], config: type[AlgorithmConfig]) -> None:
    """Adds an algorithm from outside the package, for this process: configs may then say `algorithm.name: <name>`.

    A checkpoint holds the name only, so whoever loads one registers first. The config says in `needs` what the algorithm
    learns from, as `RolloutConfig` and `OffPolicyConfig` do, and which settings of that have another default.
    """
    entry = Entry(algorithm, config)
    if ALGORITHMS.get(name, entry) != entry:
        raise ValueError(
            f"the algorithm name {name!r} is taken by {ALGORITHMS[name].algorithm.__name__}: choose another"
        )
    check_needs(algorithm, config)
    ALGORITHMS[name] = entry


def check_needs(algorithm: type[Algorithm], config: type[AlgorithmConfig]) -> None:
    """Refuses an algorithm whose declaration does not fit it, or names settings that its experience does not have."""
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
    """What to say of a setting that an algorithm does not have there: where it is, which ones have it, or the nearest."""
    places = ALGORITHMS[name].places
    if setting in places:
        return f"it is {places[setting]}.{setting}"
    owners = [owner for owner, entry in ALGORITHMS.items() if setting in entry.places]
    if owners and setting not in SETTINGS | SETTINGS_ADVICE:
        return f"it is one of {', '.join(owners[:3])}{' and others' * (len(owners) > 3)}, leave it out"
    own = [field for field, home in places.items() if section in (None, home)]
    return nearest(setting, [*own, *others], {f: f"{home}.{f}" for f, home in places.items() if f not in own})

"""Settings under other names and in other forms, translated to ours: aliases, Stable-Baselines3, the RL Zoo."""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping
from pathlib import Path

from torch import nn

from rl_training.config.names_of_others import ALIASES, SettingPath
from rl_training.config.parsing import as_float, field_names, shortened
from rl_training.config.registry import ALGORITHMS, experience_of
from rl_training.config.sections import TrainingConfig
from rl_training.core import AlgorithmConfig
from rl_training.core.arguments import ConfigError

ACTIVATIONS = ("Tanh", "ReLU", "ELU", "GELU", "SiLU", "LeakyReLU")  # of torch.nn, which have a name here
OURS = {name.lower(): name.lower() for name in ACTIVATIONS} | dict.fromkeys(("leakyrelu", "leaky_relu"), "leaky_relu")
METHODS = {"qrdqn": "qr_dqn", "ppo_lstm": "recurrent_ppo"}  # that the Zoo calls otherwise
DROPPED = ("policy", "env_wrapper_kwargs")
PLAIN_ACTOR: dict[str, object] = {"net_arch": [400, 300], "action_noise": "none"}
# Defaults that differ from ours, which an entry of the Zoo leaves out.
THEIR_DEFAULTS: dict[str, dict[str, object]] = {
    "ddpg": PLAIN_ACTOR,
    "td3": PLAIN_ACTOR,
    "qr_dqn": {
        "learning_rate": 5e-5,
        "exploration_fraction": 0.005,
        "exploration_final_eps": 0.01,
        "max_grad_norm": None,
    },
}
log = logging.getLogger(__name__)


def in_our_form(settings: dict) -> dict:
    """Returns an algorithm's settings with `net_arch` and `activation_fn` translated from Stable-Baselines3's forms."""
    found = dict(settings)
    if "net_arch" in found:
        found |= our_layers(found["net_arch"])
    if "activation_fn" in found:
        found["activation_fn"] = our_activation(found["activation_fn"])
    return found


def our_activation(given: object) -> object:
    """Returns our name, such as "relu", of `nn.ReLU`, `nn.ReLU()`, `torch.relu` or "nn.ReLU"; others as they are."""
    kind = type(given) if isinstance(given, nn.Module) else given
    name = getattr(kind, "__name__", kind)
    return OURS.get(name.rpartition(".")[2].lower(), given) if isinstance(name, str) else given


def our_layers(given: object) -> dict[str, object]:
    """Returns our settings `net_arch` and, if "qf" is given, `critic_net_arch` for a `net_arch` of Stable-Baselines3.

    `given` is a list, `[64, dict(pi=[32], vf=[32])]`, or `dict(pi=..., qf=...)`; other values are returned as
    `net_arch`.
    """
    shared: list[object] = []
    if isinstance(given, list | tuple) and given and isinstance(given[-1], Mapping):
        shared, given = list(given[:-1]), dict(given[-1])
    if not isinstance(given, Mapping):
        return {"net_arch": given}
    if "qf" in given:
        return {"net_arch": given.get("pi", []), "critic_net_arch": given["qf"]}
    return {"net_arch": dict(given) | ({"shared": shared} if shared else {})}


def kwargs_translated(kwargs: object) -> str:
    """Returns advice on what to write instead of `policy_kwargs` (a mapping, or the text of one), for an error message.

    Raises ConfigError if text cannot be read as a mapping.
    """
    if isinstance(kwargs, str):
        kwargs = parse_call(kwargs)
    if not isinstance(kwargs, Mapping) or not kwargs:
        return "give net_arch, activation_fn, ortho_init and the like directly"
    ours = in_our_form(dict(kwargs))
    if "features_extractor_class" in ours:
        ours["encoder"] = ours.pop("features_extractor_class")
    return f"write {', '.join(f'{name}={written(value)}' for name, value in ours.items())}"


def written(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


def parse_call(text: str) -> object:
    """Returns the value of text such as `dict(net_arch=[64], activation_fn=nn.ReLU)`, without running it.

    Names such as nn.ReLU become text. Raises ConfigError if the text is neither such a call nor a literal.
    """
    try:
        return value_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{shortened(text)} cannot be read: write a mapping, or dict(name=value)") from error


def value_of(node: ast.expr) -> object:
    match node:
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {str(keyword.arg): value_of(keyword.value) for keyword in keywords}
        case ast.List() | ast.Tuple():
            return [value_of(part) for part in node.elts]
        case ast.Dict():
            return {value_of(k): value_of(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
        case ast.Attribute() | ast.Name():
            return ast.unparse(node)
    return ast.literal_eval(node)


def is_zoo_file(values: Mapping) -> bool:
    """Returns True if a file's data have the form of RL Baselines3 Zoo: settings by environment, with `n_timesteps`.

    Sections with `policy` count, too; data with a section `algorithm` or `env` do not have this form.
    """
    return bool(zoo_environments(values)) and not {"algorithm", "env"} & values.keys()


def zoo_environments(values: Mapping) -> dict[str, dict]:
    return {
        str(name): section
        for name, section in values.items()
        if isinstance(section, dict) and {"n_timesteps", "policy"} & section.keys()
    }


def from_zoo(values: Mapping, path: Path) -> dict:
    """Returns our config data for a file of RL Baselines3 Zoo; the file's name, such as ppo.yml, says the algorithm.

    Logs a warning about differences. Raises ConfigError if the file has several environments, or its algorithm or a
    setting is unknown here.
    """
    from rl_training.config.keywords import sort_keywords
    from rl_training.config.registry import ALGORITHMS

    tasks = zoo_environments(values)
    if len(tasks) > 1:
        raise ConfigError(
            f"{path} is a file of RL Baselines3 Zoo with {len(tasks)} environments ({', '.join(list(tasks)[:4])} ...): copy the "
            "entry of one into a file of its own"
        )
    name = METHODS.get(path.stem, path.stem.replace("-", "_"))
    if ALGORITHMS.find(name) is None:
        raise ConfigError(
            f"{path} is a file of RL Baselines3 Zoo, which does not name its algorithm: call the file after it, e.g. ppo.yml"
        )
    (env_id, settings), *_ = tasks.items()
    sections = sort_keywords(name, with_equivalent_numbers(name, zoo_keywords(settings)))
    units = (
        "; if its actions are a Box, multiply target_kl and cg_damping by their dimensions" if name == "trpo" else ""
    )
    log.warning(
        f"{path} is a file of RL Baselines3 Zoo: read as {name} on {env_id}, see docs/coming-from-sb3.md for "
        f"differences{units}"
    )
    if name == "trpo":
        chosen = {"target_kl": 0.01, "cg_damping": 0.1} | settings
        log.warning(
            f"{path}: target_kl={chosen['target_kl']} and cg_damping={chosen['cg_damping']} are means over the components of "
            "Gaussian actions in sb3-contrib, and sums here: multiply both by the number of components of a Box action"
        )
    return sections | {
        "algorithm": {"name": name} | sections.get("algorithm", {}),
        "env": {"id": env_id} | sections.get("env", {}),
    }


def with_equivalent_numbers(name: str, keywords: dict[str, object]) -> dict[str, object]:
    """Returns a Zoo entry's settings, under our names, with numbers that have the same effect in algorithm `name`.

    Adds the defaults of the Zoo that differ from ours.
    """
    found = THEIR_DEFAULTS.get(name, {}) | keywords
    batch_size = count(found.get("batch_size", 32))
    if name == "qr_dqn" and batch_size:
        found.setdefault("adam_eps", 0.01 / batch_size)
    if name == "trpo" and found.get("sub_sampling_factor") == 1:
        del found["sub_sampling_factor"]
    interval, train_freq = count(found.get("target_update_interval")), count(found.get("train_freq", 4))
    if name in ("dqn", "qr_dqn") and interval and train_freq:
        # Between env steps there, so never among the gradient steps that follow train_freq of them.
        found["target_update_interval"] = max(interval, train_freq)
    return found


def count(value: object) -> int | None:
    """Returns `value` if it is a whole number above 0, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def zoo_keywords(settings: dict) -> dict[str, object]:
    """Returns the settings of one environment in a file of RL Baselines3 Zoo as our keywords.

    Raises ConfigError if they ask for `use_sde`, or hold text that cannot be read.
    """
    found = {key: value for key, value in settings.items() if key not in DROPPED}
    if found.pop("use_sde", False):
        raise ConfigError("use_sde=true: state-dependent exploration is not available; set it to false to try without")
    found.pop("sde_sample_freq", None)
    if "n_timesteps" in found:
        found["total_timesteps"] = found.pop("n_timesteps")
    for name in ("policy_kwargs", "normalize", "env_kwargs"):
        if isinstance(found.get(name), str):
            found[name] = parse_call(found[name])
    found |= in_our_form(dict(found.pop("policy_kwargs", None) or {}))
    if "env_kwargs" in found:
        found["kwargs"] = found.pop("env_kwargs")
    if (normalize := found.pop("normalize", None)) not in (None, False):
        chosen = normalize if isinstance(normalize, dict) else {}
        names = {"normalize_observation": "norm_obs", "normalize_reward": "norm_reward"}
        found |= {ours: True for ours, theirs in names.items() if chosen.get(theirs, True)}
    if isinstance(found.get("train_freq"), int):
        found["train_freq"] *= found.get("n_envs", 1)  # there it counts steps of all environments at once
    noise, std = found.pop("noise_type", None), found.pop("noise_std", None)
    if noise is not None:
        found |= {"action_noise": "ou" if "ornstein" in str(noise) else "gaussian", "action_noise_std": std}
    return found


def by_our_names(values: dict) -> dict:
    """Returns a copy of config data with every alias replaced by our section and name.

    Raises ConfigError if a setting is given under two names.
    """
    result = {key: dict(section) if isinstance(section, dict) else section for key, section in values.items()}
    if isinstance(result.get("algorithm"), dict):
        result["algorithm"] = in_our_form(result["algorithm"])
    taken: dict[SettingPath, SettingPath] = {}  # what stood for our names
    for (section, alias), (home, name) in ALIASES.items():
        if not isinstance(result.get(section), dict) or alias not in result[section]:
            continue
        if not isinstance(result.get(home) or {}, dict):
            raise ConfigError(f"{home}={result[home]!r} must be a mapping of settings")
        if home == "experience" != section and name not in experience_fields(result):
            continue  # which is refused by the name it was given
        result[home] = result.get(home) or {}
        if name in result[home]:
            both = (taken[home, name], (section, alias)) if (home, name) in taken else ((section, alias), (home, name))
            raise ConfigError(f"{' and '.join(map('.'.join, both))} are the same setting: give one of them")
        result[home][name], taken[home, name] = result[section].pop(alias), (section, alias)
        if name == "total_updates":  # pretraining: environment steps follow, as many as usual
            result[home].setdefault("total_timesteps", TrainingConfig.total_timesteps)
    return result


def experience_fields(values: dict) -> list[str]:
    """Returns the names of the settings of section `experience` for config data; empty if the algorithm is unknown."""
    name, section = values["algorithm"].get("name"), values.get("experience") or {}
    return field_names(experience_of(name, section.get("store"))) if ALGORITHMS.find(str(name)) else []


def without_absent(kind: type[AlgorithmConfig], settings: dict) -> dict:
    """Returns settings without those that the algorithm no longer has, so that older files load.

    Raises ConfigError if such a setting has a value that once had an effect.
    """
    for field in kind.absent.keys() & settings.keys():
        why, held, same_as = kind.absent[field]
        value = settings[field]
        idle = [held, settings.get(same_as, getattr(kind, same_as)) if same_as else held]
        number = as_float(value)
        if value not in idle and (number is None or number not in idle):
            name = kind.__name__.removesuffix("Config")
            raise ConfigError(f"algorithm.{field}={value!r} has no effect in {name}, because {why}: drop it")
    return {field: value for field, value in settings.items() if field not in kind.absent}

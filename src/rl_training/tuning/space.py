"""The search space: the settings that you name, or those that usually matter; checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping

from rl_base.strict_yaml import parse_yaml
from rl_training.config import ConfigError, RunConfig
from rl_training.config.overrides import our_path, split_path
from rl_training.config.parsing import field_names, parse_value, type_hints
from rl_training.tuning.param import Param, parse_form, parse_param, with_params

# By the class of an algorithm's settings; an algorithm searches the entries of its own class and of all its bases, where a
# derived class goes before its base. Methods of other packages that derive from these have a space too.
DEFAULTS: dict[str, dict[str, str]] = {
    "AlgorithmConfig": {"algorithm.gamma": "choice:0.9,0.95,0.98,0.99,0.995,0.999"},
    "RolloutConfig": {
        "algorithm.learning_rate": "log:3e-5:3e-3",
        "experience.n_steps": "choice:16,32,64,128,256,512,1024,2048",
    },
    "OnPolicyConfig": {
        "algorithm.gae_lambda": "choice:0.8,0.9,0.95,0.98,1.0",
        "algorithm.net_arch": "choice:[64, 64],[128, 128],[256, 256]",
    },
    "ActorCriticConfig": {
        "algorithm.ent_coef": "log:1e-6:0.05",
        "algorithm.vf_coef": "lin:0.2:1.0",
        "algorithm.max_grad_norm": "choice:0.3,0.5,1.0,2.0",
    },
    "PPOConfig": {
        "algorithm.batch_size": "choice:16,32,64,128,256,512",
        "algorithm.n_epochs": "int:3:20",
        "algorithm.clip_range": "choice:0.1,0.2,0.3",
    },
    "TRPOConfig": {
        "algorithm.target_kl": "log:0.002:0.05",
        "algorithm.n_critic_updates": "int:5:25",
        "algorithm.cg_damping": "log:0.01:0.3",
    },
    "PQNConfig": {
        "algorithm.q_lambda": "lin:0.3:0.95",
        "algorithm.batch_size": "choice:32,64,128,256",
        "algorithm.n_epochs": "int:1:8",
        "algorithm.exploration_fraction": "lin:0.1:0.8",
    },
    "OffPolicyConfig": {
        "algorithm.learning_rate": "log:3e-5:3e-3",
        "algorithm.batch_size": "choice:32,64,128,256,512",
        "experience.learning_starts": "choice:100,1000,5000,10000",
    },
    "DQNConfig": {
        "algorithm.gradient_steps": "choice:1,2,4,8",
        "algorithm.target_update_interval": "choice:100,500,1000,5000,10000",
        "algorithm.exploration_fraction": "lin:0.05:0.5",
        "algorithm.exploration_final_eps": "lin:0.01:0.2",
    },
    "DiscreteSACConfig": {"algorithm.tau": "log:0.001:0.1", "algorithm.target_entropy_ratio": "lin:0.3:0.98"},
    "ContinuousConfig": {"algorithm.net_arch": "choice:[64, 64],[256, 256],[400, 300]"},
    "TargetedConfig": {"algorithm.tau": "log:0.001:0.05"},
    "SoftConfig": {"algorithm.ent_coef": "choice:auto,auto_0.1,0.01,0.05,0.2"},
    "TQCConfig": {"algorithm.top_quantiles_to_drop_per_net": "int:0:5"},
    "TD3Config": {
        "algorithm.target_policy_noise": "lin:0.0:0.4",
        "algorithm.action_noise_std": "lin:0.0:0.5",
        "algorithm.policy_delay": "int:1:4",
    },
    "BCConfig": {"algorithm.learning_rate": "log:3e-5:3e-3", "algorithm.batch_size": "choice:64,128,256,512"},
    "CQLConfig": {"algorithm.cql_alpha": "log:0.1:20.0"},
    "DiscreteCQLConfig": {"algorithm.cql_alpha": "log:0.1:10.0"},
    "IQLConfig": {"algorithm.expectile": "lin:0.6:0.95", "algorithm.beta": "log:0.3:10.0"},
    "TD3BCConfig": {"algorithm.alpha": "lin:0.5:5.0"},
    "ReBRACConfig": {"algorithm.actor_beta": "log:0.0005:0.1", "algorithm.critic_beta": "log:0.0005:0.1"},
    "BCQConfig": {"algorithm.min_weight": "lin:0.5:1.0", "algorithm.perturbation": "lin:0.0:0.2"},
}

Space = dict[str, Param]


def default_space(kind: type) -> Space:
    """Returns the search space, `Param`s by path, of the algorithm whose settings class is `kind`."""
    forms: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        forms |= DEFAULTS.get(base.__name__, {})
    return {path: parse_form(path, form) for path, form in forms.items()}


def space_of(values: dict, given: Mapping[str, str] | list[str]) -> Space:
    """Returns the search space, `Param`s by path, of a study whose config data are `values`.

    `given` are `NAME=FORM` texts, or forms by name; if empty, it is the algorithm's default space. Raises ConfigError
    if a setting does not exist, is named twice, or cannot have one of its values.
    """
    config = RunConfig.from_mapping(values)
    if isinstance(given, Mapping):
        params = [parse_form(str(path), form) for path, form in given.items()]
    else:
        params = [parse_param(text) for text in given]
    if not params:
        return default_space(type(config.algorithm))
    paths = [our_path(param.path) for param in params]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise ConfigError(f"--param names {twice} twice: name it once")
    for param in params:
        check_param(values, config, param)
    return {param.path: param for param in params}


def check_param(values: dict, config: RunConfig, param: Param) -> None:
    """Raises ConfigError if the setting of `param` does not exist in config data `values` or cannot be searched.

    Its lowest and highest value, or all choices, must be possible, whatever the other settings are.
    """
    section, field, *deeper = split_path(our_path(param.path))
    if our_path(param.path) == "training.seed":
        raise ConfigError("--param training.seed is not searched: every run of a study has a seed of its own")
    kind = type(getattr(config, section)) if section in ("algorithm", "experience", "env") else None
    for value in param.ends:
        if kind is None or field not in field_names(kind) or deeper:
            RunConfig.from_mapping(with_params(values, {param.path: value}))  # which says what is wrong, if anything is
            continue
        plain = parse_yaml(value) if isinstance(value, str) else value
        parse_value(type_hints(kind)[field], plain, param.path)


def why_infeasible(values: dict, params: Mapping[str, float | int | str]) -> str | None:
    """Returns the error, as text, of config data `values` with the settings `params` by path; None if valid."""
    try:
        RunConfig.from_mapping(with_params(values, params))
    except ConfigError as error:
        return str(error)
    return None

"""Settings of an archive under our names, and what of them could not be taken over."""

from __future__ import annotations

from dataclasses import dataclass, field

from rl_training.api.sb3.archive import Archive
from rl_training.api.sb3.arrays import array_of, described
from rl_training.api.sb3.inert_pickle import Call, Name, PickleError
from rl_training.api.sb3.schedules import schedule_of
from rl_training.config.keywords import keyword_homes
from rl_training.config.registry import ALGORITHMS
from rl_training.config.translation import our_activation, with_equivalent_numbers
from rl_training.core import Box, Spec

NAMES = ("learning_rate", "clip_range", "clip_range_vf", "ent_coef")  # that may be schedules
NAMES += ("gamma", "gae_lambda", "n_steps", "batch_size", "n_epochs", "normalize_advantage", "vf_coef", "max_grad_norm")
NAMES += ("target_kl", "cg_max_steps", "cg_damping", "line_search_shrinking_factor", "line_search_max_iter")
NAMES += ("n_critic_updates", "buffer_size", "learning_starts", "tau", "gradient_steps", "target_update_interval")
NAMES += ("exploration_fraction", "exploration_initial_eps", "exploration_final_eps", "policy_delay")
NAMES += ("target_policy_noise", "target_noise_clip", "target_entropy", "top_quantiles_to_drop_per_net")
OF_POLICY = (
    "ortho_init",
    "log_std_init",
    "share_features_extractor",
    "lstm_hidden_size",
    "n_lstm_layers",
    "shared_lstm",
)
OF_POLICY += ("n_quantiles", "n_critics", "renorm_warmup_steps", "batch_norm_momentum")
FROM_TENSORS = ("net_arch", "use_sde", "full_std", "use_expln", "clip_mean", "sde_net_arch")
FROM_TENSORS += ("features_extractor_class", "features_extractor_kwargs", "optimizer_class", "optimizer_kwargs")
ONLY = {
    "squash_output": (False,),
    "normalize_images": (True,),
    "enable_critic_lstm": (True, False),
    "batch_norm": (True,),
}
ONLY |= {"batch_norm_eps": (0.001,), "lstm_kwargs": (None, {})}  # values that can be imported; others cannot
EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")
MOST_ENVS = 1_024


@dataclass
class Translation:
    """The settings of an archive as keywords of ours, and sentences about those that could not be taken over."""

    keywords: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def translate(archive: Archive, name: str, spec: Spec, envs: int) -> Translation:
    """Returns the settings of an archive that holds algorithm `name` (ours) for `envs` environments with spaces `spec`.

    Raises CheckpointError if one of them asks for something that is not available here.
    """
    found, absent = Translation(), ALGORITHMS[name].config.absent
    known = {key: home for key, home in keyword_homes(name).items() if key not in absent}
    values = archive.values()
    for key in (key for key in NAMES if key in values and key in known):
        try:
            found.keywords[key] = schedule_of(values[key])
        except PickleError:
            found.notes.append(
                f"{key} is pickled code, which is not run, and stays at its default: give {key}= to change it"
            )
    if found.keywords.get("learning_rate") == 0:
        del found.keywords["learning_rate"]
        found.notes.append("learning_rate is 0, and stays at its default: give learning_rate= to change it")
    take_policy(archive, found, known)
    if "train_freq" in known:
        take_replay(archive, found, envs)
    if name == "ddpg":
        found.keywords |= {"target_policy_noise": 0.0}
    if name == "trpo":
        take_trust_region(archive, found, spec)
    if isinstance(values.get("seed"), int) and not isinstance(values["seed"], bool):
        found.keywords["seed"] = abs(values["seed"])
    total = values.get("_total_timesteps")
    if isinstance(total, int) and total > 0:
        found.keywords["total_timesteps"] = total
    found.keywords = with_equivalent_numbers(name, found.keywords)
    return found


def take_policy(archive: Archive, found: Translation, known: dict[str, str]) -> None:
    """Adds the settings in `policy_kwargs`; raises CheckpointError if one of them cannot be imported."""
    given = archive.plain("policy_kwargs") or {}
    if not isinstance(given, dict):
        raise archive.refusal(f"has policy_kwargs that are {described(given)} instead of a mapping")
    for key, value in given.items():
        if key == "activation_fn":
            named = value.name if isinstance(value, Name) else value
            found.keywords[key] = our_activation(named if isinstance(named, str) else described(named))
        elif key in OF_POLICY and key in known and isinstance(value, int | float | bool):
            found.keywords[key] = value
        elif key == "features_extractor_class" and not (isinstance(value, Name) and value.name in EXTRACTORS):
            raise archive.refusal(
                f"has the features extractor {described(value)}, which is code of the user's own: build the agent here with "
                "encoder= and train it anew"
            )
        elif key in ONLY and value not in ONLY[key]:
            raise archive.refusal(f"was built with policy_kwargs {key}={described(value)}, which is not available here")
        elif key not in (*FROM_TENSORS, *OF_POLICY, *ONLY, "features_extractor_class"):
            raise archive.refusal(f"was built with policy_kwargs {str(key)[:60]!r}, which is not known here")


def take_replay(archive: Archive, found: Translation, envs: int) -> None:
    """Adds the settings of a replay: env steps are counted over all environments here, and in each of them there."""
    freq = archive.plain("train_freq")
    every = freq.args[0] if isinstance(freq, Call) and freq.args else freq
    unit = freq.args[1] if isinstance(freq, Call) and len(freq.args) > 1 else "step"
    if isinstance(unit, Call) and unit.args:
        unit = unit.args[0]
    if isinstance(every, int) and unit == "step":
        found.keywords["train_freq"] = every * envs
    else:
        found.notes.append(
            f"train_freq counts {unit if isinstance(unit, str) else 'something'}s there and steps here: it stays at its default"
        )
    take_noise(archive, found)
    buffer = archive.plain("replay_buffer_class")
    if isinstance(buffer, Name) and buffer.name not in ("ReplayBuffer", "DictReplayBuffer", "NStepReplayBuffer"):
        found.notes.append(
            f"its replay was a {buffer.name}, and is a plain one here: for HER give hindsight={{'k': 4}}"
        )


def take_noise(archive: Archive, found: Translation) -> None:
    """Adds the exploration noise of DDPG and TD3; that of others is not available."""
    if "target_policy_noise" not in archive.settings:
        if archive.settings.get("action_noise") is not None:
            found.notes.append("action_noise is left out, because the policy is random already")
        return
    noise = archive.plain("action_noise")
    found.keywords["action_noise"] = "none"
    if noise is None:
        return
    try:
        if not isinstance(noise, Call) or not isinstance(state := noise.state, dict):
            raise PickleError("is no noise")
        kind, sigma = noise.path.rpartition(".")[2], array_of(state["_sigma"])
        known = {"NormalActionNoise": "gaussian", "OrnsteinUhlenbeckActionNoise": "ou"}
        if kind not in known or sigma.min() != sigma.max() or array_of(state["_mu"]).any():
            raise PickleError("is another noise")
        found.keywords |= {"action_noise": known[kind], "action_noise_std": float(sigma.max())}
    except (PickleError, KeyError, ValueError):
        found.keywords.pop("action_noise")
        found.notes.append("action_noise is none that is available here, and stays at its default")


def take_trust_region(archive: Archive, found: Translation, spec: Spec) -> None:
    """Adapts TRPO's numbers: divergences are sums over a Gaussian's components here, and means there."""
    if isinstance(spec.action, Box):
        for key in ("target_kl", "cg_damping"):
            if isinstance(number := found.keywords.get(key), int | float):
                found.keywords[key] = number * spec.action.size
    if archive.settings.get("sub_sampling_factor", 1) != 1:
        found.notes.append("sub_sampling_factor is left out: every step uses the whole rollout")


def num_envs(archive: Archive) -> int:
    """Returns the number of environments; raises CheckpointError if it is none between 1 and 1,024."""
    number = archive.plain("n_envs")
    if number is None:
        return 1
    if not isinstance(number, int) or not 1 <= number <= MOST_ENVS:
        raise archive.refusal(f"has n_envs={described(number)}, which must be between 1 and {MOST_ENVS:,}")
    return number

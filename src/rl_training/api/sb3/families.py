"""Plans of the networks and optimizers of each family of algorithms of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from rl_training.api.sb3.networks import (
    Layer,
    MissingLayersError,
    Plan,
    Tensors,
    copy_of,
    dense,
    ensemble,
    layers_in,
    norms_in,
    pictures,
    renorms,
    sees_pictures,
    widths,
)
from rl_training.core import Discrete, Space, Spec

EXTRACTORS = ("features_extractor", "pi_features_extractor", "vf_features_extractor")


@dataclass
class Family:
    """Settings that follow from the tensors of an archive, where our tensors come from, and its optimizers."""

    settings: dict[str, object] = field(default_factory=dict)
    plan: Plan = field(default_factory=dict)
    optimizers: dict[str, tuple[str, str]] = field(default_factory=dict)  # ours -> member, and prefix of its parameters


def family_of(name: str, tensors: Tensors, spec: Spec) -> Family:
    """Returns the family of algorithm `name` (ours) with the widths that `tensors`, an archive's policy, have.

    Raises MissingLayersError if layers are missing.
    """
    if name in ("dqn", "qr_dqn"):
        return q_family(tensors, "quantile_net" if name == "qr_dqn" else "q_net", spec.action)
    if name in ("ddpg", "td3", "sac", "tqc", "crossq"):
        return continuous_family(name, tensors)
    return actor_critic_family(name, tensors)


def q_family(tensors: Tensors, net: str, actions: Space) -> Family:
    layers = layers_in(tensors, f"{net}.{net}")
    if not layers:
        raise MissingLayersError(f"has no layers {net}.{net}, which its policy class has: is it another algorithm's?")
    *hidden, outputs = widths(tensors, layers)
    if not isinstance(actions, Discrete) or outputs % actions.num or not outputs:
        raise MissingLayersError(f"has {outputs} outputs for {actions}")
    found = Family({"net_arch": hidden}, optimizers={"q": ("policy.optimizer", f"{net}.")})
    for ours, theirs in (("policy.network", net), ("target", f"{net}_target")):
        plan = dense(f"{ours}.advantage", [(name.replace(net, theirs, 1),) for (name,) in layers])
        if net == "quantile_net":
            found.settings["n_quantiles"] = outputs // actions.num
            last = {name: read for name, read in plan.items() if name.endswith(str(len(hidden)))}
            plan |= {name: actions_first(read, actions.num) for name, read in last.items()}
        found.plan |= plan
        if sees_pictures(tensors, f"{theirs}.features_extractor"):
            found.plan |= pictures(f"{ours}.encoder", f"{theirs}.features_extractor")
    return found


def actions_first(read: Callable[[Tensors], Tensor], num: int) -> Callable[[Tensors], Tensor]:
    """Returns `read` with rows in another order: an action's quantiles stand together here, and a quantile's actions there."""
    return lambda tensors: read(tensors).unflatten(0, (-1, num)).transpose(0, 1).flatten(0, 1)


def continuous_family(name: str, tensors: Tensors) -> Family:
    last: list[Layer] = [("actor.mu", "actor.log_std")]
    actor = layers_in(tensors, "actor.mu") if name in ("ddpg", "td3") else layers_in(tensors, "actor.latent_pi") + last
    critics = critics_in(tensors, "critic")
    found = Family({"net_arch": widths(tensors, actor)[:-1], "n_critics": len(critics)})
    found.settings["critic_net_arch"] = widths(tensors, critics[0])[:-1]
    if any(widths(tensors, critic) != widths(tensors, critics[0]) for critic in critics):
        raise MissingLayersError("has critics of different widths, which is not available here")
    if name == "tqc":
        found.settings["n_quantiles"] = widths(tensors, critics[0])[-1]
    found.optimizers = {part: (f"{part}.optimizer", f"{part}.") for part in ("actor", "critic")}
    if name == "crossq":
        found.plan = ensemble("policy.network.net", [actor]) | ensemble("critics.net", critics)
        found.plan |= renorms("policy.network.net", [norms_in(tensors, "actor.latent_pi")])
        found.plan |= renorms("critics.net", [norms_in(tensors, f"critic.qf{i}") for i in range(len(critics))])
    else:
        found.plan = dense("policy.network.net", actor) | ensemble("critics.net", critics)
        found.plan |= ensemble("targets.net", critics_in(tensors, "critic_target"))
    if "log_ent_coef" in tensors:
        found.plan["log_ent_coef"] = lambda t: t["log_ent_coef"].reshape(())
        found.optimizers["ent_coef"] = ("ent_coef_optimizer", "log_ent_coef")
    places = {
        "policy.network": "actor",
        "critics": "critic",
        "targets": "critic_target",
        "target_actor": "actor_target",
    }
    if name in ("ddpg", "td3"):
        found.plan |= dense("target_actor.net", layers_in(tensors, "actor_target.mu"))
    if sees_pictures(tensors, "actor.features_extractor"):
        if id_of(tensors, "actor") == id_of(tensors, "critic"):
            raise MissingLayersError(
                "shares one features extractor between actor and critic, and here each has its own"
            )
        for ours, theirs in places.items():
            if any(mine.startswith(f"{ours}.net") for mine in found.plan):
                found.plan |= pictures(f"{ours}.encoder", f"{theirs}.features_extractor")
    return found


def critics_in(tensors: Tensors, prefix: str) -> list[list[Layer]]:
    number = 1 + max(
        (int(n.split(".")[1][2:]) for n in tensors if n.startswith(f"{prefix}.qf") and is_critic(n)), default=-1
    )
    found = [layers_in(tensors, f"{prefix}.qf{i}") for i in range(min(number, 1_000))]
    if not found or not all(found):
        raise MissingLayersError(f"has no layers {prefix}.qf0")
    return found


def is_critic(name: str) -> bool:
    digits = name.split(".")[1][2:]
    return digits.isdecimal() and len(digits) <= 3


def id_of(tensors: Tensors, part: str) -> int | None:
    """Returns an id, equal for parts that share one features extractor; None if `part` has no convolutions."""
    found = tensors.get(f"{part}.features_extractor.cnn.0.weight")
    return None if found is None else found.data_ptr()


def actor_critic_family(name: str, tensors: Tensors) -> Family:
    def mlp(kind: str, last: str) -> list[Layer]:
        return [*layers_in(tensors, f"mlp_extractor.{kind}_net"), (last,)]

    policy, value, shared = (
        mlp("policy", "action_net"),
        mlp("value", "value_net"),
        layers_in(tensors, "mlp_extractor.shared_net"),
    )
    arch = {"pi": widths(tensors, policy)[:-1], "vf": widths(tensors, value)[:-1], "shared": widths(tensors, shared)}
    found = Family({"net_arch": arch}, dense("policy.head.net", policy) | dense("value_head", value))
    found.optimizers = {"value" if name == "trpo" else "all": ("policy.optimizer", "")}
    if "log_std" in tensors:
        found.plan["policy.head.log_std"] = copy_of("log_std")
    if name == "recurrent_ppo":
        take_memory(found, tensors)
    extractors = dict(zip(("policy.trunk", "value_trunk"), EXTRACTORS[1:], strict=True))
    for ours, theirs in extractors.items():
        place = theirs if sees_pictures(tensors, theirs) else EXTRACTORS[0]  # before version 1.7 there was one
        if shared:
            found.plan |= dense(f"{ours}.1", shared)
        if sees_pictures(tensors, place):
            found.plan |= pictures(f"{ours}.0" if shared else ours, place)
    return found


def take_memory(found: Family, tensors: Tensors) -> None:
    """Adds the recurrent layers, which have the same names there and here."""
    places = {"policy.core.rnn": "lstm_actor", "value_core.rnn": "lstm_critic"}
    names = [name.partition(".")[2] for name in tensors if name.startswith("lstm_actor.")]
    first = tensors.get("lstm_actor.weight_hh_l0")
    if first is None or first.ndim != 2 or len(first) != 4 * first.shape[1]:
        raise MissingLayersError("has no LSTM lstm_actor")
    found.settings["shared_lstm"] = not any(name.startswith("lstm_critic.") for name in tensors)
    found.settings |= {"n_lstm_layers": sum(name.startswith("weight_hh") for name in names)}
    found.settings["lstm_hidden_size"] = first.shape[1]
    for ours, theirs in places.items():
        place = "lstm_actor" if found.settings["shared_lstm"] else theirs
        found.plan |= {f"{ours}.{name}": copy_of(f"{place}.{name}") for name in names}

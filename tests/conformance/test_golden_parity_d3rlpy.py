"""The same weights, batches and draws give the losses and the updates of d3rlpy's methods that learn from data.

Where ours is meant to differ, `d3rlpys_losses` or the update of a case states the relation.
"""

import math
from collections.abc import Iterator
from typing import Literal

import pytest
import torch

from rl_training.algorithms import CQLAlgorithm
from rl_training.algorithms.continuous import ContinuousAlgorithm
from rl_training.core import Metrics, Schedule, StepBatch
from rl_training.functional import squared_mmd
from tests.golden_d3rlpy import GOLDEN, Ours, Update, theirs, update


def multiplier_first(algorithm: ContinuousAlgorithm, batch: StepBatch) -> Metrics:
    """An update in d3rlpy's order: its critics already see the multiplier that their own gap leads to, ours the next time."""
    assert isinstance(algorithm, CQLAlgorithm)
    gap = algorithm.critic_loss(batch).metrics["conservative_loss"]
    algorithm.minimize(lambda _: algorithm.multiplier_loss(gap), batch, "cql_alpha")
    critic = ContinuousAlgorithm.update(algorithm, batch).metrics
    return critic | algorithm.update_actor(batch).metrics | algorithm.update_target(batch).metrics


def cql(*draws: str, name: str = "CQL", update: Update = update, **other: object) -> Ours:
    settings = {"ent_coef": "initial_temperature", "cql_alpha": "conservative_weight", "n_actions": "n_action_samples"}
    return Ours(name, settings, (*draws, "now", "next", "uniform", "actor"), {}, other, update)


DELAYED = {"policy_delay": "update_actor_interval", "target_policy_noise": "target_smoothing_sigma"}
DELAYED |= {"target_noise_clip": "target_smoothing_clip"}
TARGET_ACTOR = {"targ_policy": "target_actor"}
BETAS = {"actor_beta": "actor_beta", "critic_beta": "critic_beta"}
IMPLICIT = {"expectile": "expectile", "beta": "weight_temp", "max_weight": "max_weight"}
SOFTMAX = {"weights": "softmax", "beta": 1 / 0.7}  # its lambda is 1 / beta
LAGRANGE = {"target_gap": 1.0, "cql_alpha_learning_rate": Schedule(0.01, 0.01)}
PROPOSED = {
    "n_actions": "n_action_samples",
    "perturbation": "action_flexibility",
    "min_weight": "lam",
    "vae_beta": "beta",
}
GENERATED = {"policy": "policy.perturbation", "targ_policy": "target_perturbation"}
GENERATED |= {"vae_encoder": "policy.vae.posterior", "vae_decoder": "policy.vae.decoder"}
SUPPORTED = {"mmd_threshold": "alpha_threshold", "mmd_sigma": "mmd_sigma", "n_mmd_actions": "n_mmd_action_samples"}
SUPPORTED |= {"n_target_actions": "n_target_samples", "vae_beta": "vae_kl_weight", "min_weight": "lam"}
SUPPORTED |= {"ent_coef": "initial_temperature", "alpha_init": "initial_alpha", "mmd_kernel": "mmd_kernel"}
MODELED = {"policy": "policy.network", "vae_encoder": "vae.posterior", "vae_decoder": "vae.decoder"}
WARMING = {"vae_net_arch": (6, 6), "warmup_updates": 2, "vae_learning_rate": None}
CASES = {
    "iql": Ours("IQL", IMPLICIT, parts={"value_func": "value"}),
    "td3_bc": Ours("TD3BC", DELAYED | {"alpha": "alpha"}, ("next",), TARGET_ACTOR),
    "rebrac": Ours("ReBRAC", DELAYED | BETAS, ("next",), TARGET_ACTOR, {"critic_layer_norm": False}),
    "awac": Ours("AWAC", {"n_actions": "n_action_samples"}, ("action", "now"), other=SOFTMAX),
    "cql": cql(backup="mode"),
    "cql_max": cql("backup", backup="max"),
    "cql_soft": cql("backup", backup="soft"),
    "cql_lagrange": cql("now", "next", "uniform", backup="mode", update=multiplier_first, **LAGRANGE),
    "cal_ql": cql(name="CalQL", backup="mode"),
    "bcq": Ours("BCQ", PROPOSED, ("latent", "next", "now"), GENERATED, {"vae_net_arch": (6, 6)}),
    "bear": Ours("BEAR", SUPPORTED, ("latent", "next", "policy", "behavior", "not drawn"), MODELED, WARMING),
}
every_case = pytest.mark.parametrize("case", CASES)


def make(case: str, **changes: object) -> ContinuousAlgorithm:
    algorithm = CASES[case].make(case, **changes)
    if case == "cql_lagrange":
        algorithm.log_multiplier.data.fill_(math.log(GOLDEN[case]["settings"]["initial_alpha"]))
    if case == "bear":
        algorithm.loss_scale = 1.0  # of SAC's critics, 0.5 here
    return algorithm


def d3rlpys_losses(case: str, ours: dict[str, float]) -> dict[str, float]:
    """Our losses under d3rlpy's names, as it sums them up."""
    settings, named = GOLDEN[case]["settings"], {name: ours[name] for name in ("critic_loss", "actor_loss")}
    if case == "iql":
        return {"q_loss": ours["critic_loss"], "v_loss": ours["value_loss"], "actor_loss": ours["actor_loss"]}
    if case == "awac":  # a sum over the batch
        return named | {"actor_loss": ours["actor_loss"] * settings["batch_size"]}
    if "cql_alpha" in ours:  # a constant is subtracted also where no multiplier is learned; both critics' are summed
        penalty = 2 * ours["cql_alpha"] * (ours["conservative_loss"] - settings["alpha_threshold"])
        named["critic_loss"] += penalty
        return named | {"conservative_loss": penalty, "alpha": ours["cql_alpha"] / settings["conservative_weight"]}
    if case == "bear":
        return named | {"imitator_loss": ours["vae_loss"]}
    return named | {name: ours[name] for name in ("bc_loss", "vae_loss") if name in ours}


def loss_gaps(case: str, algorithm: ContinuousAlgorithm) -> Iterator[tuple[float, str]]:
    """Relative gaps; absolute ones of losses below 1."""
    for ours, golden in zip(CASES[case].take(case, algorithm), GOLDEN[case]["steps"], strict=True):
        for name, loss in d3rlpys_losses(case, ours).items():
            peers = golden["losses"][name]
            yield abs(loss - peers) / max(1, abs(peers)), f"{name}: {loss} and {peers}"


@every_case
def test_two_updates_are_d3rlpys(case: str) -> None:
    algorithm = make(case)
    assert [gap for gap in loss_gaps(case, algorithm) if not gap[0] < 1e-5] == []
    assert [gap for gap in CASES[case].weight_gaps(case, algorithm) if not gap[0] < 1e-5] == []


@every_case
def test_another_tensor_gives_other_losses(case: str) -> None:
    """What is compared above can differ: a small change of any tensor is seen."""
    for name in theirs(case, "before"):
        algorithm = make(case)
        CASES[case].held(algorithm)[name].add_(0.05)
        assert max(loss_gaps(case, algorithm))[0] > 1e-5, name


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("iql", {"expectile": 0.81}),
        ("iql", {"beta": 2.01}),
        ("iql", {"max_weight": 1.51}),
        ("iql", {"tau": 0.06}),
        ("td3_bc", {"alpha": 2.51}),
        ("td3_bc", {"target_noise_clip": 0.81}),
        ("rebrac", {"actor_beta": 0.31}),
        ("rebrac", {"critic_beta": 0.21}),
        ("awac", {"beta": 1.5}),
        ("awac", {"weights": "clipped"}),
        ("cql", {"cql_alpha": 2.01}),
        ("cql", {"ent_coef": 0.31}),
        ("bcq", {"min_weight": 0.76}),
        ("bcq", {"perturbation": 0.41}),
        ("bcq", {"vae_beta": 0.51}),
        ("bcq", {"latent_clip": 0.51}),
        ("bear", {"mmd_sigma": 2.01}),
        ("bear", {"mmd_kernel": "laplacian"}),
        ("bear", {"ent_coef": 0.31}),
        ("bear", {"warmup_updates": 0}),
    ],
    ids=lambda x: x if isinstance(x, str) else next(iter(x)),
)
def test_another_setting_gives_other_losses(case: str, change: dict) -> None:
    assert max(loss_gaps(case, make(case, **change)))[0] > 1e-5


@pytest.mark.parametrize(("case", "kernel"), [("bear", "gaussian"), ("bear_laplacian", "laplacian")])
def test_distances_of_samples_are_d3rlpys(case: str, kernel: Literal["gaussian", "laplacian"]) -> None:
    for step in GOLDEN[case]["steps"]:
        policy, behavior, distance = (torch.tensor(step["mmd"][name]) for name in ("policy", "behavior", "distance"))
        squared = squared_mmd(policy, behavior, kernel=kernel, sigma=GOLDEN["bear"]["settings"]["mmd_sigma"])
        torch.testing.assert_close((squared + 1e-6).sqrt(), distance, rtol=1e-5, atol=1e-5)

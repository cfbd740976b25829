"""Two updates of d3rlpy's methods that learn from data, for `tests/conformance/test_golden_parity_d3rlpy.py`.

/path/to/python-with-d3rlpy benchmarks/peers/d3rlpy_golden.py

Writes tests/golden/d3rlpy.json (or --out). Losses, draws and weights are what the library's own `update` drew and
computed: it is watched, not copied. Two updates, because the first of Adam does not show its betas. The numbers are single
precision with nine digits, which is exact.

Two things of d3rlpy 2.8.1 are mended, in `without_entropy` and `decoder_as_named`, because they contradict the papers. The
cases that need it also have `stock_losses`: those of the first update when nothing is mended.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import d3rlpy
from d3rlpy.algos import (
    AWACConfig,
    BCQConfig,
    BEARConfig,
    CalQLConfig,
    CQLConfig,
    DiscreteBCQConfig,
    IQLConfig,
    ReBRACConfig,
    TD3PlusBCConfig,
)
from d3rlpy.algos.qlearning.base import QLearningAlgoBase
from d3rlpy.algos.qlearning.torch import bear_impl
from d3rlpy.models.torch import VAEDecoder, get_parameter
from d3rlpy_watched import BATCH_SIZE, Case, first_suitable, require

from golden import numbers, watch, write_golden

GOLDEN = Path(__file__).parent.parent.parent / "tests" / "golden" / "d3rlpy.json"
RATE = 0.01
COMMON = {"gamma": 0.97, "batch_size": BATCH_SIZE}
CONTINUOUS = COMMON | {"actor_learning_rate": RATE, "critic_learning_rate": RATE, "tau": 0.05}
# More noise than by default, so that its clipping is compared too.
NOISY = CONTINUOUS | {"target_smoothing_sigma": 0.6, "target_smoothing_clip": 0.8, "update_actor_interval": 1}
# The temperature is fixed: how one is learned is compared with Stable-Baselines3.
CONSERVATIVE = CONTINUOUS | {"temp_learning_rate": 0.0, "initial_temperature": 0.3, "n_action_samples": 3}
CONSERVATIVE |= {"alpha_learning_rate": 0.0, "conservative_weight": 2.0, "alpha_threshold": 1.0}
IMITATING = CONTINUOUS | {"imitator_learning_rate": RATE, "lam": 0.75}


def run_plain(case: Case, seed: int) -> dict:
    return case.updates(case.build(seed), seed)


def run_iql(seed: int) -> dict:
    """A bound that some weights exceed."""
    case = Case(IQLConfig, CONTINUOUS | {"expectile": 0.8, "weight_temp": 2.0, "max_weight": 1.5})
    algo, weights = case.build(seed), []
    watch(algo.impl, "_compute_weight", weights)
    seen = case.updates(algo, seed)
    for _, weight in weights:
        require(0 < (weight == case.settings["max_weight"]).sum() < BATCH_SIZE)
    return seen


def without_entropy(algo: QLearningAlgoBase) -> None:
    """AWAC's targets have an entropy bonus, at a temperature of 1 that no setting reaches; the paper's have none."""
    get_parameter(algo.impl.modules.log_temp).data.fill_(-math.inf)


def run_awac(seed: int) -> dict:
    """Next actions are kept: the library draws them from another distribution than the one that learns."""
    case = Case(AWACConfig, CONTINUOUS | {"lam": 0.7, "n_action_samples": 3}, ("next", "now"))
    algo, asked = case.build(seed), []
    without_entropy(algo)
    watch(algo.impl._targ_q_func_forwarder, "compute_target", asked)
    seen = case.updates(algo, seed)
    for step, ((_, action), _) in zip(seen["steps"], asked, strict=True):
        step["draws"]["action"] = numbers(action)
    for tensors in (seen["before"], seen["after"]):
        del tensors["log_temp"]
    return seen | {"stock_losses": case.stock_losses(seed)}


def cql(*backup: str, config: type[CQLConfig] | type[CalQLConfig] = CQLConfig, **changes: float | bool) -> Case:
    return Case(config, CONSERVATIVE | changes, (*backup, "now", "next", "uniform", "actor"))


@contextmanager
def decoder_as_named() -> Iterator[None]:
    """`VAEDecoder.forward` gives tanh of its output for with_squash=False, and its output for True."""
    original = VAEDecoder.forward
    VAEDecoder.forward = lambda self, x, latent, with_squash: original(self, x, latent, not with_squash)
    try:
        yield
    finally:
        VAEDecoder.forward = original


def run_bcq(seed: int) -> dict:
    settings = IMITATING | {"n_action_samples": 4, "action_flexibility": 0.4, "beta": 0.5}
    case = Case(BCQConfig, settings, ("latent", "next", "now"))
    with decoder_as_named():
        seen = case.updates(case.build(seed), seed)
    return seen | {"stock_losses": case.stock_losses(seed)}


def run_bear(kernel: str, seed: int) -> dict:
    """Updates of the warm-up: after it, the constraint's gradient is cancelled by what `update_alpha` leaves behind."""
    settings = IMITATING | {"n_target_samples": 3, "n_mmd_action_samples": 4, "mmd_kernel": kernel, "mmd_sigma": 2.0}
    settings |= {"vae_kl_weight": 0.5, "initial_alpha": 0.7, "initial_temperature": 0.3, "alpha_threshold": 0.05}
    case = Case(BEARConfig, settings, ("latent", "next", "behavior", "policy"))
    compared, distances = [], []
    end = watch(bear_impl, f"_{kernel}_kernel", compared)
    with decoder_as_named():
        algo = case.build(seed)
        watch(algo.impl, "_compute_mmd", distances)
        try:
            seen = case.updates(algo, seed)
        finally:
            end()
    for index, step in enumerate(seen["steps"]):
        policy, behavior, _ = compared[3 * index : 3 * index + 3]
        step["mmd"] = {
            "policy": numbers(policy[0][0].squeeze(2)),  # before tanh
            "behavior": numbers(behavior[0][0].squeeze(2)),
            "distance": numbers(distances[index][1].flatten()),
        }
    return seen | {"stock_losses": case.stock_losses(seed)}


def run_discrete_bcq(seed: int) -> dict:
    """A best action that is not likely enough. The library's penalty is on normalised logits, the paper's is not: none here."""
    settings = COMMON | {"learning_rate": RATE, "action_flexibility": 0.6, "beta": 0.0, "share_encoder": False}
    case = Case(DiscreteBCQConfig, settings | {"target_update_interval": 2}, discrete=True, first=1)
    algo = case.build(seed)
    for batch in case.batches(seed):
        best = algo.impl.q_function[0](batch.next_observations).q_value.argmax(1)
        require(
            (algo.impl.inner_predict_best_action(batch.next_observations) != best)[batch.terminals[:, 0] == 0].any()
        )
    return case.updates(algo, seed)


CASES: dict[str, Callable[[int], dict]] = {
    "iql": run_iql,
    "td3_bc": partial(run_plain, Case(TD3PlusBCConfig, NOISY | {"alpha": 2.5}, ("next",))),
    "rebrac": partial(run_plain, Case(ReBRACConfig, NOISY | {"actor_beta": 0.3, "critic_beta": 0.2}, ("next",))),
    "awac": run_awac,
    "cql": partial(run_plain, cql()),
    "cql_max": partial(run_plain, cql("backup", max_q_backup=True)),
    "cql_soft": partial(run_plain, cql("backup", soft_q_backup=True)),
    "cql_lagrange": partial(run_plain, cql(alpha_learning_rate=RATE, initial_alpha=0.7)),
    "cal_ql": partial(run_plain, cql(config=CalQLConfig)),
    "bcq": run_bcq,
    "bear": partial(run_bear, "gaussian"),
    "bear_laplacian": lambda seed: {"steps": [{"mmd": step["mmd"]} for step in run_bear("laplacian", seed)["steps"]]},
    "discrete_bcq": run_discrete_bcq,
}

if __name__ == "__main__":
    suitable = {name: partial(first_suitable, run) for name, run in CASES.items()}
    for name, peer in write_golden(GOLDEN, __doc__, {"d3rlpy": d3rlpy.__version__}, suitable).items():
        print(name, [step.get("losses") for step in peer["steps"]], peer.get("stock_losses", ""))

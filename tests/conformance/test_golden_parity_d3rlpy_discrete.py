"""The same weights and batches give the losses and the updates of d3rlpy's discrete BCQ."""

from rl_training.algorithms import DiscreteBCQAlgorithm, DiscreteBCQConfig
from rl_training.core import Box, Discrete, Schedule, Spec
from tests.golden_d3rlpy import GOLDEN, NETWORK, batch_of, held, theirs

CASE = "discrete_bcq"
SPEC = Spec(Box((4,), (-5.0,) * 4, (5.0,) * 4), Discrete(3))
PARTS = {"q_funcs": "policy.network", "targ_q_funcs": "target", "imitator": "policy.plausible"}


def make(threshold: float) -> DiscreteBCQAlgorithm:
    golden = GOLDEN[CASE]["settings"]
    settings = {"gamma": golden["gamma"], "learning_rate": Schedule(golden["learning_rate"], golden["learning_rate"])}
    settings |= {"threshold": threshold, "logits_penalty": 0.0, "max_grad_norm": None} | NETWORK
    algorithm = DiscreteBCQAlgorithm(DiscreteBCQConfig(**settings), SPEC)
    mine, peers = held(algorithm, PARTS), theirs(CASE, "before")
    assert mine.keys() == peers.keys()
    for name, tensor in peers.items():
        mine[name].copy_(tensor)
    return algorithm


def losses(algorithm: DiscreteBCQAlgorithm) -> list[dict[str, float]]:
    """Of two updates, after which the target is copied."""
    taken = []
    for step in GOLDEN[CASE]["steps"]:
        batch = batch_of(CASE, step["batch"])
        metrics = algorithm.update(batch).metrics
        taken.append({"td_loss": metrics["loss"].item(), "imitator_loss": metrics["imitator_loss"].item()})
    algorithm.update_target(batch)
    return taken


def gap(taken: list[dict[str, float]]) -> float:
    golden = [step["losses"] for step in GOLDEN[CASE]["steps"]]
    return max(
        abs(loss - peers[name]) for ours, peers in zip(taken, golden, strict=True) for name, loss in ours.items()
    )


def test_two_updates_are_d3rlpys() -> None:
    algorithm = make(GOLDEN[CASE]["settings"]["action_flexibility"])
    assert gap(losses(algorithm)) < 1e-5
    mine = held(algorithm, PARTS)
    off = {name: (mine[name] - tensor).abs().max().item() for name, tensor in theirs(CASE, "after").items()}
    assert {name: x for name, x in off.items() if not x < 1e-5} == {}


def test_another_threshold_gives_other_losses() -> None:
    """The model of the data forbids some actions, but not all."""
    assert min(gap(losses(make(threshold))) for threshold in (0.0, 1.0)) > 1e-3

"""One encoder for actor and critics of methods with replay: how often it runs, who trains it, and what follows it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from rl_training import BCQ, SAC
from rl_training.core import Box, Discrete, Groups, Spec, StepBatch, Tree
from rl_training.core import Dict as DictSpace
from rl_training.core.registry import ALGORITHMS

ROWS, SHAPE = 4, (6, 5, 2)
PICTURE = Box(SHAPE, (0.0,) * 60, (255.0,) * 60, "uint8")
TURN, STEER = Discrete(3), Box((2,), (-1.0,) * 2, (1.0,) * 2)
EVERYTHING = Groups()
METHODS = ["sac", "redq", "tqc", "crossq", "td3", "ddpg", "rebrac", "discrete_sac"]


def build(name: str, *, obs: Any = PICTURE, groups: Groups = EVERYTHING, **settings: object) -> Any:
    torch.manual_seed(0)
    entry = ALGORITHMS[name]
    small = {"net_arch": (8,), "share_features_extractor": True} | settings
    if name == "redq":
        small |= {"n_critics": 3}
    action = TURN if name == "discrete_sac" else STEER
    return entry.algorithm(entry.config(**small), Spec(obs, action, groups))


def pictures() -> torch.Tensor:
    return torch.randint(256, (ROWS, *SHAPE), dtype=torch.uint8)


def batch_for(name: str) -> StepBatch:
    action = torch.randint(3, (ROWS,)) if name == "discrete_sac" else torch.rand(ROWS, 2) * 2 - 1
    columns = {"next_action": torch.rand(ROWS, 2)} if name == "rebrac" else {}
    return StepBatch(
        pictures(), action, torch.rand(ROWS), torch.full((ROWS,), 0.9), pictures(), torch.ones(ROWS), columns
    )


def parts(algorithm: Any) -> tuple[nn.Module, nn.Module, nn.Module | None]:
    """Returns the encoders of actor, critics and target critics."""
    if not hasattr(algorithm.policy, "network"):  # discrete
        return algorithm.policy.trunk, algorithm.critics[0].encoder, algorithm.targets[0].encoder
    targets = getattr(algorithm, "targets", None)
    return algorithm.policy.network.encoder, algorithm.critics.encoder, None if targets is None else targets.encoder


def update(algorithm: Any, batch: StepBatch) -> None:
    algorithm.update(batch)
    for extra in algorithm.periodic():
        getattr(algorithm, extra.method)(batch)


def encoded(algorithm: Any, batch: StepBatch) -> dict[str, list[int]]:
    """Returns the rows of every call of each encoder in one update of everything."""
    calls: dict[str, list[int]] = {}
    for kind in {type(module) for module in parts(algorithm) if module is not None}:
        for name, module in algorithm.named_modules():
            if isinstance(module, kind):
                rows = calls.setdefault(name, [])
                module.register_forward_hook(lambda m, given, features, rows=rows: rows.append(len(features)))
    update(algorithm, batch)
    return calls


@pytest.mark.parametrize("name", METHODS)
def test_every_observation_is_encoded_once_for_all_that_share(name: str) -> None:
    algorithm = build(name)
    calls = sorted(encoded(algorithm, batch_for(name)).values())
    # The critics' loss encodes obs, the actor's obs again, because the encoder has moved. SAC's targets draw actions by the
    # present actor, TD3's by the target actor, which reads the target critics' features. CrossQ has obs and next_obs as one.
    online = {"crossq": [ROWS, 2 * ROWS], "td3": [ROWS] * 2, "ddpg": [ROWS] * 2, "rebrac": [ROWS] * 2}
    online["discrete_sac"] = [ROWS] * 4  # its temperature's loss asks the new policy
    target = [] if name == "crossq" else [[ROWS]]
    assert [sorted(rows) for rows in calls] == sorted([*target, online.get(name, [ROWS] * 3)])


@pytest.mark.parametrize("name", ["sac", "td3", "crossq", "discrete_sac"])
def test_encoders_that_are_not_shared_are_two(name: str) -> None:
    algorithm = build(name, share_features_extractor=False)
    actor, critic, _ = parts(algorithm)
    assert actor is not critic
    assert all(a is not c for a in actor.parameters() for c in critic.parameters())
    before = deepcopy(actor)
    update(algorithm, batch_for(name))
    assert changed(before, actor)


def changed(before: nn.Module, after: nn.Module) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_the_critics_train_the_encoder_and_the_actor_does_not(name: str) -> None:
    algorithm, batch = build(name), batch_for(name)
    actor, critic, _ = parts(algorithm)
    assert actor is critic
    before = deepcopy(critic)
    if name == "discrete_sac":
        algorithm.minimize(algorithm.actor_loss, batch, "actor")
        assert not changed(before, critic)
        algorithm.minimize(algorithm.critic_loss, batch, "critic")
    else:
        algorithm.update_actor(batch)
        assert not changed(before, critic)
        algorithm.update(batch)
    assert changed(before, critic)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "crossq"])
def test_the_target_encoder_follows_by_one_step_of_tau(name: str) -> None:
    algorithm = build(name, tau=0.25)
    _, critic, target = parts(algorithm)
    assert target is not None
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.add_(1.0)
    expected = [torch.lerp(old, new, 0.25) for old, new in zip(target.parameters(), critic.parameters(), strict=True)]
    algorithm.update_target(batch_for(name))
    for parameter, value in zip(target.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter, value)


def test_two_views_are_not_shared() -> None:
    two = DictSpace({"camera": PICTURE, "state": Box((1,), (0.0,), (1.0,))})
    for name in ("sac", "discrete_sac"):
        with pytest.raises(ValueError, match=r"share_features_extractor=True needs one view.*env.obs_groups"):
            build(name, obs=two, groups=Groups(("camera",), ("camera", "state")))


def test_pictures_of_losses_are_shifted_each_by_itself_and_the_rest_is_left() -> None:
    two = DictSpace({"camera": PICTURE, "state": Box((1,), (0.0,), (1.0,))})
    algorithm = build("sac", obs=two, random_shift=2)

    def observed() -> Tree:
        return {
            "camera": torch.arange(60, dtype=torch.uint8).view(1, *SHAPE).expand(ROWS, *SHAPE),
            "state": torch.rand(ROWS, 1),
        }

    batch = batch_for("sac")._replace(obs=observed(), next_obs=observed())
    moved = algorithm.augment(batch)
    assert not torch.equal(moved.obs["camera"], batch.obs["camera"])
    assert not torch.equal(moved.obs["camera"], moved.next_obs["camera"])
    assert torch.equal(moved.obs["state"], batch.obs["state"])
    assert moved.action is batch.action
    still = build("sac", obs=two)
    assert still.augment(batch) is batch


@pytest.mark.compiled
def test_a_traced_shift_is_the_eager_one() -> None:
    algorithm, batch = build("sac", random_shift=2), batch_for("sac")
    found = []
    for shift in (algorithm.augment, torch.compile(algorithm.augment, fullgraph=True, backend="eager")):
        torch.manual_seed(3)
        found.append(shift(batch))
    assert torch.equal(found[0].obs, found[1].obs)
    assert torch.equal(found[0].next_obs, found[1].next_obs)


def test_shifts_need_pictures() -> None:
    with pytest.raises(ValueError, match=r"algorithm.random_shift=2 is for pictures.*leave it out"):
        SAC("Pendulum-v1", random_shift=2)


def test_bcq_refuses_what_it_would_not_do() -> None:
    with pytest.raises(ValueError, match=r"share_features_extractor=True is not for BCQ.*drop it"):
        BCQ("Pendulum-v1", share_features_extractor=True, dataset="data.npz")

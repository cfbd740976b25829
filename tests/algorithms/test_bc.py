"""What behaviour cloning learns: the data's probabilities, or its actions where they follow from the observation."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training import BC, Agent, Dataset
from rl_training.algorithms import BCAlgorithm, BCConfig
from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Spec, StepBatch, Tree

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
SETTINGS = {"seed": 0, "threads": 1, "compile": False}


def make(action: Space, obs: Space = OBS, **settings: object) -> BCAlgorithm:
    torch.manual_seed(0)
    return BCAlgorithm(BCConfig(**{"net_arch": ()} | settings), Spec(obs, action))


def make_batch(obs: Tree, action: Tensor, weight: Tensor) -> StepBatch:
    """Cloning looks at nothing else."""
    return StepBatch(obs, action, weight, weight, obs, weight, {})


def one_step(obs: object, action: np.ndarray, spec: Spec) -> Dataset:
    yes = np.ones(len(action), bool)
    return Dataset.from_arrays(
        obs=obs, action=action, reward=np.zeros(len(action)), terminated=yes, truncated=~yes, next_obs=obs, spec=spec
    )


def clone(dataset: Dataset, updates: int, **settings: object) -> Agent:
    agent = BC(dataset=dataset, **SETTINGS | settings)
    agent.learn(total_updates=updates, progress=False)
    return agent


def test_probabilities_of_a_linear_softmax_are_recovered() -> None:
    """Every observation has its actions as often as their probabilities say: the best fit is the truth itself."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (12, 3)).astype(np.float32)
    logits = contexts @ rng.normal(size=(3, 4)) * 1.5
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    counts = np.round(2_000 * probs).astype(int)
    obs = np.repeat(contexts, counts.sum(1), axis=0)
    action = np.concatenate([np.repeat(np.arange(4), row) for row in counts])
    agent = clone(
        one_step(obs, action, Spec(OBS, Discrete(4))), 1_200, net_arch=[], batch_size=2_048, learning_rate="lin_0.03"
    )
    with torch.no_grad():
        found = agent.algorithm.policy.distribution(torch.from_numpy(contexts)).log_probs.exp()
    assert np.abs(probs - 0.25).max() > 0.3  # far from where it begins
    np.testing.assert_allclose(found, probs, atol=1e-2)


def test_a_deterministic_linear_policy_is_recovered() -> None:
    rng = np.random.default_rng(0)
    obs, test = (rng.uniform(-1, 1, (num, 3)).astype(np.float32) for num in (500, 100))
    weight = rng.normal(size=(3, 2)) * 0.5
    spec = Spec(OBS, Box((2,), (-3.0, -3.0), (3.0, 3.0)))
    agent = clone(
        one_step(obs, obs @ weight + 0.3, spec), 700, net_arch=[], learning_rate="lin_0.02", max_grad_norm=1.0
    )
    error = agent.predict(test)[0] - (test @ weight + 0.3)
    assert np.square(error).mean() < 1e-4
    assert np.square(test @ weight + 0.3).mean() > 0.1
    with torch.no_grad():
        log_std = agent.algorithm.policy.distribution(torch.from_numpy(test)).log_std
    assert log_std.max() < -2  # it has become as certain as the data are


def rule(obs: np.ndarray, space: Space) -> np.ndarray:
    """An action that follows from the observation."""
    side = (obs > 0).astype(np.int64)
    match space:
        case Box():
            return (0.5 * obs[:, :2] + 0.25).reshape(len(obs), *space.shape)
        case Discrete():
            return space.start + side[:, 0] + side[:, 1]
        case MultiDiscrete():
            return np.stack([side[:, 0], side[:, 1] + side[:, 2]], 1)
        case MultiBinary():
            return side
    raise AssertionError(space)


SPACES = {
    "box": Box((2,), (-1.0,) * 2, (1.0,) * 2),
    "matrix": Box((2, 1), (-1.0,) * 2, (1.0,) * 2),
    "discrete": Discrete(3, start=-1),
    "multi discrete": MultiDiscrete((2, 3)),
    "multi binary": MultiBinary(3),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_every_kind_of_action_is_cloned(space: Space) -> None:
    rng = np.random.default_rng(0)
    obs, test = (rng.choice([-1.0, -0.5, 0.5, 1.0], (num, 3)).astype(np.float32) for num in (600, 50))
    agent = clone(
        one_step(obs, rule(obs, space), Spec(OBS, space)), 400, net_arch=[32], learning_rate=1e-2, batch_size=64
    )
    found, wanted = agent.predict(test)[0], rule(test, space)
    assert found.shape == wanted.shape
    if isinstance(space, Box):
        np.testing.assert_allclose(found, wanted, atol=0.1)
    else:
        np.testing.assert_array_equal(found, wanted)
    metrics = agent.algorithm.loss(agent.trainer.plan.stores["data"].sample(200)).metrics
    fit = metrics["mse"] if isinstance(space, Box) else 1 - metrics["accuracy"]
    assert fit < (5e-3 if isinstance(space, Box) else 1e-6)


def test_the_loss_is_the_mean_unlikelihood_of_the_rows_that_count() -> None:
    algorithm = make(Discrete(4))
    probs = torch.tensor([0.5, 0.25, 0.125, 0.125])
    with torch.no_grad():
        algorithm.policy.head.net.weight0.zero_()
        algorithm.policy.head.net.bias0.copy_(probs.log())
    batch = make_batch(torch.zeros(3, 3), torch.tensor([0, 1, 3]), torch.tensor([1.0, 1.0, 0.0]))
    loss, metrics, _ = algorithm.loss(batch)
    assert loss.item() == pytest.approx(1.5 * math.log(2))
    assert metrics["entropy"].item() == pytest.approx(1.75 * math.log(2))
    assert metrics["accuracy"].item() == 0.5  # the mode is action 0; the last row does not count
    loss, metrics, _ = make(Discrete(4), ent_coef=0.5).loss(batch._replace(obs=torch.zeros(3, 3)))
    assert loss.item() == pytest.approx(metrics["loss"].item() - 0.5 * metrics["entropy"].item())


def test_of_several_choices_all_must_be_right() -> None:
    algorithm = make(MultiDiscrete((2, 2)))
    with torch.no_grad():
        for parameter in algorithm.policy.parameters():
            parameter.zero_()
    ones = torch.ones(4)
    batch = make_batch(torch.zeros(4, 3), torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]), ones)
    loss, metrics, _ = algorithm.loss(batch)
    assert metrics["accuracy"].item() == 0.25
    assert loss.item() == pytest.approx(2 * math.log(2))


MASKED = Dict({"x": OBS, "action_mask": MultiBinary(3)})


def masked_data(num: int = 300) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """One action is forbidden in turn, and the next one taken; the mask alone says which."""
    forbidden = np.random.default_rng(0).integers(0, 3, num)
    obs = {"x": np.zeros((num, 3), np.float32), "action_mask": 1 - np.eye(3, dtype=np.int64)[forbidden]}
    return obs, (forbidden + 1) % 3


def test_forbidden_actions_have_no_part_in_the_loss_and_are_never_taken() -> None:
    obs, action = masked_data()
    agent = clone(one_step(obs, action, Spec(MASKED, Discrete(3))), 200, net_arch=[16], learning_rate=1e-2)
    for _ in range(3):
        sampled = agent.predict(obs, deterministic=False)[0]
        assert obs["action_mask"][np.arange(300), sampled].all()
    # x says nothing, so that each of two actions is as likely as the other wherever both are allowed.
    with torch.no_grad():
        rows = {key: torch.from_numpy(value[:30]) for key, value in obs.items()}
        probs = agent.algorithm.policy.distribution(rows).log_probs.exp()
    assert probs[rows["action_mask"] == 0].max() == 0
    alone = {"x": torch.zeros(1, 3), "action_mask": torch.tensor([[0, 1, 0]])}
    ones = torch.ones(1)
    loss = agent.algorithm.loss(make_batch(alone, torch.tensor([1]), ones)).value
    assert loss.item() == pytest.approx(0, abs=1e-6)  # the only allowed action is certain


def test_observations_are_normalised_by_the_data() -> None:
    rng = np.random.default_rng(0)
    obs = (1_000 + 50 * rng.normal(size=(400, 3))).astype(np.float32)
    wide = Box((3,), (-np.inf,) * 3, (np.inf,) * 3)
    action = (obs[:, 0] > 1_000).astype(np.int64)
    agent = clone(
        one_step(obs, action, Spec(wide, Discrete(2))), 400, normalize_observation=True, net_arch=[], learning_rate=3e-2
    )
    assert (agent.predict(obs)[0] == action).mean() > 0.95
    np.testing.assert_allclose(agent.algorithm.policy.normalizer(torch.from_numpy(obs)).mean(0), np.zeros(3), atol=1e-3)


def test_only_the_policy_learns_and_no_values_are_claimed() -> None:
    algorithm = make(Discrete(2))
    assert algorithm.config.needs.experience == "data"
    assert algorithm.values(torch.zeros(1, 3)) is None
    before = [parameter.clone() for parameter in algorithm.policy.parameters()]
    ones = torch.ones(4)
    algorithm.update(make_batch(torch.ones(4, 3), torch.tensor([1, 1, 1, 0]), ones))
    assert any(not torch.equal(old, new) for old, new in zip(before, algorithm.policy.parameters(), strict=True))


def test_the_squared_error_of_the_mean_leaves_the_spread_alone() -> None:
    box = Box((2,), (-1.0,) * 2, (1.0,) * 2)
    algorithm, gen = make(box, loss="mse"), torch.Generator().manual_seed(0)
    obs, action = torch.randn(5, 3, generator=gen), torch.rand(5, 2, generator=gen)
    batch = make_batch(obs, action, torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0]))
    mean = algorithm.policy.distribution(obs).mode()
    expected = (mean - action).square().mean(-1)[[0, 1, 3, 4]].mean()
    loss, metrics, _ = algorithm.loss(batch)
    torch.testing.assert_close(loss, expected)
    assert metrics["loss"].item() == metrics["mse"].item() == pytest.approx(expected.item())
    before = algorithm.policy.head.log_std.clone()
    algorithm.update(batch)
    assert torch.equal(algorithm.policy.head.log_std, before)


@pytest.mark.parametrize(
    ("action", "settings", "sentence"),
    [
        (Discrete(2), {}, r"algorithm.loss='mse' is for Box actions, .* has Discrete: use loss='likelihood'"),
        (Box((1,), (-1.0,), (1.0,)), {"ent_coef": 0.1}, r"algorithm.ent_coef=0.1 has no effect with loss='mse'.*leave"),
    ],
)
def test_the_squared_error_is_refused_where_it_is_none(action: Space, settings: dict, sentence: str) -> None:
    chosen = np.zeros(4, int) if isinstance(action, Discrete) else np.zeros((4, 1), np.float32)
    with pytest.raises(ValueError, match=sentence):
        clone(
            one_step(np.zeros((4, 3), np.float32), chosen, Spec(OBS, action)), 1, batch_size=4, loss="mse", **settings
        )

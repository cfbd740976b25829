import math

import pytest
import torch

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Spec
from rl_training.models import ActionHead, ObservationNormalizer, StochasticPolicy, build_encoder

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
ACTIONS: dict[str, Space] = {
    "Discrete": Discrete(4),
    "MultiDiscrete": MultiDiscrete((2, 3)),
    "MultiBinary": MultiBinary(3),
    "Box": Box((2,), (-1.0,) * 2, (1.0,) * 2),
    "matrix Box": Box((2, 2), (-1.0,) * 4, (1.0,) * 4),
}
ACTION_SHAPES = {"Discrete": (), "MultiDiscrete": (2,), "MultiBinary": (3,), "Box": (2,), "matrix Box": (4,)}


def make_policy(action: Space, obs: Space = OBS, **options: object) -> StochasticPolicy:
    torch.manual_seed(0)
    encoder = build_encoder(obs)
    normalizer = ObservationNormalizer(obs, enabled=False)
    head = ActionHead(encoder.features_dim, (64, 64), action, **options)
    return StochasticPolicy(Spec(obs, action), normalizer, encoder, head)


def observations(num: int = 50) -> torch.Tensor:
    return torch.randn(num, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("name", "entropy"),
    [
        ("Discrete", math.log(4)),
        ("MultiDiscrete", math.log(2) + math.log(3)),
        ("MultiBinary", 3 * math.log(2)),
        ("Box", 2 * 0.5 * math.log(2 * math.pi * math.e)),
    ],
)
def test_first_policy_is_close_to_uniform(name: str, entropy: float) -> None:
    found = make_policy(ACTIONS[name]).distribution(observations()).entropy()
    torch.testing.assert_close(found, torch.full((50,), entropy), rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ACTIONS)
def test_act_gives_the_log_prob_of_its_action(name: str) -> None:
    policy, obs = make_policy(ACTIONS[name], ortho_init=False), observations()
    for explore in (True, False):
        act = policy.act(obs, explore=explore)
        assert act.action.shape == (50, *ACTION_SHAPES[name])
        assert torch.equal(act.log_prob, policy.distribution(obs).log_prob(act.action))


@pytest.mark.parametrize("name", ACTIONS)
def test_without_exploration_it_takes_the_mode(name: str) -> None:
    policy, obs = make_policy(ACTIONS[name], ortho_init=False), observations()
    greedy = policy.act(obs, explore=False)
    assert torch.equal(greedy.action, policy.act(obs, explore=False).action)
    assert torch.equal(greedy.action, policy.distribution(obs).mode())
    assert not torch.equal(policy.act(obs).action, policy.act(obs).action)  # exploring does differ
    assert (policy.act(obs).log_prob <= greedy.log_prob).all()  # nothing is more likely than the mode


def test_rows_over_time_equal_rows_one_by_one() -> None:
    policy, obs = make_policy(Discrete(4), ortho_init=False), observations(12)
    over_time = policy.act(obs.reshape(3, 4, 3), explore=False)
    assert over_time.action.shape == (3, 4)
    torch.testing.assert_close(over_time.log_prob.flatten(), policy.act(obs, explore=False).log_prob)


@pytest.mark.parametrize(
    ("action", "mask"), [(Discrete(4), [1, 0, 0, 1]), (MultiDiscrete((2, 2)), [0, 1, 1, 1])], ids=["one", "several"]
)
def test_masked_actions_are_never_taken(action: Space, mask: list[int]) -> None:
    policy = make_policy(action, Dict({"x": OBS, "action_mask": MultiBinary(4)}), ortho_init=False)
    obs = {"x": observations(5000), "action_mask": torch.tensor(mask).expand(5000, 4)}
    taken = policy.act(obs).action
    for explored in (taken, policy.act(obs, explore=False).action):
        if isinstance(action, Discrete):
            assert set(explored.tolist()) <= {0, 3}
        else:
            assert set(explored[:, 0].tolist()) == {1}
    # What is allowed is still explored.
    assert len(taken.unique(dim=0)) == 2


def test_the_mask_is_row_by_row() -> None:
    policy = make_policy(Discrete(4), Dict({"x": OBS, "action_mask": MultiBinary(4)}))
    allowed = torch.arange(1000) % 4
    obs = {"x": observations(1000), "action_mask": torch.nn.functional.one_hot(allowed, 4)}
    act = policy.act(obs)
    assert torch.equal(act.action, allowed)
    assert torch.equal(act.log_prob, torch.zeros(1000))


def test_gaussian_deviation_is_a_parameter_that_no_state_changes() -> None:
    policy = make_policy(ACTIONS["Box"], log_std_init=-2.0)
    distribution = policy.distribution(observations())
    assert distribution.log_std.tolist() == [-2.0, -2.0]
    assert any(parameter is distribution.log_std for parameter in policy.parameters())


def test_a_dict_of_actions_is_refused() -> None:
    with pytest.raises(ValueError, match="use Box, Discrete, MultiDiscrete or MultiBinary"):
        make_policy(Dict({"steer": OBS}))

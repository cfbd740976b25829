"""What TQC learns: quantiles of all critics together, without the most hopeful ones."""

from itertools import product

import pytest
import torch

from rl_training import TQC, ConfigError
from rl_training.algorithms import TQCAlgorithm, TQCConfig
from tests.algorithms.boxes import SPEC, asked_gradients, make_batch, moved, say


def make(**settings: object) -> TQCAlgorithm:
    torch.manual_seed(0)
    common = {"net_arch": (), "n_quantiles": 4, "top_quantiles_to_drop_per_net": 1, "ent_coef": 0.3}
    return TQCAlgorithm(TQCConfig(**common | settings), SPEC)


def soft_part(algorithm: TQCAlgorithm, seed: int = 3) -> torch.Tensor:
    torch.manual_seed(seed)
    with torch.no_grad():
        return -0.3 * algorithm.policy.distribution(make_batch().next_obs).draw()[1]


def test_targets_pool_all_critics_and_drop_the_top() -> None:
    algorithm = make(n_quantiles=10, top_quantiles_to_drop_per_net=2)
    say(algorithm.targets, torch.arange(10.0), torch.arange(10.0))
    bonus = soft_part(algorithm)
    torch.manual_seed(3)
    kept = algorithm.next_value(make_batch())
    assert kept.shape == (6, 16)
    expected = torch.tensor(sorted([*range(8)] * 2), dtype=torch.float32)
    torch.testing.assert_close(kept, expected + bonus.unsqueeze(-1))  # the largest left is 7


def test_the_loss_averages_the_quantile_loss_over_all_pairs() -> None:
    algorithm, batch = make(), make_batch()
    online = (torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([4.0, -1.0, 0.5, 2.0]))
    say(algorithm.critics, *online)
    say(algorithm.targets, torch.tensor([1.0, 5.0, 9.0, 2.0]), torch.tensor([0.0, 3.0, 7.0, 1.5]))
    kept = torch.tensor([0.0, 1.0, 1.5, 2.0, 3.0, 5.0])
    bonus = soft_part(algorithm)
    torch.manual_seed(3)
    loss, _, rows = algorithm.critic_loss(batch)
    total = 0.0
    for row, critic, i in product(range(6), range(2), range(4)):
        fraction = (i + 0.5) / 4
        for target in 1 + 0.5 * (kept + bonus[row]):
            error = (target - online[critic][i]).item()
            huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
            total += abs(fraction - (error < 0)) * huber / (6 * 2 * 4 * 6)
    assert loss.item() == pytest.approx(total, rel=1e-5)
    means = 1 + 0.5 * (kept.mean() + bonus)
    expected = torch.stack([online[0].mean() - means, online[1].mean() - means]).abs().mean(0)
    torch.testing.assert_close(rows["priority"], expected)


def test_more_dropped_means_less_hope() -> None:
    means = []
    for dropped in range(4):
        algorithm = make(top_quantiles_to_drop_per_net=dropped)
        torch.manual_seed(3)
        means.append(algorithm.next_value(make_batch()).mean().item())
    assert means == sorted(means, reverse=True)
    assert len(set(means)) == 4


def test_one_critic_with_one_quantile_regresses_on_sacs_target() -> None:
    algorithm, batch = make(n_quantiles=1, top_quantiles_to_drop_per_net=0, n_critics=1), make_batch()
    say(algorithm.critics, 2.0)
    say(algorithm.targets, 3.0)
    error = 2 - (1 + 0.5 * (3 + soft_part(algorithm)))
    torch.manual_seed(3)
    loss = algorithm.critic_loss(batch).value
    expected = 0.5 * torch.where(error.abs() <= 1, 0.5 * error.square(), error.abs() - 0.5).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_actor_climbs_the_mean_of_all_quantiles() -> None:
    algorithm = make(top_quantiles_to_drop_per_net=3)
    say(algorithm.critics, torch.tensor([0.0, 1.0, 2.0, 9.0]), torch.tensor([4.0, 4.0, 4.0, 8.0]))
    loss, metrics, _ = algorithm.actor_loss(make_batch())
    assert loss.item() == pytest.approx(-0.3 * metrics["entropy"].item() - 4.0, rel=1e-5)
    torch.testing.assert_close(algorithm.values(make_batch().obs), torch.full((6,), 3.0))  # of the lower critic


def test_each_step_moves_its_own_part() -> None:
    algorithm, batch = make(net_arch=(8,), ent_coef="auto"), make_batch()
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics"}
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy", "log_ent_coef"}
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0


def test_dropping_everything_is_refused() -> None:
    sentence = r"algorithm.top_quantiles_to_drop_per_net=5 leaves nothing of n_quantiles=5: lower it"
    with pytest.raises(ConfigError, match=sentence):
        TQC("Pendulum-v1", n_quantiles=5, top_quantiles_to_drop_per_net=5)


def test_a_choice_of_critics_without_effect_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm.actor_critics='mean' has no effect in TQC.*: drop it"):
        TQC("Pendulum-v1", actor_critics="mean")

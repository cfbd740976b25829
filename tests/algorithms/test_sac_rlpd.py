"""What RLPD is: REDQ whose critics are bounded by layer norm, fed half by data (Ball et al., 2023)."""

import pytest
import torch

from rl_training import REDQ, RLPD, Callback, ConfigError
from rl_training.algorithms import REDQConfig, RLPDConfig, SACAlgorithm
from rl_training.experience import ReplaySettings
from rl_training.experiment.checkpoint import difference
from tests.algorithms.boxes import SPEC
from tests.offline import RLPD_SETTINGS, rlpd, state_of, steps_of


def test_defaults_are_the_papers() -> None:
    config = RLPDConfig()
    assert (config.n_critics, config.critic_subset, config.actor_critics) == (10, 2, "mean")
    assert (config.critic_layer_norm, config.gradient_steps) == (True, 20)
    assert ReplaySettings(**config.needs.settings).offline_batch_ratio == 0.5
    assert config.needs.dataset
    assert not REDQConfig.needs.dataset
    assert config.critic_dropout == 0
    assert isinstance(config, REDQConfig)
    assert not REDQConfig().critic_layer_norm
    assert RLPD.name == "rlpd"


def critics_and_bounds(layer_norm: bool) -> tuple[SACAlgorithm, torch.Tensor]:
    """Critics with large weights, and what layer norm allows each of them: |w| sqrt(h) + |b|."""
    torch.manual_seed(0)
    algorithm = SACAlgorithm(RLPDConfig(net_arch=(32, 16), critic_layer_norm=layer_norm), SPEC)
    with torch.no_grad():
        for weight in algorithm.critics.net.weights:
            weight.normal_()
    weight, bias = algorithm.critics.net.weights[-1], algorithm.critics.net.biases[-1]
    return algorithm, weight.flatten(1).norm(dim=1) * 16**0.5 + bias.flatten().abs()


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_layer_norm_bounds_values_of_any_action(size: float) -> None:
    algorithm, bound = critics_and_bounds(layer_norm=True)
    gen = torch.Generator().manual_seed(0)
    obs, action = torch.randn(200, 3, generator=gen), size * torch.randn(200, 2, generator=gen)
    with torch.no_grad():
        q = algorithm.critics(obs, action).squeeze(-1).abs()
    assert q.shape == (10, 200)
    assert (q.amax(1) <= bound * (1 + 1e-5)).all()
    assert q.max() > 0.1 * bound.min()  # and is not trivially so


def test_without_layer_norm_values_have_no_bound() -> None:
    algorithm, bound = critics_and_bounds(layer_norm=False)
    with torch.no_grad():
        q = algorithm.critics(torch.zeros(1, 3), torch.full((1, 2), 1e6)).flatten().abs()
    assert (q > 100 * bound).all()


def test_without_data_in_its_batches_it_is_redq_with_layer_norm_bit_for_bit() -> None:
    settings = RLPD_SETTINGS | {"total_timesteps": 120}
    ours = rlpd(offline_batch_ratio=0.0, total_timesteps=120)
    redq = REDQ("Pendulum-v1", critic_layer_norm=True, **settings)
    mixed = rlpd(offline_batch_ratio=0.5, total_timesteps=120)
    for agent in (ours, redq, mixed):
        agent.learn(progress=False)
    states = [state_of(agent) for agent in (ours, redq, mixed)]
    for state in states:
        del state["data"]
    assert difference(states[0], states[1]) is None
    assert difference(states[0]["algorithm"], states[2]["algorithm"]) is not None
    plain = REDQ("Pendulum-v1", **settings)
    plain.learn(progress=False)
    assert plain.snapshot().state["algorithm"].keys() < states[0]["algorithm"].keys()


def test_without_any_data_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"rlpd learns from a dataset.* pass dataset=.* use REDQ, or SAC"):
        RLPD("Pendulum-v1")


class Batches(Callback):
    def __init__(self) -> None:
        self.logged: list[dict] = []

    def on_log(self, trainer, metrics) -> None:
        self.logged.append(metrics)


def test_half_of_every_batch_is_data_and_the_sides_are_logged() -> None:
    agent, seen, counts = rlpd(batch_size=16), Batches(), []
    agent.learn(120, stop_at=24, progress=False)
    experience = agent.trainer.experience
    gather = experience.gather

    def count(storage, draw):
        batch = gather(storage, draw)
        counts.append(int(batch.columns["logged"].sum()))
        return batch

    experience.gather = count
    agent.learn(callbacks=seen, progress=False)
    assert counts == [8] * len(counts)
    assert len(counts) == 2 * (120 - 24) // 4
    names = {"train/reward_logged", "train/reward_own", "train/td_error_logged", "train/td_error_own"}
    for metrics in seen.logged:
        assert metrics["train/offline_batch_ratio"] == 0.5
        assert names <= metrics.keys()
    data = steps_of("Pendulum-v1")
    assert data.reward.min() <= seen.logged[-1]["train/reward_logged"] <= data.reward.max()


def test_pretraining_takes_whole_batches_from_the_data() -> None:
    agent, seen = rlpd(), Batches()
    agent.learn(total_updates=40, callbacks=seen, progress=False)
    assert agent.progress.gradient_steps == agent.progress.offline_updates == 40
    assert agent.trainer.plan.stores["data"].drawn == 40 * 16
    assert all("train/reward_logged" not in metrics for metrics in seen.logged)
    assert agent.num_timesteps == 0

"""Collection beside updates: refused where it cannot be, and behind by one iteration where it can."""

from pathlib import Path

import pytest
import torch

import rl_training
from rl_training import SAC, Callback, ConfigError
from rl_training.config.parallelism import on_device
from rl_training.config.run_config import RunConfig
from tests.gpu import needs_gpu

GPU = {"device": "cuda", "overlap": True}
SMALL = {"learning_starts": 20, "batch_size": 16, "buffer_size": 500, "net_arch": [32], "seed": 0}


@pytest.mark.parametrize(
    ("name", "env", "settings", "said"),
    [
        ("SAC", "Pendulum-v1", {"device": "cpu"}, r"training\.device='cpu': use training\.device='cuda'"),
        ("SAC", "Pendulum-v1", {"backend": "native"}, r"env\.id='Pendulum-v1' with env\.backend='native'"),
        ("PPO", "CartPole-v1", {}, r"algorithm\.name='ppo': use SAC"),
        ("SAC", "Pendulum-v1", {"compile": False}, r"training\.compile=false: use training\.compile=true"),
        ("SAC", "Pendulum-v1", {"buffer_device": "cpu"}, r"experience\.buffer_device='cpu': leave buffer_device out"),
    ],
)
def test_it_is_refused_where_there_is_nothing_to_overlap(
    name: str, env: str, settings: dict, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"training\.overlap=true needs .*{said}.*, or training\.overlap=false"):
        getattr(rl_training, name)(env, **GPU | settings, run_dir=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_what_was_trained_so_is_loaded_on_the_cpu() -> None:
    values = SAC("Pendulum-v1", **SMALL).config.to_mapping()
    values["training"] |= {"overlap": True, "device": "cuda"}
    training = RunConfig.from_mapping(on_device(values, "cpu")).training
    assert (training.device, training.overlap) == ("cpu", False)


class Watch(Callback):
    """Keeps what the policy and the copy that acts are after every iteration."""

    def __init__(self) -> None:
        self.policies: list[torch.Tensor] = []
        self.copies: list[torch.Tensor] = []

    def on_steps(self, trainer, episodes) -> None:
        both = (trainer.algorithm.policy, trainer.overlap.acting)
        for kept, module in zip((self.policies, self.copies), both, strict=True):
            kept.append(torch.cat([p.detach().flatten().clone() for p in module.parameters()]))


@needs_gpu
@pytest.mark.parametrize("name", ["SAC", "TD3", "DQN"])
def test_actions_are_one_iteration_behind(name: str) -> None:
    env, own = ("CartPole-v1", {"train_freq": 1}) if name == "DQN" else ("Pendulum-v1", {})
    watch = Watch()
    agent = getattr(rl_training, name)(env, **SMALL | own | GPU)
    agent.learn(60, progress=False, callbacks=watch)
    assert agent.trainer.collector.recordings
    assert all(graph.graph is not None for graph in agent.trainer.collector.recordings.values())
    for before, copy in zip(watch.policies[:-1], watch.copies[1:], strict=True):
        assert torch.equal(before, copy)
    assert any(not torch.equal(policy, copy) for policy, copy in zip(watch.policies, watch.copies, strict=True))
    assert all(torch.isfinite(policy).all() for policy in watch.policies)


@needs_gpu
def test_all_steps_arrive_in_the_replay_in_order() -> None:
    agent = SAC("Pendulum-v1", **SMALL | GPU | {"gradient_steps": 10})
    agent.learn(400, progress=False)
    columns, replay = agent.trainer.experience.columns, agent.trainer.experience
    flags = columns.flags[:400].cpu()
    inside = (flags[:-1] & 2 == 0) & (flags[:-1] & 4 != 0)
    # Pendulum's next angle follows from the one before and its speed: a row that was overwritten would not fit.
    obs = columns.obs[:400].cpu().double()
    turned = torch.atan2(obs[:, 1], obs[:, 0])
    moved = torch.remainder(turned[1:] - turned[:-1] + torch.pi, 2 * torch.pi) - torch.pi
    torch.testing.assert_close(moved[inside], (obs[1:, 2] * 0.05)[inside], rtol=1e-3, atol=1e-4)
    assert replay.added == 400


@needs_gpu
def test_an_overlapped_run_goes_on_after_it_was_saved(tmp_path: Path) -> None:
    agent = SAC("Pendulum-v1", **SMALL | GPU, total_timesteps=120)
    agent.learn(stop_at=60, progress=False)
    agent.save(tmp_path / "saved")
    for loaded in (rl_training.load(tmp_path / "saved"), agent):
        loaded.learn(progress=False)
        assert loaded.progress.gradient_steps == 101  # from step 20 to step 120
    assert rl_training.load(tmp_path / "saved", device="cpu").config.training.overlap is False

"""Steps per second of TorchRL; run in an environment that has it, asked as in `protocol.py`.

TorchRL has parts and no trainer of these methods: the loops follow its sota-implementations (ppo, dqn, sac, td3), with
its collector, environments, buffers, losses and target updaters, eager, on tensors in memory.
"""

from collections.abc import Callable, Iterable, Iterator

import gymnasium
import torch
import torchrl
from protocol import Learn, serve
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import Compose, DoubleToFloat, GymEnv, RewardSum, SerialEnv, TransformedEnv
from torchrl.modules import (
    MLP,
    AdditiveGaussianModule,
    EGreedyModule,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    TanhModule,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import ClipPPOLoss, DQNLoss, HardUpdate, SACLoss, SoftUpdate, TD3Loss
from torchrl.objectives.value import GAE

Update = Callable[[TensorDict], object]


def make_env(work: dict) -> TransformedEnv:
    torch.set_num_threads(work["threads"])
    torch.manual_seed(0)

    def one() -> GymEnv:
        return GymEnv(work["env"], device="cpu", categorical_action_encoding=False)

    # In this process, as the other libraries' here: its vectorised GymEnv would start a process for each.
    env = SerialEnv(work["n_envs"], one) if work["n_envs"] > 1 else one()
    return TransformedEnv(env, Compose(DoubleToFloat(), RewardSum()))


def sizes(env: TransformedEnv) -> tuple[int, int]:
    return env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]


def collect(env: TransformedEnv, policy: nn.Module, frames: int, random: int = 0) -> Iterator[TensorDict]:
    options = {"init_random_frames": random} if random else {}
    return iter(Collector(env, policy, frames_per_batch=frames, total_frames=-1, device="cpu", **options))


def take(batches: Iterable[TensorDict], frames: int, update: Update) -> Learn:
    """Consumes as many batches of the collector as were asked for."""

    def learn(num_steps: int) -> None:
        for _, batch in zip(range(num_steps // frames), batches, strict=False):
            update(batch)

    return learn


def build_ppo(work: dict) -> Learn:
    env = make_env(work)
    inputs, outputs = sizes(env)
    discrete = work["env"].startswith("CartPole")
    widths = {"num_cells": [64, 64], "activation_class": nn.Tanh}
    network = MLP(in_features=inputs, out_features=outputs if discrete else 2 * outputs, **widths)
    keys = ["logits"] if discrete else ["loc", "scale"]
    network = network if discrete else nn.Sequential(network, NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=keys),
        spec=env.action_spec,
        in_keys=keys,
        distribution_class=OneHotCategorical if discrete else TanhNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(in_features=inputs, out_features=1, **widths), in_keys=["observation"])
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=False)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, normalize_advantage=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    frames = work["n_envs"] * work["n_steps"]
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(frames), sampler=SamplerWithoutReplacement(), batch_size=work["batch_size"]
    )

    def update(batch: TensorDict) -> None:
        for _ in range(work["n_epochs"]):
            with torch.no_grad():
                batch = advantage(batch)
            buffer.extend(batch.reshape(-1))
            for rows in buffer:
                parts = loss(rows)
                (parts["loss_objective"] + parts["loss_critic"] + parts["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()

    return take(collect(env, actor, frames), frames, update)


def off_policy(work: dict, env: TransformedEnv, policy: nn.Module, step: Update) -> Learn:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(work["buffer_size"]), batch_size=work["batch_size"])
    taken = 0

    def update(batch: TensorDict) -> None:
        nonlocal taken
        buffer.extend(batch.reshape(-1))
        taken += batch.numel()
        if taken > work["learning_starts"]:
            step(buffer.sample())

    return take(collect(env, policy, work["train_freq"], work["learning_starts"]), work["train_freq"], update)


def minimize(optimizer: torch.optim.Optimizer, *losses: torch.Tensor) -> None:
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()
    optimizer.step()


def build_dqn(work: dict) -> Learn:
    env = make_env(work)
    inputs, outputs = sizes(env)
    network = MLP(in_features=inputs, out_features=outputs, num_cells=work["net_arch"], activation_class=nn.ReLU)
    actor = QValueActor(network, in_keys=["observation"], spec=env.action_spec)
    share = work["exploration_final_eps"]
    explore = EGreedyModule(env.action_spec, eps_init=share, eps_end=share, annealing_num_steps=1)
    loss = DQNLoss(actor, loss_function="smooth_l1", delay_value=True)
    loss.make_value_estimator(gamma=0.99)
    follow = HardUpdate(loss, value_network_update_interval=work["target_update_interval"])
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-4)

    def step(batch: TensorDict) -> None:
        minimize(optimizer, loss(batch)["loss"])
        follow.step()

    return off_policy(work, env, TensorDictSequential(actor, explore), step)


def build_critic(work: dict, env: TransformedEnv) -> ValueOperator:
    network = MLP(in_features=sum(sizes(env)), out_features=1, num_cells=work["net_arch"], activation_class=nn.ReLU)
    return ValueOperator(network, in_keys=["observation", "action"])


def build_sac(work: dict) -> Learn:
    env = make_env(work)
    inputs, outputs = sizes(env)
    network = MLP(in_features=inputs, out_features=2 * outputs, num_cells=work["net_arch"], activation_class=nn.ReLU)
    actor = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(network, NormalParamExtractor(scale_mapping="biased_softplus_1.0", scale_lb=0.1)),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        spec=env.action_spec,
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": env.action_spec.space.low, "high": env.action_spec.space.high},
    )
    loss = SACLoss(actor, build_critic(work, env), num_qvalue_nets=2, loss_function="l2", action_spec=env.action_spec)
    loss.make_value_estimator(gamma=0.99)
    follow = SoftUpdate(loss, eps=0.995)
    optimizers = [
        torch.optim.Adam(loss.actor_network_params.flatten_keys().values(), lr=3e-4),
        torch.optim.Adam(loss.qvalue_network_params.flatten_keys().values(), lr=3e-4),
        torch.optim.Adam([loss.log_alpha], lr=3e-4),
    ]

    def step(batch: TensorDict) -> None:
        parts = loss(batch)
        for optimizer in optimizers:
            optimizer.zero_grad()
        (parts["loss_actor"] + parts["loss_qvalue"] + parts["loss_alpha"]).backward()
        for optimizer in optimizers:
            optimizer.step()
        follow.step()

    return off_policy(work, env, actor, step)


def build_td3(work: dict) -> Learn:
    env = make_env(work)
    inputs, outputs = sizes(env)
    network = MLP(in_features=inputs, out_features=outputs, num_cells=work["net_arch"], activation_class=nn.ReLU)
    actor = TensorDictSequential(
        TensorDictModule(network, in_keys=["observation"], out_keys=["param"]),
        TanhModule(in_keys=["param"], out_keys=["action"], spec=env.action_spec),
    )
    noise = AdditiveGaussianModule(sigma_init=0.1, sigma_end=0.1, mean=0.0, std=1.0, spec=env.action_spec)
    loss = TD3Loss(
        actor,
        build_critic(work, env),
        num_qvalue_nets=2,
        action_spec=env.action_spec,
        delay_actor=True,
        delay_qvalue=True,
    )
    loss.make_value_estimator(gamma=0.99)
    follow = SoftUpdate(loss, eps=0.995)
    actors = torch.optim.Adam(loss.actor_network_params.flatten_keys().values(), lr=1e-3)
    critics = torch.optim.Adam(loss.qvalue_network_params.flatten_keys().values(), lr=1e-3)
    updates = 0

    def step(batch: TensorDict) -> None:
        nonlocal updates
        updates += 1
        minimize(critics, loss.value_loss(batch)[0])
        if updates % 2 == 0:
            minimize(actors, loss.actor_loss(batch)[0])
            follow.step()

    return off_policy(work, env, TensorDictSequential(actor, noise), step)


if __name__ == "__main__":
    kinds = {"PPO": build_ppo, "DQN": build_dqn, "SAC": build_sac, "TD3": build_td3}
    serve(kinds, {"torchrl": torchrl.__version__, "torch": torch.__version__, "gymnasium": gymnasium.__version__})

"""The training step of CleanRL's ppo_atari_envpool.py, re-written over ale-py's vector environment instead of EnvPool.

As there: observations, values and advantages on the device, eager updates, whole-batch rollouts, foreach Adam. Logging
and the learning-rate schedule are left out.
"""

import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv
from protocol import Learn
from torch import Tensor, nn, optim
from torch.distributions import Categorical


def layer(module: nn.Module, gain: float = np.sqrt(2)) -> nn.Module:
    nn.init.orthogonal_(module.weight, gain)
    nn.init.constant_(module.bias, 0.0)
    return module


class Agent(nn.Module):
    def __init__(self, actions: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            layer(nn.Conv2d(4, 32, 8, stride=4)),
            nn.ReLU(),
            layer(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            layer(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer(nn.Linear(64 * 7 * 7, 512)),
            nn.ReLU(),
        )
        self.actor, self.critic = layer(nn.Linear(512, actions), 0.01), layer(nn.Linear(512, 1), 1.0)

    def value(self, x: Tensor) -> Tensor:
        return self.critic(self.network(x / 255.0))

    def act(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        hidden = self.network(x / 255.0)
        chosen = Categorical(logits=self.actor(hidden))
        action = chosen.sample() if action is None else action
        return action, chosen.log_prob(action), chosen.entropy(), self.critic(hidden)


def make_envs(game: str, num_envs: int) -> AtariVectorEnv:
    """Makes the environments with the settings of our protocol `dqn`."""
    return AtariVectorEnv(
        game,
        num_envs,
        repeat_action_probability=0.0,
        noop_max=30,
        use_fire_reset=True,
        reward_clipping=True,
        episodic_life=True,
        max_num_frames_per_episode=108_000,
    )


def game_of(name: str) -> str:
    """Returns ale-py's name of a game, such as "pong" for "ALE/Pong-v5"."""
    camel = name.removeprefix("ALE/").removesuffix("-v5")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in camel).removeprefix("_")


def build_atari_ppo(work: dict) -> Learn:
    torch.set_num_threads(work["threads"])
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device, num_envs, num_steps = torch.device(work["device"]), work["n_envs"], work["n_steps"]
    envs = make_envs(game_of(work["env"]), num_envs)
    agent = Agent(int(envs.single_action_space.n)).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.zeros((num_steps, num_envs, 4, 84, 84), device=device)
    actions, logprobs, rewards, dones, values = (torch.zeros((num_steps, num_envs), device=device) for _ in range(5))
    next_obs, next_done = torch.Tensor(envs.reset(seed=0)[0]).to(device), torch.zeros(num_envs, device=device)

    def iterate() -> None:
        nonlocal next_obs, next_done
        for step in range(num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.act(next_obs)
            values[step], actions[step], logprobs[step] = value.flatten(), action, logprob
            seen, reward, terminated, truncated, _ = envs.step(action.cpu().numpy())
            rewards[step] = torch.tensor(reward).to(device).view(-1)
            next_obs = torch.Tensor(seen).to(device)
            next_done = torch.Tensor(np.logical_or(terminated, truncated)).to(device)
        advantages = advantages_of(agent, rewards, values, dones, next_obs, next_done)
        returns = advantages + values
        columns = [obs.flatten(0, 1), actions.flatten(0, 1), *(x.flatten() for x in (logprobs, advantages, returns))]
        order = np.arange(num_steps * num_envs)
        for _ in range(work["n_epochs"]):
            np.random.shuffle(order)
            for start in range(0, len(order), work["batch_size"]):
                rows = order[start : start + work["batch_size"]]
                update(agent, optimizer, *(column[rows] for column in columns))

    def learn(total: int) -> None:
        for _ in range(total // (num_envs * num_steps)):
            iterate()

    return learn


@torch.no_grad()
def advantages_of(
    agent: Agent, rewards: Tensor, values: Tensor, dones: Tensor, next_obs: Tensor, next_done: Tensor
) -> Tensor:
    next_value, last, advantages = agent.value(next_obs).view(-1), 0.0, torch.zeros_like(rewards)
    for t in reversed(range(len(rewards))):
        final = t == len(rewards) - 1
        alive = 1.0 - (next_done if final else dones[t + 1])
        delta = rewards[t] + 0.99 * (next_value if final else values[t + 1]) * alive - values[t]
        advantages[t] = last = delta + 0.99 * 0.95 * alive * last
    return advantages


def update(
    agent: Agent, optimizer: optim.Optimizer, obs: Tensor, action: Tensor, logprob: Tensor, adv: Tensor, ret: Tensor
) -> None:
    _, new, entropy, value = agent.act(obs, action.long())
    logratio = new - logprob
    ratio = logratio.exp()
    with torch.no_grad():  # logged there
        ((ratio - 1) - logratio).mean()
        ((ratio - 1.0).abs() > 0.1).float().mean().item()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    policy_loss = torch.max(-adv * ratio, -adv * ratio.clamp(0.9, 1.1)).mean()
    value_loss = 0.5 * (value.view(-1) - ret).square().mean()
    loss = policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()

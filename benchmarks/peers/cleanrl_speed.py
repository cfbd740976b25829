"""Steps per second of CleanRL's loop, re-written: its scripts are no package, so their training steps are stated here.

After ppo.py, ppo_continuous_action.py, dqn.py, sac_continuous_action.py and td3_continuous_action.py of
github.com/vwxyzjn/cleanrl: one step of all environments at a time, numpy in and out, eager updates, foreach Adam.
Logging, videos, evaluation and the normalising wrappers are left out; widths are those of the work, which every library is given.
"""

import sys

import gymnasium as gym
import numpy as np
import torch
from cleanrl_networks import ActorCritic, DeterministicActor, SquashedActor, box, mlp, obs_size
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from protocol import Learn, serve
from torch import Tensor, nn, optim
from torch.nn import functional as F


def make_envs(work: dict) -> SyncVectorEnv:
    torch.set_num_threads(work["threads"])
    torch.manual_seed(0)

    def one() -> gym.Env:
        return gym.wrappers.RecordEpisodeStatistics(gym.make(work["env"]))

    return SyncVectorEnv([one] * work["n_envs"], autoreset_mode=AutoresetMode.SAME_STEP)


def build_ppo(work: dict) -> Learn:
    if work["env"].startswith("ALE/"):
        from cleanrl_atari import build_atari_ppo

        return build_atari_ppo(work)
    envs = make_envs(work)
    num_envs, num_steps = work["n_envs"], work["n_steps"]
    agent = ActorCritic(envs)
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.zeros((num_steps, num_envs, obs_size(envs)))
    actions = torch.zeros((num_steps, num_envs, *(envs.single_action_space.shape or ())))
    logprobs, rewards, dones, values = (torch.zeros(num_steps, num_envs) for _ in range(4))
    next_obs, next_done = torch.Tensor(envs.reset(seed=0)[0]), torch.zeros(num_envs)

    def iterate() -> None:
        nonlocal next_obs, next_done
        for step in range(num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.act(next_obs)
            actions[step], logprobs[step], values[step] = action, logprob, value.flatten()
            seen, reward, terminated, truncated, _ = envs.step(action.numpy())
            rewards[step] = torch.tensor(reward).view(-1)
            next_obs, next_done = torch.Tensor(seen), torch.Tensor(np.logical_or(terminated, truncated))
        advantages = advantages_of(agent, rewards, values, dones, next_obs, next_done)
        returns = advantages + values
        columns = [obs.flatten(0, 1), actions.flatten(0, 1), *(x.flatten() for x in (logprobs, advantages, returns))]
        order = np.arange(num_steps * num_envs)
        for _ in range(work["n_epochs"]):
            np.random.shuffle(order)
            for start in range(0, len(order), work["batch_size"]):
                rows = order[start : start + work["batch_size"]]
                update_ppo(agent, optimizer, *(column[rows] for column in columns))

    def learn(total: int) -> None:
        for _ in range(total // (num_envs * num_steps)):
            iterate()

    return learn


@torch.no_grad()
def advantages_of(
    agent: ActorCritic, rewards: Tensor, values: Tensor, dones: Tensor, next_obs: Tensor, next_done: Tensor
) -> Tensor:
    next_value, last, advantages = agent.critic(next_obs).view(-1), 0.0, torch.zeros_like(rewards)
    for t in reversed(range(len(rewards))):
        final = t == len(rewards) - 1
        alive = 1.0 - (next_done if final else dones[t + 1])
        delta = rewards[t] + 0.99 * (next_value if final else values[t + 1]) * alive - values[t]
        advantages[t] = last = delta + 0.99 * 0.95 * alive * last
    return advantages


def update_ppo(
    agent: ActorCritic,
    optimizer: optim.Optimizer,
    obs: Tensor,
    action: Tensor,
    logprob: Tensor,
    advantage: Tensor,
    ret: Tensor,
) -> None:
    _, new, entropy, value = agent.act(obs, action)
    logratio = new - logprob
    ratio = logratio.exp()
    with torch.no_grad():  # logged there
        ((ratio - 1) - logratio).mean()
        ((ratio - 1.0).abs() > 0.2).float().mean().item()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy_loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
    value_loss = 0.5 * (value.view(-1) - ret).square().mean()
    loss = policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()


class Replay:
    """Rows in numpy arrays, as tensors when drawn."""

    def __init__(self, envs: SyncVectorEnv, size: int) -> None:
        action = envs.single_action_space
        self.obs, self.next_obs = (np.zeros((size, obs_size(envs)), np.float32) for _ in range(2))
        self.actions = np.zeros((size, *(action.shape or (1,))), action.dtype)
        self.rewards, self.dones = (np.zeros((size, 1), np.float32) for _ in range(2))
        self.position = self.filled = 0

    def add(self, obs: np.ndarray, next_obs: np.ndarray, action: np.ndarray, reward: float, done: bool) -> None:
        row = self.position
        self.obs[row], self.next_obs[row], self.actions[row] = obs, next_obs, action
        self.rewards[row], self.dones[row] = reward, done
        self.position = (row + 1) % len(self.obs)
        self.filled = max(self.filled, row + 1)

    def sample(self, size: int) -> list[Tensor]:
        rows = np.random.randint(0, self.filled, size)
        columns = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return [torch.as_tensor(column[rows]) for column in columns]


def off_policy(work: dict, envs: SyncVectorEnv, act, update) -> Learn:
    """Builds the loop of CleanRL's three scripts with a replay: act, step, store, update."""
    replay = Replay(envs, work["buffer_size"])
    obs, taken = envs.reset(seed=0)[0], 0

    def learn(total: int) -> None:
        nonlocal obs, taken
        for _ in range(total):
            random = taken < work["learning_starts"]
            action = np.array([envs.single_action_space.sample()]) if random else act(obs)
            next_obs, reward, terminated, truncated, infos = envs.step(action)
            successor = infos["final_obs"][0] if truncated[0] or terminated[0] else next_obs[0]
            replay.add(obs[0], successor, action[0], reward[0], terminated[0])
            obs, taken = next_obs, taken + 1
            if taken > work["learning_starts"]:
                update(taken, replay.sample(work["batch_size"]))

    return learn


def follow(online: nn.Module, target: nn.Module, tau: float) -> None:
    for parameter, averaged in zip(online.parameters(), target.parameters(), strict=True):
        averaged.data.copy_(tau * parameter.data + (1 - tau) * averaged.data)


def step(optimizer: optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def build_dqn(work: dict) -> Learn:
    envs = make_envs(work)
    assert isinstance(envs.single_action_space, gym.spaces.Discrete)
    sizes = (obs_size(envs), *work["net_arch"], int(envs.single_action_space.n))
    network, target = mlp(*sizes), mlp(*sizes)
    target.load_state_dict(network.state_dict())
    optimizer = optim.Adam(network.parameters(), lr=2.5e-4)

    def act(obs: np.ndarray) -> np.ndarray:
        if np.random.rand() < work["exploration_final_eps"]:
            return np.array([envs.single_action_space.sample()])
        return torch.argmax(network(torch.Tensor(obs)), dim=1).numpy()

    def update(taken: int, batch: list[Tensor]) -> None:
        obs, action, reward, next_obs, done = batch
        with torch.no_grad():
            goal = reward.flatten() + 0.99 * target(next_obs).max(dim=1).values * (1 - done.flatten())
        step(optimizer, F.mse_loss(goal, network(obs).gather(1, action).squeeze()))
        if taken % work["target_update_interval"] == 0:
            follow(network, target, 1.0)

    return off_policy(work, envs, act, update)


def build_sac(work: dict) -> Learn:
    envs = make_envs(work)
    inputs, action_size = obs_size(envs), box(envs).shape[0]
    actor = SquashedActor(envs, work["net_arch"])
    q1, q2, target1, target2 = (mlp(inputs + action_size, *work["net_arch"], 1) for _ in range(4))
    follow(q1, target1, 1.0)
    follow(q2, target2, 1.0)
    q_optimizer = optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
    actor_optimizer = optim.Adam(actor.parameters(), lr=3e-4)
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_optimizer = optim.Adam([log_alpha], lr=1e-3)

    def act(obs: np.ndarray) -> np.ndarray:
        return actor.sample(torch.Tensor(obs))[0].detach().numpy()

    def update(taken: int, batch: list[Tensor]) -> None:
        obs, action, reward, next_obs, done = batch
        alpha = log_alpha.exp().item()
        with torch.no_grad():
            next_action, next_log_prob = actor.sample(next_obs)
            pair = torch.cat([next_obs, next_action], 1)
            value = torch.min(target1(pair), target2(pair)) - alpha * next_log_prob
            goal = reward.flatten() + (1 - done.flatten()) * 0.99 * value.view(-1)
        pair = torch.cat([obs, action], 1)
        step(q_optimizer, F.mse_loss(q1(pair).view(-1), goal) + F.mse_loss(q2(pair).view(-1), goal))
        if taken % 2 == 0:  # delayed, and made up for
            for _ in range(2):
                new, log_prob = actor.sample(obs)
                pair = torch.cat([obs, new], 1)
                step(actor_optimizer, (alpha * log_prob - torch.min(q1(pair), q2(pair))).mean())
                with torch.no_grad():
                    _, log_prob = actor.sample(obs)
                step(alpha_optimizer, (-log_alpha.exp() * (log_prob - action_size)).mean())
                alpha = log_alpha.exp().item()
        follow(q1, target1, 0.005)
        follow(q2, target2, 0.005)

    return off_policy(work, envs, act, update)


def build_td3(work: dict) -> Learn:
    envs = make_envs(work)
    inputs, action_size = obs_size(envs), box(envs).shape[0]
    actor, target_actor = DeterministicActor(envs, work["net_arch"]), DeterministicActor(envs, work["net_arch"])
    q1, q2, target1, target2 = (mlp(inputs + action_size, *work["net_arch"], 1) for _ in range(4))
    pairs = ((actor, target_actor), (q1, target1), (q2, target2))
    for online, target in pairs:
        follow(online, target, 1.0)
    q_optimizer = optim.Adam([*q1.parameters(), *q2.parameters()], lr=3e-4)
    actor_optimizer = optim.Adam(actor.parameters(), lr=3e-4)
    low, high = (torch.tensor(bound) for bound in (box(envs).low, box(envs).high))

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            action = actor(torch.Tensor(obs))
            return (action + torch.normal(0, actor.scale * 0.1)).clamp(low, high).numpy()

    def update(taken: int, batch: list[Tensor]) -> None:
        obs, action, reward, next_obs, done = batch
        with torch.no_grad():
            noise = (torch.randn_like(action) * 0.2).clamp(-0.5, 0.5) * target_actor.scale
            next_action = (target_actor(next_obs) + noise).clamp(low, high)
            pair = torch.cat([next_obs, next_action], 1)
            value = torch.min(target1(pair), target2(pair)).view(-1)
            goal = reward.flatten() + (1 - done.flatten()) * 0.99 * value
        pair = torch.cat([obs, action], 1)
        step(q_optimizer, F.mse_loss(q1(pair).view(-1), goal) + F.mse_loss(q2(pair).view(-1), goal))
        if taken % 2 == 0:
            step(actor_optimizer, -q1(torch.cat([obs, actor(obs)], 1)).mean())
            for online, target in pairs:
                follow(online, target, 0.005)

    return off_policy(work, envs, act, update)


BUILDERS = {"PPO": build_ppo, "DQN": build_dqn, "SAC": build_sac, "TD3": build_td3}

if __name__ == "__main__":
    devices = ("cpu", "cuda") if "ALE/" in sys.argv[1] else ("cpu",)
    versions = {"cleanrl": "its loop, re-written", "torch": torch.__version__, "gymnasium": gym.__version__}
    serve(BUILDERS, versions, devices=devices)

"""Small deterministic rollouts for tests of algorithms and experience."""

import torch

from rl_training.core import Algorithm, Transition, tree_map
from rl_training.core.tree import Tree


def random_steps(num_steps: int, num_envs: int, *, seed: int = 0, done_rate: float = 0.1) -> Transition:
    """[time, env] steps with two-dimensional observations and discrete actions, without a policy."""
    gen = torch.Generator().manual_seed(seed)
    shape = (num_steps, num_envs)
    obs, next_obs = torch.randn(2, *shape, 2, generator=gen)
    terminated, truncated = torch.rand(2, *shape, generator=gen) < done_rate
    return Transition(
        obs=obs,
        action=torch.randint(2, shape, generator=gen),
        log_prob=-torch.rand(shape, generator=gen),
        reward=torch.randn(shape, generator=gen),
        next_obs=next_obs,
        terminated=terminated,
        truncated=truncated,
        valid=torch.ones(shape, dtype=torch.bool),
        columns={},
    )


def act_out(algorithm: Algorithm, obs: Tree, next_obs: Tree, *, seed: int = 0) -> Transition:
    """The rollout in which the algorithm's policy saw these [time, env] observations; rewards and ends are random."""
    torch.manual_seed(seed)
    with torch.no_grad():
        act = algorithm.policy.act(obs)
    steps = random_steps(*act.log_prob.shape, seed=seed)
    return steps._replace(obs=obs, next_obs=next_obs, action=act.action, log_prob=act.log_prob)


def flat(tree: Tree) -> Tree:
    """Joins time and environment into rows."""
    return tree_map(lambda x: x.flatten(0, 1), tree)

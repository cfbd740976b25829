"""Checks of the lives of agents: who acts, who earns, who ends, and whether all of them are told of it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rl_training.core import TeamSpec, Tree
from rl_training.core.teams import ACTING, AGENT_REWARD, AGENT_TERMINATED, AGENT_TRUNCATED, ALIVE, joint
from rl_training.envs.vector import EnvStep


def masks_of(spec: TeamSpec, obs: Tree) -> dict[str, Tensor]:
    """Returns the masks of allowed actions, [env, agents, choices], of the groups that have one."""
    keys = {group.name: group.keys.get("action_mask") for group in spec.members}
    return {name: joint(obs)[key] for name, key in keys.items() if key is not None}


def check_lives(spec: TeamSpec, obs: Tree, step: EnvStep) -> Iterator[str]:
    """Yields a sentence for each breach of the contract by a step that was taken from the observation `obs`."""
    shape = (len(step.reward), len(spec.agents))
    for column in spec.columns:
        found = step.values.get(column.name)
        if found is None or tuple(found.shape) != shape or found.dtype != column.dtype:
            given = "nothing" if found is None else f"{found.dtype} {tuple(found.shape)}"
            yield f"step: values[{column.name!r}] is {given}: give {column.dtype} {shape}"
            return
    if spec.reward != "shared":
        earned = step.values[AGENT_REWARD]
        total = earned.sum(-1) if spec.reward == "sum" else earned.mean(-1)
        if not torch.allclose(total, step.reward, atol=1e-4, rtol=1e-4):
            yield f"step: the team's reward is not the {spec.reward} of its agents'"
    seen, allowed = joint(obs), masks_of(spec, obs)
    everyone = torch.ones(shape, dtype=torch.bool, device=step.reward.device)
    acting = seen[ACTING].bool() if spec.lives else everyone
    for name, mask in allowed.items():
        stuck = acting[:, spec.rows_of(name)] & ~mask.bool().any(-1)
        if stuck.any():
            yield f"the action_mask of {who(spec, name, stuck)} allows no action: let it wait or end"
    if spec.lives:
        yield from check_ends_of_agents(spec, seen[ALIVE].bool(), acting, step)


def who(spec: TeamSpec, name: str, rows: Tensor) -> str:
    group = next(group for group in spec.members if group.name == name)
    return repr(group.agents[int(rows.any(0).nonzero()[0])])


def check_ends_of_agents(spec: TeamSpec, alive: Tensor, acting: Tensor, step: EnvStep) -> Iterator[str]:
    terminated, truncated = step.values[AGENT_TERMINATED], step.values[AGENT_TRUNCATED]
    ends, after = terminated | truncated, joint(step.next_obs)[ALIVE].bool()
    over = (step.terminated | step.truncated).unsqueeze(-1)
    breaches = {
        "acts and is not alive": acting & ~alive,
        "ended and was not alive": ends & ~alive & ~(after & over),  # it may appear where a time limit cuts it off
        "terminated and was truncated in the same step: say one of them": terminated & truncated,
        "disappeared without an end: let it terminate or be truncated": alive & ~ends & ~after,
        "was alive at the end of an episode and did not end: let it terminate or be truncated": alive & ~ends & over,
        "was only truncated, and the team terminated: truncate the team's episode": truncated
        & step.terminated.unsqueeze(-1),
    }
    if spec.reward != "shared":
        breaches["earned something and was not alive"] = (step.values[AGENT_REWARD] != 0) & ~alive
    for what, rows in breaches.items():
        if rows.any():
            yield f"step: {spec.agents[int(rows.any(0).nonzero()[0])]!r} {what}"


def check_everybody_acts(spec: TeamSpec, observations: list[Tree]) -> Iterator[str]:
    """Yields a sentence for every agent that never acts."""
    if not spec.lives:
        return
    acted = torch.stack([joint(obs)[ACTING].bool().any(0) for obs in observations]).any(0)
    for name, did in zip(spec.agents, acted.tolist(), strict=True):
        if not did:
            yield f"{name!r} never acts within {len(observations) - 1} steps: raise num_steps, or leave it out of the team"

"""Export of an agent's policy: `Agent.export`."""

from __future__ import annotations

import json
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.config import ConfigError
from rl_training.config.parsing import parse_flag, parse_path
from rl_training.core import AgentGroup, Policy, Spec, TeamSpec
from rl_training.experiment.run_directory import installed
from rl_training.export import About, Exported, export_policy
from rl_training.models.team_policy import AgentView, TeamPolicy

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

PACKAGES = ("rl-training", "torch", "numpy", "onnx", "onnxscript", "onnxruntime")


def export_agent(
    agent: Agent, path: object, overwrite: object, run_dir: Path | None = None, group: object = None
) -> Exported:
    """Writes the policy of an agent, or of one `group` of a team, with what belongs to it, and returns the files.

    The card shows the result in `run_dir` (None: the agent's own), if there is one.
    """
    file, replace = parse_path(path, "path"), parse_flag(overwrite, "overwrite")
    policy, origin = agent.algorithm.policy, about(agent, run_dir or agent.run_dir)
    if isinstance(policy, TeamPolicy):
        found = find_group(agent.spec, group)
        view, policy = policy.views[found.name], member_of(policy, found.name)
        origin = replace_fields(origin, team=acts_for(found, view))  # pyrefly: ignore (an AgentView)
    elif group is not None:
        raise ConfigError(f"group={group!r} is for teams, and this policy acts for one agent: leave it out")
    return export_policy(policy, file, origin, overwrite=replace)


def groups_of(agent: Agent) -> tuple[str, ...]:
    """Returns the names of the groups of a team, each of which has a policy; () if there is one agent."""
    return tuple(group.name for group in agent.spec.members) if isinstance(agent.spec, TeamSpec) else ()


def file_of(name: str, group: str | None) -> str:
    """Returns the name of the file of a group's policy, such as 'policy_runner.onnx'; `name` itself without a group."""
    stem, dot, ending = name.rpartition(".")
    return name if group is None else f"{stem}_{group}{dot}{ending}"


def find_group(spec: Spec, name: object) -> AgentGroup:
    """Returns the group of that name, or the only one if `name` is None; raises ConfigError if there is none."""
    assert isinstance(spec, TeamSpec)
    found = [group for group in spec.members if name in (None, group.name)]
    if len(found) != 1:
        names = ", ".join(repr(group.name) for group in spec.members)
        raise ConfigError(f"group={name!r} must name one of the groups, each of which has a policy: {names}")
    return found[0]


def member_of(policy: TeamPolicy, name: str) -> Policy:
    """Returns the policy of a group."""
    return policy.members[name]  # pyrefly: ignore (a Policy)


def acts_for(group: AgentGroup, view: AgentView) -> str:
    """Returns a sentence for the card about whom the policy of a group acts for."""
    seen = ", whose number in this order is the one-hot vector `agent_id`" if view.agent_id else ""
    return f"A row is an agent of the group `{group.name}` ({', '.join(group.agents)}){seen}."


def about(agent: Agent, run_dir: Path | None) -> About:
    """Returns the origin of an agent's policy, with the result in `run_dir` if there is one."""
    progress, kind = agent.progress, type(agent).class_for(agent.config.name)
    return About(
        algorithm=kind.__name__ if kind.name else agent.config.name,
        env=agent.config.env.id,
        timesteps=progress.env_steps,
        updates=progress.offline_updates,
        result=result_text(run_dir) if run_dir is not None else {},
        versions={name: found for name in PACKAGES if (found := installed(name))},
    )


def result_text(run_dir: Path) -> dict[str, str]:
    """Returns what the result of a run says of its last evaluation, as text; {} without a result or evaluation."""
    try:
        result = json.loads((run_dir / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if result.get("eval_mean_return") is None:
        return {}
    mean, std, num = result["eval_mean_return"], result["eval_std_return"], result["eval_episodes"]
    found = {"last evaluation of the run": f"return {mean:.2f} +- {std:.2f} over {num} episodes"}
    if result.get("eval_success_rate") is not None:
        found["success rate"] = f"{result['eval_success_rate']:.1%}"
    return found

"""Export of an agent's policy: `Agent.export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.config.parsing import parse_flag, parse_path
from rl_training.experiment.run_directory import installed
from rl_training.export import About, Exported, export_policy

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

PACKAGES = ("rl-training", "torch", "numpy", "onnx", "onnxscript", "onnxruntime")


def export_agent(agent: Agent, path: object, overwrite: object, run_dir: Path | None = None) -> Exported:
    """Writes the policy of an agent, with what belongs to it, and returns the files.

    The card shows the result in `run_dir` (None: the agent's own), if there is one.
    """
    file, replace = parse_path(path, "path"), parse_flag(overwrite, "overwrite")
    return export_policy(agent.algorithm.policy, file, about(agent, run_dir or agent.run_dir), overwrite=replace)


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

"""Model cards: what an exported policy is, takes and gives, and how to run it, as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field

from rl_training.export.run_policy import Parity
from rl_training.export.targets import Targets

MEANINGS = {
    "action": "what the environment takes: the deterministic action",
    "log_probs": "logarithms of the choices' probabilities",
    "logits": "of the bits being 1",
    "mean": "of the actions before they are clipped or squashed",
    "log_std": "logarithms of their standard deviations",
    "q_values": "expected return of every action",
}
WITH_RUNNER = """`{runner}` runs it with NumPy{package}:

```python
from run_policy import Policy

policy = Policy("{policy}")
{call}
```

`python {runner} {policy} --check` computes the outputs for `{parity}` again.
"""
WITH_TORCH = """Torch runs it, without rl-training:

```python
import torch

policy = torch.export.load("{policy}").module()
outputs = policy({inputs})  # tensors with a leading dimension, the rows
```
"""
PLAIN_CALL = "action, _ = policy.predict(observation)"
CALL_WITH_MEMORY = """state = None  # at the start of an episode
action, state = policy.predict(observation, state)"""


@dataclass(frozen=True)
class About:
    """The origin of a policy, as its card and its file say it."""

    algorithm: str
    env: str
    timesteps: int
    updates: int  # from data alone
    team: str = ""  # of a policy of a team: the agents that it acts for
    result: dict[str, str] = field(default_factory=dict)  # of the run, if there is one
    versions: dict[str, str] = field(default_factory=dict)


def card(targets: Targets, spec: dict, found: Parity, about: About) -> str:
    """Returns the Markdown page of an exported policy."""
    trained = f"{about.timesteps:,} env steps" + (f" and {about.updates:,} updates from data" if about.updates else "")
    parts = [
        f"# {about.algorithm} on {about.env}\n",
        f"A policy for `{about.env}`, trained with {about.algorithm} of rl-training for {trained}.\n",
        *([f"{about.team}\n"] if about.team else []),
        usage(targets, spec),
        "## Inputs\n\n" + table(input_rows(spec)),
        "## Outputs\n\n" + table(output_rows(spec)),
        f"## Parity\n\n{found.text[0].upper()}{found.text[1:]}, compared with the policy in rl-training.\n",
    ]
    if about.result:
        parts.append("## Result\n\n" + "\n".join(f"- {name}: {value}" for name, value in about.result.items()) + "\n")
    versions = "\n".join(f"- {name} {version}" for name, version in about.versions.items())
    return "\n".join([*parts, f"## Versions\n\n{versions}\n"])


def usage(targets: Targets, spec: dict) -> str:
    if targets.runner is None:
        inputs = ", ".join(part["name"].replace(".", "_") for part in (*spec["inputs"], *spec["memory"]))
        return WITH_TORCH.format(policy=targets.policy.name, inputs=inputs + (", first" if spec["memory"] else ""))
    return WITH_RUNNER.format(
        runner=targets.runner.name,
        package=" alone" if targets.policy.suffix == ".npz" else " and onnxruntime",
        policy=targets.policy.name,
        parity=targets.parity.name,
        call=CALL_WITH_MEMORY if spec["memory"] else PLAIN_CALL,
    )


def input_rows(spec: dict) -> list[tuple[str, str, str, str]]:
    rows = [
        row(part, "observation" if not part["key"] else f"`{part['key']}` of the observation")
        for part in spec["inputs"]
    ]
    rows += [row(part | {"dtype": "float32"}, "memory; zeros at first") for part in spec["memory"]]
    flag = {"name": "first", "shape": [], "dtype": "bool"}
    return [*rows, row(flag, "rows whose memory is reset, because an episode begins")] if spec["memory"] else rows


def output_rows(spec: dict) -> list[tuple[str, str, str, str]]:
    rows = [row(part, MEANINGS.get(part["name"], "")) for part in spec["outputs"]]
    after = [part | {"name": f"next_{part['name']}", "dtype": "float32"} for part in spec["memory"]]
    return [*rows, *(row(part, "memory for the next observation") for part in after)]


def row(part: dict, meaning: str) -> tuple[str, str, str, str]:
    shape = ", ".join(["rows", *map(str, part["shape"])])
    return f"`{part['name']}`", f"[{shape}]", part["dtype"], meaning


def table(rows: list[tuple[str, str, str, str]]) -> str:
    lines = [("name", "shape", "dtype", "meaning"), ("---",) * 4, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"

"""A folder with a trained policy, its results and its card, as the Hugging Face Hub expects them."""

from __future__ import annotations

import importlib.util
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from rl_training.api.agent import Agent, load
from rl_training.api.exporting import file_of, groups_of
from rl_training.api.parts import untrained
from rl_training.api.transfer_weights import KEPT
from rl_training.config import ConfigError
from rl_training.config.parsing import parse_flag, parse_path, parse_seed, parse_steps
from rl_training.config.trust import packages_of
from rl_training.data.files import replacing
from rl_training.experiment import Checkpoint, find_checkpoint, save_checkpoint
from rl_training.experiment.lineage import origin
from rl_training.experiment.run_record import RunRecord
from rl_training.runtime import EvalResult

POLICY, EXPORTED = "policy", "exported"  # the folders of the checkpoint, and of a file that runs without this library
EXPORTS = ("policy.onnx", "policy.npz")  # the first that can be written
LIBRARY = "rl-training"
log = logging.getLogger(__name__)


def write_hub_card(
    run: str | Path,
    out: str | Path,
    *,
    num_episodes: int = 20,
    seed: int = 0,
    video: bool = True,
    trust: Sequence[str] = (),
) -> Path:
    """Writes a folder about a trained agent, ready for the Hugging Face Hub, and returns its path; uploads nothing.

    `run` is a run directory (its best checkpoint, else its last), a checkpoint or a saved model. The folder holds the
    card `README.md`, `results.json` with fresh evaluations of `num_episodes` episodes (0: none), `config.json`, the
    policy, the policy as a file that runs without this library, and a `video` of one episode, if these can be made.
    `trust` is that of `load`. Raises ConfigError or CheckpointError, and writes nothing, if the folder is not free or
    the agent cannot be loaded or evaluated.
    """
    folder = free_folder(out)
    count, seed = parse_steps(num_episodes, "num_episodes", 0), parse_seed(seed)
    source = find_checkpoint(parse_path(run, "run"))
    agent = load(source, trust=trust)
    result = agent.evaluate(count, seed=seed) if count else None
    try:
        with replacing(folder) as temporary:
            temporary.mkdir(parents=True)
            filmed = film(agent, temporary, seed) if parse_flag(video, "video") else None
            write_json(temporary / "config.json", agent.config.to_mapping())
            if result is not None:
                write_json(temporary / "results.json", results_of(result, seed))
            save_checkpoint(temporary / POLICY, weights_alone(agent, source))
            exported = export(agent, temporary / EXPORTED)
            text = card(agent, result, filmed, exported, versions_of(source))
            (temporary / "README.md").write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"out={folder} cannot be written ({error.strerror or error}): choose another folder"
        ) from error
    return folder


def free_folder(out: object) -> Path:
    folder = parse_path(out, "out")
    if folder.is_file():
        raise ConfigError(f"out={folder} is a file: name a folder that is new or empty")
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"out={folder} is a folder with content: name one that is new or empty")
    return folder


def film(agent: Agent, folder: Path, seed: int) -> str | None:
    """Writes a video of one episode and returns the file's name; None, with a warning, if nothing can be filmed."""
    name = "replay.mp4" if importlib.util.find_spec("imageio_ffmpeg") else "replay.gif"
    try:
        agent.record(folder / name, seed=seed)
    except ValueError as error:  # ConfigError is one
        log.warning(f"the card gets no video: {error}")
        return None
    return name


def export(agent: Agent, folder: Path) -> list[str]:
    """Exports the policies to a folder as .onnx or, if that cannot be, as .npz; returns the files' names.

    Returns [], with a warning, if no format can hold them.
    """
    refusals = []
    for name in EXPORTS:
        named = {file_of(name, group): group for group in groups_of(agent) or (None,)}
        try:
            for file, group in named.items():
                agent.export(folder / file, group=group)
        except ConfigError as error:
            refusals.append(str(error))
        else:
            return list(named)
    log.warning(f"the card gets no exported policy: {'; '.join(refusals)}")
    return []


def weights_alone(agent: Agent, source: Path) -> Checkpoint:
    """Returns a new agent at step 0 with this one's weights, statistics and optimizers, without replay or environments.

    Its origin names the checkpoint `source` by its folder alone, because the path is nobody else's business.
    """
    whole = agent.snapshot()
    state = untrained() | {"algorithm": whole.state["algorithm"]}
    state["experience"] = {"reward_scaling": whole.state["experience"].get("reward_scaling")}
    record = origin("load", source, whole, at=0, kept=KEPT["load"], changed={}) | {"path": source.name}
    return Checkpoint(whole.config, whole.spec, state, 0, (record,))


def results_of(result: EvalResult, seed: int) -> dict:
    """Returns the content of results.json: the fields of RL Baselines3 Zoo's files, and all returns."""
    return {
        "mean_reward": result.mean,
        "std_reward": result.std,
        "is_deterministic": True,
        "n_eval_episodes": len(result.returns),
        "eval_datetime": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seed": seed,
        "returns": list(result.returns),
        "protocol": result.protocol,
    } | result.column_means


def write_json(file: Path, content: dict) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def versions_of(source: Path) -> dict[str, object]:
    """Returns the versions of the packages that the run of a checkpoint began with; {} if it is in no run directory."""
    versions = RunRecord(source.parent.parent).metadata.get("versions")
    return versions if isinstance(versions, dict) else {}


def card(
    agent: Agent, result: EvalResult | None, video: str | None, exported: list[str], versions: dict[str, object]
) -> str:
    """Returns the text of the card: its metadata as YAML, then what the policy is, how to load it, and its settings."""
    config, name = agent.config, hub_name(agent.config.name, agent.config.env.id)
    tags = [config.env.id, config.name, "reinforcement-learning", "deep-reinforcement-learning", LIBRARY]
    head: dict[str, object] = {"library_name": LIBRARY, "tags": tags}
    if result is not None:
        head["model-index"] = [{"name": name, "results": [index_entry(config.env.id, result)]}]
    settings = {key: value for key, value in config.to_mapping().items() if key in ("algorithm", "experience", "env")}
    trust = packages_of(config)
    trusted = f", trust={trust!r}" if trust else ""
    rows = "\n".join(f"| {package} | {version} |" for package, version in versions.items())
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n",
        f"# {config.name} on {config.env.id}\n",
        f"A policy that the algorithm {config.name} learned in {agent.progress.text}, with seed {config.training.seed}.\n",
        results_text(result),
        {None: "", "replay.gif": "![One episode](replay.gif)\n"}.get(video, f"One episode: [{video}]({video}).\n"),
        USE.format(repository=f"YOU/{name}", trusted=trusted),
        "".join(f"`{EXPORTED}/{file}` runs without rl-training: see `{EXPORTED}/{file}.md`.\n" for file in exported),
        f"## Settings\n\n```yaml\n{yaml.safe_dump(settings, sort_keys=False)}```\n\n`config.json` holds all of them.\n",
        f"## Versions\n\n| package | version |\n|---|---|\n{rows}\n" if rows else "",
    ]
    return "\n".join(part for part in parts if part)


USE = """## Use it

```python
import rl_training
from huggingface_hub import snapshot_download

agent = rl_training.load(f"{{snapshot_download('{repository}')}}/policy"{trusted})
print(agent.evaluate(20))
```

`policy` holds the networks, observation statistics and optimizers as safetensors and JSON: loading them runs no code of theirs.
The replay and the environments of the run are left out, so `agent.learn` begins a new run with these weights.
"""


def hub_name(algorithm: str, env_id: str) -> str:
    """Returns a repository's name for the Hub: letters, digits and `-_.`, with hyphens for everything else."""
    name = f"{algorithm}-{env_id}"
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in name)


def index_entry(env_id: str, result: EvalResult) -> dict:
    """Returns the result as an entry of the card's model-index."""
    value = f"{result.mean:.2f} +/- {result.std:.2f}"
    return {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": env_id, "type": env_id},
        "metrics": [{"type": "mean_reward", "value": value, "name": "mean_reward", "verified": False}],
    }


def results_text(result: EvalResult | None) -> str:
    if result is None:
        return "It was not evaluated for this card.\n"
    success = f", success rate {result.success_rate:.1%}" if result.success_rate is not None else ""
    return (
        f"Mean return **{result.mean:.2f}**, standard deviation {result.std:.2f}{success}, over {len(result.returns)} fresh "
        "episodes with the most likely actions; `results.json` has every return.\n"
    )

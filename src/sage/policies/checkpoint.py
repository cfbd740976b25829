"""The file format of learned policies: safetensors with a JSON header, whatever the suffix; pickles are never read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sage.files import replacing
from sage.policies import features
from sage.policies.cascades.learned_cascade import OTHER, LearnedCascade
from sage.policies.cell_policy import CellPolicy
from sage.policies.cells import Cells
from sage.policies.learned_policy import LearnedPolicy, Training
from sage.policies.network_policy import NetworkPolicy
from sage.policies.share_policy import SharePolicy
from sage.policies.text.categories import Categorizer
from sage.policies.text.embedding import EmbeddingError
from sage.policies.text.text_kernel import TextModel
from sage.policies.text.text_policy import TextPolicy, part_of

FORMAT = "sage policy"
FORMAT_VERSION = 1
TASKS = "task_hashes"
CATEGORIES = "categories"  # how to infer them, where the policy does


class PolicyLoadError(ValueError):
    """A checkpoint that cannot serve; the message names the file, what is wrong and what to do."""


def save_policy(path: str | Path, policy: LearnedPolicy | LearnedCascade) -> None:
    """Writes a policy or cascade to one file, complete or not at all."""
    training = {key: value for key, value in asdict(policy.training).items() if key != TASKS}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": policy.kind,
        "name": policy.name,
        "models": list(policy.models),
        "options": policy.options(),
        "training": training,
    }
    arrays = {name: np.ascontiguousarray(values) for name, values in policy.arrays().items()}
    arrays[TASKS] = policy.training.task_hashes
    if isinstance(policy, LearnedPolicy) and policy.categorizer is not None:
        header[CATEGORIES] = policy.categorizer.options()
        arrays |= {f"{CATEGORIES}_{name}": values for name, values in policy.categorizer.model.arrays().items()}
    text = json.dumps(header, allow_nan=False)
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(save(arrays, metadata={"header": text, "sha256": content_hash(text, arrays)}))


def load_policy(path: str | Path) -> LearnedPolicy:
    """Reads a policy of single decisions, ready to decide, without PyTorch.

    Raises PolicyLoadError if the file is damaged, of another version, or a cascade.
    """
    policy = load_any(path)
    if isinstance(policy, LearnedCascade):
        raise PolicyLoadError(
            f"{path} is a cascade, which answers step by step: here a policy of single decisions is needed"
        )
    return policy


def load_cascade(path: str | Path) -> LearnedCascade:
    """Reads a cascade that `sage train --learner cascade` wrote.

    Raises PolicyLoadError if the file is damaged, of another version, or a policy of single decisions.
    """
    policy = load_any(path)
    if not isinstance(policy, LearnedCascade):
        raise PolicyLoadError(
            f"{path} is no cascade but a {policy.kind} policy: make one with `sage train --learner cascade`"
        )
    return policy


def load_any(path: str | Path) -> LearnedPolicy | LearnedCascade:
    """Reads a policy of single decisions or a cascade.

    Raises PolicyLoadError if the file is missing, damaged, of another version, or was learned with other features.
    """
    path = Path(path)
    text, recorded, arrays = read_file(path)
    if content_hash(text, arrays) != recorded:
        raise PolicyLoadError(f"{path}: the content does not match its sha256: copy the file again")
    try:
        header = json.loads(text)
        policy = with_categorizer(build(header, arrays, path.parent), header.get(CATEGORIES), arrays)
    except EmbeddingError as error:
        raise PolicyLoadError(f"{path} cannot serve: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise PolicyLoadError(f"{path} cannot serve: {what}; train it again with this sage") from error
    if policy.training.features_version not in (0, features.VERSION):  # 0: uses no features
        raise PolicyLoadError(
            f"{path} was learned with features version {policy.training.features_version}, and this sage has "
            f"{features.VERSION}: export and train again"
        )
    return policy


def read_file(path: Path) -> tuple[str, str, dict[str, np.ndarray]]:
    """Returns the JSON header as text, the recorded sha256 of the content, and the arrays by name.

    Raises PolicyLoadError if the file is missing or is no policy file.
    """
    if not path.is_file():
        raise PolicyLoadError(f"{path}: there is no such file: make it with `sage train --out {path}`")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise PolicyLoadError(
            f"{path} is not a policy file or was cut ({error}): checkpoints are safetensors whatever their suffix; pickles "
            "are never read; train it again"
        ) from error
    if "header" not in metadata or "sha256" not in metadata:
        raise PolicyLoadError(f"{path} is not a policy of sage: make one with `sage train --out {path}`")
    return metadata["header"], metadata["sha256"], arrays


def build(header: dict, arrays: dict[str, np.ndarray], folder: Path) -> LearnedPolicy | LearnedCascade:
    """Returns the policy that a header and its arrays describe; `folder` is that of the file.

    Raises ValueError, KeyError or TypeError if they do not fit together.
    """
    if (header["format"], header["format_version"]) != (FORMAT, FORMAT_VERSION):
        found = f"{header['format']!r} version {header['format_version']}"
        raise ValueError(f"it is a {found}, and this sage reads {FORMAT!r} version {FORMAT_VERSION}")
    options, training = header["options"], Training(**header["training"], task_hashes=arrays[TASKS])
    name, models = header["name"], tuple(header["models"])
    cells = Cells(tuple((role, category) for role, category in options["cells"]))
    check_header(name, models, options)
    if header["kind"] == CellPolicy.kind:
        return CellPolicy(
            name=name,
            models=models,
            training=training,
            cells=cells,
            mean=arrays["mean"],
            deviation=arrays["deviation"],
            next_tasks=arrays.get("next_tasks", np.zeros_like(arrays["mean"])),  # of files from before there was one
            pessimism=options["pessimism"],
            spread=options["spread"],
        )
    if header["kind"] == SharePolicy.kind:
        return SharePolicy(
            name=name,
            models=models,
            training=training,
            cells=cells,
            share=arrays["share"],
            usual=arrays["usual"],
            chance=options["chance"],
        )
    if header["kind"] == NetworkPolicy.kind:
        count = sum(key.startswith("weight") for key in arrays)
        return NetworkPolicy(
            name=name,
            models=models,
            training=training,
            cells=cells,
            layers=tuple((arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(count)),
            tried=arrays["tried"],
            incumbent=arrays["incumbent"],
            settled=arrays["settled"],
            edges=arrays["edges"],
            mean=arrays["mean"],
            deviation=arrays["deviation"],
            spread=options["spread"],
        )
    if header["kind"] == LearnedCascade.kind:
        own = cascade_of(name, models, training, cells, options["price"], arrays)
        if "other_price" not in options:
            return own
        theirs = part_of(arrays, OTHER)
        other = cascade_of(name, models, training, cells, options["other_price"], theirs)
        return replace(own, other=other, share=options["share"])
    if header["kind"] == TextPolicy.kind:
        return TextPolicy.from_parts(name, models, training, cells, arrays, options, folder)
    raise ValueError(f"policies of kind {header['kind']!r} are not known")


def cascade_of(
    name: str, models: tuple[str, ...], training: Training, cells: Cells, price: float, arrays: dict[str, np.ndarray]
) -> LearnedCascade:
    return LearnedCascade(
        name=name,
        models=models,
        training=training,
        cells=cells,
        price=price,
        codes=arrays["codes"],
        values=arrays["values"],
        weights=arrays["weights"],
        mean_cost=arrays["mean_cost"],
    )


def with_categorizer(
    policy: LearnedPolicy | LearnedCascade, options: dict | None, arrays: dict[str, np.ndarray]
) -> LearnedPolicy | LearnedCascade:
    if options is None or isinstance(policy, LearnedCascade):
        return policy
    model = TextModel.from_arrays(part_of(arrays, f"{CATEGORIES}_"))
    for name, shape in model.shapes(0, len(options["names"])).items():
        if model.arrays()[name].shape != shape:
            raise ValueError(f"{CATEGORIES}_{name} has shape {model.arrays()[name].shape} where {shape} is needed")
    return replace(policy, categorizer=Categorizer(**options | {"names": tuple(options["names"])}, model=model))


def check_header(name: object, models: tuple, options: dict) -> None:
    if not isinstance(name, str) or not models or not all(isinstance(model, str) for model in models):
        raise ValueError(f"name={name!r} and models={list(models)!r} must be texts")
    names = (
        "pessimism",
        "spread",
        "chance",
        "price",
        "other_price",
        "share",
        "usd_worth",
        "known_spread",
        "new_spread",
    )
    numbers = {key: options[key] for key in names if options.get(key) is not None}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ValueError(f"{key}={value!r} must be a finite number that is not negative")


def content_hash(text: str, arrays: dict[str, np.ndarray]) -> str:
    """Returns the sha256 (hex) of a header's text and of all arrays with their names, types and shapes."""
    digest = hashlib.sha256(text.encode())
    for name, values in sorted(arrays.items()):
        digest.update(f"{name} {values.dtype} {values.shape}".encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()

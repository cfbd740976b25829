"""Weights and optimizers of an archive, copied into an algorithm of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from rl_training.api.sb3.archive import Archive
from rl_training.api.sb3.families import Family
from rl_training.api.sb3.inert_pickle import Name
from rl_training.api.sb3.networks import Tensors
from rl_training.core import Adam, Algorithm, Optimizer, RMSprop

STATISTICS = ("ra_mean", "ra_var", "steps")  # of batch renormalisation, which no optimizer moves
AVERAGES = {"mean": "exp_avg", "square": "exp_avg_sq"}
OPTIMIZERS = ("Adam", "RMSprop", "RMSpropTFLike")
MOST_STEPS = 1e15


class Watched(Mapping[str, Tensor]):
    """Tensors by name that know which of them were asked for; with `like`, absent ones are zeros of that one's shape."""

    def __init__(self, tensors: Tensors, like: Tensors | None = None) -> None:
        self.tensors, self.like, self.asked = tensors, like, set()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        if self.like is not None and name not in self.tensors:
            return torch.zeros_like(self.like[name])
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def copy_weights(archive: Archive, algorithm: Algorithm, family: Family, tensors: Tensors) -> None:
    """Copies the tensors of an archive into an algorithm.

    Raises CheckpointError unless every tensor of the archive has its place, and every weight of the algorithm is found.
    """
    mine = dict(algorithm.state_dict())
    wanted = {name for name, _ in algorithm.named_parameters(remove_duplicate=False)}
    wanted |= {name for name in mine if ".net.norms." in name}
    plan = {name: read for name, read in family.plan.items() if name in mine}
    missing = sorted(wanted - plan.keys() - {"log_ent_coef"})
    if missing:
        raise archive.refusal(
            f"has no tensors for {missing[0]}: its networks are of another kind than those of {type(algorithm).__name__}"
        )
    watched, found = Watched(tensors), {}
    for name, read in plan.items():
        try:
            found[name] = read(watched)
        except (KeyError, IndexError, RuntimeError) as error:
            raise archive.refusal(f"has no tensors for {name}, or some that do not fit together ({error})") from error
        if found[name].shape != mine[name].shape:
            shapes = tuple(found[name].shape), tuple(mine[name].shape)
            raise archive.refusal(
                f"has a tensor for {name} of the shape {shapes[0]}, and its spaces and settings ask for {shapes[1]}"
            )
    places = {place_of(tensors[name]) for name in watched.asked}
    for name, tensor in tensors.items():
        if place_of(tensor) not in places:
            raise archive.refusal(
                f"has a tensor {name[:80]!r} of the shape {tuple(tensor.shape)}, for which there is no place here"
            )
    algorithm.load_state_dict(mine | found)


def place_of(tensor: Tensor) -> tuple[int, tuple[int, ...]]:
    """Returns where a tensor lies in memory, by which several names of one tensor can be told."""
    return tensor.data_ptr(), tuple(tensor.shape)


def parameter_names(tensors: Tensors, prefix: str) -> list[str]:
    """Returns the names of the parameters below a prefix as torch counts them: in order, and each tensor once."""
    first: dict[tuple, str] = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix) and name.rpartition(".")[2] not in STATISTICS:
            first.setdefault(place_of(tensor), name)
    return list(first.values())


def group_of(archive: Archive, member: str) -> dict:
    """Returns the settings of an optimizer in an archive, such as "eps"; {} if it is not there or has several groups.

    Left out are those that are no plain numbers, or lists of such.
    """
    groups = archive.tensors(f"{member}.pth").get("param_groups")
    group = groups[0] if isinstance(groups, list) and len(groups) == 1 and isinstance(groups[0], dict) else {}
    return {name: value for name, value in group.items() if is_plain(value)}


def is_plain(value: object) -> bool:
    parts = value if isinstance(value, list | tuple) else (value,)
    return all(part is None or isinstance(part, int | float) for part in parts)


def optimizer_of(archive: Archive) -> str:
    """Returns the name of the optimizer's class, "Adam" if the archive names none."""
    kwargs = archive.plain("policy_kwargs")
    kind = kwargs.get("optimizer_class") if isinstance(kwargs, dict) else None
    return kind.name if isinstance(kind, Name) else "Adam"


def optimizer_settings(archive: Archive, name: str, family: Family) -> tuple[dict[str, object], list[str]]:
    """Returns our settings of the optimizers of algorithm `name`, and sentences about what is not available here."""
    kind, notes, settings = optimizer_of(archive), [], {}
    if kind not in OPTIMIZERS:
        return {}, [f"its optimizer {kind} is not available here: training continues with ours, which starts anew"]
    group = group_of(archive, next(iter(family.optimizers.values()))[0])
    if isinstance(eps := group.get("eps"), float) and name == "a2c":
        settings |= {"rms_prop_eps": eps, "use_rms_prop": "alpha" in group}
        settings["rms_prop_tf"] = kind == "RMSpropTFLike"
    elif isinstance(eps, float) and name != "trpo":
        settings["adam_eps"] = eps
    others = {"weight_decay": 0, "amsgrad": False, "momentum": 0, "centered": False, "alpha": 0.99}
    different = [f"{key}={group[key]}" for key, usual in others.items() if group.get(key, usual) != usual]
    if different:
        notes.append(f"its optimizer has {', '.join(different)}, which is not available here")
    return settings, notes


def copy_optimizers(archive: Archive, algorithm: Algorithm, family: Family, tensors: Tensors) -> list[str]:
    """Copies the averages of an archive's optimizers into those of an algorithm; returns sentences about what was not."""
    ours, notes = {id(parameter): name for name, parameter in algorithm.named_parameters()}, []
    for name, (member, prefix) in family.optimizers.items() if optimizer_of(archive) in OPTIMIZERS else ():
        optimizer, content = algorithm.optimizer(name), archive.tensors(f"{member}.pth")
        state, group = content.get("state"), group_of(archive, member)
        if not state:
            if content or name != "ent_coef":
                notes.append(f"{member}.pth holds no averages yet, so its optimizer starts anew")
            continue
        numbers = group.get("params")
        names = [parameter_names(tensors, part) for part in (prefix, "")]
        names = next((found for found in names if numbers == list(range(len(found)))), None)
        if names is None or not fits(optimizer, group):
            notes.append(f"{member}.pth does not fit its networks, or is of another kind, so its optimizer starts anew")
            continue
        try:
            fill(optimizer, {names[index]: parts for index, parts in state.items()}, family, tensors, ours)
        except (KeyError, IndexError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise archive.refusal(f"has an optimizer {member}.pth that does not fit its networks ({error})") from error
    return notes


def fits(optimizer: Optimizer, group: dict) -> bool:
    if isinstance(optimizer, Adam):
        return group.get("betas") == optimizer.betas
    return isinstance(optimizer, RMSprop) and "alpha" in group


def fill(optimizer: Optimizer, state: dict[str, dict], family: Family, tensors: Tensors, ours: dict[int, str]) -> None:
    """Copies an optimizer's averages, by the parameter's name there, into ours; parameters without any get zeros."""
    known = AVERAGES if isinstance(optimizer, Adam) else {"square": "square_avg"}
    for mine, theirs in known.items():
        averages = Watched({name: parts[theirs] for name, parts in state.items()}, tensors)
        for name, average in averages.items():
            if average.shape != tensors[name].shape:
                raise ValueError(f"{theirs} of {name} has the shape {tuple(average.shape)}")
            if mine == "square" and (average < 0).any():
                raise ValueError(f"{theirs} of {name} has negative numbers, and is a mean of squares")
        parts = [family.plan[ours[id(target)]](averages).reshape(-1) for target in optimizer.targets]
        getattr(optimizer, mine).copy_(torch.cat(parts))
    if isinstance(optimizer, Adam):
        count = max(float(parts["step"]) for parts in state.values())
        if not 0 <= count < MOST_STEPS:
            raise ValueError(f"it took {count:g} steps")
        optimizer.count.fill_(count)

"""Protocols of Atari games: the settings on which a score depends, and two presets of them (arXiv:1709.06009)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import get_type_hints

from rl_training.core.arguments import as_python, real_number, whole_number
from rl_training.core.ranges import Count, Natural, Share, ranges_in


@dataclass(frozen=True, kw_only=True)
class AtariProtocol:
    """Settings of an Atari game that its scores depend on; the defaults are those of Machado et al. (2018).

    Rewards are clipped, and lost lives end episodes, for learning alone: returns are of the whole game.
    """

    sticky: Share = 0.25  # chance that a frame repeats the action of the frame before
    frame_skip: Count = 4  # frames of one step
    max_pool: bool = True  # a picture is the maximum of the last two frames: some sprites are drawn on every other one
    noop_max: Natural = 0  # a game starts with at most so many frames without an action; their number is drawn
    fire_reset: bool = False  # a game starts with the button, where the game waits for it
    clip_reward: bool = True  # only its sign is learned from
    life_loss_terminal: bool = False  # a lost life is learned from as a termination
    full_action_space: bool = False  # 18 actions, also those that mean nothing in the game
    max_steps: Count = 27_000  # of a game: 108,000 frames
    size: Count = 84  # pictures are size x size
    grayscale: bool = True

    def to_mapping(self) -> dict[str, object]:
        """Returns the settings as plain data, which a stored result carries."""
        return asdict(self)


PROTOCOLS = {
    "machado": AtariProtocol(),
    "dqn": AtariProtocol(sticky=0.0, noop_max=30, fire_reset=True, life_loss_terminal=True),
}
DEFAULT = "machado"


@dataclass(frozen=True, kw_only=True)
class AleSettings:
    """Settings of a batch of Atari games: the protocol, and how the emulators run."""

    protocol: AtariProtocol
    num_threads: int | None  # None: one per core, at most one per game
    reseed_steps: int | None  # None: chosen by the number of games


def read_settings(given: Mapping[str, object], max_episode_steps: int | None) -> AleSettings:
    """Builds settings from `env.kwargs`: `protocol`, fields of an `AtariProtocol`, `num_threads`, and `reseed_steps`.

    `max_episode_steps` replaces `max_steps` unless it is None. Raises a ValueError for unknown names, wrong values, and
    limits that contradict each other.
    """
    hints = get_type_hints(AtariProtocol, include_extras=True)
    known = ["protocol", *hints, "num_threads", "reseed_steps"]
    for name in given:
        if name not in known:
            raise ValueError(f"env.kwargs.{name} is not a setting of Atari games: {nearest(str(name), known)}")
    chosen = {name: read_field(name, hints[name], given[name]) for name in hints if name in given}
    if max_episode_steps is not None and chosen.setdefault("max_steps", max_episode_steps) != max_episode_steps:
        raise ValueError(
            f"env.kwargs.max_steps={chosen['max_steps']} and env.max_episode_steps={max_episode_steps} are the same "
            "setting: leave one of them out"
        )
    counts = {name: given.get(name) for name in ("num_threads", "reseed_steps")}
    checked = {key: None if v is None else whole_number(v, f"env.kwargs.{key}") for key, v in counts.items()}
    protocol = replace(find_protocol(given.get("protocol", DEFAULT)), **chosen)  # pyrefly: ignore[bad-argument-type]
    return AleSettings(protocol=protocol, **checked)


def find_protocol(name: object) -> AtariProtocol:
    """Returns the protocol of this name; raises a ValueError with the nearest name if there is none."""
    if isinstance(name, str) and name in PROTOCOLS:
        return PROTOCOLS[name]
    raise ValueError(
        f"env.kwargs.protocol={name!r} is not a protocol: {nearest(str(name), list(PROTOCOLS))}; single settings are "
        "changed by name, such as env.kwargs.sticky=0.25"
    )


def read_field(name: str, hint: object, value: object) -> object:
    path = f"env.kwargs.{name}"
    if hint is bool:
        if isinstance(as_python(value), bool):
            return as_python(value)
        raise ValueError(f"{path}={value!r} must be true or false")
    limits = next(ranges_in(hint))
    return real_number(value, path, limits) if name == "sticky" else whole_number(value, path, limits)


def nearest(name: str, known: list[str]) -> str:
    """Returns advice on an unknown name, the end of an error message: the most similar of `known`, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"

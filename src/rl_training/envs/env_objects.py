"""A warning about attributes that were set on an environment object, and are lost when it is rebuilt from its spec."""

from __future__ import annotations

import logging

import gymnasium as gym

SAID: set[str] = set()
log = logging.getLogger(__name__)


def note_changed_attributes(env: gym.Env) -> None:
    """Warns, once for each environment id, about changed attributes that a rebuilt environment will not have."""
    if env.spec is None or env.spec.id in SAID:
        return
    values = ", ".join(f"{name}={value!r}" for name, value in changed_attributes(env).items())
    if not values:
        return
    SAID.add(env.spec.id)
    log.warning(
        f"{values} of the {env.spec.id} that was handed over is not what a new one has, and environments are built anew "
        "from its spec, without it: pass a function that builds and changes one"
    )


def changed_attributes(env: gym.Env) -> dict[str, object]:
    """Returns the plain attributes in which an environment differs from a new one of the same spec."""
    assert env.spec is not None
    fresh = gym.make(env.spec)
    try:
        ours, theirs = vars(env.unwrapped), vars(fresh.unwrapped)
        return {
            name: value
            for name, value in ours.items()
            if not name.startswith("_") and is_plain(value) and is_plain(theirs.get(name)) and value != theirs[name]
        }
    finally:
        fresh.close()


def is_plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str)

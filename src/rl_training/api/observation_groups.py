"""Who sees what: the groups of a config, checked against the keys that an environment observes."""

from __future__ import annotations

from rl_training.config import ConfigError
from rl_training.config.parsing import nearest, to_plain
from rl_training.core import Dict, Groups, Space, Spec


def with_groups(spec: Spec, groups: Groups) -> Spec:
    """The spec with the groups; refuses keys that are not observed."""
    if groups == Groups():
        return spec
    if not isinstance(spec.obs, Dict):
        raise ConfigError(
            f"env.obs_groups={to_plain(groups)} names keys of Dict observations, and this environment observes a "
            f"{type(spec.obs).__name__}: drop it, or let the environment observe a Dict"
        )
    for name, keys in (("policy", groups.policy), ("critic", groups.critic)):
        for key in keys:
            if key not in spec.obs.spaces:
                raise ConfigError(
                    f"env.obs_groups.{name} names {key!r}, which this environment does not observe: "
                    f"{nearest(key, list(spec.obs.spaces))}"
                )
        if keys and set(keys) <= {"action_mask"}:
            raise ConfigError(
                f"env.obs_groups.{name}={list(keys)} leaves nothing to see: name another key beside the mask"
            )
    return Spec(spec.obs, spec.action, groups)


def needed_of(given: Space, spec: Spec) -> Space:
    """Of what an environment observes, what a policy for `spec` must find there; the critic's own keys need not be."""
    seen = spec.seen_by("policy").obs
    if spec.groups == Groups() or not isinstance(given, Dict) or not isinstance(seen, Dict):
        return given
    return Dict({key: leaf for key, leaf in given.spaces.items() if key in seen.spaces})

"""Pictures that were sent to the device for acting, from which the steps of a rollout are made without a second copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rl_training.core import Space, Transition, Tree, tree_map
from rl_training.core.pictures import picture_keys

Pictures = dict[str, Tensor]  # by key of the observation; "" if it is a picture itself
Send = Callable[[Any], Any]  # of a tree of tensors, to the same tree


class SentPictures:
    """The pictures of the present steps on the device: each is sent once, to act on, and is the step before's successor.

    Successors at an episode's end, on which nobody acts, are sent by themselves.
    """

    def __init__(self, space: Space, send: Send, send_end: Send) -> None:
        """Stores the functions that copy host tensors to the device: observations, and ends with their pictures."""
        self.names = picture_keys(space)
        self.send, self.send_end = send, send_end
        self.host: Tree | None = None  # the observation that was sent last,
        self.there: Pictures = {}  # and its pictures on the device
        self.ends: dict[int, tuple[Tensor, Pictures]] = {}  # by step: where episodes ended, and their last pictures

    def begin(self) -> None:
        """Forgets the ends of episodes in earlier steps."""
        self.ends = {}

    def of(self, obs: Tree) -> Pictures:
        """Returns the pictures of a host observation on the device, by name; sends them unless they were sent last."""
        if self.host is not obs:
            self.host, self.there = obs, self.send(self.pick(obs))
        return self.there

    def pick(self, obs: Tree) -> Pictures:
        return {name: obs[name] if isinstance(obs, dict) else obs for name in self.names}

    def place_in(self, obs: Tree, pictures: Pictures) -> Tree:
        """Returns an observation with `pictures`, by name, in place of its own."""
        return obs | pictures if isinstance(obs, dict) else pictures[""]

    def note_end(self, time: int, ended: Tensor, next_obs: Tree) -> Tree:
        """Sends the successors `next_obs` of step `time` if an episode ended there; `ended` is a host mask [env].

        Returns `next_obs` with other pictures in it, which `finish` will replace.
        """
        if ended.any():
            self.ends[time] = self.send_end((ended, self.pick(next_obs)))
        return self.place_in(next_obs, self.there)

    def finish(self, steps: Transition, following: Tree) -> Transition:
        """Returns [time, env] steps with their successors; `following` is the host observation to act on next."""
        seen, after = self.pick(steps.obs), self.of(following)
        successors = tree_map(lambda x, last: torch.cat([x[1:], last.unsqueeze(0)]), seen, after)
        for time, (ended, last) in self.ends.items():
            for name, pictures in successors.items():
                mask = ended.view(-1, *[1] * (pictures.ndim - 2))
                pictures[time] = torch.where(mask, last[name], pictures[time])
        return steps._replace(next_obs=self.place_in(steps.next_obs, successors))

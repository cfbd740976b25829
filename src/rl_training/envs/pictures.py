"""Pictures of environments: their checks, and the newest frame of an observation that is a picture."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from rl_training.core import Box, Dict, Space, Tree

COLOURS = 3
SHOWN = 336  # pixels of the longer side up to which small pictures are enlarged, such as Atari's 84x84


def check_picture(picture: object) -> np.ndarray | None:
    """Returns the picture that an environment has drawn, uint8 [height, width, 3]; None if it drew nothing.

    Raises a ValueError if it is anything else.
    """
    if picture is None:
        return None
    if isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.shape[2:] == (COLOURS,):
        return picture
    found = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
    raise ValueError(f"the environment drew {found} as a picture: `render` must return uint8 [height, width, 3]")


def newest_frame(obs: Tree, space: Space) -> np.ndarray | None:
    """Returns the newest frame in the observation of environment 0, as uint8 [height, width, 3]; None if there is none.

    `obs` [num_envs, ...] are observations of `space`. In a Dict, the first picture is taken. The first or the last of
    three dimensions holds channels, whichever is smaller: one is grey, three are colours, and of others the last one is
    the newest frame. Of four dimensions, the first holds frames.
    """
    if isinstance(space, Dict):
        assert isinstance(obs, dict)
        frames = (newest_frame(obs[key], leaf) for key, leaf in space.spaces.items())
        return next((frame for frame in frames if frame is not None), None)
    if not isinstance(space, Box) or space.dtype != "uint8" or len(space.shape) not in (2, 3, 4):
        return None
    assert isinstance(obs, Tensor)
    frame = obs[0].cpu().numpy()
    if frame.ndim == 4:
        frame = frame[-1]
    if frame.ndim == 2:
        frame = frame[..., None]
    if frame.shape[0] < frame.shape[-1]:
        frame = np.moveaxis(frame, 0, -1)
    return np.ascontiguousarray(frame if frame.shape[-1] == COLOURS else frame[..., -1:].repeat(COLOURS, -1))


def enlarge(picture: np.ndarray) -> np.ndarray:
    """Returns a small picture [height, width, 3] with every pixel repeated, so that its longer side is about 336."""
    times = max(1, SHOWN // max(picture.shape[:2]))
    return picture.repeat(times, 0).repeat(times, 1) if times > 1 else picture

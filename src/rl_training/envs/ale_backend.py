"""The backend `ale`: Atari games by ale-py's vector environment, which needs the extra `atari` (ale-py is GPL-2.0)."""

from __future__ import annotations

import difflib
import os
import re
from types import ModuleType

import torch

from rl_training.envs.ale_protocol import AleSettings, read_settings
from rl_training.envs.ale_vector_env import NEVER, AleEnv
from rl_training.envs.backends import Abilities, register_backend
from rl_training.envs.make import EnvConfig

LEAST_VERSION = (0, 12, 1)  # whose masked resets are right
PREFIX = "ALE/"
STACK = 4  # pictures of an observation


def import_ale() -> ModuleType:
    """Imports ale-py; raises a ValueError that names the extra if it is missing or too old."""
    extra = "pip install 'rl-training[atari]' (ale-py is licensed under GPL-2.0)"
    try:
        import ale_py
    except ImportError as error:
        raise ValueError(f"env.backend='ale' needs ale-py, which is not installed: {extra}") from error
    version = tuple(int(part) for part in re.findall(r"\d+", ale_py.__version__)[:3])
    if version < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise ValueError(f"env.backend='ale' needs ale-py {least}, and {ale_py.__version__} is installed: {extra}")
    return ale_py


def find_game(env_id: str) -> str:
    """Returns ale-py's name of the game in an id such as 'ALE/MsPacman-v5'; raises a ValueError with the nearest id."""
    import_ale()
    from ale_py import roms

    games = {game.replace("_", ""): game for game in roms.get_all_rom_ids()}
    found = re.fullmatch(rf"{PREFIX}(\w+)-v5", env_id)
    if found and found[1].lower() in games:
        return games[found[1].lower()]
    if "-ram-" in env_id:
        raise ValueError(
            f"env.id={env_id!r} observes the memory of the console, and this backend gives pictures: use "
            f"'ale_py:{env_id}' with env.backend='gymnasium'"
        )
    ids = {spelled(game).lower(): spelled(game) for game in games.values()}
    raise ValueError(f"env.id={env_id!r} is not a game of ale-py: {nearest_id(env_id, ids)}")


def spelled(game: str) -> str:
    return f"{PREFIX}{''.join(word.capitalize() for word in game.split('_'))}-v5"


def nearest_id(env_id: str, ids: dict[str, str]) -> str:
    """Returns advice on an unknown id; `ids` maps the ids in small letters to those as they are written."""
    close = difflib.get_close_matches(env_id.lower(), ids, n=1, cutoff=0.5)
    return f"did you mean {ids[close[0]]!r}?" if close else "an id is 'ALE/', the game's name and '-v5': 'ALE/Pong-v5'"


def check_ale(config: EnvConfig) -> None:
    """Raises a ValueError if ale-py is missing, the game is unknown, or a setting of the protocol is wrong."""
    find_game(config.id)
    settings = ale_settings(config)
    if config.info_keys:
        raise ValueError(f"env.info_keys={config.info_keys!r}: Atari games say nothing of their episodes; leave it out")
    if not settings.protocol.grayscale and config.num_stacked > 1:
        raise ValueError("env.kwargs.grayscale=False gives one coloured picture: use env.frame_stack=1 with it")


def ale_settings(config: EnvConfig) -> AleSettings:
    return read_settings(config.kwargs, config.max_episode_steps)


def describe_ale(config: EnvConfig) -> dict[str, object]:
    return ale_settings(config).protocol.to_mapping() | {"frame_stack": config.num_stacked}


def make_ale(config: EnvConfig, num_envs: int, *, device: torch.device | str, start: int) -> AleEnv:
    """Builds `num_envs` games; `device` is not used, and `start` is the number of the first one in the run."""
    game = find_game(config.id)
    from ale_py.vector_env import AtariVectorEnv

    settings = ale_settings(config)
    protocol = settings.protocol
    env = AtariVectorEnv(  # every argument: the defaults of ale-py's two entry points differ
        game,
        num_envs,
        batch_size=0,
        num_threads=settings.num_threads or min(num_envs, cores()),
        thread_affinity_offset=-1,
        max_num_frames_per_episode=NEVER,
        repeat_action_probability=protocol.sticky,
        full_action_space=protocol.full_action_space,
        continuous=False,
        continuous_action_threshold=0.5,
        autoreset_mode="NextStep",  # which never comes to pass: ended games are reset at once
        img_height=protocol.size,
        img_width=protocol.size,
        grayscale=protocol.grayscale,
        stack_num=config.num_stacked,
        frameskip=protocol.frame_skip,
        maxpool=protocol.max_pool,
        noop_max=protocol.noop_max,
        episodic_life=False,  # it would start a whole new game
        life_loss_info=False,  # it would mix lost lives with ends
        reward_clipping=False,
        use_fire_reset=protocol.fire_reset,
    )
    return AleEnv(env, settings, config.num_stacked, start=start)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


register_backend(
    "ale",
    make_ale,
    owns=(PREFIX,),
    check=check_ale,
    protocol=describe_ale,
    can=Abilities(saves_state=True, time_limit=True, stack=True, usual_stack=STACK),
)

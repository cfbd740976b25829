"""Videos of an agent: `Agent.record`, and those of the callback `RecordVideo` during `learn`."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.api.evaluation_source import evaluate_in, evaluation_envs
from rl_training.config import RunConfig
from rl_training.config.parsing import parse_flag, parse_path, parse_seed, parse_steps, parse_value
from rl_training.core.ranges import Positive
from rl_training.envs.filming import FilmedEnv
from rl_training.experiment.recording import RecordVideo
from rl_training.experiment.video_file import check_video_path, video_file
from rl_training.runtime import Callback, EvalResult, Streams

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

log = logging.getLogger(__name__)


def record_agent(
    agent: Agent, path: object, num_episodes: object, deterministic: object, seed: object, env: object, fps: object
) -> EvalResult:
    """Writes a video of complete episodes in the environment that the config evaluates in, or in `env` unless it is None.

    Raises ConfigError or ValueError, before the first step, if an argument is invalid or nothing can be filmed.
    """
    file = parse_path(path, "path")
    check_video_path(file, "path")
    num, seed, chosen = (
        parse_steps(num_episodes, "num_episodes"),
        parse_seed(seed),
        parse_flag(deterministic, "deterministic"),
    )
    speed = None if fps is None else parse_value(Positive, fps, "fps")
    assert speed is None or isinstance(speed, float)
    with evaluation_envs(agent.config, agent.spec, agent.trust, env, num, agent.algorithm.policy, filmed=True) as film:
        assert isinstance(film, FilmedEnv)
        with video_file(file, speed or film.render_fps) as video:
            film.show = video.add
            return evaluate_in(film, agent, env, num, deterministic=chosen, seed=seed)


def bind_videos(agent: Agent, config: RunConfig, callbacks: list[Callback]) -> list[Callback]:
    """Returns the callbacks of `learn`, with one that films if the config asks for videos.

    Connects those that film to the agent. Raises ConfigError or ValueError if one of them cannot film it.
    """
    settings, streams = config.evaluation, Streams.from_seed(config.training.seed)
    if settings.video_interval and agent.run_dir is None:
        log.warning("evaluation.video_interval has no effect without a folder to write to: pass run_dir=")
    elif settings.video_interval:
        callbacks = [*callbacks, RecordVideo(settings.video_interval, format=settings.video_format)]
    filming = [callback for callback in callbacks if isinstance(callback, RecordVideo)]
    for callback in filming:
        callback.begin(agent.run_dir, partial(film_at, agent, callback, streams))
    if filming:
        check_filming(agent, streams.evaluation_at(0))
    return callbacks


def film_at(agent: Agent, callback: RecordVideo, streams: Streams, path: Path, timesteps: int) -> None:
    seed = streams.evaluation_at(timesteps)
    agent.record(path, callback.num_episodes, deterministic=callback.deterministic, seed=seed)


def check_filming(agent: Agent, seed: int) -> None:
    """Raises ConfigError or ValueError if no video of the agent can be made; resets an environment and draws it once."""
    with evaluation_envs(agent.config, agent.spec, agent.trust, None, 1, agent.algorithm.policy, filmed=True) as film:
        film.reset(seed)

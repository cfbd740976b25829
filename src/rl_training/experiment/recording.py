"""The callback that films an agent while it learns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from rl_training.config.parsing import parse_flag, parse_path, parse_steps
from rl_training.core.arguments import ConfigError
from rl_training.experiment.run_directory import VIDEOS
from rl_training.experiment.video_file import check_video_path
from rl_training.runtime import Callback, Trainer

Film = Callable[[Path, int], object]  # writes a video of the agent as it is at a step


class RecordVideo(Callback):
    """A callback that writes a video of the agent at every multiple of `every` env steps, and when the run is finished.

    The files are `step_000050000.mp4` and so on, in `folder` (None: `videos` in the run directory), each of
    `num_episodes` episodes in an environment of their own. Recording changes nothing in the run. `format` is "mp4",
    which needs the extra `video`, or "gif".
    """

    film: Film | None = None  # set by `learn`

    def __init__(
        self,
        every: int,
        *,
        folder: str | Path | None = None,
        format: Literal["mp4", "gif"] = "mp4",  # noqa: A002  (the word that users look for)
        num_episodes: int = 1,
        deterministic: bool = True,
    ) -> None:
        self.interval = every
        self.folder = parse_path(folder, "folder") if folder is not None else None
        self.suffix = f".{format}"
        self.num_episodes = parse_steps(num_episodes, "num_episodes")
        self.deterministic = parse_flag(deterministic, "deterministic")
        self.filmed_at = -1
        check_video_path(Path(f"video{self.suffix}"), "format")

    def begin(self, run_dir: Path | None, film: Film) -> None:
        """Sets where and how the videos of the run that follows are written.

        Raises ConfigError if there is neither a folder nor a run directory.
        """
        self.film, self.filmed_at = film, -1
        self.place = self.folder or (run_dir / VIDEOS if run_dir is not None else None)
        if self.place is None:
            raise ConfigError("RecordVideo has no folder to write to: give it folder=..., or the agent run_dir=...")
        check_video_path(self.place / f"step{self.suffix}", "folder")

    def on_interval(self, trainer: Trainer) -> None:
        now = trainer.progress.timesteps
        if self.film is not None and self.place is not None and self.filmed_at != now:
            self.filmed_at = now
            self.film(self.place / f"step_{now:09d}{self.suffix}", now)

    def on_end(self, trainer: Trainer) -> None:
        if trainer.progress.timesteps >= trainer.plan.horizon:
            self.on_interval(trainer)

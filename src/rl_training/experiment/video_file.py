"""Video files, written picture by picture: .gif by Pillow, .mp4 by the extra `video`."""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from rl_training.core.arguments import ConfigError
from rl_training.data.files import replacing

if TYPE_CHECKING:
    from PIL import Image

SHORTEST = 2  # hundredths of a second: programs show shorter pictures of a GIF slowly
COLOURS = 256  # that one picture of a GIF can have
QUALITY = 7  # of 10, for mp4


class VideoWriter(ABC):
    """Base of writers of one video file, which takes any number of pictures of one size and keeps the last at most."""

    def __init__(self, path: Path, fps: float) -> None:
        self.path, self.fps, self.num_pictures = path, fps, 0
        self.shape: tuple[int, ...] = ()

    def add(self, picture: np.ndarray) -> None:
        """Writes the next picture, uint8 [height, width, 3]; raises a ValueError if its size is not the first one's."""
        if self.num_pictures == 0:
            with refusing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.begin(picture)
            self.shape = picture.shape
        elif picture.shape != self.shape:
            raise ValueError(
                f"picture {self.num_pictures} of the video is {picture.shape}, the ones before {self.shape}: an environment "
                "must draw all its pictures in one size"
            )
        with refusing(self.path):
            self.write(picture)
        self.num_pictures += 1

    @abstractmethod
    def begin(self, picture: np.ndarray) -> None:
        """Opens the file for pictures of the size of `picture`."""

    @abstractmethod
    def write(self, picture: np.ndarray) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """Completes the file and closes it; does nothing if it was never begun."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        with refusing(self.path):
            self.finish()


class GifWriter(VideoWriter):
    """A writer of GIFs that run in a loop; every picture has its own colours, and only what changed is stored."""

    def begin(self, picture: np.ndarray) -> None:
        from PIL import GifImagePlugin, Image

        self.file = self.path.open("wb")
        self.last: Image.Image | None = None
        blank = Image.new("P", (picture.shape[1], picture.shape[0]))
        self.file.writelines(GifImagePlugin.getheader(blank, info={"loop": 0})[0])

    def write(self, picture: np.ndarray) -> None:
        from PIL import GifImagePlugin, Image, ImageChops

        image = Image.fromarray(picture)
        box = (0, 0, *image.size)
        if self.last is not None:
            box = ImageChops.difference(image, self.last).getbbox() or (0, 0, 1, 1)
        self.last = image
        part = image.crop(box).quantize(COLOURS)
        ends, begins = (round((self.num_pictures + i) * 100 / self.fps) for i in (1, 0))
        hundredths = max(SHORTEST, ends - begins)
        data = GifImagePlugin.getdata(part, box[:2], duration=10 * hundredths, include_color_table=True)
        self.file.writelines(data)

    def finish(self) -> None:
        if self.num_pictures:
            self.file.write(b";")
        if self.shape:
            self.file.close()


class Mp4Writer(VideoWriter):
    """A writer of mp4 files (H.264), through the program ffmpeg of the package imageio-ffmpeg."""

    def begin(self, picture: np.ndarray) -> None:
        import imageio_ffmpeg

        height, width = (size + size % 2 for size in picture.shape[:2])  # the codec takes even sizes only
        self.margin = ((0, height - picture.shape[0]), (0, width - picture.shape[1]), (0, 0))
        self.stream = imageio_ffmpeg.write_frames(
            str(self.path), (width, height), fps=self.fps, quality=QUALITY, macro_block_size=2, ffmpeg_log_level="error"
        )
        self.stream.send(None)

    def write(self, picture: np.ndarray) -> None:
        self.stream.send(np.ascontiguousarray(np.pad(picture, self.margin, mode="edge")))

    def finish(self) -> None:
        if self.shape:
            self.stream.close()


WRITERS: dict[str, type[VideoWriter]] = {".gif": GifWriter, ".mp4": Mp4Writer}


def check_video_path(path: Path, name: str) -> None:
    """Raises ConfigError, which calls the argument `name`, if no video can be written to a file of this name."""
    if path.suffix not in WRITERS:
        raise ConfigError(f"{name}={str(path)!r} ends with {path.suffix!r}: use .mp4 or .gif")
    if path.suffix == ".mp4" and not importlib.util.find_spec("imageio_ffmpeg"):
        raise ConfigError(
            f"{name}={str(path)!r} needs imageio-ffmpeg: pip install 'rl-training[video]', or write a .gif"
        )
    if path.is_dir():
        raise ConfigError(f"{name}={str(path)!r} is a folder: name a file")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{name}={str(path)!r} cannot be written, because of {folder}: choose another folder")


@contextmanager
def video_file(path: Path, fps: float) -> Iterator[VideoWriter]:
    """Yields a writer of the video `path`, which appears when the block has ended without an error, complete.

    Replaces an older file; makes missing folders.
    """
    with replacing(path) as temporary, WRITERS[path.suffix](temporary, fps) as writer:
        yield writer


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turns an OSError inside the block into a ConfigError which says that `path` could not be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{path} could not be written ({reason}): free space or choose another folder") from error

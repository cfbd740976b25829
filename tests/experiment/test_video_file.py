"""Video files hold every picture, and appear complete or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rl_training.config import ConfigError
from rl_training.experiment.video_file import check_video_path, video_file
from tests import needs
from tests.forked import run_script

KILLED = """
import os
from pathlib import Path
import numpy as np
from rl_training.experiment.video_file import video_file

with video_file(Path("cut{suffix}"), 10) as video:
    for value in range(5):
        video.add(np.full((20, 30, 3), value * 40, dtype=np.uint8))
    os._exit(9)
"""


def moving(num: int, height: int, width: int) -> list[np.ndarray]:
    """Pictures on which a bright square moves to the right and then stands still."""
    pictures = [np.full((height, width, 3), (20, 60, 120), dtype=np.uint8) for _ in range(num)]
    for time, picture in enumerate(pictures):
        at = min(time, num - 2) * 3
        picture[4:9, at : at + 5] = (250, 200, 10 * (time % 2) if time < num - 2 else 0)
    return pictures


def write(path: Path, pictures: list[np.ndarray], fps: float) -> None:
    with video_file(path, fps) as video:
        for picture in pictures:
            video.add(picture)


def decoded(path: Path) -> list[np.ndarray]:
    """The pictures of an mp4 file."""
    reader = needs.import_package("imageio_ffmpeg").read_frames(str(path))
    width, height = next(reader)["size"]
    return [np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in reader]


def test_a_gif_holds_every_pixel_and_the_whole_time(tmp_path: Path) -> None:
    pictures = moving(9, 33, 47)
    write(tmp_path / "new" / "a.gif", pictures, 30)
    with Image.open(tmp_path / "new" / "a.gif") as image:
        assert (image.n_frames, image.size, image.info["loop"]) == (9, (47, 33), 0)
        times = []
        for index, picture in enumerate(pictures):
            image.seek(index)
            times.append(image.info["duration"])
            assert (np.asarray(image.convert("RGB")) == picture).all(), index
    assert sum(times) == 300
    assert set(times) == {30, 40}


def test_a_fast_gif_is_slowed_to_what_programs_show(tmp_path: Path) -> None:
    write(tmp_path / "a.gif", moving(4, 8, 20), 200)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.info["duration"] == 20


def test_an_mp4_holds_every_picture(tmp_path: Path) -> None:
    pictures = moving(9, 33, 47)
    write(tmp_path / "a.mp4", pictures, 30)
    found = decoded(tmp_path / "a.mp4")
    assert len(found) == 9
    assert found[0].shape == (34, 48, 3)  # even sizes
    assert np.abs(found[4][:33, :47].astype(int) - pictures[4]).mean() < 12


def test_a_failure_leaves_the_older_file(tmp_path: Path) -> None:
    write(tmp_path / "a.gif", moving(3, 8, 20), 10)
    before = (tmp_path / "a.gif").read_bytes()
    with pytest.raises(ValueError, match=r"picture 1 of the video is \(9, 20, 3\)"):
        write(tmp_path / "a.gif", [np.zeros((height, 20, 3), np.uint8) for height in (8, 9)], 10)
    assert (tmp_path / "a.gif").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_killed_process_leaves_nothing_under_the_name(suffix: str, tmp_path: Path) -> None:
    if suffix == ".mp4":
        needs.require_package("imageio_ffmpeg")
    script = tmp_path / "script.py"
    script.write_text(KILLED.replace("{suffix}", suffix))
    assert run_script(script, cwd=tmp_path).returncode == 9
    left = [path.name for path in tmp_path.iterdir() if path != script]
    assert all(name.startswith(".cut.tmp-") for name in left)


def test_names_that_no_video_can_have_are_refused(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(ConfigError, match=r"path='a.avi' ends with '.avi': use .mp4 or .gif"):
        check_video_path(Path("a.avi"), "path")
    (tmp_path / "a.gif").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        check_video_path(tmp_path / "a.gif", "path")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"pip install 'rl-training\[video\]', or write a .gif"):
        check_video_path(Path("a.mp4"), "path")
    check_video_path(Path("a.gif"), "path")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written, because of .*file: choose another folder"):
        check_video_path(tmp_path / "file" / "new" / "a.gif", "path")

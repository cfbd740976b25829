"""Videos show the episodes that an evaluation has, and recording them changes nothing in a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from PIL import Image

from rl_training import A2C, ConfigError, RecordVideo
from rl_training.cli import main
from rl_training.experiment.checkpoint import difference
from rl_training.experiment.run_directory import RunDirectory
from tests import needs
from tests.api.small_agents import make, state
from tests.envs.test_filming import EPISODES, Drawn


def num_pictures(path: Path) -> int:
    with Image.open(path) as image:
        return image.n_frames


def test_a_video_of_a_native_environment_is_the_episode_of_an_evaluation(tmp_path: Path) -> None:
    agent = make(A2C, backend="native")
    result = agent.record(tmp_path / "a.gif", seed=3)
    assert result == agent.evaluate(1, seed=3)
    assert num_pictures(tmp_path / "a.gif") == result.lengths[0] + 1
    with Image.open(tmp_path / "a.gif") as image:
        assert (image.size, image.info["duration"]) == ((480, 320), 20)


def test_a_video_of_gymnasium_is_the_episode_of_an_evaluation(tmp_path: Path) -> None:
    needs.import_package("pygame")
    agent = make(A2C)
    result = agent.record(tmp_path / "a.gif", seed=3, deterministic=False)
    assert result == agent.evaluate(1, seed=3, deterministic=False)
    assert num_pictures(tmp_path / "a.gif") == result.lengths[0] + 1


def test_several_episodes_and_an_environment_of_ones_own(tmp_path: Path) -> None:
    agent = make(A2C, Drawn)
    result = agent.record(str(tmp_path / "a.gif"), 2, fps=5)
    assert result.lengths == (3, 5)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.info["duration"] == 200
        found = []
        for index in range(image.n_frames):
            image.seek(index)
            found.append(image.convert("RGB").getpixel((0, 0)))
    assert found == [(count,) * 3 for count in EPISODES]


def test_what_cannot_be_recorded_is_refused_before_the_first_step(tmp_path: Path, monkeypatch) -> None:
    agent = make(A2C, "tests.envs.counting:CountingEnv")
    monkeypatch.setattr("tests.envs.counting.CountingEnv.step", lambda *arguments: pytest.fail("stepped"))
    with pytest.raises(
        ValueError, match=r"env.id='tests.envs.counting:CountingEnv' cannot be filmed: it draws nothing"
    ):
        agent.record(tmp_path / "a.gif")
    with pytest.raises(ConfigError, match=r"ends with '.webm': use .mp4 or .gif"):
        agent.record(tmp_path / "a.webm")
    with pytest.raises(ConfigError, match="num_episodes=0 must be at least 1"):
        agent.record(tmp_path / "a.gif", 0)
    with pytest.raises(ConfigError, match="RecordVideo has no folder"):
        agent.learn(8, callbacks=RecordVideo(4, format="gif"))
    with pytest.raises(ValueError, match="cannot be filmed: it draws nothing"):
        agent.learn(8, callbacks=RecordVideo(4, folder=tmp_path / "v", format="gif"))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"pip install 'rl-training\[video\]'"):
        RecordVideo(4)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backend", ["native", "gymnasium"])
def test_recording_changes_nothing_in_a_run(backend: str, tmp_path: Path) -> None:
    env = "CartPole-v1" if backend == "native" else Drawn
    evaluation = {"interval": 64, "episodes": 2}
    plain = make(A2C, env, backend=backend, evaluation=evaluation, run_dir=tmp_path / "plain")
    expected = plain.learn(160, progress=False)
    filming = {**evaluation, "video_interval": 64, "video_format": "gif"}
    filmed = make(A2C, env, backend=backend, evaluation=filming, run_dir=tmp_path / "filmed")
    own = RecordVideo(100, folder=tmp_path / "own", format="gif", num_episodes=2, deterministic=False)
    result = filmed.learn(160, callbacks=[own], progress=False)
    assert difference(state(plain), state(filmed)) is None
    assert result.eval_mean_return == expected.eval_mean_return
    videos = sorted(path.name for path in (tmp_path / "filmed/videos").iterdir())
    assert videos == ["step_000000064.gif", "step_000000128.gif", "step_000000160.gif"]
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["step_000000100.gif", "step_000000160.gif"]
    assert all(num_pictures(tmp_path / "filmed/videos" / name) > 3 for name in videos)
    (tmp_path / "filmed/videos/.step_000000200.tmp-1.gif").write_text("half")
    with RunDirectory.open(tmp_path / "filmed").locked():
        assert sorted(path.name for path in (tmp_path / "filmed/videos").iterdir()) == videos


def test_the_command_line_films_and_tells_the_returns(tmp_path: Path, capsys) -> None:
    make(A2C, backend="native").save(tmp_path / "model")
    video = str(tmp_path / "a.gif")
    asked = ["eval", str(tmp_path / "model"), "--episodes", "3", "--video", video, "--video-episodes", "2"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["video"]["file"] == video
    assert num_pictures(tmp_path / "a.gif") == sum(told["video"]["lengths"]) + 2
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    lengths = told["video"]["lengths"]
    assert lines[1:] == [f"{video}: return {length:.2f}, length {length}" for length in lengths]
    assert main([*asked[:-4], "--video", "a.avi"]) == 2
    assert "ends with '.avi'" in capsys.readouterr().err
    assert main([*asked[:-4], "--video-episodes", "2"]) == 2
    assert "--video-episodes 2 films nothing: add --video" in capsys.readouterr().err

"""The environment of texts: the checks of gymnasium, rewards as the rules say, and texts that its spaces have."""

from __future__ import annotations

import json
from collections.abc import Iterator

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import sage.sim.agents  # noqa: F401 (makes the name known)
from sage.sandbox import Backend
from sage.sim.agents.text_env import SoftwareTextEnv, printable
from sage.sim.environment import rules
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder, RebuildError
from tests.sage.sim.agents.test_episode import FIRST, SECOND
from tests.sage.sim.run_small_tasks import install, small_task


@pytest.fixture
def env(zygote: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[SoftwareTextEnv]:
    install(monkeypatch.setattr)
    made = gymnasium.make("sage/SoftwareText-v0", split="train", calls=6).unwrapped
    assert isinstance(made, SoftwareTextEnv)
    yield made
    made.close()


def action(tool: str, **arguments: object) -> str:
    return json.dumps({"tool": tool, "arguments": arguments})


def test_it_passes_the_checks_of_gymnasium(env: SoftwareTextEnv) -> None:
    check_env(env, skip_render_check=True)
    first, facts = env.reset(seed=3)
    assert (first, facts) == env.reset(seed=3)
    assert len({env.reset()[1]["task"] for _ in range(20)}) > 1


def test_a_repair_pays_and_a_wrong_one_costs(env: SoftwareTextEnv) -> None:
    observation, facts = env.reset(options={"task": "small-1"})
    assert (facts["task"], facts["is_success"]) == ("small-1", False)
    assert "# Task\n\nMake the tests pass." in observation
    env.step(action("edit", **FIRST))
    env.step(action("edit", **SECOND))
    observation, reward, terminated, truncated, _ = env.step(action("run_tests"))
    assert "All 5 tests passed." in observation
    assert (reward, terminated, truncated) == (-rules.COSTS["run"] * rules.SCALE, False, False)
    observation, reward, terminated, truncated, facts = env.step(action("submit"))
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert facts == {"task": "small-1", "spent": rules.COSTS["run"], "is_success": True}
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(action("submit"))
    env.reset()
    _, reward, terminated, _, facts = env.step(action("submit"))
    assert (reward, terminated, facts["is_success"]) == (rules.WRONG * rules.SCALE, True, False)


def test_an_episode_without_calls_left_is_truncated(env: SoftwareTextEnv) -> None:
    env.reset()
    steps = [env.step("no call")[1:4] for _ in range(6)]
    assert steps == [(-rules.COST_FORBIDDEN * rules.SCALE, False, number == 5) for number in range(6)]


def test_texts_are_of_the_space(env: SoftwareTextEnv) -> None:
    env.reset()
    content = "name = 'é€\x1b'\n" + "x = 1\n" * 5_000
    observation, *_ = env.step(action("write_file", path="calc.py", content=content))
    observation, *_ = env.step(action("read_file", path="calc.py"))
    assert "name = '\\xe9\\u20ac\\x1b'" in observation
    assert observation in env.observation_space
    assert printable("\t\r\n\x00") == "\t\r\n\\x00"
    episode = env.episode
    assert episode is not None
    assert episode.workspace.files["calc.py"] == content.encode()


def test_what_is_not_there_is_refused(env: SoftwareTextEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="split='nowhere': the tasks are of train"):
        SoftwareTextEnv(split="nowhere")
    with pytest.raises(ValueError, match="the task 'other' is not one of the 4 tasks of the split"):
        env.reset(options={"task": "other"})

    def only_the_last(self: Rebuilder, row: dict) -> object:
        if row["id"] != "small-3":
            raise RebuildError("no_source", "it is not here")
        return small_task(row)

    monkeypatch.setattr(Rebuilder, "materialise", only_the_last)
    assert {env.reset()[1]["task"] for _ in range(5)} == {"small-3"}
    monkeypatch.setattr(Manifest, "shipped", lambda: Manifest({}, {}, [{"id": "a", "split": "train"}]))
    with pytest.raises(ValueError, match="none of the 1 tasks can be rebuilt here: it is not here"):
        SoftwareTextEnv().reset()

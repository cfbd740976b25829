"""The policy of each group of a team is a file whose rows are agents; together they act as the team does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import IPPO, PPO, VDN, Agent, ConfigError
from rl_training.cli import main
from rl_training.export.run_policy import Policy
from tests.relay import Relay

SMALL = {"seed": 0, "compile": False, "threads": 1, "net_arch": [8]}
ROWS = 40


@pytest.mark.parametrize(
    ("kind", "env", "settings"),
    [
        (IPPO, "mpe/simple_speaker_listener", {"normalize_observation": True}),
        (VDN, "mpe/simple_spread", {"normalize_observation": True}),
        (IPPO, Relay, {"backend": "native"}),  # with masks
    ],
)
def test_the_files_of_all_groups_act_as_the_team(
    kind: type[Agent], env: object, settings: dict, tmp_path: Path
) -> None:
    agent = kind(env, **SMALL | settings)
    random = np.random.default_rng(0)
    spaces = agent.algorithm.policy.spec.obs.spaces
    joint = {
        key: random.random((ROWS, *space.shape)).round(1 if len(space.shape) > 1 else 0)
        for key, space in spaces.items()
    }
    joint |= {key: np.ones_like(part) for key, part in joint.items() if key.endswith("action_mask")}
    if agent.algorithm.observes:
        seen = {key: torch.from_numpy(part).float() for key, part in joint.items()}
        seen["state"] = torch.zeros(ROWS, *agent.spec.obs.spaces["state"].shape)
        agent.algorithm.observe(seen, torch.ones(ROWS) > 0)
    expected, _ = agent.predict(joint)
    for group in agent.spec.members:
        num = len(group.agents)
        exported = agent.export(tmp_path / f"{group.name}.npz", group=group.name)
        assert exported.largest_difference < 1e-4
        rows = {part or "observation": joint[key].reshape(ROWS * num, -1) for part, key in group.keys.items()}
        seen = rows | {"agent_id": np.tile(np.eye(num), (ROWS, 1))} if num > 1 else rows["observation"]
        action, _ = Policy(exported.policy).predict(seen)
        np.testing.assert_array_equal(action.reshape(ROWS, num), expected[group.name])
        assert f"an agent of the group `{group.name}`" in exported.card.read_text()


def test_the_command_writes_a_file_for_every_group(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    IPPO("mpe/simple_speaker_listener", **SMALL).save(tmp_path / "model")
    command = ["export", str(tmp_path / "model"), "--format", "numpy", "--out", str(tmp_path), "--check"]
    assert main(command) == 0
    assert capsys.readouterr().out.count("all actions equal") == 2
    assert sorted(path.name for path in tmp_path.glob("*.npz") if "parity" not in path.name) == [
        "policy_listener.npz",
        "policy_speaker.npz",
    ]
    assert main(command) == 2
    assert "policy_speaker.npz exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "env", "settings", "group", "said"),
    [
        (
            IPPO,
            "mpe/simple_speaker_listener",
            {},
            None,
            "group=None must name one of the groups.*'speaker', 'listener'",
        ),
        (IPPO, "mpe/simple_spread", {}, "agents", "group='agents' must name one of the groups.*'agent'"),
        (PPO, "CartPole-v1", {}, "agent", "group='agent' is for teams"),
    ],
)
def test_what_cannot_be_exported_is_said(
    kind: type[Agent], env: str, settings: dict, group: str | None, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        kind(env, **SMALL | settings).export(tmp_path / "policy.npz", group=group)
    assert list(tmp_path.iterdir()) == []

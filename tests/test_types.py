"""What a type checker says of programs that use the package: of wrong ones, of the examples and of the docs."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import rl_training
from rl_training import PPO
from rl_training.config.parsing import field_names
from rl_training.config.registry import setting_sections
from rl_training.core.registry import ALGORITHMS
from tests.doc_pages import PAGES, code_blocks, name_of, named_files

ROOT = Path(__file__).parent.parent
RIGHT = """
from rl_training import PPO, PPOConfig, SAC, make_data
from rl_training.core import Schedule
from rl_training.envs import EnvConfig

PPO("CartPole-v1", n_steps=128, learning_rate=3e-4, n_envs=8, seed=1, net_arch=[64, 64])
PPO("CartPole-v1", PPOConfig(learning_rate=3e-4, net_arch=[32]), evaluation={"interval": 1000})
PPO("CartPole-v1", learning_rate=lambda progress: 1e-3 * (1 - progress), clip_range=Schedule(0.2, 0.0))
SAC("Pendulum-v1", ent_coef="auto_0.1", learning_rate={"initial": 1e-3, "final": 1e-4}, phases=[{"env_steps": 100}])
agent: PPO = PPO.load("model", learning_rate=1e-4)
make_data("CartPole-v1", ["random"], 100)
make_data(EnvConfig(id="CartPole-v1"), ["random"], 100)
"""
WRONG = {
    'PPO("CartPole-v1", n_step=3)': "Unexpected keyword argument `n_step`",
    'PPO("CartPole-v1", learning_rate="fast")': "not assignable to parameter `learning_rate`",
    'PPO("CartPole-v1", activation_fn="swish")': "not assignable to parameter `activation_fn`",
    'PPO("CartPole-v1", buffer_size=100)': "Unexpected keyword argument `buffer_size`",
    'PPO("CartPole-v1", PPOConfig(n_epoch=3))': "Unexpected keyword argument `n_epoch`",
    'PPO("CartPole-v1", PPOConfig(learning_rate="fast"))': "not assignable to parameter `learning_rate`",
    'SAC("Pendulum-v1", PPOConfig())': "not assignable to parameter `config`",
}


def check_types(*files: Path) -> str:
    """What the type checker prints, with the settings of this project. Files may import those beside the last one."""
    pyrefly = Path(sys.executable).with_name("pyrefly")
    options = ["--config", ROOT / "pyproject.toml", "--search-path", ROOT / "src", "--output-format", "min-text"]
    options += ["--search-path", files[-1].parent]
    command = [pyrefly, "check", *options, "--python-interpreter-path", sys.executable, *files]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def test_a_type_checker_finds_wrong_settings_and_passes_right_ones(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text("\n".join(["from rl_training import PPO, PPOConfig, SAC", *WRONG]))
    found = [line for line in check_types(right, wrong).splitlines() if line.startswith("ERROR")]
    assert len(found) == len(WRONG), found
    for number, (line, reason) in enumerate(zip(found, WRONG.values(), strict=True), start=2):
        assert f"wrong.py:{number}:" in line
        assert reason in line


def test_examples_and_the_blocks_of_the_docs_are_typed(tmp_path: Path) -> None:
    files = [*(ROOT / "examples").rglob("*.py")]
    for page in PAGES:
        blocks = code_blocks(page, "python")
        if blocks and name_of(page) != "docs/architecture.md":  # which shows a part of an example
            files.append(tmp_path / f"{name_of(page).replace('/', '_').replace('-', '_')}.py")
            files[-1].write_text("\n".join(blocks))
            for file, content in named_files(page).items():
                (tmp_path / file).write_text(content)
    assert len(files) > 30
    assert check_types(*files) == ""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_completion_and_help_list_every_setting_with_its_default(name: str) -> None:
    kind = getattr(rl_training, ALGORITHMS[name].title)
    parameters = inspect.signature(kind).parameters
    assert {*setting_sections(name), "n_envs", "seed", "env", "config", "dataset", "run_dir"} <= set(parameters)
    agent_defaults = ALGORITHMS[name].config.needs.settings
    for setting in (*field_names(ALGORITHMS[name].config), *agent_defaults):
        assert f"{setting}={parameters[setting].default!r}" in " ".join(kind.__doc__.split())
    for setting, default in agent_defaults.items():
        assert parameters[setting].default == default


def test_help_begins_with_the_signature_and_what_it_is() -> None:
    assert "learning_rate" in str(inspect.signature(PPO))
    assert inspect.getdoc(PPO).startswith("Proximal Policy Optimization.")

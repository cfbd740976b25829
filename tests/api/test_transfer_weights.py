"""Ways on from what was learned: changed settings, weights alone, a longer run. What is kept, what is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest
import torch

import rl_training
from rl_training import A2C, C51, DQN, PPO, SAC, Agent, ConfigError, DoubleDQN, load
from rl_training.api.training import build_run
from rl_training.cli import main
from rl_training.experiment import load_checkpoint
from rl_training.experiment.checkpoint import MANIFEST, difference, sha256

SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": [8], "compile": False, "threads": 1}
REPLAY = {"learning_starts": 8, "batch_size": 8, "buffer_size": 100, "net_arch": [8], "compile": False, "threads": 1}


def weights(agent: Agent) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in agent.algorithm.named_parameters()}


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    agent = PPO("CartPole-v1", normalize_observation=True, normalize_reward=True, learning_rate=1e-3, **SMALL)
    agent.learn(64, progress=False)
    path = tmp_path_factory.mktemp("saved") / "m"
    agent.save(path)
    return path


def test_changed_settings_begin_a_new_run_with_what_was_learned(saved: Path, tmp_path, told) -> None:
    before = load(saved)
    agent = PPO.load(saved, env="CartPole-v1", learning_rate=1e-5, n_envs=4)
    note = told()
    assert "a new run with the weights of" in note
    assert "not its exact continuation" in note
    assert "algorithm.learning_rate: 0.001 -> 1e-05, env.n_envs: 1 -> 4" in note
    assert same(weights(agent), weights(before))
    state, old = agent.algorithm.state_dict(), before.algorithm.state_dict()
    assert state["optimizers.all.learning_rates.0.value"] == torch.tensor(1e-5)  # the setting, not the saved number
    for name in ("policy.normalizer.norms.0.mean", "optimizers.all.square", "optimizers.all.count"):
        assert torch.equal(state[name], old[name]), name
    assert (agent.num_timesteps, agent.config.env.n_envs) == (0, 4)
    build_run(agent)
    moments = before.state["experience"]["reward_scaling"]["moments"]
    assert agent.trainer.experience.reward_scaling.moments.var == moments["var"]
    assert agent.learn(64, progress=False).status == "finished"
    agent.save(tmp_path / "next")
    (origin,) = json.loads((tmp_path / "next" / MANIFEST).read_text())["origins"]
    assert origin["path"] == str(saved)
    assert origin["manifest_sha256"] == sha256(saved / MANIFEST)
    assert (origin["kind"], origin["timesteps"], origin["at"]) == ("load", 64, 0)
    assert origin["changed"] == {"algorithm.learning_rate": [1e-3, 1e-5], "env.n_envs": [1, 4]}
    assert load(tmp_path / "next").origins == [origin]  # which is exact again


def test_load_alone_stays_exact(saved: Path) -> None:
    plain, twin = load(saved), PPO.load(saved)
    assert plain.num_timesteps == 64
    assert plain.origins == []
    for agent in (plain, twin):
        agent.learn(32, progress=False)
    assert same(weights(plain), weights(twin))


class Heavier(gym.Wrapper):
    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, 2 * reward, *rest


def heavier() -> gym.Env:
    return Heavier(gym.make("CartPole-v1"))


def test_another_environment_of_the_same_spaces(saved: Path) -> None:
    agent = load(saved, env=heavier)
    assert isinstance(agent, PPO)
    assert agent.evaluate(1).mean == 2 * load(saved, env="CartPole-v1").evaluate(1).mean
    assert agent.learn(32, progress=False).env_id.endswith("heavier")
    finished = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    assert PPO.load(saved, env=finished).learn(32, progress=False).status == "finished"


def test_settings_decide_over_saved_numbers_that_follow_from_settings(tmp_path) -> None:
    agent = C51("CartPole-v1", v_min=0, v_max=10, n_atoms=5, **REPLAY)
    agent.learn(32, progress=False)
    agent.save(tmp_path / "c51")
    wider = load(tmp_path / "c51", v_max=20)
    atoms = [x.tolist() for name, x in wider.algorithm.state_dict().items() if name.endswith("atoms")]
    assert atoms
    assert all(values == [0, 5, 10, 15, 20] for values in atoms)
    agent = SAC("Pendulum-v1", **REPLAY)
    agent.learn(32, progress=False)
    agent.save(tmp_path / "sac")
    kept, fixed = load(tmp_path / "sac", gamma=0.9), load(tmp_path / "sac", ent_coef=0.5)
    assert torch.equal(kept.algorithm.log_ent_coef, agent.algorithm.log_ent_coef)
    assert fixed.algorithm.log_ent_coef.exp().item() == pytest.approx(0.5)


REFUSED = {
    "other spaces": (lambda m: PPO.load(m, env="Acrobot-v1"), "observations are Box(4,) float32, those of Acrobot-v1"),
    "other networks": (lambda m: PPO.load(m, net_arch=[4]), "has the shape (8, 4) there and has the shape (4, 4) here"),
    "first weights": (lambda m: PPO.load(m, ortho_init=False), "algorithm.ortho_init would only change the weights"),
    "other class": (lambda m: DQN.load(m, gamma=0.9), "holds 'ppo', not 'dqn'"),
    "no setting": (lambda m: PPO.load(m, n_stepz=4), "n_stepz=4 is not a setting of ppo: did you mean 'n_steps'?"),
    "custom_objects": (lambda m: PPO.load(m, custom_objects={}), "custom_objects={}", "as keywords"),
    "twice": (lambda m: PPO.load(m, seed=1, training={"seed": 2}), "training.seed is given twice"),
    "out of range": (lambda m: PPO.load(m, gamma=2), "algorithm.gamma=2.0 must be at most 1"),
    "no environment": (lambda m: PPO.load(m, env=5), "env=5 is not an environment"),
    "warm start elsewhere": (lambda m: PPO("Acrobot-v1", **SMALL).warm_start(m), "do not fit: ", " there and "),
    "warm start of another": (lambda m: DQN("CartPole-v1", **REPLAY).warm_start(m), "do not fit: ", "is missing there"),
    "warm start of nothing": (lambda m: PPO("CartPole-v1", **SMALL).warm_start(m / "x"), "does not exist"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_does_not_fit_is_one_sentence(kind: str, saved: Path) -> None:
    call, *parts = REFUSED[kind]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the parts say which)
        call(saved)
    for part in parts:
        assert part in str(caught.value)


def test_warm_start_takes_weights_only(saved: Path, tmp_path) -> None:
    settings = SMALL | {"normalize_observation": True}
    agent = PPO("CartPole-v1", seed=5, learning_rate=1e-4, run_dir=tmp_path / "run", **settings)
    agent.warm_start(saved)
    assert same(weights(agent), weights(load(saved)))
    state = agent.algorithm.state_dict()
    assert state["optimizers.all.count"] == 0
    assert state["optimizers.all.learning_rates.0.value"] == torch.tensor(1e-4)
    assert state["policy.normalizer.norms.0.count"] == 64
    agent.learn(32, progress=False)
    metadata = json.loads((tmp_path / "run" / "metadata.json").read_text())
    assert metadata["origins"] == agent.origins
    assert metadata["origins"][0]["kind"] == "warm_start"
    resumed = PPO.resume(tmp_path / "run")
    assert resumed.origins == agent.origins
    del settings["n_epochs"], settings["batch_size"]
    A2C("CartPole-v1", **settings).warm_start(saved)  # the same networks


def test_warm_start_of_a_loaded_agent_is_not_undone(saved: Path) -> None:
    agent = PPO.load(saved)
    other = PPO("CartPole-v1", seed=9, normalize_observation=True, **SMALL)
    other.learn(16, progress=False)
    other.save(saved.parent / "other")
    agent.warm_start(saved.parent / "other")
    build_run(agent)
    assert same(weights(agent), weights(other))
    assert agent.num_timesteps == 64


def test_a_warm_run_that_is_killed_at_once_still_has_its_weights(saved: Path, tmp_path) -> None:
    agent = PPO("CartPole-v1", run_dir=tmp_path / "run", **SMALL | {"normalize_observation": True})
    agent.warm_start(saved)

    class Killed(rl_training.Callback):
        def on_start(self, trainer) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.learn(64, callbacks=Killed(), progress=False)
    assert same(weights(PPO.resume(tmp_path / "run")), weights(load(saved)))


def test_dqns_relatives_share_weights(tmp_path) -> None:
    DQN("CartPole-v1", seed=3, **REPLAY).save(tmp_path / "m")
    agent = DoubleDQN("CartPole-v1", **REPLAY)
    agent.warm_start(tmp_path / "m")
    assert same(weights(agent), weights(load(tmp_path / "m")))


def run_settings(folder: Path, *more: str) -> list[str]:
    settings = {"algorithm.n_steps": 16, "algorithm.batch_size": 16, "algorithm.n_epochs": 1, "algorithm.net_arch": [8]}
    settings |= {"algorithm.learning_rate": "lin_1e-3", "env.n_envs": 2, "training.compile": "false"}
    settings |= {"training.threads": 1, "evaluation.episodes": 2}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return ["train", "ppo/cartpole", "--quiet", "--run-dir", str(folder), *flags, *more]


def test_a_finished_run_is_extended_and_verified(tmp_path, capsys) -> None:
    run = tmp_path / "run"
    assert main(run_settings(run, "--total-timesteps", "100")) == 0
    assert main(["resume", str(run)]) == 0
    assert "nothing to resume (extend it with --total-timesteps N)" in capsys.readouterr().out
    assert main(["resume", str(run), "--total-timesteps", "50"]) == 2
    assert "total_timesteps=50 is below what is done, 100" in capsys.readouterr().err
    assert main(["resume", str(run), "--quiet", "--total-timesteps", "180", "--stop-at", "150"]) == 0
    said = capsys.readouterr().out
    assert "extended: total_timesteps 100 -> 180; schedules run over the new total" in said
    assert "algorithm.learning_rate: 0 -> 0.000444" in said
    assert main(["resume", str(run), "--quiet", "--total-timesteps", "200", "--verify"]) == 0
    assert "verify: exact" in capsys.readouterr().out
    noted = json.loads((run / "metadata.json").read_text())["extensions"]
    assert [(e["timesteps"], e["old_total_timesteps"], e["total_timesteps"]) for e in noted] == [
        (100, 100, 180),
        (150, 180, 200),
    ]
    assert all(e["time"] for e in noted)
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["total_timesteps"]) == ("finished", 200)
    evaluated = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines() if "eval/mean_reward" in x]
    assert [row["timesteps"] for row in evaluated] == [100, 200]  # the first end keeps its evaluation


def test_a_run_that_is_killed_after_an_extension_goes_on_with_it(tmp_path) -> None:
    run = tmp_path / "run"
    agent = PPO("CartPole-v1", run_dir=run, **SMALL)
    agent.learn(32, progress=False)
    written = (run / "config.yaml").read_bytes()

    class Killed(rl_training.Callback):
        def on_start(self, trainer) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PPO.resume(run, total_timesteps=64).learn(callbacks=Killed(), progress=False)
    for content in ((run / "config.yaml").read_bytes(), written):  # killed after the new config was written, or before
        (run / "config.yaml").write_bytes(content)
        assert PPO.resume(run).config.training.total_timesteps == 64
    assert PPO.resume(run).learn(progress=False).total_timesteps == 64
    assert len(json.loads((run / "metadata.json").read_text())["extensions"]) == 1
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("total_timesteps: 64", "total_timesteps: 96"))
    with pytest.raises(ConfigError, match=r"was changed after the run began .*--total-timesteps N"):
        PPO.resume(run)


def test_learning_on_in_python_is_an_extension_too(tmp_path) -> None:
    agent = PPO("CartPole-v1", run_dir=tmp_path / "run", **SMALL)
    agent.learn(32, progress=False)
    agent.learn(32, progress=False)
    (noted,) = json.loads((tmp_path / "run" / "metadata.json").read_text())["extensions"]
    assert (noted["timesteps"], noted["old_total_timesteps"], noted["total_timesteps"]) == (32, 32, 64)


def test_the_last_evaluation_counts_for_a_run_that_is_extended(tmp_path) -> None:
    agent = PPO("CartPole-v1", run_dir=tmp_path / "run", evaluation={"episodes": 1}, **SMALL)
    result = agent.learn(32, progress=False)
    best = load_checkpoint(Path(result.checkpoint)).state["progress"]["best_return"]
    assert best == result.eval_mean_return


@pytest.mark.slow
def test_verify_begins_with_the_same_weights(saved: Path, tmp_path, capsys) -> None:
    agent = PPO.load(saved, seed=4)
    agent.run_dir = tmp_path / "run"
    agent.learn(64, stop_at=32, progress=False)
    assert main(["resume", str(tmp_path / "run"), "--quiet", "--verify"]) == 0
    assert "verify: exact" in capsys.readouterr().out


def test_states_of_a_run_and_of_its_extension_differ_only_by_what_came_after(tmp_path) -> None:
    agent = DQN("CartPole-v1", run_dir=tmp_path / "run", **REPLAY)
    agent.learn(32, progress=False)
    before = agent.snapshot().state["algorithm"]
    again = Agent.resume(tmp_path / "run", total_timesteps=64)
    assert difference(dict(before), dict(again.algorithm.state_dict())) is None
    assert again.learn(progress=False).total_timesteps == 64


def test_an_agent_whose_run_was_continued_elsewhere_does_not_write_into_it(tmp_path: Path) -> None:
    settings = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 1, "compile": False}
    agent = rl_training.PPO("CartPole-v1", run_dir=tmp_path / "run", total_timesteps=64, **settings)
    agent.learn(stop_at=32, progress=False)
    rl_training.PPO.resume(tmp_path / "run").learn(progress=False)
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    with pytest.raises(rl_training.ConfigError, match="has a checkpoint at 64 steps and this agent stands at 32"):
        agent.learn(16, progress=False)
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before

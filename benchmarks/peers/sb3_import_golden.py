"""Zips of Stable-Baselines3 and sb3-contrib, small ones, with the actions and the next training step of the same model.

/path/to/python-with-sb3-and-contrib benchmarks/peers/sb3_import_golden.py

Writes tests/golden/sb3/*.zip, one for each algorithm and some variants, a file of VecNormalize, and golden.npz (or into
--out). Each model learns for some steps, is saved by its library, and loaded by it again; actions and steps are those of
the loaded one. The zips are only compressed once more, which the library reads as well. Observations follow from
`observations`, which the test has, too.
"""

import argparse
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from sb3_contrib import QRDQN, TQC, TRPO, CrossQ, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import configure
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from golden import watch

GOLDEN = Path(__file__).parent.parent.parent / "tests" / "golden" / "sb3"
NUM_OBSERVATIONS = 1_000
BOX = Box(np.array([-2.0, -1.0], np.float32), np.array([2.0, 3.0], np.float32))
OBS = Box(-5.0, 5.0, (3,))
TWO = Dict({"first": Box(-1.0, 1.0, (2,)), "second": Box(-1.0, 1.0, (1,))})
PICTURE = Box(0, 255, (1, 36, 36), np.uint8)
SMALL = {"net_arch": [8, 8]}
ROLLOUT = {"n_steps": 32, "seed": 0, "device": "cpu"}
REPLAY = {"learning_starts": 16, "batch_size": 16, "buffer_size": 64, "seed": 0, "device": "cpu"}
NUM_STEPS = 64
CARTPOLE_STEPS = 8_192


class Walk(gymnasium.Env):
    """A few numbers that drift with the action, with episodes of nine steps."""

    def __init__(self, obs: gymnasium.Space = OBS, action: gymnasium.Space = BOX) -> None:
        self.observation_space, self.action_space = obs, action

    def observe(self) -> object:
        if isinstance(self.observation_space, Dict):
            return {"first": np.tanh(self.x[:2]), "second": np.tanh(self.x[2:])}
        if self.observation_space is PICTURE:
            return np.full((1, 36, 36), abs(self.x[0]) * 50 % 255, np.uint8)
        return self.x.copy()

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.x, self.t = self.np_random.normal(size=3).astype(np.float32), 0
        return self.observe(), {}

    def step(self, action: object) -> tuple:
        push = np.float32(np.mean(action)) * 0.3
        self.x = (0.9 * self.x + push + 0.1 * self.np_random.normal(size=3)).astype(np.float32)
        self.t += 1
        return self.observe(), float(1 - abs(self.x[0])), bool(abs(self.x[0]) > 2.5), self.t >= 9, {}


def observations(size: int = 3) -> np.ndarray:
    """The same numbers wherever they are computed: [1000, size] between -2.5 and 2.5."""
    rows = np.arange(NUM_OBSERVATIONS * size, dtype=np.float64).reshape(NUM_OBSERVATIONS, size)
    return (2.5 * np.sin(rows * rows % 997.0)).astype(np.float32)


def seen_by(model: BaseAlgorithm) -> object:
    if model.observation_space.shape == (4,):
        return observations(4)
    rows = observations()
    if isinstance(model.observation_space, Dict):
        return {"first": np.tanh(rows[:, :2]), "second": np.tanh(rows[:, 2:])}
    if model.observation_space == PICTURE:
        return (np.abs(rows[:, :1]) * 100).astype(np.uint8).repeat(36 * 36, 1).reshape(-1, 1, 36, 36) ^ checks()
    return rows


def checks() -> np.ndarray:
    """A pattern, so that the pixels of a picture differ."""
    return (np.add.outer(np.arange(36), np.arange(36)) % 7 * 20).astype(np.uint8)


def actions_of(model: BaseAlgorithm) -> np.ndarray:
    if not isinstance(model, RecurrentPPO):
        return model.predict(seen_by(model), deterministic=True)[0]
    state, found = None, []
    for number, obs in enumerate(observations()):
        action, state = model.predict(obs[None], state, np.array([number % 100 == 0]), deterministic=True)
        found.append(action[0])
    return np.stack(found)


def tensors(model: BaseAlgorithm) -> dict[str, np.ndarray]:
    found = {name: x.detach().numpy().copy() for name, x in model.policy.state_dict().items()}
    log_ent_coef = getattr(model, "log_ent_coef", None)
    return found if log_ent_coef is None else found | {"log_ent_coef": log_ent_coef.detach().numpy().copy()}


def rollout_step(model: PPO | A2C) -> dict[str, np.ndarray]:
    """One update on a rollout of random numbers, which `train` visits as a whole."""
    rng, buffer, seen = np.random.default_rng(3), model.rollout_buffer, []
    buffer.reset()
    for number in range(buffer.buffer_size):
        obs = rng.normal(size=(1, 3)).astype(np.float32)
        with torch.no_grad():
            action, value, log_prob = model.policy(torch.as_tensor(obs))
        log_prob = log_prob + 0.3 * torch.as_tensor(rng.normal(size=1).astype(np.float32))  # some ratios are clipped
        buffer.add(obs, action.numpy(), rng.normal(size=1), np.array([number % 9 == 0]), value, log_prob)
    buffer.compute_returns_and_advantage(torch.zeros(1), np.array([True]))
    model.batch_size, model.n_epochs = buffer.buffer_size, 1
    original = buffer.get

    def get(batch_size: int | None = None) -> object:
        for batch in original(batch_size):
            seen.append(batch)
            yield batch

    buffer.get = get
    model.train()
    (batch,) = seen
    return {name: part.numpy() for name, part in batch._asdict().items()}


def replay_step(model: BaseAlgorithm) -> dict[str, np.ndarray]:
    """One update on a batch of random numbers, with the noise that was drawn in it, in order."""
    rng, batches, drawn = np.random.default_rng(4), [], []
    discrete = isinstance(model.action_space, Discrete)
    for _ in range(model.replay_buffer.buffer_size):
        obs, next_obs = rng.normal(size=(2, 1, 3)).astype(np.float32)
        action = rng.integers(3, size=(1, 1)) if discrete else rng.uniform(-0.9, 0.9, (1, 2)).astype(np.float32)
        model.replay_buffer.add(obs, next_obs, action, rng.normal(size=1), rng.random(1) < 0.3, [{}])
    ends = [watch(torch.distributions.normal, "_standard_normal", drawn)]
    if isinstance(model, TD3):
        ends = [watch(torch.Tensor, "normal_", drawn)]
    watch(model.replay_buffer, "sample", batches)
    model._n_updates = 3 * 4 - 1  # so that the actor moves, too, which it does at every second or third update
    model.train(gradient_steps=1, batch_size=16)
    for end in ends:
        end()
    ((_, batch),) = batches
    found = {name: part.numpy() for name, part in batch._asdict().items() if part is not None}
    return found | {f"noise{number}": noise.numpy().copy() for number, (_, noise) in enumerate(drawn)}


def normalized(**changes: object) -> tuple[BaseAlgorithm, VecNormalize]:
    env = VecNormalize(DummyVecEnv([lambda: Walk(action=Discrete(3))] * 2), clip_obs=1.5, gamma=0.97, **changes)
    return PPO("MlpPolicy", env, gamma=0.97, policy_kwargs=dict(SMALL), batch_size=16, **ROLLOUT), env


def sparse_pictures() -> BaseAlgorithm:
    """Most weights of the convolutions are zero, so that the file is small; it is not trained."""
    model = PPO("CnnPolicy", Walk(PICTURE, Discrete(3)), policy_kwargs={"net_arch": [4]}, batch_size=16, **ROLLOUT)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.policy.features_extractor.parameters():
            parameter.mul_(20 * (torch.rand(parameter.shape, generator=generator) < 0.04)).add_(
                0.01 * (parameter.ndim == 1)
            )
    return model


def continuous(kind: type[BaseAlgorithm], **settings: object) -> BaseAlgorithm:
    policy = {"net_arch": {"pi": [8, 6], "qf": [7, 8]}} | settings.pop("policy_kwargs", {})
    return kind("MlpPolicy", Walk(), policy_kwargs=policy, **REPLAY, **settings)


MODELS: dict[str, Callable[[], BaseAlgorithm]] = {
    "ppo": lambda: PPO(
        "MlpPolicy",
        Walk(),
        policy_kwargs={"net_arch": {"pi": [8, 6], "vf": [5]}, "activation_fn": torch.nn.ReLU, "log_std_init": -0.5},
        batch_size=16,
        clip_range_vf=0.3,
        ent_coef=0.02,
        **ROLLOUT,
    ),
    "a2c": lambda: A2C("MlpPolicy", Walk(action=Discrete(3)), policy_kwargs=dict(SMALL), **ROLLOUT),
    "trpo": lambda: TRPO(
        "MlpPolicy", Walk(), learning_rate=LinearSchedule(2e-3, 1e-3, 0.5), policy_kwargs=dict(SMALL), **ROLLOUT
    ),
    "recurrent_ppo": lambda: RecurrentPPO(
        "MlpLstmPolicy",
        Walk(action=Discrete(3)),
        policy_kwargs={"net_arch": [6], "lstm_hidden_size": 5, "n_lstm_layers": 2},
        batch_size=16,
        **ROLLOUT,
    ),
    "dqn": lambda: DQN(
        "MlpPolicy",
        Walk(action=Discrete(3)),
        policy_kwargs=dict(SMALL),
        learning_rate=1e-3,
        target_update_interval=8,
        **REPLAY,
    ),
    "qr_dqn": lambda: QRDQN(
        "MlpPolicy", Walk(action=Discrete(3)), policy_kwargs=SMALL | {"n_quantiles": 5}, learning_rate=1e-3, **REPLAY
    ),
    "ddpg": lambda: continuous(DDPG, action_noise=OrnsteinUhlenbeckActionNoise(np.zeros(2), 0.3 * np.ones(2))),
    "td3": lambda: continuous(TD3, action_noise=NormalActionNoise(np.zeros(2), 0.2 * np.ones(2))),
    "sac": lambda: continuous(SAC, ent_coef="auto_0.1"),
    "tqc": lambda: continuous(TQC, policy_kwargs={"n_quantiles": 5, "n_critics": 3}),
    "crossq": lambda: continuous(CrossQ),
    "ppo_cartpole": lambda: PPO(
        "MlpPolicy",
        "CartPole-v1",
        policy_kwargs={"net_arch": [16, 16]},
        learning_rate=1e-3,
        n_steps=256,
        gae_lambda=0.9,
        seed=0,
        device="cpu",
    ),
    "sac_dict": lambda: SAC("MultiInputPolicy", Walk(TWO), policy_kwargs=dict(SMALL), **REPLAY),
    "ppo_pictures": sparse_pictures,
}
STEPS = {"ppo": rollout_step, "a2c": rollout_step}
STEPS |= dict.fromkeys(("dqn", "qr_dqn", "ddpg", "td3", "sac", "tqc", "crossq"), replay_step)


@torch.no_grad()
def unsettle(model: BaseAlgorithm) -> None:
    """Moves every tensor by noise, so that actions vary and targets and statistics differ from what they follow."""
    generator = torch.Generator().manual_seed(5)
    for name, tensor in model.policy.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator)
        if name.endswith(("ra_var", "log_std")):
            tensor.mul_((0.3 * noise).exp())
        elif tensor.is_floating_point():
            tensor.add_(0.4 * noise)


def compressed(content: bytes) -> bytes:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new,
    ):
        for member in old.infolist():
            new.writestr(zipfile.ZipInfo(member.filename), old.read(member), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def save(model: BaseAlgorithm, path: Path) -> None:
    model.save(path)
    path.write_bytes(compressed(path.read_bytes()))


def make(name: str, folder: Path) -> dict[str, np.ndarray]:
    """Saves a model, loads it with its own library, and returns its actions and its next training step."""
    model = MODELS[name]()
    if name == "ppo_cartpole":  # for the documentation: a policy that is half-way there
        model.learn(CARTPOLE_STEPS)
    elif name != "ppo_pictures":
        model.learn(NUM_STEPS)
        unsettle(model)
    save(model, folder / f"{name}.zip")
    model = type(model).load(folder / f"{name}.zip", env=model.get_env(), device="cpu")
    found = {"actions": actions_of(model)}
    if name in STEPS:
        model.set_logger(configure(None, []))
        found |= {f"batch/{part}": x for part, x in STEPS[name](model).items()}
        found |= {f"after/{part}": x for part, x in tensors(model).items()}
    return {f"{name}/{part}": x for part, x in found.items()}


def make_normalized(folder: Path) -> dict[str, np.ndarray]:
    model, env = normalized()
    model.learn(2 * NUM_STEPS)
    unsettle(model)
    save(model, folder / "ppo_normalized.zip")
    env.save(str(folder / "ppo_normalized.pkl"))
    found = {"actions": model.predict(env.normalize_obs(observations()), deterministic=True)[0]}
    found |= {"mean": env.obs_rms.mean, "var": env.obs_rms.var, "count": np.array(env.obs_rms.count)}
    found |= {"return_var": np.array(env.ret_rms.var), "return_count": np.array(env.ret_rms.count)}
    return {f"ppo_normalized/{part}": x for part, x in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=GOLDEN)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    golden = make_normalized(out)
    for model_name in MODELS:
        golden |= make(model_name, out)
        print(model_name, (out / f"{model_name}.zip").stat().st_size)
    np.savez_compressed(out / "golden.npz", **golden)
    print("golden.npz", (out / "golden.npz").stat().st_size)

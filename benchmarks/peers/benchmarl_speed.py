"""Steps per second of BenchMARL; run in an environment that has it, asked as in `protocol.py`.

Its own experiment on the `simple_spread` of VMAS, with discrete actions and without evaluation and loggers. Our environment
is that of mpe2; both have three agents, 18 observed numbers and five actions.
"""

import tempfile
from importlib.metadata import version

import torch
from benchmarl.algorithms import IppoConfig, MappoConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from protocol import Learn, serve
from torch import nn

ALGORITHMS = {"IPPO": IppoConfig, "MAPPO": MappoConfig}
TASKS = {"mpe/simple_spread": (VmasTask.SIMPLE_SPREAD, 25)}  # and steps of an episode


class Kept(Experiment):
    """An experiment that goes on after its loop has ended."""

    def close(self) -> None:
        pass


def build(work: dict) -> Learn:
    torch.set_num_threads(work["threads"])
    task, max_steps = TASKS[work["env"]]
    model = MlpConfig(num_cells=work.get("net_arch", [64, 64]), layer_class=nn.Linear, activation_class=nn.Tanh)
    config, frames = ExperimentConfig.get_from_yaml(), work["n_envs"] * work["n_steps"]
    config.prefer_continuous_actions = False
    config.on_policy_collected_frames_per_batch = frames
    config.on_policy_n_envs_per_worker = work["n_envs"]
    config.on_policy_n_minibatch_iters = work["n_epochs"]
    config.on_policy_minibatch_size = work["batch_size"]
    config.max_n_frames = None
    config.max_n_iters = 1_000_000
    config.evaluation = config.render = config.create_json = False
    config.loggers, config.save_folder = [], tempfile.mkdtemp()
    experiment = Kept(
        task=task.get_task({"max_steps": max_steps, "n_agents": 3, "obs_agents": True}),
        algorithm_config=ALGORITHMS[work["algorithm"]].get_from_yaml(),
        model_config=model,
        critic_model_config=model,
        seed=0,
        config=config,
    )

    def learn(num_steps: int) -> None:
        config.max_n_iters = experiment.n_iters_performed + num_steps // frames
        experiment._collection_loop()

    return learn


if __name__ == "__main__":
    versions = {name: version(name) for name in ("benchmarl", "torchrl", "vmas")}
    serve(dict.fromkeys(ALGORITHMS, build), versions)

"""Wires a run from its config: the only place that knows all the parts."""

from __future__ import annotations

import math
import os

import torch

from rl_training.algorithms.off_policy import OffPolicyConfig
from rl_training.algorithms.on_policy import RolloutConfig
from rl_training.core import Algorithm, Spec
from rl_training.envs import VectorEnv
from rl_training.experience import Experience, Replay, RewardScaling, Rollout
from rl_training.experiment.config import RunConfig
from rl_training.experiment.registry import ALGORITHMS
from rl_training.runtime import EnvCollector, Streams, Trainer, resolve_compile

LARGE = 500_000  # parameters from which matrix products, not dispatch, decide: then all cores help


def build_algorithm(config: RunConfig, spec: Spec) -> Algorithm:
    """Builds the networks on the CPU from the seed, so that every device starts from the same numbers.

    On one thread: orthogonal initialisation rounds differently on several.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(Streams.from_seed(config.training.seed).network)
            return ALGORITHMS[config.name].algorithm(config.algorithm, spec)
    finally:
        torch.set_num_threads(threads)


def resolve(config: RunConfig, algorithm: Algorithm) -> RunConfig:
    """Fixes what was left to the machine, once: the resumed run must do the same."""
    training = config.training
    size = sum(p.numel() for p in algorithm.parameters())
    threads = training.threads or (1 if size < LARGE else os.cpu_count() or 1)
    device = training.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    compiled = resolve_compile(training.compile, expected_updates(config, algorithm))
    return config.replace("training", threads=threads, device=device, compile=compiled)


def expected_updates(config: RunConfig, algorithm: Algorithm) -> int:
    """How many updates a run takes that could be compiled."""
    settings, total = config.algorithm, config.training.total_timesteps
    if isinstance(settings, OffPolicyConfig):
        return max(total - settings.learning_starts, 0) // settings.train_freq * settings.num_updates
    assert isinstance(settings, RolloutConfig)
    samples = settings.n_steps * config.env.n_envs
    passes = [p for p in algorithm.passes() if p.one_graph]
    per_rollout = sum(p.epochs * math.ceil(samples / (p.batch_size or samples)) for p in passes)
    return total // samples * per_rollout


def build_experience(config: RunConfig, spec: Spec, num_envs: int) -> Experience:
    """Builds what an algorithm of this kind learns from."""
    settings, seed = config.algorithm, Streams.from_seed(config.training.seed).order
    if isinstance(settings, RolloutConfig):
        scaling = RewardScaling(settings.gamma, settings.clip_reward) if settings.normalize_reward else None
        return Rollout(settings.n_steps, seed=seed, reward_scaling=scaling, device=config.training.device)
    assert isinstance(settings, OffPolicyConfig)
    return Replay(
        spec,
        num_envs,
        capacity=settings.buffer_size,
        learning_starts=settings.learning_starts,
        train_freq=settings.train_freq,
        gamma=settings.gamma,
        seed=seed,
        n_steps=settings.n_steps,
        frame_stack=config.env.frame_stack,
        prioritized=settings.prioritized,
        alpha=settings.per_alpha,
        eps=settings.per_eps,
        device=settings.buffer_device or config.training.device,
        folder=settings.buffer_folder,
    )


def build_trainer(config: RunConfig, algorithm: Algorithm, env: VectorEnv) -> Trainer:
    """Builds a trainer from a resolved config."""
    training = config.training
    assert isinstance(training.compile, bool)
    assert training.threads is not None
    streams = Streams.from_seed(training.seed)
    experience = build_experience(config, env.spec, env.num_envs)  # first: it may be refused for want of memory
    return Trainer(
        algorithm.to(training.device),
        experience,
        EnvCollector(env, algorithm.policy, seed=streams.envs, compiled=training.compile),
        total_timesteps=training.total_timesteps,
        seed=streams.training,
        compiled=training.compile,
        threads=training.threads,
        log_interval=training.log_interval,
        device=training.device,
        precision=training.precision,
    )

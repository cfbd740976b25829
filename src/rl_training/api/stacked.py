"""Stacked seeds: several agents of one method that train as one program, each with a run of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rl_training.api.agent import Agent
from rl_training.api.build import expected_work, fastest_mode
from rl_training.api.training import build_run, check_idle, pause_at, with_budget
from rl_training.config import ConfigError, RunConfig
from rl_training.config.parallelism import resolve_device
from rl_training.config.parsing import parse_flag, parse_path
from rl_training.config.registry import ALGORITHMS
from rl_training.core import Algorithm
from rl_training.envs import NativeEnv
from rl_training.envs.catalogue import NATIVE
from rl_training.experience.settings import ReplaySettings, RolloutSettings
from rl_training.experiment.run import TrainResult
from rl_training.experiment.signals import StopTogether
from rl_training.models import fuse_networks
from rl_training.runtime import Callback, NonFiniteError
from rl_training.runtime.stack import Stack
from rl_training.runtime.taking_turns import take_turns
from rl_training.runtime.threads import stacked_threads
from rl_training.runtime.torch_context import one_thread, plain_torch, threads_and_precision


class Stacked:
    """Several agents of one method, which `learn` trains as one program.

    Each has its own networks, environments, random numbers, results and files, as if it were trained alone: take
    `agents[3]`, and evaluate, save or train it.
    """

    def __init__(self, agents: Sequence[Agent]) -> None:
        """Raises ConfigError if the agents cannot be stacked, or differ in anything but seed and run directory."""
        self.agents = list(agents)
        if not self.agents:
            raise ConfigError("a stack has no members: give at least one seed")
        if len({id(agent) for agent in self.agents}) < len(self.agents):
            raise ConfigError("an agent is given twice, and cannot be two members of a stack: build one for each")
        for agent in self.agents:
            reason = why_not_stacked(agent)
            if reason is not None:
                raise ConfigError(reason)
        check_alike(self.agents)
        said = [agent.config.training.threads for agent in self.agents]
        self.threads = next((number for number in said if number), None)  # by the user, or in a run that has begun

    def learn(
        self, total_timesteps: int | None = None, *, stop_at: int | None = None, progress: bool = True
    ) -> list[TrainResult]:
        """Trains every agent for `total_timesteps` further env steps, or for what is left of the config's budget.

        Returns their results in the order of `agents`. `stop_at` pauses all at that env step. If a member fails, the
        others go on to their end; then its error is raised.
        """
        shown, results = parse_flag(progress, "progress"), list[TrainResult]()
        for result in self.learn_each(total_timesteps, stop_at=stop_at, shown=shown):
            if isinstance(result, NonFiniteError):
                raise result
            results.append(result)
        return results

    @one_thread()
    @plain_torch()
    def learn_each(
        self,
        total_timesteps: int | None = None,
        *,
        stop_at: int | None = None,
        shown: bool = False,
        callbacks: Sequence[list[Callback]] = (),
    ) -> list[TrainResult | NonFiniteError]:
        """Trains as `learn` does, with a list of callbacks for each agent; errors stand in place of results."""
        for agent in self.agents:
            check_idle(agent.trainer, "learn")
        if len({where_it_stands(agent) for agent in self.agents}) > 1:
            raise ConfigError(
                "the members of a stack stand at different steps: train those behind alone up to the others"
            )
        configs = [with_budget(agent.config, agent.progress, total_timesteps, None) for agent in self.agents]
        runs = [build_run(agent, config, alone=False) for agent, config in zip(self.agents, configs, strict=True)]
        stop = pause_at(stop_at, configs[0], self.agents[0].progress)
        trainers, training = [run.trainer for run in runs], runs[0].config.training
        work = expected_work(runs[0].config, runs[0].trainer.algorithm)
        mode, fuses = fastest_mode(trainers[0], runs[0].config, work._replace(rows=work.rows * len(runs)))
        fuse = partial(fuse_networks, products=training.precision) if fuses else None
        products = work.parameters * work.rows * len(runs) // max(work.calls, 1)
        threads = self.threads or stacked_threads(training.threads or 1, products)
        with threads_and_precision(threads, tf32=training.precision == "tf32"), ExitStack() as cleanup:
            stack = Stack(trainers, mode, fuse)
            cleanup.callback(stack.release_all)
            if any(run.recorded for run in runs):
                signals = StopTogether(trainers)
                signals.on_start(trainers[0])
                cleanup.callback(signals.close)
            called = callbacks or [[] for _ in runs]
            members = [
                run.turns(stop, mine, shown=shown and run is runs[0]) for run, mine in zip(runs, called, strict=True)
            ]
            return take_turns(members, stack.release)

    def close(self) -> None:
        """Closes the environments of all agents."""
        for agent in self.agents:
            agent.close()


def stacked(
    kind: type[Agent], *given: object, seeds: Iterable[int], run_dir: str | Path | None = None, **settings: object
) -> Stacked:
    """Builds an agent for each seed, which train as one program: `stacked(PPO, "CartPole-v1", seeds=range(64), ...)`.

    Further arguments are those of the class. Settings in which members may differ, such as `learning_rate`, may be
    lists with a value for each seed. With `run_dir`, every run is recorded in a folder of it, such as `seed7`. Raises
    ConfigError if such runs cannot be stacked, with the reason.
    """
    whole, all_seeds = parse_path(run_dir, "run_dir") if run_dir is not None else None, distinct_seeds(seeds, settings)
    free = may_differ(ALGORITHMS[kind.name].algorithm) if kind.name else ()
    lists = {name: list(value) for name, value in settings.items() if name in free and isinstance(value, list | tuple)}
    for name, values in lists.items():
        if len(values) != len(all_seeds):
            raise ConfigError(
                f"{name}={values!r} has {len(values)} values for {len(all_seeds)} seeds: give one for each"
            )
    agents = [
        kind(
            *given,  # pyrefly: ignore (of a kind that is not known here)
            seed=seed,
            run_dir=whole and whole / f"seed{seed}",
            **settings | {name: values[number] for name, values in lists.items()},  # pyrefly: ignore
        )
        for number, seed in enumerate(all_seeds)
    ]
    return Stacked(agents)


def distinct_seeds(seeds: Iterable[int], settings: Mapping[str, object]) -> list[int]:
    """Returns the seeds of a stack; raises ConfigError if they are no list, repeat each other, or are given twice."""
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ConfigError(f"seeds={seeds!r} must be a list of whole numbers: write range(4) for 0 to 3")
    if "seed" in settings:
        raise ConfigError(f"seed={settings['seed']!r} is one member's: leave it out, seeds has them all")
    listed = list(seeds)
    if len(set(listed)) < len(listed):
        raise ConfigError(f"seeds={listed!r} names a seed twice: give each once")
    return listed


def why_not_stacked(agent: Agent) -> str | None:
    """Returns the reason why an agent cannot be a member of a stack, with what to do instead; None if it can."""
    config, algorithm = agent.config, agent.algorithm
    kind = type(algorithm).__name__.removesuffix("Algorithm")
    tensor_code = config.env.can.on_device if agent.env is None else type(agent.env) is NativeEnv
    if not tensor_code and config.env.id in NATIVE:
        return f"env.id={config.env.id!r} is stepped on the host, and a stack needs tensor code: set env.backend=native"
    reasons = {
        f"{kind} {algorithm.why_not_stacked}": algorithm.why_not_stacked is not None,
        f"env.id={config.env.id!r} is stepped on the host, and a stack needs tensor code": not tensor_code,
        "algorithm.normalize_observation=true keeps running statistics, which a stack does not move": algorithm.observes,
        "experience.prioritized=true draws rows by priorities that differ in number between members": getattr(
            config.experience, "prioritized", False
        ),
        "experience.hindsight gives rows other goals, which a stack does not do": config.experience.has_goals,
        "algorithm.critic_dropout draws inside of networks, which a stack does not do": getattr(
            config.algorithm, "critic_dropout", 0
        ),
        "the policy keeps a memory from step to step": bool(algorithm.policy.initial_memory(1)),
        "experience.normalize_reward=true keeps running statistics, which a stack does not move": getattr(
            config.experience, "normalize_reward", False
        ),
        "algorithm.random_shift draws inside of losses, which a stack does not do": getattr(
            config.algorithm, "random_shift", 0
        ),
        "sampling.workers steps the environments in other processes": config.sampling.uses_samplers,
        "phases change what a run learns from": bool(config.phases),
        "a dataset is a part of what it learns from": config.data.given or agent.dataset is not None,
        f"experience.store={config.experience.store!r} is a store of its own": type(config.experience)
        not in (RolloutSettings, ReplaySettings),
        "several ranks share the run": agent.ranks.number > 1,
    }
    reason = next((reason for reason, applies in reasons.items() if applies), None)
    return None if reason is None else f"{reason}: train the seeds one after the other, without a stack"


def where_it_stands(agent: Agent) -> tuple[int, ...]:
    """Returns the counts on which an agent's next iteration depends; they must be equal for all members of a stack."""
    progress, updates = agent.progress, agent.config.experience.kind == "replay"
    return progress.timesteps, progress.updated_at, progress.gradient_steps if updates else 0


def check_alike(agents: Sequence[Agent]) -> None:
    """Raises ConfigError, which names a setting, if agents differ in more than their seeds."""
    free = may_differ(type(agents[0].algorithm))
    first, *others = [shared_settings(agent) for agent in agents]
    for other, agent in zip(others, agents[1:], strict=True):
        for path in first.keys() | other.keys():
            one, another = first.get(path), other.get(path)
            if one == another:
                continue
            where = (
                f"{path} is {one!r} for one member of the stack and {another!r} for another (seed "
                f"{agent.config.training.seed})"
            )
            if path not in (f"algorithm.{name}" for name in free):
                raise ConfigError(f"{where}: besides their seeds, members may differ in {', '.join(free)}")
            if kind_of(one) != kind_of(another):
                raise ConfigError(f"{where}: members may differ in numbers, not in whether there is one")


def structure_of(agent: Agent) -> str:
    """Returns a text that is the same for agents that can be members of one stack."""
    free = {f"algorithm.{name}" for name in may_differ(type(agent.algorithm))}
    settings = shared_settings(agent)
    kinds = {path: kind_of(value) if path in free else value for path, value in sorted(settings.items())}
    return f"{kinds}, {where_it_stands(agent)}"


def may_differ(method: type[Algorithm]) -> tuple[str, ...]:
    """Returns the settings of a method in which members of a stack may differ."""
    names = (name for kind in method.__mro__ for name in vars(kind).get("may_differ", ()))
    return tuple(dict.fromkeys(names))


def kind_of(value: object) -> str:
    """Returns what a setting is: a number, also as a schedule; a text; or nothing."""
    return "number" if isinstance(value, int | float | dict) else type(value).__name__


def shared_settings(agent: Agent) -> dict[str, object]:
    """Returns an agent's settings without its seed and what building a run fills in: device and threads."""
    training = agent.config.training
    return settings_by_path(
        agent.config.replace("training", seed=0, threads=None, device=resolve_device(training.device))
    )


def settings_by_path(config: RunConfig) -> dict[str, object]:
    """Returns the settings of a config as one dict, such as {"env.id": "CartPole-v1"}."""
    found: dict[str, object] = {}
    for section, values in config.to_mapping().items():
        fields = values.items() if isinstance(values, dict) else [("", values)]
        found |= {f"{section}.{name}" if name else section: value for name, value in fields}
    return found

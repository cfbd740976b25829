"""Assembly of a run from its config; no other module knows all the parts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import torch

from rl_training.config.code_objects import with_checked_functions
from rl_training.config.parallelism import check_shares, resolve_device
from rl_training.config.parsing import to_plain
from rl_training.config.registry import ALGORITHMS
from rl_training.config.run_config import RunConfig
from rl_training.core import ALONE, Algorithm, AlgorithmConfig, Optimizer, Ranks, Spec
from rl_training.core.arguments import ConfigError
from rl_training.core.free_memory import WeighedTensors, check_memory
from rl_training.core.goals import GoalRewards
from rl_training.core.teams import TeamSpec
from rl_training.data import Dataset
from rl_training.envs import VectorEnv
from rl_training.experience import Experience, LoggedSteps, StoreContext
from rl_training.experiment.checkpoint import CheckpointError
from rl_training.models import fuse_networks
from rl_training.models.mlp import has_small_networks
from rl_training.runtime import Collector, Phase, Streams, Trainer, Work, make_collector, resolve_compile
from rl_training.runtime.cache_folder import keep_compiled_code
from rl_training.runtime.phases import Plan
from rl_training.runtime.threads import default_threads
from rl_training.runtime.worth_compiling import CompileMode, acting_pays, kernels_pay

COPIES = 4  # of every weight: itself, its gradient and two averages of the optimizer
LARGE = 1000  # settings below are no cause of networks that do not fit into memory
MOST_LAYERS = 1000
LAYERS = ("net_arch", "critic_net_arch", "vae_net_arch", "n_lstm_layers")
DRAWN = ("n_samples", "n_target_samples", "n_actions", "n_target_actions")  # so many times every row of a batch
ACTING = {"bear": "n_actions", "iqn": "n_quantiles"}  # so many times an observation, to act only
PAIRED = {"qr_dqn": ("n_quantiles",) * 2, "tqc": ("n_quantiles",) * 2, "iqn": ("n_samples", "n_target_samples")}
log = logging.getLogger(__name__)


def build_algorithm(config: RunConfig, spec: Spec) -> Algorithm:
    """Builds an algorithm with its networks on the CPU from the config's seed, so that every device starts equally.

    Uses one thread, because orthogonal initialisation rounds differently on several, and leaves torch's random numbers
    as they were. Raises ConfigError if networks or batches are too large, or a setting does not fit the spaces.
    """
    settings = with_checked_functions(config.algorithm).fitted(config.experience.supply(config.env.n_envs))
    check_sizes(config.name, settings)
    check_agents(config.name, spec)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(Streams.from_seed(config.training.seed).network)
            with WeighedTensors(COPIES, partial(too_large, settings)):
                algorithm = ALGORITHMS[config.name].algorithm(settings, spec)
    finally:
        torch.set_num_threads(threads)
    check_methods(config, algorithm)
    return algorithm


def check_agents(method: str, spec: Spec) -> None:
    """Raises ConfigError if a method for teams gets an environment with one agent, or another method one with several."""
    entry = ALGORITHMS[method]
    if entry.algorithm.teams == isinstance(spec, TeamSpec):
        return
    if isinstance(spec, TeamSpec):
        raise ConfigError(
            f"{entry.title} learns for one agent, and this environment has several ({', '.join(spec.agents[:6])}): use IPPO, "
            "MAPPO, IndependentQ, VDN or QMIX"
        )
    raise ConfigError(
        f"{entry.title} learns for a team, and this environment has one agent: use PPO or DQN, or an environment with several, "
        "such as 'mpe/simple_spread' or 'pettingzoo:mpe2.simple_spread_v3'"
    )


def check_sizes(method: str, settings: AlgorithmConfig) -> None:
    """Raises ConfigError if networks have more than 1,000 layers, or a tensor of a batch does not fit into memory."""
    plain = to_plain(settings)
    assert isinstance(plain, dict)
    for name in plain.keys() & set(LAYERS):
        lists = plain[name].values() if isinstance(plain[name], dict) else [plain[name]]
        depth = max(len(layers) if isinstance(layers, list) else layers or 0 for layers in lists)
        if depth > MOST_LAYERS:
            raise ConfigError(f"algorithm.{name} asks for {depth:,} layers: use at most {MOST_LAYERS:,}")
    batch = plain.get("batch_size") or 1
    widths = (*LAYERS[:3], *(("n_cosines",) if method == "iqn" else ()))
    width = max((part for name in widths for part in numbers_in(plain.get(name), least=1)), default=1)
    for name in ("batch_size", *DRAWN, ACTING.get(method, "batch_size")):
        number = plain.get(name) or 0
        rows = number if name in ("batch_size", ACTING.get(method)) else batch * number
        if number >= LARGE:
            check_memory(4 * rows * width, f"algorithm.{name}={number}, in layers of {width} units,")
    first, second = (plain.get(name) or 0 for name in PAIRED.get(method, ("", "")))
    if max(first, second) >= LARGE:
        names = " and ".join(dict.fromkeys(f"{name}={plain[name]}" for name in PAIRED[method]))
        check_memory(4 * batch * first * second, f"comparing every pair of quantiles (algorithm.{names})")


def too_large(settings: AlgorithmConfig, needed: str, shape: tuple[int, ...]) -> str:
    """Returns the error message for networks that need too much memory, `needed` as text; `shape` is a weight's.

    Names the largest of `settings` if a dimension of the shape comes from it.
    """
    plain = to_plain(settings)
    assert isinstance(plain, dict)
    largest = {name: max(numbers_in(value), default=0) for name, value in plain.items()}
    name = max(largest, key=lambda name: largest[name])
    setting = f"algorithm.{name}={plain[name]}" if leads_to(largest[name], shape) else "the networks"
    return (
        f"{setting}: weights of the shape {shape}, with gradients and the optimizer's averages, bring the networks to "
        f"{needed}: choose smaller ones"
    )


def leads_to(number: int, shape: tuple[int, ...]) -> bool:
    """Returns True if a dimension of the shape is `number` or a multiple of it, like the gates of an LSTM."""
    return number > 0 and any(dimension and dimension % number == 0 for dimension in shape)


def numbers_in(value: object, least: int = LARGE) -> Iterator[int]:
    """Yields the whole numbers of at least `least` in a setting: a number, or a list or mapping of settings."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(part, least)
    elif isinstance(value, int) and not isinstance(value, bool) and value >= least:
        yield value


def load_weights(algorithm: Algorithm, weights: dict, source: object) -> None:
    """Loads saved weights into an algorithm; raises CheckpointError, which names `source`, if they do not fit."""
    try:
        algorithm.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{source} does not fit its own config: {' '.join(str(error).split())}") from error


def check_methods(config: RunConfig, algorithm: Algorithm) -> None:
    """Raises ConfigError if a phase of the config names update methods that the algorithm lacks, or none to begin with.

    Each of an algorithm's passes over the data begins with one method; at least one of these must be named.
    """
    known = [
        method for a_pass in algorithm.passes() for method in (a_pass.method, *(a.method for a in a_pass.periodic))
    ]
    for method in known:
        if not callable(getattr(algorithm, method, None)):
            raise ConfigError(
                f"{type(algorithm).__name__}.passes() names {method!r}, which it has no method of: define it"
            )
    firsts = [a_pass.method for a_pass in algorithm.passes()]
    for number, phase in enumerate(config.phases):
        for method in phase.methods or ():
            if method not in known:
                raise ConfigError(
                    f"phases[{number}].methods: {method!r} is not a method of {config.name} that takes batches: choose from "
                    f"{', '.join(known)}"
                )
        if phase.methods is not None and not set(phase.methods) & set(firsts):
            raise ConfigError(
                f"phases[{number}].methods={list(phase.methods)} lacks the method that they follow: add {', '.join(firsts)}"
            )


def resolve(config: RunConfig, algorithm: Algorithm, ranks: Ranks = ALONE) -> RunConfig:
    """Returns the config with a device in place of "auto" and the number of CPU threads.

    Raises ConfigError if `ranks`, the processes of a distributed run, cannot share the run equally.
    """
    check_shares(config, algorithm, ranks.number)
    training = config.training
    size = sum(p.numel() for p in algorithm.parameters())
    threads = training.threads or max(1, default_threads(size) // ranks.on_this_machine)
    return config.replace("training", threads=threads, device=resolve_device(training.device))


def choose_mode(trainer: Trainer, config: RunConfig) -> None:
    """Makes the trainer compile its updates, record them as graphs, or run them eagerly, as suits its budget."""
    training, algorithm = config.training, trainer.algorithm
    work, device = expected_work(config, algorithm), trainer.device.type
    mode, fuses = fastest_mode(trainer, config, work)
    separate = mode is True and device == "cpu" and not config.env.can.on_device
    acting = not separate or acting_pays(training.compile, work)
    fused = fuses and fuse_networks(algorithm, training.precision)
    if (mode, acting) != (trainer.execution.mode, trainer.execution.acting) or fused:
        trainer.execute(mode, acting=acting)


def fastest_mode(trainer: Trainer, config: RunConfig, work: Work) -> tuple[CompileMode, bool]:
    """Returns the mode for this much work of a trainer, and if small networks are to be kernels of their own there."""
    training, device = config.training, trainer.device.type
    small = device == "cuda" and has_small_networks(trainer.algorithm, training.precision)
    mode = resolve_compile(training.compile, work, device, small_networks=small)
    if trainer.ranks.number > 1:  # compiled code would have to hold messages between them, which nobody has tried
        mode = False
    if mode is not False:
        keep_compiled_code()  # before anything is imported that chooses another place
    return mode, small and kernels_pay(mode, work)


def expected_work(config: RunConfig, algorithm: Algorithm) -> Work:
    """Returns the number and size of the updates that could be compiled in a run with this budget.

    On a GPU, the steps of native environments count too, because they are compiled with the updates.
    """
    total, updates = config.training.total_timesteps, config.training.total_updates
    passes = [p for p in algorithm.passes() if p.one_graph]
    rows = updates * max((p.batch_size or 0 for p in passes), default=0)
    more = config.experience.work(passes, total, config.env.n_envs)
    updates, rows = updates + more[0], rows + more[1]
    if config.env.can.on_device and resolve_device(config.training.device) != "cpu":
        updates, rows = updates + total // config.env.n_envs, rows + total
    optimizers = [module for module in algorithm.modules() if isinstance(module, Optimizer)]  # a team's, by group
    trained = [target for optimizer in optimizers for target in optimizer.targets]
    size = sum(target.numel() for target in trained)
    return Work(updates, rows, config.experience.kind != "rollout", len(trained), size, total // config.env.n_envs)


def store_context(config: RunConfig, algorithm: Algorithm, seed: int, data: Experience | None = None) -> StoreContext:
    """Returns the facts about a run from which its experience store is built; `data` is the store of its dataset."""
    return StoreContext(
        algorithm.spec,
        config.env.n_envs,
        gamma=config.algorithm.gamma,
        seed=seed,
        device=config.training.device,
        frame_stack=config.env.num_stacked,
        data=cast("LoggedSteps | None", data),
        columns=algorithm.columns,
        passes=algorithm.passes(),
    )


def build_data(config: RunConfig, algorithm: Algorithm, dataset: Dataset, ranks: Ranks = ALONE) -> LoggedSteps:
    """Builds the store from which updates draw a dataset's rows; each process of a distributed run has all rows."""
    run = store_context(config, algorithm, streams_of(config, ranks).data)
    return config.experience.build_data(dataset, algorithm.policy.to_env, run)


def build_experience(
    config: RunConfig, algorithm: Algorithm, env: VectorEnv, data: Experience | None, ranks: Ranks
) -> Experience:
    """Builds the store (replay or rollout) of steps collected in `env`; in a distributed run, this process's share.

    `data` is the store of the run's dataset for methods that mix both, else None.
    """
    run = store_context(config, algorithm, streams_of(config, ranks).order, data)
    goals = GoalRewards(env.judge, env.tensor_code) if config.experience.has_goals else None
    run = run._replace(spec=env.spec, num_envs=env.num_envs, goals=goals)
    return config.experience.shared_by(ranks.number).build(run)


def streams_of(config: RunConfig, ranks: Ranks) -> Streams:
    return Streams.from_seed(config.training.seed).of_rank(ranks.rank)


def build_trainer(
    config: RunConfig,
    algorithm: Algorithm,
    envs: Mapping[str, VectorEnv],
    dataset: Dataset | None,
    ranks: Ranks = ALONE,
) -> Trainer:
    """Builds a trainer from a config with a device and threads; without environments it learns from the dataset alone.

    `envs` has the environments of section env under "", and those of phases that change them under
    `PhaseConfig.env_key`; in a distributed run (`ranks`), this process's share. Moves the algorithm to the config's
    device.
    """
    training = config.training
    assert training.threads is not None
    if training.overlap and any(
        env.tensor_code for env in envs.values()
    ):  # handed over, so that the config did not know of it
        raise ValueError(
            "training.overlap=true needs an environment on the host, and this one is tensor code: use "
            "training.overlap=false"
        )
    stores: dict[str, Experience] = {}
    if dataset is not None:
        chosen = dataset if config.data.top == 1.0 else dataset.top(config.data.top)
        stores["data"] = build_data(config, algorithm, chosen, ranks)
    if envs:  # before anything is moved, because it may be refused for want of memory
        first = next(iter(envs.values()))
        stores["experience"] = build_experience(config, algorithm, first, stores.get("data"), ranks)
    algorithm.to(training.device)
    return Trainer(
        algorithm,
        build_phases(config, stores, build_collectors(config, algorithm, envs), ranks),
        stores,
        seed=streams_of(config, ranks).training,
        threads=training.threads,
        log_interval=training.log_interval,
        device=training.device,
        precision=training.precision,
        overlap=training.overlap,
        ranks=ranks,
    )


def build_collectors(config: RunConfig, algorithm: Algorithm, envs: Mapping[str, VectorEnv]) -> dict[str, Collector]:
    """Returns a new collector for each of `envs`, under the same key, with random numbers from the config's seed."""
    seeds, columns = Streams.from_seed(config.training.seed), algorithm.columns
    return {
        env_key: make_collector(env, algorithm.policy, seed=seeds.envs_of(env_key), columns=columns)
        for env_key, env in envs.items()
    }


def build_phases(
    config: RunConfig, stores: Mapping[str, Experience], collectors: Mapping[str, Collector], ranks: Ranks = ALONE
) -> list[Phase]:
    """Returns the config's phases in order, then one for the updates from data and one for the env steps that are left.

    `stores` may have "data" and "experience"; `collectors` has one per `PhaseConfig.env_key`, "" for section env.
    Leaves out phases of env steps for which there is no collector.
    """
    training = config.training
    left = {"updates": training.total_updates, "env_steps": training.total_timesteps}
    phases: list[Phase] = []
    for part in config.phases:
        budget = min(part.budget, left[part.unit])
        left[part.unit] -= budget
        if part.unit == "updates":
            phases.append(Phase(stores["data"], None, budget, part.methods))
        elif part.env_key in collectors:
            phases.append(Phase(stores["experience"], collectors[part.env_key], budget, part.methods, part.env_key))
    if "data" in stores and (left["updates"] or not config.phases):
        phases.append(Phase(stores["data"], None, left["updates"]))
    if "" in collectors and (left["env_steps"] or not config.phases):
        phases.append(Phase(stores["experience"], collectors[""], left["env_steps"]))
    return [replace(phase, sharers=ranks.number) for phase in phases]


def note_idle_phases(config: RunConfig, done: int) -> None:
    """Logs a warning for each phase of the config that takes env steps and learns nothing from them.

    Skips phases that ended before env step `done`.
    """
    phases = {f"phases[{i}]": phase.env_steps for i, phase in enumerate(config.phases) if phase.env_steps}
    rest = config.training.total_timesteps - sum(phases.values())
    start = 0
    for name, steps in (phases | {"what follows the phases" if phases else "this run": max(rest, 0)}).items():
        end = start + steps
        why = config.experience.why_idle(start, end, config.env.n_envs) if steps and end > done else None
        if why:
            log.warning(f"{name} takes {steps:,} env steps and learns nothing: {why}, or take more steps")
        start = end


def plan_again(trainer: Trainer, config: RunConfig, envs: Mapping[str, VectorEnv]) -> None:
    """Gives a trainer the budget of `config`; adds a collector for each of `envs` that it has none for, and a store.

    The keys of `envs` are `PhaseConfig.env_key`, "" for section env. A store of steps is added only if there is none.
    """
    stores, collectors = trainer.plan.stores, trainer.plan.collectors
    new = {env_key: env for env_key, env in envs.items() if env_key not in collectors}
    if new and "experience" not in stores:
        first = next(iter(new.values()))
        experience = build_experience(config, trainer.algorithm, first, stores.get("data"), trainer.ranks)
        stores = {**stores, "experience": experience}
    for env_key, collector in build_collectors(config, trainer.algorithm, new).items():
        collector.execute(trainer.execution.collecting)
        collectors[env_key] = collector
    trainer.plan = Plan(build_phases(config, stores, collectors, trainer.ranks), stores)

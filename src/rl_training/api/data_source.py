"""The data that a run may be given: a dataset, a file, or a recipe that makes one."""

from __future__ import annotations

from pathlib import Path

from rl_training.api.env_source import with_groups
from rl_training.api.make_data import made_on_first_use
from rl_training.config import ConfigError, RunConfig
from rl_training.config.sections import NO_ENV
from rl_training.config.trust import OWN, Trust
from rl_training.core import Spec
from rl_training.core.outline import differing
from rl_training.data import Dataset
from rl_training.data.values import check_values, finite_columns, is_mapped
from rl_training.envs import EnvConfig, VectorEnv

Source = Dataset | str | Path


def data_settings(source: Source) -> dict[str, object]:
    """Returns the settings of section `data`, {"path": ...} and for a `Dataset` also "sha256".

    Raises ConfigError if `source` is no dataset and no path.
    """
    if isinstance(source, Dataset):
        path = str(source.path.resolve()) if source.path is not None else None
        return {"path": path, "sha256": source.identity}
    if isinstance(source, str | Path):
        return {"path": str(source)}
    raise ConfigError(f"dataset={source!r} is not a dataset: pass a Dataset or the path of one")


def with_dataset(settings: dict[str, object], dataset: Source | None) -> dict[str, object]:
    """Returns an agent's keyword arguments with `dataset` named in `data={...}`; unchanged if it is None.

    Raises ConfigError if `data` names a dataset, too.
    """
    if dataset is None:
        return settings
    besides = settings.get("data", {})
    if not isinstance(besides, dict) or set(besides) & {"path", "sha256", "make"}:
        raise ConfigError("dataset= and data= both say what to learn from: give one of them")
    return settings | {"data": besides | data_settings(dataset)}


def check_has_data(config: RunConfig) -> None:
    """Raises ConfigError if a run has no dataset, and its method mixes a dataset with its own steps."""
    if config.needs.dataset and config.experience.mixes_data and not config.data.given:
        raise ConfigError(
            f"{config.name} learns from a dataset and from its own steps, and has no dataset: pass dataset=, or set data.path "
            "to a file; without data use REDQ, or SAC, or say offline_batch_ratio=0"
        )


def with_data(config: RunConfig, source: Source) -> RunConfig:
    """Returns the config with `source`, a dataset or its path; raises ConfigError if its method takes none."""
    return config.changed("data", **data_settings(source))


def open_data(config: RunConfig, given: Source | None = None, trust: Trust = OWN) -> Dataset | None:
    """Opens and checks the dataset of a config, or makes it from its recipe; None if the config has none.

    `given` is the dataset, or its path, if the user passed one again. Raises ConfigError if it is not the one that the
    config recorded, or has no rows.
    """
    data = config.data
    if not data.given:
        return None
    if isinstance(given, Dataset):
        dataset = given
        if not any(map(is_mapped, finite_columns(given.columns).values())):  # what is mapped, only `lint` reads whole
            check_values(given.columns, given.spec)
    elif given is not None:
        dataset = Dataset.open(str(data_settings(given)["path"]))
    elif data.path is not None:
        dataset = Dataset.open(data.path)
    elif data.make is not None:
        trust.check_env(config.env)
        trust.check_recipe(data.make.policies)
        dataset = made_on_first_use(config, trust.packages)
    else:
        raise ConfigError(
            f"the run learned from a dataset that was handed over as an object (sha256 {data.sha256}): hand it over again, "
            "load(path, dataset=data), or save it to a file and open it from there"
        )
    if data.sha256 not in (None, dataset.identity):
        raise ConfigError(
            f"{data.path or 'the dataset'} is not the one this run learned from: its sha256 is {dataset.identity}, not "
            f"data.sha256={data.sha256}"
        )
    if not len(dataset):
        raise ConfigError("the dataset has no rows: there is nothing to learn from")
    return dataset


def with_identity(config: RunConfig, dataset: Dataset | None) -> RunConfig:
    """Returns the config with its dataset's absolute path and hash, by which a resumed run finds and checks the data.

    Returns it unchanged if there is no dataset or it has no path.
    """
    if dataset is None or config.data.path is None:
        return config
    recorded = config.data.sha256 or dataset.recorded_sha256
    return config.replace("data", path=str(Path(config.data.path).resolve()), sha256=recorded)


def find_spec(env: VectorEnv | None, dataset: Dataset | None, settings: EnvConfig) -> Spec:
    """Returns the spaces of the environment or, without one, of the dataset, as a `Spec` with `settings.obs_groups`.

    Raises ConfigError if the spaces of environment and dataset differ, or there is neither.
    """
    if env is None:
        if dataset is None:
            raise ConfigError(f"env.id={NO_ENV!r} means a run from data alone, and there are none: pass dataset=")
        return with_groups(dataset.spec, settings.obs_groups)
    if dataset is not None:
        check_fit(dataset, env.spec, settings.id)
    return with_groups(env.spec, settings.obs_groups)


def check_fit(dataset: Dataset, spec: Spec, env_id: str) -> None:
    """Raises ConfigError, which names `env_id`, if a dataset has other spaces than `spec`; bounds may differ."""
    for what, theirs, ours in differing(dataset.spec, spec):
        raise ConfigError(
            f"the dataset's {what} are {theirs}, those of {env_id} are {ours}: use data of that environment, or name the one the "
            "data came from"
        )

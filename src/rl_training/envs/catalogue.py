"""The native environments by id; gymnasium's ids where the task is gymnasium's."""

from collections.abc import Callable
from functools import partial

from rl_training.core.registry import Registry
from rl_training.envs.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from rl_training.envs.goal_tasks import BitFlip, PointReach
from rl_training.envs.matrix_games import MATRIX_GAMES
from rl_training.envs.memory_tasks import CartPoleNoVelocity, PendulumNoVelocity, RepeatPrevious, TMaze
from rl_training.envs.minatar import GAMES
from rl_training.envs.mpe import MPE
from rl_training.envs.native import NativeDynamics
from rl_training.envs.picture_tasks import PixelPendulum
from rl_training.envs.teams import TeamDynamics

DynamicsFactory = Callable[..., NativeDynamics | TeamDynamics]  # a class, or a function of `env.kwargs`
NATIVE: Registry[DynamicsFactory] = Registry("envs")  # whose modules may also register ids with gymnasium
NATIVE |= {
    "CartPole-v1": CartPole,
    "Acrobot-v1": Acrobot,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Pendulum-v1": Pendulum,
    "CartPoleNoVel-v1": CartPoleNoVelocity,
    "PendulumNoVel-v1": PendulumNoVelocity,
    "TMaze-v0": TMaze,
    "RepeatPrevious-v0": RepeatPrevious,
    "BitFlip-v0": BitFlip,
    "PointReach-v0": PointReach,
    **MATRIX_GAMES,
    **MPE,
    "PixelPendulum-v1": PixelPendulum,
    **{f"MinAtar/{name}-v1": game for name, game in GAMES.items()},
    **{f"MinAtar/{name}-v0": partial(game, minimal_actions=False) for name, game in GAMES.items()},
}


def register_native(name: str, dynamics: DynamicsFactory) -> None:
    """Registers native dynamics under a name for this process: `env.id` with `backend="native"`.

    `dynamics` is a class or a function that returns dynamics; `env.kwargs` are its arguments. To load a checkpoint,
    first import the module that registers it, or install a package that declares the name as an entry point;
    `package.module:factory` as an id needs no registration. Raises a ValueError if `name` is taken or contains a colon,
    or if `dynamics` is an object instead of a class or function.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise ValueError(f"{name!r} is not a name for an environment: use one without a colon, e.g. 'Slope-v0'")
    if isinstance(dynamics, NativeDynamics | TeamDynamics) or not callable(dynamics):
        kind = type(dynamics).__name__
        raise ValueError(f"{name!r}: pass the class or a function that returns dynamics, e.g. {kind}, not an object")
    if isinstance(dynamics, type) and not issubclass(dynamics, NativeDynamics | TeamDynamics):
        raise ValueError(f"{name!r}: {dynamics.__name__} is not a NativeDynamics: derive it from that class")
    if NATIVE.get(name, dynamics) is not dynamics:
        known = getattr(NATIVE[name], "__qualname__", repr(NATIVE[name]))
        raise ValueError(f"{name!r} is the name of {known} already: choose another name")
    NATIVE[name] = dynamics

"""The native environments by id; gymnasium's ids where the task is gymnasium's."""

from rl_training.envs.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from rl_training.envs.memory import CartPoleNoVelocity, PendulumNoVelocity, RepeatPrevious, TMaze
from rl_training.envs.native import NativeDynamics

NATIVE: dict[str, type[NativeDynamics]] = {
    "CartPole-v1": CartPole,
    "Acrobot-v1": Acrobot,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Pendulum-v1": Pendulum,
    "CartPoleNoVel-v1": CartPoleNoVelocity,
    "PendulumNoVel-v1": PendulumNoVelocity,
    "TMaze-v0": TMaze,
    "RepeatPrevious-v0": RepeatPrevious,
}

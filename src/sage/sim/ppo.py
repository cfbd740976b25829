"""Re-export of PPO on compiled tasks under a promised path: `sage.sim.training` and
`sage.sim.environment.pointer_ppo`."""

from sage.sim.environment.pointer_ppo import PointerPPOAlgorithm
from sage.sim.training import load_policy, train, training_config

__all__ = ["PointerPPOAlgorithm", "load_policy", "train", "training_config"]

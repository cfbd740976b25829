"""Beyond one process: samplers that step environments for the process that learns, and several that learn together."""

from rl_training.distributed import collectors as collectors
from rl_training.distributed.data_parallel import data_parallel
from rl_training.distributed.sampled_env import SampledEnv

__all__ = ["SampledEnv", "data_parallel"]

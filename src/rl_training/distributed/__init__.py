"""Beyond one process: samplers that step environments for the process that learns."""

from rl_training.distributed.collectors import collector_of
from rl_training.distributed.sampled_env import SampledEnv

__all__ = ["SampledEnv", "collector_of"]

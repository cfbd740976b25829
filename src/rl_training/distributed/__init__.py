"""Runs of several processes: samplers that step environments for one learner, and ranks that learn together."""

from rl_training.distributed import make_sampled_collector as make_sampled_collector
from rl_training.distributed.data_parallel import data_parallel
from rl_training.distributed.sampled_env import SampledEnv

__all__ = ["SampledEnv", "data_parallel"]

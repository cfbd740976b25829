"""Steps of native environments can be recorded as a CUDA graph: they copy nothing from the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from rl_training.core import tree_map
from rl_training.envs import NATIVE, EnvConfig, make_env
from rl_training.envs.check import sample
from rl_training.envs.native import move_tensors


class NoHostTensors(TorchDispatchMode):
    """Refuses a tensor made of Python numbers, and the use of one that is not on the device `meta`."""

    def __torch_dispatch__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        assert func is not torch.ops.aten.lift_fresh.default, "a tensor is made of Python numbers"
        for x in pytree.tree_leaves((args, kwargs)):
            assert not isinstance(x, Tensor) or x.is_meta, f"{func} reads a tensor of the host, {tuple(x.shape)}"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("env_id", list(NATIVE))
def test_a_step_reads_nothing_from_the_host(env_id: str) -> None:
    env = make_env(EnvConfig(id=env_id, backend="native"), num_envs=3)
    env.reset(0)
    move_tensors(getattr(env.dynamics, "team", env.dynamics), torch.device("meta"))
    action = sample(env.spec.action, 3, torch.Generator().manual_seed(0))
    parts = tree_map(lambda x: x.to("meta"), (env.state, env.elapsed, action, env.draw()))
    env.all_valid = env.all_valid.to("meta")
    with NoHostTensors():
        env.advance(*parts)

"""Data parallel learning: `torchrun --nproc-per-node 2 -m rl_training train ...` runs one training in two ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from rl_training.core.ranks import ALONE, Ranks, joined

PATIENCE = timedelta(days=7)  # the first may evaluate for long; torchrun ends the others when a process dies


@contextmanager
def data_parallel() -> Iterator[Ranks]:
    """Joins this process to the others that torchrun started, inside the `with` block; yields its `Ranks`.

    Without torchrun or with one process, yields `ALONE`. Agents made inside the block train together with those of the
    other processes, which have to make the same ones. The first process records the run; the others leave out run
    directories, callbacks and evaluations. Raises LostRankError if another process ends or does not answer.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        yield ALONE
        return
    from rl_training.distributed.torch_ranks import TorchRanks, lost_rank_errors  # slow to import

    on_this_machine, local = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    backend = "gloo"
    if torch.cuda.is_available():
        one_each = torch.cuda.device_count() >= on_this_machine
        torch.cuda.set_device(local % torch.cuda.device_count())  # what "cuda" means from here on
        backend = "cpu:gloo,cuda:nccl" if one_each else "cpu:gloo,cuda:gloo"
    with lost_rank_errors():
        dist.init_process_group(backend, timeout=PATIENCE)
    try:
        with joined(TorchRanks(on_this_machine)) as ranks:
            yield ranks
    finally:
        dist.destroy_process_group()

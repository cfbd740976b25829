"""A cluster of Ray on this machine with a small object store, and someone who fills it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import ray

MB = 2**20
STORE = 80 * MB  # Ray's least is 75 MiB
HOLE = MB // 4  # has room for the weights of the runs here, and not for a sampler's steps
MOST = 20  # objects of each size: where Ray moves objects to disk, there is no end


@contextmanager
def small_cluster(num_cpus: int, *, disk_full: bool) -> Iterator[None]:
    """With a full disk, nothing is moved out of the store: Ray believes that 1 % of the disk is all there is."""
    system = {"worker_niceness": 0, "kill_worker_timeout_milliseconds": 500}  # of a stopped process; 5 s by default
    ray.init(
        address="local",
        num_cpus=num_cpus,
        object_store_memory=STORE,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _system_config=system | ({"local_fs_capacity_threshold": 0.01} if disk_full else {}),
    )
    try:
        yield
    finally:
        ray.shutdown()


class Hoarder:
    """Takes all of the object store, or all but a hole, and keeps it for some seconds, with what others free meanwhile."""

    def fill(self, *, hole: bool) -> None:
        self.sizes = (8 * MB, MB, HOLE + HOLE // 4 if hole else MB // 16)
        time.sleep(1.2)  # Ray frees once a second what nobody holds any more
        spare = put(HOLE, 1)
        self.held = [put(size, MOST) for size in self.sizes]
        if not hole:
            self.held.append(spare)

    def free_after(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            time.sleep(0.05)
            self.held += [put(size, 2) for size in self.sizes[1:]]
        self.held.clear()


def put(size: int, most: int) -> list:
    """As many objects as there is room for."""
    held = []
    for _ in range(most):
        try:
            held.append(ray.put(np.ones(size - 1024, np.uint8)))
        except ray.exceptions.OutOfDiskError:
            break
    return held

"""A run without RAY_ADDRESS has a cluster of its own."""

from __future__ import annotations

from rl_training.distributed import ray_engine


class RayBesideACluster:
    """Ray on a machine on which somebody has called `ray start --head`."""

    def __init__(self) -> None:
        self.started = 0

    def init(self, *, address: str | None = None, num_cpus: int | None = None, **settings: object) -> None:
        if address != "local" and num_cpus is not None:
            raise ValueError("When connecting to an existing cluster, num_cpus and num_gpus must not be provided.")
        self.started += address == "local"


def test_a_cluster_that_runs_on_this_machine_is_not_joined() -> None:
    ray = RayBesideACluster()
    ray_engine.start_local(ray, 2)
    assert ray.started == 1

"""Events for TensorBoard, in the run directory."""

from __future__ import annotations

from collections.abc import Mapping

from rl_training.experiment.trackers.tracker import Record, Status, TrackedRun, Tracker

METRICS = ("eval/mean_reward", "rollout/ep_rew_mean")  # by which the page HPARAMS compares runs


class TensorBoard(Tracker):
    """Writes metrics under the keys of Stable-Baselines3, and the settings for the page HPARAMS."""

    name, package = "tensorboard", "tensorboard"
    advice = "see that the disk has room, and that `python -c 'import torch.utils.tensorboard'` works"

    def start(self, run: TrackedRun, before: Mapping[str, str]) -> dict[str, str]:
        from torch.utils.tensorboard import SummaryWriter  # slow to import
        from torch.utils.tensorboard.summary import hparams

        self.writer = SummaryWriter(str(run.folder), purge_step=run.timesteps + 1)
        experiment, settings, self.success = hparams(run.config, dict.fromkeys(METRICS, 0.0))
        self.add(experiment)
        self.add(settings)
        return {}

    def log(self, records: list[Record]) -> None:
        for record in records:
            for name, value in record.metrics.items():
                self.writer.add_scalar(name, value, record.timesteps, walltime=record.time)

    def finish(self, status: Status) -> None:
        if status == "finished":
            self.add(self.success)
        self.writer.close()

    def add(self, summary: object) -> None:
        assert self.writer.file_writer is not None
        self.writer.file_writer.add_summary(summary)

"""Runs of trackio, in its database on this machine or in a Space of Hugging Face."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from rl_training.experiment.trackers.tracker import Record, Status, TrackedRun, Tracker


class Trackio(Tracker):
    """Writes metrics for `trackio show`.

    `TRACKIO_DIR`, `TRACKIO_SPACE_ID` and the other variables of the package apply.
    """

    name, package = "trackio", "trackio"
    advice = "see that its folder can be written; TRACKIO_DIR names another"
    seconds_between_batches = 5.0  # each is a transaction

    def start(self, run: TrackedRun, before: Mapping[str, str]) -> dict[str, str]:
        import trackio  # slow to import

        name = before.get("name") or f"{run.name}-{secrets.token_hex(3)}"  # trackio finds runs by their names
        project = before.get("project") or run.project
        self.run = trackio.init(
            project=project,
            name=name,
            group=run.group,
            config=dict(run.config),
            resume="allow" if before else "never",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return {"project": project, "name": name}

    def log(self, records: list[Record]) -> None:
        for record in records:
            self.run.log(dict(record.metrics), step=record.timesteps)

    def finish(self, status: Status) -> None:
        self.run.finish()

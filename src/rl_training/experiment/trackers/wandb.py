"""Runs on Weights & Biases, or in its offline files."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping

from rl_training.experiment.trackers.tracker import Record, Status, TrackedRun, Tracker

log = logging.getLogger(__name__)
STEPS = "timesteps"  # the axis of all charts


class WeightsAndBiases(Tracker):
    """Sends metrics to Weights & Biases; without a key or a network, writes its offline files in the run directory.

    `WANDB_MODE`, `WANDB_ENTITY` and the other variables of the package apply.
    """

    name, package = "wandb", "wandb"
    advice = "WANDB_MODE=offline needs no network, and debug.log in the folder wandb of the run directory says more"

    def start(self, run: TrackedRun, before: Mapping[str, str]) -> dict[str, str]:
        import wandb  # slow to import

        mode, identity = wandb.setup().settings.mode, before.get("id") or secrets.token_hex(4)
        if mode == "online" and not wandb.login(prompt=False, verify=False):
            mode = "offline"
            log.warning(
                f"wandb knows no API key, so this run is recorded offline: `wandb sync {run.folder}/wandb/offline-run-*` "
                "sends it later; `wandb login` before training would have sent it at once"
            )

        def init(mode: str) -> wandb.Run:
            return wandb.init(
                id=identity,
                name=run.name,
                group=run.group,
                project=run.project,
                config=dict(run.config),
                dir=str(run.folder),
                resume="allow",
                mode=mode,
                settings=wandb.Settings(silent=True, console="off"),
            )

        try:
            self.run = init(mode)
        except wandb.errors.CommError as error:
            mode = "offline"
            log.warning(
                f"wandb cannot reach its server, so this run is recorded offline, in {run.folder}/wandb: {error}"
            )
            self.run = init(mode)
        self.run.define_metric(STEPS)
        self.run.define_metric("*", step_metric=STEPS)
        url = self.run.url if mode == "online" else None
        return {"id": identity} | ({"url": url} if url else {})

    def log(self, records: list[Record]) -> None:
        for record in records:
            self.run.log({STEPS: record.timesteps, **record.metrics})

    def finish(self, status: Status) -> None:
        self.run.finish(exit_code=int(status == "failed"))

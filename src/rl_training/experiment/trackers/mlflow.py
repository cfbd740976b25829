"""Runs in a store or on a server of MLflow."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rl_training.experiment.trackers.tracker import Record, Status, TrackedRun, Tracker

ENDS = {"finished": "FINISHED", "paused": "KILLED", "failed": "FAILED"}
MOST_METRICS, MOST_PARAMETERS = 1_000, 100  # in one call


class MLflow(Tracker):
    """Writes metrics and settings to MLflow's store: `MLFLOW_TRACKING_URI`, else `mlflow.db` in the current folder."""

    name, package = "mlflow", "mlflow"
    advice = "see that the store of MLFLOW_TRACKING_URI can be reached and written"
    seconds_between_batches = 5.0  # each is a transaction

    def start(self, run: TrackedRun, before: Mapping[str, str]) -> dict[str, str]:
        import mlflow
        from mlflow.entities import Metric, Param  # slow to import
        from mlflow.tracking import MlflowClient

        self.metric = Metric
        store = before.get("store") or mlflow.get_tracking_uri()
        self.client = MlflowClient(tracking_uri=store)
        if before:
            self.id = before["run_id"]
            self.client.update_run(self.id, status="RUNNING")
            return dict(before)
        found = self.client.get_experiment_by_name(run.project)
        experiment = found.experiment_id if found else self.client.create_experiment(run.project)
        tags = {"group": run.group} if run.group else {}
        self.id = self.client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
        parameters = [Param(path, str(value)[:6_000]) for path, value in run.config.items()]
        for at in range(0, len(parameters), MOST_PARAMETERS):
            self.client.log_batch(self.id, params=parameters[at : at + MOST_PARAMETERS])
        return {"store": store, "run_id": self.id}

    def log(self, records: list[Record]) -> None:
        metrics = [
            self.metric(re.sub(r"[^\w\-. :/]", "_", name), value, int(1_000 * record.time), record.timesteps)
            for record in records
            for name, value in record.metrics.items()
        ]
        for at in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[at : at + MOST_METRICS])

    def finish(self, status: Status) -> None:
        self.client.set_terminated(self.id, ENDS[status])

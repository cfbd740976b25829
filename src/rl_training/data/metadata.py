"""Metadata of a dataset: its spaces, its origin, and reference scores."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import NamedTuple

from rl_training.core import Spec
from rl_training.data.columns import DatasetError, Flat
from rl_training.data.reference_scores import ReferenceScore

FORMAT = "rl-training dataset"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The origin of a dataset: its source, environment, method, package versions and seed; None means unknown."""

    source: str | None = None  # file, address or run
    env_id: str | None = None
    method: str | None = None  # how they were made: policy, noise, number of steps
    versions: dict[str, str] = field(default_factory=dict)  # of the packages that made them
    seed: int | None = None
    synthetic: bool | None = None  # made by a formula or a model instead of the environment that is named
    spec_inferred: bool = False  # the spaces were guessed from the data
    ignored: tuple[str, ...] = ()  # columns of the file that were not read


@dataclass(frozen=True)
class Metadata:
    """The description of a dataset that is stored with its columns: spaces, origin, reference scores and checksum."""

    spec: Spec | None = None
    provenance: Provenance = Provenance()
    reference: ReferenceScore | None = None
    rows: int | None = None
    sha256: str | None = None  # of the columns
    dtypes: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict:
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "rows": self.rows,
            "sha256": self.sha256,
            "provenance": asdict(self.provenance),
            "reference": None if self.reference is None else asdict(self.reference),
            "dtypes": self.dtypes,
            "spec": None if self.spec is None else self.spec.to_json(),
        }

    def check_rows(self, rows: int) -> None:
        """Raises a DatasetError if the number of rows differs from the recorded one.

        Does nothing if none was recorded.
        """
        if self.rows not in (None, rows):
            raise DatasetError(f"reward has {rows} rows instead of {self.rows}: the file was cut; get it again")

    @classmethod
    def from_text(cls, text: str | bytes) -> Metadata:
        """Returns metadata from JSON text; raises a DatasetError if it is no JSON, or not the result of `to_json`."""
        try:
            record = json.loads(text)
        except ValueError as error:
            raise DatasetError(f"metadata is no JSON ({error}): write or copy the file again") from error
        return cls.from_json(record)

    @classmethod
    def from_json(cls, record: object) -> Metadata:
        """Returns metadata from a result of `to_json`; raises a DatasetError for anything else and other versions."""
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise DatasetError("metadata were not written by rl_training: remove them to read the columns alone")
        if record.get("format_version") != FORMAT_VERSION:
            raise DatasetError(
                f"metadata have format version {record.get('format_version')}, this version reads {FORMAT_VERSION}: "
                "use the rl_training that wrote the file"
            )
        try:
            reference = record["reference"]
            return cls(
                spec=None if record["spec"] is None else Spec.from_json(record["spec"]),
                provenance=provenance_from_json(record["provenance"]),
                reference=None if reference is None else ReferenceScore(**reference),
                rows=record["rows"],
                sha256=record["sha256"],
                dtypes=dict(record["dtypes"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise DatasetError(f"metadata cannot be understood ({error!r}): write the file again") from error


class Table(NamedTuple):
    """The content of a dataset file: arrays by names such as `obs` or `obs/position`, and metadata."""

    columns: Flat
    metadata: Metadata
    mapped: bool = False  # the columns are on disk until they are looked at


def provenance_from_json(record: dict) -> Provenance:
    unknown = set(record) - {entry.name for entry in fields(Provenance)}
    if unknown:
        raise TypeError(f"unknown provenance {', '.join(sorted(unknown))}")
    return Provenance(**(record | {"ignored": tuple(record["ignored"])}))

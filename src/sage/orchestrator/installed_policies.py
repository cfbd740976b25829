"""The policies that `sage promote` put beside the log: the one that serves, and those that served before it.

`sage.db.policies` holds a copy of every checkpoint that was promoted, named by its hash, with its gate record, and
`serving.json`, which says which of them serves. That file is replaced as a whole, so that every process sees either the
state before a promotion or the one after it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from sage.files import read_text, replacing, sha256_of, write_json
from sage.process_lock import ProcessLock
from sage.proof.gate_record import GateRecord

DECISIONS, CASCADES = "decisions", "cascades"  # of what a policy may be
WITHOUT = {DECISIONS: "the static table decides", CASCADES: "the ladders decide"}  # where no policy is promoted
FORMAT = 1
MOST_EVENTS = 100
PATIENCE_S = 10.0


class InstalledPoliciesError(ValueError):
    """Error about the file that says which promoted policy serves; the message names the file and the fix."""


@dataclass(frozen=True, kw_only=True)
class InstalledPolicy:
    """A promoted checkpoint, and the date from which it served."""

    checkpoint_sha256: str
    policy: str
    policy_version: str
    since: str  # ISO, UTC
    promoted_from: str  # the path that was promoted
    allow_synthetic: bool = False  # serves although its proof is about synthetic rows
    proof: dict = field(default_factory=dict)  # what the proof said, in numbers

    @property
    def name(self) -> str:
        return f"{self.policy} {self.policy_version}"


@dataclass(frozen=True)
class Slot:
    """The policy that serves for decisions or for cascades, or None; and those before it, newest last."""

    serving: InstalledPolicy | None = None
    former: tuple[InstalledPolicy, ...] = ()


class InstalledPolicies:
    """The promoted policies of the log `db`."""

    def __init__(self, db: Path) -> None:
        self.folder = db.with_name(f"{db.name}.policies")
        self.file = self.folder / "serving.json"

    def checkpoint(self, installed: InstalledPolicy) -> Path:
        return self.folder / f"{installed.checkpoint_sha256[:16]}.safetensors"

    def slot(self, name: str) -> Slot:
        """Reads who serves; raises InstalledPoliciesError if the file cannot be read."""
        return self.read()[name]

    def read(self) -> dict[str, Slot]:
        return {name: parsed(self.file, self.values().get(name, {})) for name in (DECISIONS, CASCADES)}

    def events(self) -> list[dict]:
        """Returns the latest promotions and rollbacks, newest last."""
        return list(self.values().get("events", []))

    def values(self) -> dict:
        try:
            values = json.loads(read_text(self.file))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise InstalledPoliciesError(
                f"{self.file} cannot be read ({error}): remove it, then promote a policy again"
            ) from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InstalledPoliciesError(f"{self.file} is not of format {FORMAT}: use the sage that wrote it")
        return values

    def install(self, name: str, checkpoint: Path, record: GateRecord, installed: InstalledPolicy) -> None:
        """Copies a checkpoint with its record, and then lets it serve; who served before stays known."""
        with self.changing() as values:
            target = self.checkpoint(installed)
            with replacing(target) as temporary:
                shutil.copyfile(checkpoint, temporary)
                if sha256_of(temporary) != installed.checkpoint_sha256:
                    raise InstalledPoliciesError(f"{checkpoint} changed while it was promoted: prove it again")
            record.write(target)
            before = parsed(self.file, values.get(name, {}))
            former = before.former if before.serving is None else (*before.former, before.serving)
            others = tuple(one for one in former if one.checkpoint_sha256 != installed.checkpoint_sha256)
            self.write(values, name, Slot(installed, others), "promote", installed)

    def roll_back(self, name: str, *, to_table: bool) -> Slot:
        """Lets the policy serve that served before the present one; the static table if there is none or `to_table`."""
        nothing = InstalledPoliciesError(
            f"no promoted policy serves for {name}, so there is nothing to roll back: {WITHOUT[name]}"
        )
        if not self.folder.is_dir():
            raise nothing
        with self.changing() as values:
            before = parsed(self.file, values.get(name, {}))
            if before.serving is None:
                raise nothing
            former = () if to_table else before.former
            serving = replace(former[-1], since=now()) if former else None
            slot = Slot(serving, former[:-1])
            self.write(values, name, slot, "rollback", before.serving)
            return slot

    def write(self, values: Mapping, name: str, slot: Slot, event: str, of: InstalledPolicy) -> None:
        told = {"date": now(), "event": event, "of": name, "policy": of.name, "sha256": of.checkpoint_sha256}
        told["serves"] = "static table" if slot.serving is None else slot.serving.name
        events = [*values.get("events", []), told][-MOST_EVENTS:]
        write_json(self.file, {**values, "format": FORMAT, name: asdict(slot), "events": events})

    @contextmanager
    def changing(self) -> Iterator[dict]:
        """Yields what the file holds, while no other process can change it."""
        self.folder.mkdir(exist_ok=True)
        lock = ProcessLock(self.folder / "lock")
        lock.open()
        with closing(lock), ExitStack() as held:
            try:
                held.enter_context(lock.taken(PATIENCE_S))
            except TimeoutError as error:
                raise InstalledPoliciesError(
                    f"another process has held {lock.path} for {PATIENCE_S:g} s, and nothing was changed: wait for its "
                    "promotion or rollback to end, or end that process"
                ) from error
            yield self.values()


def parsed(file: Path, values: Mapping) -> Slot:
    try:
        serving, former = values.get("serving"), values.get("former", [])
        return Slot(
            None if serving is None else InstalledPolicy(**serving), tuple(InstalledPolicy(**one) for one in former)
        )
    except (TypeError, AttributeError) as error:
        raise InstalledPoliciesError(
            f"{file} cannot be read ({error}): remove it, then promote a policy again"
        ) from error


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

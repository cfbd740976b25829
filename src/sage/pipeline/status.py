"""The state of serving: which policy decides, since when, on which proof, what it costs and how it does since."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from sage.dollars import in_usd
from sage.evidence.judged_quality import judged_quality, mean_quality
from sage.evidence.routing_data import RoutingData
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.orchestrator.installed_policies import CASCADES, DECISIONS, InstalledPolicies, InstalledPolicy, Slot
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.promotion import Served, cascade_kind, served_policy, single_decision_kind
from sage.pipeline.choices import DATABASE, MODELS_FILE
from sage.pipeline.inputs import static_of
from sage.policies.learned_policy import LearnedPolicy
from sage.proof.evaluation import OfflineEvaluation, evaluate_offline
from sage.settings import Settings

FEWEST = 50  # outcomes: with fewer, nothing is said about the gain since
MOST = 20_000  # latest rows that a gain is estimated from, and as many from before the promotion for a trend
LOOK_BACK_S = 90 * 86_400  # before the promotion
SYNTHETIC = "SYNTHETIC rows: no evidence"
ADVICE = "; consider `sage rollback`"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Counts and means of the decisions since the policy serves."""

    decisions: int = 0
    by_policy: int = 0  # that the policy itself made; the table made the others
    outcomes: int = 0  # with a quality or a time-out; those that were not drawn to be reported do not count
    quality: float | None = None  # mean, a time-out counting as 0
    cost_usd: float | None = None  # mean of the decisions whose cost is known
    total_usd: float = 0.0
    synthetic: int = 0  # decisions of made-up requests
    gain: dict | None = None  # value, low and high of policy less table, on the rows since
    no_gain: str = ""  # why there is none
    trend: str = ""  # outcomes of the policy's models before and since; '' where one of both has too few
    fell: bool = False  # by more than chance explains


@dataclass(frozen=True, kw_only=True)
class SlotStatus:
    """The state of single decisions, or of cascades."""

    serves: str  # name and version; 'static table', 'bandit KIND' or 'ladders'
    by: str  # promotion, environment, or models.yaml
    since: str | None  # ISO, UTC; None where nothing says since when
    note: str = ""  # a problem, or a remark on what serves
    proof: dict | None = None  # of the promoted policy
    before: str = ""  # what `sage rollback` would let serve
    live: Figures | None = None

    @property
    def worse(self) -> bool:
        """Returns True if the policy does worse than its proof said, by more than chance explains."""
        proved = (self.proof or {}).get("gain")
        if self.live is None:
            return False
        below = bool(proved and self.live.gain and self.live.gain["high"] < proved["low"])
        return self.live.fell or below


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of what serves a log, with `decisions` and, where models.yaml has cascades, `cascades`."""

    db: str
    models: str
    slots: dict[str, SlotStatus]
    events: list[dict]

    def to_json(self) -> dict:
        """Returns plain values, as `sage status --json` prints them."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(line for name, slot in self.slots.items() for line in lines_of(name, slot))


def status(
    *,
    db: str | Path = DATABASE,
    models: str | Path = MODELS_FILE,
    environment: Mapping[str, str] | None = None,
) -> Status:
    """Returns what serves a log now, as a router that starts in this environment would decide it.

    For a promoted policy it also counts the decisions since, and compares the gain over the static table, estimated
    from them, with that of the proof. It counts no look and proves nothing.
    """
    db, table = Path(db), ModelsFile.read(models)
    single = single_decision_kind(tuple(table.models), table.guard.confidence_floor)
    policies = InstalledPolicies(db)
    slots = policies.read()
    served = served_policy(environment, single, table.objective, db=db)
    otherwise = "static table" if table.bandit is None else f"bandit {table.bandit.kind}"
    by_environment = Settings.read(environment).decides
    found = {DECISIONS: slot_status(slots[DECISIONS], served, otherwise, by_environment, db, table)}
    if table.cascade or slots[CASCADES].serving is not None:
        steps = served_policy(environment, cascade_kind(table.cascade), table.objective, db=db)
        found[CASCADES] = slot_status(slots[CASCADES], steps, "ladders", by_environment, db, table)
    return Status(db=str(db), models=str(models), slots=found, events=policies.events())


def slot_status(
    slot: Slot, served: Served, otherwise: str, by_environment: bool, db: Path, table: ModelsFile
) -> SlotStatus:
    before = slot.former[-1].name if slot.former else otherwise
    if by_environment or slot.serving is None:
        policy = served.policy
        serves = otherwise if policy is None else f"{policy.name} {policy.version}"
        note = served.problem or served.forced
        if by_environment and slot.serving is not None:
            note = "; ".join([*([note] if note else []), f"{slot.serving.name} was promoted, and is overruled"])
        by = "environment" if by_environment else "models.yaml"
        return SlotStatus(serves=serves, by=by, since=None, note=note)
    installed = slot.serving
    return SlotStatus(
        serves=installed.name if served.policy is not None else otherwise,
        by="promotion",
        since=installed.since,
        note=f"{installed.name} was promoted, but cannot serve: {served.problem}" if served.problem else served.forced,
        proof=proof_of(installed, db),
        before=before,
        live=figures(db, installed, served.policy, table),
    )


def proof_of(installed: InstalledPolicy, db: Path) -> dict:
    from sage.proof.gate_record import records_of

    record = records_of(InstalledPolicies(db).checkpoint(installed)).get(installed.checkpoint_sha256)
    told = {} if record is None else {name: getattr(record, name) for name in ("date", "data_source", "reason")}
    return (
        {"checkpoint_sha256": installed.checkpoint_sha256, "promoted_from": installed.promoted_from}
        | told
        | (installed.proof)
    )


def figures(db: Path, installed: InstalledPolicy, policy: object, table: ModelsFile) -> Figures:
    """Counts the decisions since the policy serves, and estimates its gain from them."""
    if not db.is_file():
        return Figures()
    since = datetime.fromisoformat(installed.since).timestamp()
    rows: list[tuple[Decision, Outcome | None]] = []
    older: deque[tuple[Decision, Outcome | None]] = deque(maxlen=MOST)
    cascades = not isinstance(policy, LearnedPolicy)
    with closing(DecisionLog(db)) as log:
        for decision, outcome in log.rows(since=since - LOOK_BACK_S, unreadable=[]):
            if (decision.cascade is not None) == cascades:
                (rows if decision.time >= since else older).append((decision, outcome))
    outcomes = sum(judged_quality(*row) is not None for row in rows)
    costs = [outcome.cost_usd for _, outcome in rows if outcome is not None and outcome.cost_usd is not None]
    gain, no_gain = estimated(rows, outcomes, policy, table)
    whole = judged([*older, *rows[-MOST:]], policy, table) if outcomes >= FEWEST else ""
    trend = None if isinstance(whole, str) else whole.trend
    return Figures(
        decisions=len(rows),
        by_policy=sum(
            (row.policy, row.policy_version) == (installed.policy, installed.policy_version) for row, _ in rows
        ),
        outcomes=outcomes,
        quality=mean_quality(rows),
        cost_usd=sum(costs) / len(costs) if costs else None,
        total_usd=sum(costs),
        synthetic=sum(row.data_source == "synthetic" for row, _ in rows),
        gain=gain,
        no_gain=no_gain,
        trend="" if trend is None else str(trend),
        fell=trend is not None and trend.fell,
    )


def estimated(
    rows: list[tuple[Decision, Outcome | None]], outcomes: int, policy: object, table: ModelsFile
) -> tuple[dict | None, str]:
    """Returns the gain over the table on these rows, or why there is no estimate."""
    if outcomes < FEWEST and isinstance(policy, LearnedPolicy):
        return None, f"{outcomes} outcomes so far, and {FEWEST} are needed"
    found = judged(rows[-MOST:], policy, table)
    if isinstance(found, str):
        return None, found
    if found.report.interval is None:
        return None, found.report.refusal or "the log cannot answer"
    interval = found.report.interval
    return {"value": found.report.value, "low": interval.low, "high": interval.high, "rows": found.num_rows}, ""


def judged(
    rows: Sequence[tuple[Decision, Outcome | None]], policy: object, table: ModelsFile
) -> OfflineEvaluation | str:
    """Returns the evaluation of the policy on these rows, or why there is none."""
    if not isinstance(policy, LearnedPolicy):
        return "only single decisions are compared"
    try:
        data = RoutingData.from_records(rows, where="the log", gaps=True)
        floor = table.guard.confidence_floor
        return evaluate_offline(data, policy, static=static_of(table), objective=table.objective, floor=floor)
    except ValueError as error:  # rows that cannot judge it: no task, costs of some rows alone, another pool
        return str(error)


def lines_of(name: str, slot: SlotStatus) -> list[str]:
    by = {"promotion": "promoted", "environment": "as SAGE_RL_POLICY says", "models.yaml": "as models.yaml says"}[
        slot.by
    ]
    lines = [f"{name}: {slot.serves}, {by}" + (f", since {slot.since}" if slot.since else "")]
    if slot.note:
        lines.append(f"  note: {slot.note}")
    if slot.proof is not None:
        lines.append(f"  proof: {told_proof(slot.proof)}")
    if slot.live is not None:
        lines += [f"  since then: {told_live(slot.live)}", f"  against the proof: {told_gain(slot)}"]
        if slot.live.trend:
            lines.append(f"  {slot.live.trend}{ADVICE if slot.live.fell else ''}")
        lines.append(
            f"  `sage rollback` lets the {slot.before} decide"
            if " " not in slot.before
            else f"  `sage rollback`: {slot.before}"
        )
    return lines


def told_proof(proof: Mapping) -> str:
    parts = [f"{proof.get('date', 'no date')}, sha256 {proof['checkpoint_sha256'][:12]}"]
    if proof.get("data_source") == "synthetic":
        parts.append(SYNTHETIC)
    if gain := proof.get("gain"):
        parts.append(f"gain {span(gain, '+.4f')} over {proof['incumbent']} on {proof['rows']:,} rows")
    else:
        parts.append(str(proof.get("reason", "no record")))
    if cost := proof.get("cost_usd"):
        parts.append(f"cost {in_usd(cost['value'], '+')} USD per decision")
    return "; ".join(parts)


def told_live(live: Figures) -> str:
    if not live.decisions:
        return "no decision yet"
    text = f"{live.decisions:,} decisions, {live.by_policy:,} by the policy; {live.outcomes:,} outcomes"
    if live.quality is not None:
        text += f", mean quality {live.quality:.4f}"
    if live.cost_usd is not None:
        text += f"; {in_usd(live.cost_usd)} USD per decision, {in_usd(live.total_usd)} USD in all"
    return text + (f"; {live.synthetic:,} of them synthetic" if live.synthetic else "")


def told_gain(slot: SlotStatus) -> str:
    assert slot.live is not None
    if slot.live.gain is None:
        return f"not known yet ({slot.live.no_gain})"
    text = f"gain {span(slot.live.gain, '+.4f')} on {slot.live.gain['rows']:,} rows since"
    proved = (slot.proof or {}).get("gain")
    if not proved:
        return text
    if slot.live.gain["high"] < proved["low"]:
        return f"{text}: WORSE than the proof's {span(proved, '+.4f')}{ADVICE}"
    return f"{text}; the proof had {span(proved, '+.4f')}"


def span(part: Mapping, form: str) -> str:
    value = format(part["value"], form)
    low, high = part.get("low"), part.get("high")
    return value if low is None or high is None else f"{value} ({low:{form}} to {high:{form}})"

"""The state of serving: which policy decides, since when, on which proof, what it costs and how it does since."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sage.dollars import in_usd
from sage.evidence.judged_quality import judged_quality, mean_quality
from sage.evidence.routing_data import RoutingData
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.orchestrator.installed_policies import CASCADES, DECISIONS, InstalledPolicies, InstalledPolicy, Slot
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.promotion import PolicyKind, Served, cascade_kind, served_policy, single_decision_kind
from sage.pipeline.choices import DATABASE, MODELS_FILE
from sage.pipeline.inputs import static_of
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import RoutingPolicy
from sage.proof.evaluation import OfflineEvaluation, evaluate_offline
from sage.proof.gate_record import GateRecordError, records_of
from sage.settings import Settings

FEWEST = 50  # outcomes: with fewer, nothing is said about the gain since
MOST = 20_000  # latest rows that a gain is estimated from, and as many from before the promotion for a trend
LOOK_BACK = timedelta(days=90)  # before the promotion
LATELY_DAYS = 7  # that are counted where nothing says since when the present choice is made
SYNTHETIC = "SYNTHETIC rows: no evidence"
Rows = Sequence[tuple[Decision, Outcome | None]]
Policy = RoutingPolicy | CascadePolicy
ADVICE = "; consider `sage rollback`"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Counts and means of the decisions since the policy or the table serves."""

    decisions: int = 0
    by_policy: int | None = 0  # that the policy itself made; the table made the others. None: no policy serves
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
    live: Figures = Figures()

    @property
    def worse(self) -> bool:
        """Returns True if the policy does worse than its proof said, by more than chance explains."""
        proved = (self.proof or {}).get("gain")
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

    It also counts the decisions since the last promotion or rollback, or those of the last 7 days. For a promoted policy it
    compares the gain over the static table, estimated from them, with that of the proof. It counts no look and proves
    nothing.
    """
    db, table = Path(db), ModelsFile.read(models)
    policies = InstalledPolicies(db)
    slots, events = policies.read(), policies.events()
    by_environment = Settings.read(environment).decides
    single = single_decision_kind(tuple(table.models), table.guard.confidence_floor)
    kinds: dict[str, tuple[PolicyKind, str]] = {}
    kinds[DECISIONS] = (single, "static table" if table.bandit is None else f"bandit {table.bandit.kind}")
    if table.cascade or slots[CASCADES].serving is not None:
        kinds[CASCADES] = cascade_kind(table.cascade), "ladders"
    found = {}
    for of, (kind, otherwise) in kinds.items():
        served = served_policy(environment, kind, table.objective, db=db)
        promoted = slots[of].serving
        if promoted is None or by_environment:
            overruled = f"{promoted.name} was promoted, and is overruled" if promoted is not None else ""
            last = None if by_environment else next((one for one in reversed(events) if one["of"] == of), None)
            since = None if last is None else last["date"]
            by = "environment" if by_environment else "models.yaml"
            note = joined(served.problem or served.forced, overruled)
            found[of] = SlotStatus(
                serves=serves(served, otherwise),
                by=by,
                since=since,
                note=note,
                live=lately(db, of, served.policy, since),
            )
        else:
            found[of] = promoted_status(of, slots[of], served, otherwise, db, table)
    if not db.is_file():
        missing = f"there is no log {db}: give the one that the server writes with --db, or start one with `sage serve`"
        found[DECISIONS] = replace(found[DECISIONS], note=joined(found[DECISIONS].note, missing))
    return Status(db=str(db), models=str(models), slots=found, events=events)


def serves(served: Served, otherwise: str) -> str:
    return otherwise if served.policy is None else f"{served.policy.name} {served.policy.version}"


def joined(*sentences: str) -> str:
    return "; ".join(sentence for sentence in sentences if sentence)


def lately(db: Path, of: str, policy: Policy | None, since: str | None) -> Figures:
    """Counts the decisions since a date, or those of the last days."""
    begin = datetime.now(UTC) - timedelta(days=LATELY_DAYS) if since is None else datetime.fromisoformat(since)
    return figures(read_rows(db, of, begin)[1], policy)


def promoted_status(of: str, slot: Slot, served: Served, otherwise: str, db: Path, table: ModelsFile) -> SlotStatus:
    """Returns the state of a slot that a promoted policy serves, or would serve if it could."""
    installed, policy = slot.serving, served.policy
    assert installed is not None
    unfit = f"{installed.name} was promoted on {installed.since}, but cannot serve: {served.problem}"
    older, rows = read_rows(db, of, datetime.fromisoformat(installed.since), LOOK_BACK)
    counted = figures(rows, policy)
    return SlotStatus(
        serves=serves(served, otherwise),
        by="models.yaml" if policy is None else "promotion",
        since=None if policy is None else installed.since,
        note=unfit if policy is None else served.forced,
        proof=proof_of(installed, db),
        before=slot.former[-1].name if slot.former else f"the {otherwise}",
        live=compared(counted, older, rows, policy, table),
    )


def proof_of(installed: InstalledPolicy, db: Path) -> dict:
    try:
        record = records_of(InstalledPolicies(db).checkpoint(installed)).get(installed.checkpoint_sha256)
    except GateRecordError:  # then it cannot serve, and the note says why
        record = None
    told = {} if record is None else {name: getattr(record, name) for name in ("date", "data_source", "reason")}
    return (
        {"checkpoint_sha256": installed.checkpoint_sha256, "promoted_from": installed.promoted_from}
        | told
        | (installed.proof)
    )


def read_rows(db: Path, of: str, since: datetime, look_back: timedelta = timedelta()) -> tuple[Rows, Rows]:
    """Returns the latest decisions of a slot from before a date, and all since it, with their outcomes."""
    older: deque[tuple[Decision, Outcome | None]] = deque(maxlen=MOST)
    rows: list[tuple[Decision, Outcome | None]] = []
    if db.is_file():
        with closing(DecisionLog(db)) as log:
            for decision, outcome in log.rows(since=(since - look_back).timestamp(), unreadable=[]):
                if (decision.cascade is not None) == (of == CASCADES):
                    (rows if decision.time >= since.timestamp() else older).append((decision, outcome))
    return older, rows


def figures(rows: Rows, policy: Policy | None) -> Figures:
    """Counts decisions, their outcomes and their cost."""
    costs = [outcome.cost_usd for _, outcome in rows if outcome is not None and outcome.cost_usd is not None]
    return Figures(
        decisions=len(rows),
        by_policy=None
        if policy is None
        else sum((row.policy, row.policy_version) == (policy.name, policy.version) for row, _ in rows),
        outcomes=sum(judged_quality(*row) is not None for row in rows),
        quality=mean_quality(rows),
        cost_usd=sum(costs) / len(costs) if costs else None,
        total_usd=sum(costs),
        synthetic=sum(row.data_source == "synthetic" for row, _ in rows),
    )


def compared(counted: Figures, older: Rows, rows: Rows, policy: Policy | None, table: ModelsFile) -> Figures:
    """Adds what the rows say about the policy: its gain over the table, and the trend since the rows before."""
    if isinstance(policy, LearnedPolicy) and counted.outcomes < FEWEST:
        return replace(counted, no_gain=f"{counted.outcomes} outcomes so far, and {FEWEST} are needed")
    gain, no_gain = estimated(rows, policy, table)
    whole = judged([*older, *rows[-MOST:]], policy, table)
    trend = None if isinstance(whole, str) else whole.trend
    told, fell = ("", False) if trend is None else (str(trend), trend.fell)
    return replace(counted, gain=gain, no_gain=no_gain, trend=told, fell=fell)


def estimated(rows: Rows, policy: Policy | None, table: ModelsFile) -> tuple[dict | None, str]:
    """Returns the gain over the table on these rows, or why there is no estimate."""
    found = judged(rows[-MOST:], policy, table)
    if isinstance(found, str):
        return None, found
    if found.report.interval is None:
        return None, found.report.refusal or "the log cannot answer"
    interval = found.report.interval
    return {"value": found.report.value, "low": interval.low, "high": interval.high, "rows": found.num_rows}, ""


def judged(rows: Rows, policy: Policy | None, table: ModelsFile) -> OfflineEvaluation | str:
    """Returns the evaluation of the policy on these rows, or why there is none."""
    if policy is None:
        return "it does not serve"
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
    lines += [f"  note: {slot.note}"] * bool(slot.note) + [f"  {line}" for line in details_of(slot)]
    return lines + [f"  `sage rollback` goes back to {slot.before}"] * bool(slot.before)


def details_of(slot: SlotStatus) -> list[str]:
    """Returns what is known about the decisions of a slot and, where a policy was promoted, about its proof."""
    if slot.proof is None:
        return [f"{'since then' if slot.since else f'in the last {LATELY_DAYS} days'}: {told_live(slot.live)}"]
    lines = [f"proof: {told_proof(slot.proof)}", f"since then: {told_live(slot.live)}"]
    lines.append(f"against the proof: {told_gain(slot)}")
    return lines + [f"{slot.live.trend}{ADVICE if slot.live.fell else ''}"] * bool(slot.live.trend)


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
        return "no decision"
    text = f"{live.decisions:,} decision{'s' * (live.decisions != 1)}"
    text += "" if live.by_policy is None else f", {live.by_policy:,} by the policy"
    text += f"; {live.outcomes:,} outcome{'s' * (live.outcomes != 1)}"
    if live.quality is not None:
        text += f", mean quality {live.quality:.4f}"
    if live.cost_usd is not None:
        text += f"; {in_usd(live.cost_usd)} USD per decision, {in_usd(live.total_usd)} USD in all"
    return text + (f"; {live.synthetic:,} of them synthetic" if live.synthetic else "")


def told_gain(slot: SlotStatus) -> str:
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

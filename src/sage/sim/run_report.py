"""Report of a run of tasks: counts and means over its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

GROUPS = ("split", "level", "family")


def report_of(lines: Sequence[Mapping], left_open: Mapping[str, str]) -> dict:
    """Returns counts and means over the lines of a run; tasks that were skipped or left open are counted by reason
    only."""
    run = [line for line in lines if "skipped" not in line]
    played = [line for line in run if "cost" in line]
    visible = [line for line in played if line["passes_visible"]]
    judged = [line for line in played if line["solved_in_environment"] is not None]
    return {
        "tasks": len(run),
        "solved": count(run),
        "solved_with_models": sum(line["solved"] for line in played if asked_models(line)),
        **{f"by_{group}": solved_by(group, run) for group in GROUPS},
        "unsolved_by_reason": counted(line["reason"] for line in run if not line["solved"]),
        "pass_visible": len(visible),
        "pass_visible_and_solved": count(visible),
        "environment_differs": sum(line["solved_in_environment"] != line["solved"] for line in judged),
        "cost_mean": mean(line["cost"] for line in played),
        "cost_per_solved": round(sum(line["cost"] for line in played) / count(played), 3) if count(played) else None,
        "steps_mean": mean(len(line["actions"]) for line in played),
        "sandbox_runs": sum(line["runs"] for line in run),
        "sandbox_cpu_s": round(sum(line["sandbox_cpu_s"] for line in run), 1),
        "task_wall_s_mean": mean(line["wall_s"] for line in run),
        "retries": sum(line["retries"] for line in run),
        "skipped": counted(line["skipped"] for line in lines if "skipped" in line),
        "left_open": counted(left_open.values()),
    }


def asked_models(line: Mapping) -> bool:
    """Returns whether a simulated model took part in an episode, also by an escalation."""
    return any(action.startswith(("ask", "escalate")) for action in line["actions"])


def count(lines: Sequence[Mapping]) -> int:
    return sum(line["solved"] for line in lines)


def solved_by(group: str, lines: Sequence[Mapping]) -> dict[str, dict[str, int]]:
    names = sorted({line[group] for line in lines})
    by_name = {name: [line for line in lines if line[group] == name] for name in names}
    return {str(name): {"solved": count(some), "tasks": len(some)} for name, some in by_name.items()}


def counted(reasons: Iterable[str]) -> dict[str, int]:
    return dict(Counter(reasons).most_common())


def mean(numbers: Iterable[float]) -> float | None:
    values = list(numbers)
    return round(sum(values) / len(values), 3) if values else None


def report_lines(report: Mapping) -> Iterator[str]:
    """Yields the report as lines of text."""
    tasks, solved = report["tasks"], report["solved"]
    share = f" ({solved / tasks:.1%})" if tasks else ""
    asked = report["solved_with_models"]
    yield f"solved {solved} of {tasks} tasks{share}" + (f", {asked} of them with simulated models" if asked else "")
    for group in GROUPS:
        parts = (f"{name} {some['solved']}/{some['tasks']}" for name, some in report[f"by_{group}"].items())
        yield f"  by {group}: " + ", ".join(parts)
    yield f"pass the visible tests: {report['pass_visible']}, of which all hidden ones: {report['pass_visible_and_solved']}"
    if report["cost_mean"] is not None:
        each = "" if report["cost_per_solved"] is None else f", {report['cost_per_solved']} per solved task"
        yield f"cost {report['cost_mean']} per task{each}; {report['steps_mean']} actions per task"
    seconds = f"{report['sandbox_cpu_s']} s of processor time"
    yield f"{report['sandbox_runs']} runs in sandboxes, {seconds}; {report['retries']} retries"
    for name, title in (
        ("unsolved_by_reason", "unsolved"),
        ("skipped", "skipped"),
        ("left_open", "left open, since sandboxes failed"),
    ):
        if report[name]:
            yield f"{title}: " + ", ".join(f"{reason} {number}" for reason, number in report[name].items())
    if report["environment_differs"]:
        yield f"{report['environment_differs']} episodes were graded otherwise than the environment said"

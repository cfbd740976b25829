"""Parts about serving: decisions and the log, what the proxy adds to a call, budgets, and whatever else was measured of it."""

from __future__ import annotations

from pathlib import Path

from result_tables import read, table

from report.parts import Part, measured, paragraphs, percent, prose

LATENCY = "serve_latency.json"

EXPECTED = {  # by a word in the name of the file
    "conform": "conformance of the dialects",
    "client": "real clients that finish a turn with a tool call",
    "fault": "streams that are cut, stalled or malformed",
    "soak": "half an hour under faults",
}


def overhead(results: Path) -> str:
    lines = []
    for run in read(results / "decision_overhead.json")["runs"]:
        for name, row in run["policies"].items():
            times = [f"{row[kind][q]:.2f}" for kind in ("milliseconds", "cpu_milliseconds") for q in ("p50", "p99")]
            lines.append([name.replace("_", " "), run["scheduled"], f"{run['load']:.1f}", *times])
    log = read(results / "log_throughput.json")
    head = ["policy", "scheduled", "load", "p50, ms", "p99, ms", "CPU p50, ms", "CPU p99, ms"]
    return paragraphs(
        "A decision with its record in the log, in one process:",
        table(head, lines),
        prose(f"""
            {log["settings"]["processes"]} processes logged {log["decisions_per_second"]:,.0f} decisions a second on
            {log["cores"]} cores (load {log["load"]:.1f}); one was killed meanwhile, and {log["lost"]} of
            {log["acknowledged"]:,} acknowledged decisions were lost.
        """),
    )


def latency(results: Path) -> str:
    lines, loads = [], []
    for number, run in enumerate(read(results / LATENCY)["runs"], 1):
        how = [str(number), run["scheduler"], f"{run['load']:.1f}"]
        for name, whole in run["whole"].items():
            if "added_ms" in whole:
                shown = [
                    whole["added_ms"]["p50"],
                    whole["added_ms"]["p99"],
                    run["stream"][name]["added_first_byte_ms"]["p50"],
                    whole["cpu_ms_per_request"],
                ]
                lines.append([*how, name, *(f"{x:.2f}" for x in shown)])
        loads += [
            [*how, name, f"{row['requests_per_s']:,}", f"{row['cpu_ms_per_request']:.2f}"]
            for name, row in run["loaded"].items()
        ]
    first = ["run", "scheduled", "load", "program"]
    added = table(
        [
            *first,
            "added p50, ms",
            "added p99, ms",
            "added to the first byte of a stream, p50, ms",
            "CPU per request, ms",
        ],
        lines,
    )
    many = table([*first, "requests a second", "CPU per request, ms"], loads)
    return paragraphs(
        "What a proxy adds to a call of a stub on the same machine, interleaved with direct calls:",
        added,
        "With many connections at once:",
        many,
    )


def budgets(results: Path) -> str:
    found = read(results / "tenant_budgets.json")
    lines = [
        [name, f"{row['calls']:,}", f"{row['billed_usd']:.4f}", percent(row["overrun"], 2), percent(row["unspent"], 2)]
        for name, row in found["scenarios"].items()
    ]
    return paragraphs(
        prose(f"""
            {found["clients"]} clients spend a budget of {found["budget_usd"]:g} USD through {found["workers"]} workers, and
            the upstream's bill is compared with it:
        """),
        table(["scenario", "calls", "billed, USD", "overrun", "unspent"], lines),
    )


def other_serving(results: Path) -> str:
    """Whatever else was measured of the proxy; and what was not."""
    files = sorted(path for path in results.glob("serve_*.json") if path.name != LATENCY)
    texts = [
        f"[{path.name}](../../benchmarks/sage/results/{path.name}):\n\n{table(['what', 'measured'], facts(read(path)))}"
        for path in files
    ]
    lacking = [told for word, told in EXPECTED.items() if not any(word in path.name for path in files)]
    if lacking:
        texts.append(f"There is no stored result about {'; '.join(lacking)}.")
    return "\n\n".join(texts)


def facts(found: object, name: str = "") -> list[list[str]]:
    """Every number and word of a result; of long lists only their length."""
    if isinstance(found, dict):
        return [line for key, value in found.items() for line in facts(value, f"{name}, {key}" if name else str(key))]
    if isinstance(found, list) and len(found) <= 12 and all(isinstance(entry, dict) for entry in found):
        return [line for number, entry in enumerate(found, 1) for line in facts(entry, f"{name} {number}")]
    if isinstance(found, list):
        found = f"{len(found)} entries"
    shown = f"{found:.4g}" if isinstance(found, float) else str(found)
    return [[name.replace("_", " "), shown.replace("|", "\\|").replace("\n", " ")]]


PARTS = (
    Part(
        "Decisions and the log", (measured("decision_overhead.json", ""), measured("log_throughput.json", "")), overhead
    ),
    Part("What the proxy adds to a call", (measured(LATENCY, ""),), latency),
    Part("Budgets of tenants", (measured("tenant_budgets.json", ""),), budgets),
    Part("Other results of the proxy", (), other_serving),
)

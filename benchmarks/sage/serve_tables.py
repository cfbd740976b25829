"""The tables of docs/sage/serve.md, from the results of `serve_latency.py` and `serve_conformance.py`."""

from __future__ import annotations

from result_tables import table

NAMES = {"sage": "sage serve", "litellm": "LiteLLM's proxy", "sage, 2 workers": "sage serve, 2 workers"}


def latency_table(runs: list[dict]) -> str:
    """One line for every program of every run."""
    head = [
        "run",
        "program",
        "added p50 / p99 ms",
        "first byte of a stream, added p50 ms",
        "CPU ms per request",
        "requests/s",
    ]
    lines = []
    for number, run in enumerate(runs, start=1):
        where = f"{number}: {run['scheduler']}, load {run['load']:.0f}"
        for name in (name for name in NAMES if name in run["loaded"]):
            loaded = run["loaded"][name]
            cells = ["-", "-", f"{loaded['cpu_ms_per_request']:.2f} under load"]
            if name in run["whole"]:
                added, stream = run["whole"][name]["added_ms"], run["stream"][name]["added_first_byte_ms"]
                alone = run["whole"][name]["cpu_ms_per_request"]
                cells = [f"{added['p50']:.2f} / {added['p99']:.2f}", f"{stream['p50']:.2f}", f"{alone:.2f}"]
            lines.append([where, NAMES[name], *cells, f"{loaded['requests_per_s']:,}"])
    return table(head, lines)


def conformance_table(result: dict) -> str:
    lines = [
        [dialect, f"{sum(status == 'passed' for status in tests.values())} of {len(tests)}"]
        for dialect, tests in result["sage"].items()
    ]
    return table(["dialect", f"passed ({result['llm-comply']})"], lines)

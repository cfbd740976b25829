"""The tables of docs/sage/clients.md, from the results of `serve_conformance.py` and `serve_clients.py`."""

from __future__ import annotations

from client_programs import CLIENTS
from result_tables import table


def conformance_table(result: dict) -> str:
    provider = result["provider-check"]
    suites = {f"{result['llm-comply']}, {dialect}": tests for dialect, tests in result["sage"].items()}
    suites[f"{provider['version']}, tiers 1 to {provider['tier']}"] = provider["sage"]
    lines = []
    for name, tests in suites.items():
        passed = sum(status in ("pass", "passed") for status in tests.values())
        skipped = sum(status.startswith("skip") for status in tests.values())
        lines.append([name, f"{passed} of {len(tests)}", str(skipped), str(len(tests) - passed - skipped)])
    return table(["suite", "passed", "skipped", "failed or warned"], lines)


def clients_table(results: dict) -> str:
    """One line for every client: what was tried, what it speaks, what sage learns of it, and how it is pointed at sage."""
    lines = []
    for client in CLIENTS:
        found = results.get(client.name)
        tried = "not tried" if found is None else f"{found['version']}{'' if found['finished'] else ': not finished'}"
        spoken = sorted({request.split()[0] for request in found["requests"]}) if found else []
        session = "yes" if found and found["decisions"] and found["with_session"] == found["decisions"] else "no"
        tests = "yes" if found and "agent_tests failed" in found["verdicts"] else "no"
        lines.append([client.name, tried, ", ".join(spoken) or "-", session, tests, client.setting])
    return table(["client", "tried", "dialect", "session known", "failing test heard", "to point it at sage"], lines)

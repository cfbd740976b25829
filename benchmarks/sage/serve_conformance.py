"""Whether `sage serve` speaks its dialects as their descriptions say: suites of others against sage before a scripted model.

.venv/bin/python benchmarks/sage/serve_conformance.py --comply VENV/bin/llm-comply \
  --provider-check VENV/bin/trustedrouter-provider-check          # writes results/serve_conformance.json

llm-comply and trustedrouter-provider-check (PyPI) live in environments of their own. Every suite is also run against the
scripted model itself: what that does not pass, sage cannot.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serve_latency import free_port, running

from sage.files import write_json

HERE = Path(__file__).parent
RESULT = HERE / "results" / "serve_conformance.json"
SUITES = {"chat": "openai-chat", "messages": "anthropic", "responses": "open-responses"}
MODELS = {"chat": "gpt-5", "messages": "claude-sonnet-4-5", "responses": "gpt-5"}  # names that no test is skipped for
TIER = 5  # of trustedrouter-provider-check, with all below it; the sixth measures speed
NATIVE_MODELS = {"upstream": "scripted", "sage": "only"}  # sage answers as the model that answered, not as `sage`
TABLE = """models:
  only:
    input_usd_per_mtok: 1
    output_usd_per_mtok: 2
    upstream: {{url: 'http://127.0.0.1:{}/v1', dialects: [chat, responses, messages]}}
roles: {{default: {{primary: only}}}}
"""


@contextmanager
def served() -> Iterator[tuple[int, int, Path]]:
    """The scripted model and `sage serve` before it: their ports, and the folder with the log."""
    upstream, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models.yaml").write_text(TABLE.format(upstream))
        scripted = [sys.executable, str(HERE / "conformant_upstream.py"), str(upstream)]
        sage = [sys.executable, "-m", "sage", "serve", "--port", str(port)]
        with running(scripted, upstream, folder), running(sage, port, folder):
            yield upstream, port, folder


def board(comply: str, port: int) -> dict[str, dict[str, str]]:
    """For every suite its tests, each with how it ended."""
    return {dialect: suite(comply, port, dialect) for dialect in SUITES}


def suite(comply: str, port: int, dialect: str) -> dict[str, str]:
    words = [comply, "--format", SUITES[dialect], "-u", f"http://127.0.0.1:{port}/v1", "-k", "none", "--json"]
    done = subprocess.run([*words, "-m", MODELS[dialect]], capture_output=True, text=True, check=False, timeout=300)
    results = json.loads(done.stdout[done.stdout.index("{") :])
    return {test["id"]: test["status"] for test in results["results"]}


def tiers(check: str, port: int, model: str) -> dict[str, str]:
    """The checks of trustedrouter-provider-check, each with how it ended, and why it was skipped."""
    words = [check, "--base-url", f"http://127.0.0.1:{port}/v1", "--tier", str(TIER), "--model", model, "--json", "-"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    checks = json.loads(done.stdout)["checks"]
    return {one["id"]: one["status"] + skipped(one) for one in checks}


def skipped(check: dict) -> str:
    return f": {check['measured']['reason']}" if check["status"] == "skip" else ""


def version_of(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comply", required=True, help="path of llm-comply's program")
    parser.add_argument("--provider-check", required=True, help="path of trustedrouter-provider-check's program")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    with served() as (upstream, port, _):
        ports = {"upstream": upstream, "sage": port}
        found = {name: board(options.comply, ports[name]) for name in ports}
        checked = {name: tiers(options.provider_check, ports[name], NATIVE_MODELS[name]) for name in ports}
    provider = {"version": version_of(options.provider_check), "tier": TIER, **checked}
    write_json(options.out, {"llm-comply": version_of(options.comply), **found, "provider-check": provider})
    for suite_name, tests in {**found["sage"], "provider-check": checked["sage"]}.items():
        passed = sum(status in ("pass", "passed") for status in tests.values())
        print(f"{suite_name}: {passed} of {len(tests)}", tests)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

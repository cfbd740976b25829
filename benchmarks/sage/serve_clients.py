"""Coding agents that finish a turn with a tool call against `sage serve` before a scripted model; no network is needed.

.venv/bin/python benchmarks/sage/serve_clients.py --codex PATH/codex --claude PATH/claude   # writes results/serve_clients.json

Both come from npm (`npm i --ignore-scripts @openai/codex @anthropic-ai/claude-code`). The scripted model asks for the
agent's first tool, and answers once it has a result: a finished turn is two decisions or more in the log, each with its
outcome, and the answer on the agent's output. openai-python and anthropic are part of the tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

from serve_conformance import HERE, served

from sage.decision_log import DecisionLog
from sage.files import write_json

RESULT = HERE / "results" / "serve_clients.json"
ANSWERS = ("Hello there friend", "1 2")  # of the scripted model, whole or streamed


def turn(words: list[str], folder: Path, **more: str) -> dict:
    """Runs an agent, and looks into the log for what it asked."""
    before = len(list(DecisionLog(folder / "sage.db").rows()))
    environment = dict(os.environ, HOME=str(folder), OPENAI_API_KEY="none", ANTHROPIC_API_KEY="none", **more)
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    rows = list(DecisionLog(folder / "sage.db").rows())[before:]
    answered = any(answer in done.stdout for answer in ANSWERS)
    complete = len(rows) >= 2 and all(outcome is not None and outcome.tokens_out for _, outcome in rows)
    version = subprocess.run([words[0], "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "version": version,
        "finished": done.returncode == 0 and answered and complete,
        "decisions": len(rows),
        "with_session": sum(bool(decision.session) for decision, _ in rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codex", required=True)
    parser.add_argument("--claude", required=True)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    with served() as (_, port, folder):
        url = f"http://127.0.0.1:{port}"
        provider = (
            f'model_providers.sage={{name="sage",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        )
        codex = [
            options.codex,
            "exec",
            "--skip-git-repo-check",
            "-c",
            "model_provider=sage",
            "-c",
            provider,
            "-m",
            "gpt-5",
            "hello",
        ]
        claude = [options.claude, "-p", "hello", "--model", "claude-sonnet-4-5"]
        quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        found = {"codex": turn(codex, folder), "Claude Code": turn(claude, folder, ANTHROPIC_BASE_URL=url, **quiet)}
    write_json(options.out, found)
    print(found)
    return 0 if all(client["finished"] for client in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Coding agents and SDKs that finish a turn with a tool call against `sage serve` before a scripted model.

.venv/bin/python benchmarks/sage/serve_clients.py --codex PATH --aider VENV/bin/python ...   # writes results/serve_clients.json

Only the clients are run whose path is given: the program of one from npm (`npm i --ignore-scripts PACKAGE`; where its
launcher wants a script of the package to have run, the program is in the package of the platform), the Python of an environment
that has one from PyPI, the folder with the node_modules of the AI SDK. No network is needed.

The scripted model asks for a command whose output it cannot know, and answers with what the client says it printed: a
finished turn is that answer on the client's output, an exit code of 0, and two decisions or more in the log, each with its
outcome. aider has no tools: it applies an edit and tells what a command of its own printed. The command runs a test that fails:
`verdicts` has what sage understood of it. openai-python and anthropic are part of the tests.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import time
import urllib.request
from collections import Counter
from pathlib import Path

from client_programs import CLIENTS, Client, Turn
from scripted_model import ANSWER, TEST
from serve_conformance import HERE, served

from sage.files import write_json
from sage.log.decision_log import DecisionLog

RESULT = HERE / "results" / "serve_clients.json"
MOST_S = 900.0  # some read a hundred megabytes of code first


def run(client: Client, program: str, url: str, folder: Path) -> dict:
    """One turn of a client, and what the log then has of it."""
    turn, home = client.turn(program, url), folder / client.option
    for name, text in {**turn.files, "hello_test.py": TEST}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
    environment |= {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url, **turn.environment}
    decided, asked = len(logged(folder)), requests(url)
    code, output = call(turn.before, home, environment) if turn.before else (0, "")
    if code == 0:
        code, output = call(turn.words, home, environment)
    rows, dialects = written(folder, decided), requests(url) - asked
    reason = unfinished(code, output, rows)
    return {
        "version": version_of(turn, home, environment),
        "finished": not reason,
        **({"reason": reason} if reason else {}),
        "decisions": len(rows),
        "with_session": sum(bool(decision.session) for decision, _ in rows),
        "verdicts": [f"{said.verifier} {said.verdict}" for _, outcome in rows if outcome for said in outcome.verdicts],
        "requests": {" ".join(key): count for key, count in sorted(dialects.items())},
    }


def call(words: list[str], home: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of a program, and what it wrote."""
    try:
        done = subprocess.run(
            words,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=MOST_S,
        )
    except subprocess.TimeoutExpired:
        return 124, f"did not end within {MOST_S:.0f} s"
    return done.returncode, done.stdout


def unfinished(code: int, output: str, rows: list) -> str:
    """What is missing of a turn; '' if nothing is."""
    if code:
        return f"exit code {code}: {output.strip()[-300:]}"
    if ANSWER not in output:
        return f"the answer to the tool's result is not in its output: {output.strip()[-300:]}"
    if len(rows) < 2 or not all(outcome is not None and outcome.tokens_out for _, outcome in rows):
        return f"{len(rows)} decisions in the log, of which some may lack their outcome"
    return ""


def version_of(turn: Turn, home: Path, environment: dict[str, str]) -> str:
    code, output = call(turn.version or [turn.words[0], "--version"], home, environment)
    found = re.search(r"\d+\.\d+[\w.+-]*", output)
    return found[0] if found and not code else "unknown"


def logged(folder: Path) -> list:
    return list(DecisionLog(folder / "sage.db").rows())


def written(folder: Path, first: int) -> list:
    """Rows from the first on, once sage has written all it knows of them."""
    for _ in range(50):
        time.sleep(0.2)
        rows = logged(folder)[first:]
        if all(outcome is not None for _, outcome in rows):
            break
    return rows


def requests(url: str) -> Counter[tuple[str, str]]:
    """Answers so far by dialect and status."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'^sage_requests_total{dialect="(\w+)",status="(\d+)".*} (\d+)', text, re.MULTILINE)
    return Counter({(dialect, status): int(count) for dialect, status, count in found})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for client in CLIENTS:
        parser.add_argument(f"--{client.option}", help=f"path, from {client.package}", metavar="PATH", dest=client.name)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = vars(parser.parse_args())
    found = {}
    with served() as (_, port, folder):
        for client in CLIENTS:
            if options[client.name]:
                program = str(Path(options[client.name]).absolute())
                found[client.name] = run(client, program, f"http://127.0.0.1:{port}", folder)
                print(client.name, found[client.name], flush=True)
    if not found:
        parser.error("no client is given: name the path of one at least")
    write_json(options["out"], found)
    return 0 if all(client["finished"] for client in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Signals about earlier answers in later requests of a conversation: tests that the agent ran, and retries by its SDK.

Signals are verdicts with their source, never a quality: tests that fail in the middle of a task say something about the
work so far, not about its end. Anything that is not plainly stated stays unknown.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sage.log.cascade_steps import Verdict

MOST_CONVERSATIONS = 10_000
MOST_RESULTS = 1000  # messages after a model's last answer; more are no turn of an agent
MOST_COMMAND = 1000  # characters; longer ones do more than run tests
MOST_RESULT = 200_000  # characters of a tool's result that are looked at
TESTS, RETRY = "agent_tests", "not_retried"
RETRY_HEADER = "x-stainless-retry-count"  # of the SDKs of OpenAI and Anthropic
RETRIES = re.compile("[1-9][0-9]{0,2}")
# One command that runs tests and nothing else: behind a pipe or a second command, the exit code would be another one's.
TEST_COMMAND = re.compile(
    r"""(?:cd\s+[\w./~-]+\s*&&\s*)? (?:[A-Z_][A-Z0-9_]*=[\w./:-]*\s+)*
    (?: (?:uv\s+run\s+|poetry\s+run\s+|hatch\s+run\s+)? (?:(?:\.?[\w./-]*/)?python3?(?:\.\d+)?\s+-m\s+)? (?P<pytest>pytest|py\.test)
      | (?:(?:\.?[\w./-]*/)?python3?(?:\.\d+)?\s+-m\s+)(?P<unittest>unittest)
      | (?P<cargo>cargo\s+(?:nextest\s+run|test)) | (?P<make>make\s+(?:test|check))
      | (?P<other>go\s+test | (?:npm|pnpm|yarn|bun)\s+(?:run\s+)?test | npx\s+(?:jest|vitest|mocha) | tox | nox | ctest
          | dotnet\s+test | mvn\s+test | (?:\./)?gradlew?\s+test | (?:bundle\s+exec\s+)?rspec | (?:vendor/bin/)?phpunit) )
    (?:\s+[^|;&`$()<>\n]*)? (?:2>&1\s*)?""",
    re.VERBOSE,
)
FAILED_CODES = {"pytest": {1}, "unittest": {1}, "cargo": {100, 101}, "make": {1, 2}, "other": {1, 2, 8}}
EXIT_CODE = re.compile(
    r"""(?:<returncode> | (?:error\ executing\ tool\ \w+:\ error\ \(|\[)?
    (?:(?:process|command)\s+)?exit(?:ed)?(?:\s+with)?[ _](?:exit\s+)?code:?\s*)(-?\d{1,3})\b""",
    re.I | re.VERBOSE,
)
CODEX_HEAD = re.compile(r"(?:Chunk ID: \w+\n)?Wall time: [\d.]+ seconds\nProcess exited with code (-?\d{1,3})\n")
AFTER_CODE = re.compile(r"(?:Signal|Background PIDs|Process Group PGID): ")  # lines of Qwen Code below the exit code
CODE_KEYS = ("exit_code", "exitCode", "returncode", "return_code")


class Turn(NamedTuple):
    """The last turn of a conversation: the messages before the model's last answer, the commands of that answer, and
    their results."""

    before: list
    commands: dict[str, str]  # by the id of the tool call
    results: dict[str, str]


class Signals:
    """The conversations of one process, each with the decision that answered it last."""

    def __init__(self) -> None:
        self._answered: OrderedDict[tuple, str] = OrderedDict()

    def verdicts_on_earlier(
        self, place: tuple[str, ...], values: Mapping[str, object], headers: Mapping[str, str], decision_id: str
    ) -> list[tuple[str, Verdict]]:
        """Returns (decision id, verdict) for the earlier decisions that a request tells about, and notes `decision_id`
        as its answer. `place` names the conversation's tenant, session and dialect."""
        items = conversation(values)
        if not items:
            return []
        found = []
        said = ran_tests(items)
        if said is not None and (earlier := self._answered.get(key_of(place, said[0]))) is not None:
            found.append((earlier, said[1]))
        key = key_of(place, items)
        retries = headers.get(RETRY_HEADER, "")
        if RETRIES.fullmatch(retries) and (earlier := self._answered.get(key)) is not None:
            source = f"the client's SDK sent the request again ({RETRY_HEADER}: {retries})"
            found.append((earlier, Verdict(verifier=RETRY, verdict="failed", source=source)))
        self._answered[key] = decision_id
        self._answered.move_to_end(key)
        if len(self._answered) > MOST_CONVERSATIONS:
            self._answered.popitem(last=False)
        return found


def conversation(values: Mapping[str, object]) -> list:
    """Returns the messages of a request, in any dialect; [] if it has none."""
    items = values.get("messages", values.get("input"))
    return items if isinstance(items, list) else []


def key_of(place: tuple[str, ...], items: list) -> tuple:
    """Returns the key by which conversations are told apart: `place`, their length, and their last message without
    marks of caching, which move."""
    return (*place, len(items), fingerprint(items[-1]) if items else 0)


def fingerprint(value: object, depth: int = 20) -> int:
    """Returns a hash of a JSON value without marks of caching; copies nothing, because a message may have many
    megabytes."""
    if depth and isinstance(value, dict):
        parts = ((key, fingerprint(item, depth - 1)) for key, item in value.items() if key != "cache_control")
        return hash(frozenset(parts))
    if depth and isinstance(value, list):
        return hash(tuple([fingerprint(item, depth - 1) for item in value]))
    return hash(value) if isinstance(value, str | int | float) else 0


def ran_tests(items: list) -> tuple[list, Verdict] | None:
    """Returns the messages before the last answer, and the verdict of the tests that this answer ran; None unless it
    ran tests exactly once and their exit code is known."""
    turn = last_turn(items)
    runs = {
        call: found for call, command in turn.commands.items() if (found := TEST_COMMAND.fullmatch(command.strip()))
    }
    if len(runs) != 1 or not turn.before:
        return None
    call, found = runs.popitem()
    code = exit_code(turn.results.get(call, ""))
    kind = found.lastgroup or "other"
    if code is None or (code != 0 and code not in FAILED_CODES[kind]):
        return None
    verdict = "failed" if code else "passed"
    return turn.before, Verdict(verifier=TESTS, verdict=verdict, source=f"tests that the agent ran: exit code {code}")


def last_turn(items: list) -> Turn:
    """Returns the results at the end of a conversation with the calls that they answer; an empty Turn if more than
    MOST_RESULTS messages follow the last answer."""
    end, least = len(items), max(len(items) - MOST_RESULTS, 0)
    while end > least and not is_answer(items[end - 1]):
        end -= 1
    if end and not is_answer(items[end - 1]):
        return Turn([], {}, {})
    begin = end
    while begin and is_answer(items[begin - 1]):
        begin -= 1
    commands = {call: command for item in items[begin:end] for call, command in calls_in(item)}
    results = {call: text for item in items[end:] for call, text in results_in(item)}
    return Turn(items[:begin], commands, results)


def is_answer(item: object) -> bool:
    """Returns whether a model wrote the message."""
    return isinstance(item, dict) and (
        item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning", "local_shell_call")
    )


def calls_in(item: dict) -> Iterator[tuple[str, str]]:
    """Yields (id of the call, command) for the shell commands that a model's message runs, in any dialect."""
    for call in listed(item.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            yield from command_of(call.get("id"), function.get("arguments"))
    for part in listed(item.get("content")):
        if part.get("type") == "tool_use":
            yield from command_of(part.get("id"), part.get("input"))
    if item.get("type") == "function_call":
        yield from command_of(item.get("call_id"), item.get("arguments"))


def command_of(call: object, arguments: object) -> Iterator[tuple[str, str]]:
    values = json_or_none(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(values, dict) or not isinstance(call, str):
        return
    command = values.get("command", values.get("cmd"))
    several = values.get("commands")
    if isinstance(several, list) and len(several) == 1:  # Cline
        command = several[0]
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        shell = (
            len(command) == 3 and command[0].rpartition("/")[2] in ("bash", "sh", "zsh") and command[1] in ("-c", "-lc")
        )
        command = command[2] if shell else shlex.join(command)
    if isinstance(command, str) and len(command) <= MOST_COMMAND:
        yield call, command


def results_in(item: object) -> Iterator[tuple[str, str]]:
    if not isinstance(item, dict):
        return
    if item.get("role") == "tool" and isinstance(item.get("tool_call_id"), str):
        yield item["tool_call_id"], text_of(item.get("content"))
    if item.get("type") == "function_call_output" and isinstance(item.get("call_id"), str):
        yield item["call_id"], text_of(item.get("output"))
    for part in listed(item.get("content")):
        if part.get("type") == "tool_result" and isinstance(part.get("tool_use_id"), str):
            yield part["tool_use_id"], text_of(part.get("content"))


def listed(value: object) -> list[dict]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in listed(content) if isinstance(part.get("text"), str))


def exit_code(result: str) -> int | None:
    """Returns the exit code that a tool's result states in a field of its own, or in its first or last line, where
    tested programs seldom write; None if it states none or several."""
    result = result[:MOST_RESULT].strip()
    values = json_or_none(result) if result.startswith(("{", "[{")) else None
    if isinstance(values, list):  # Cline has an object for each command
        only = values[0].get("result") if len(values) == 1 else None
        return exit_code(only) if isinstance(only, str) and not only.startswith("[{") else None
    if isinstance(values, dict):
        for place in (values, values.get("metadata")):
            codes = [place[key] for key in CODE_KEYS if key in place] if isinstance(place, dict) else []
            if codes:
                return codes[0] if len(codes) == 1 and type(codes[0]) is int else None
        return None
    head = CODEX_HEAD.match(result)
    if head is not None:
        return int(head[1])
    lines = result.splitlines()
    while lines and AFTER_CODE.match(lines[-1]):
        lines.pop()
    stated = {int(found[1]) for line in {*lines[:1], *lines[-1:]} if (found := EXIT_CODE.match(line.strip()))}
    return stated.pop() if len(stated) == 1 else None


def json_or_none(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

"""The coding agent: it plans, changes, tests, repairs and reviews; the router chooses the model for each of these."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sage.agent import prompts
from sage.agent.allowance import EndedError
from sage.agent.calls import AgentAttempt, Caller, Messages, ModelAnswer, UnansweredError
from sage.agent.protocol import Block, blocks_of
from sage.agent.repository import changes_of, patch_of
from sage.agent.tools import CheckResult, Toolbox
from sage.log.records import Decision
from sage.workspace.workspace import ToolError

TURNS = 12  # of one attempt
MOST_MISSES = 3  # answers in a row of which nothing could be done, after which an attempt ends
ENDS = ("plan", "done", "approve", "reject")  # tools that end a conversation
REPAIRS = 4  # attempts at failing tests
STEP = re.compile(r"^[\s*#\d.)-]*(coder|test_engineer)\s*[:\-]\s*(.+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Finished:
    """The result of a run: how it ended, the changes and their patch."""

    ended: str  # one sentence
    succeeded: bool
    changes: dict[str, bytes | None]
    patch: str
    begun_with: dict[str, bytes]


class Agent:
    """One task on one copy of a repository.

    `run` plans, changes, tests, repairs and reviews, and returns the result.
    """

    def __init__(self, caller: Caller, tools: Toolbox, task: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self.caller, self.tools, self.task, self.tell = caller, tools, task, tell
        self.trace = caller.trace
        self.planned: Decision | None = None
        self.plan = ""
        self.checked = CheckResult(None, "")
        self.failures = 0

    def run(self) -> Finished:
        try:
            ended, succeeded = self.work()
            if self.planned is not None and self.checked.passed is not None and self.checked.proved:
                self.caller.router.outcome(self.planned.id, quality=float(succeeded))
        except EndedError as error:
            ended, succeeded = f"stopped before the end: {error}", False
        except UnansweredError as error:
            ended, succeeded = f"stopped: no model answered ({error})", False
        begun_with = self.tools.copy.begun_with
        changes = changes_of(begun_with, self.tools.copy.files)
        allowance = self.caller.allowance
        self.trace.add(
            "end",
            ended=ended,
            succeeded=succeeded,
            steps=allowance.steps,
            spent_usd=allowance.spent_usd,
            files=[*changes],
        )
        return Finished(ended, succeeded, changes, patch_of(begun_with, changes), begun_with)

    def work(self) -> tuple[str, bool]:
        """Does the whole task; returns a sentence about the end, and whether the change was made and no test fails."""
        self.tools.learn_tests()
        if self.tools.unproved:
            self.tell(f"no quality is logged: {self.tools.unproved}")
        self.check()
        before = self.checked
        goals = self.make_plan(before.text if before.passed is False else "")
        for role, goal in goals.items():
            self.attempt_change(role, goal)
            self.repair()
        if not changes_of(self.tools.copy.begun_with, self.tools.copy.files):
            return "nothing was changed", False
        if self.checked.passed is False:
            same = " They failed before any change, too." if before.passed is False else ""
            return f"the tests still fail.{same}", False
        objections = self.review()
        if objections:
            reviewed = self.tools.copy.files, self.checked
            self.attempt_change("debugger", f"A reviewer says of the change:\n{objections}")
            self.repair()
            if self.checked.passed is False:
                self.tools.copy.files, self.checked = reviewed
                told = f"a reviewer objects, and what was done about it made the tests fail, so it is left out: {objections}"
                return f"the change is made; {told}", self.checked.passed is True
        return f"the change is made, and {self.verdict()}", True

    def verdict(self) -> str:
        """Returns words on what the tests showed about a change that none of them refused, for the last sentence."""
        old = self.tools.old_tests
        if not self.checked.passed:
            return "there are no tests that could tell"
        if old is None:
            return f"{' '.join(self.tools.test_words)!r} ends with exit code 0"
        changed = old.changed(self.tools.copy.files)
        also = f", also as they were before the run: the patch changes {', '.join(changed)}" if changed else ""
        return f"the tests pass{also}"

    def check(self) -> None:
        self.checked = self.tools.test()
        self.trace.add("tests", passed=self.checked.passed, proved=self.checked.proved, text=self.checked.text)
        self.tell(self.checked.text.split("\n")[0])

    def make_plan(self, failing: str) -> dict[str, str]:
        """Asks the planner for a plan and returns what each role has to do, as text by role."""
        messages = self.opening("planner", self.task, tests_before_the_change=failing)
        with self.caller.attempt("planner", self.task, messages) as attempt:
            self.planned = attempt.decision
            ended = self.converse(attempt, messages, free_text="plan")
        self.plan = ended.body.strip() if ended is not None else ""
        steps: dict[str, list[str]] = {"coder": []}
        role = "coder"
        for line in self.plan.splitlines():
            if found := STEP.match(line):
                role, line = found[1].lower(), found[2]
            if line.strip():
                steps.setdefault(role, []).append(line.strip())
        return {role: "\n".join(lines) or self.task for role, lines in steps.items()}

    def attempt_change(self, role: str, goal: str) -> None:
        """Lets a role try to reach the goal; every attempt begins with the files as they are now.

        Those of the attempt that counts are kept: the only one, or the one that the role's cascade takes.
        """
        begun_with = self.tools.copy.files
        results: dict[str, tuple[dict[str, bytes], CheckResult]] = {}
        messages = self.opening(role, goal, plan="" if role == "coder" else self.plan, your_part=goal)
        for attempt in self.caller.attempts(role, self.task, messages, self.failures):
            self.tools.copy.files = begun_with
            with attempt:
                self.change(attempt, list(messages))
            results[attempt.decision.id] = self.tools.copy.files, self.checked
            self.failures += self.checked.passed is False
            counts = attempt.decision if attempt.cascade is None else attempt.cascade.taken
            if counts is not None:
                self.tools.copy.files, self.checked = results[counts.id]

    def change(self, attempt: AgentAttempt, messages: Messages) -> None:
        """Holds one conversation, tests its result and logs the outcome, also if a limit ends it.

        Raises UnansweredError if no model answers outside of a cascade, and EndedError if a limit of the run is
        reached.
        """
        begun_with = self.tools.copy.files
        try:
            self.converse(attempt, messages)
        except UnansweredError as error:
            if attempt.cascade is None:
                raise
            self.checked = CheckResult(False, f"{attempt.model} did not answer ({error}).", self.checked.proved)
            return
        except EndedError:
            if self.tools.copy.files != begun_with:
                self.check()
                attempt.report(self.checked)
            raise
        if self.tools.copy.files == begun_with:
            self.checked = CheckResult(False, f"Nothing was changed. {self.checked.text}", not self.tools.unproved)
        else:
            self.check()
        attempt.report(self.checked)

    def repair(self) -> None:
        for _ in range(REPAIRS):
            if self.checked.passed is not False:
                return
            self.attempt_change("debugger", f"What the tests say now:\n{self.checked.text}")

    def review(self) -> str:
        """Returns a reviewer's objections to the change; '' if there are none."""
        changes = changes_of(self.tools.copy.begun_with, self.tools.copy.files)
        patch = patch_of(self.tools.copy.begun_with, changes)
        messages = self.opening("reviewer", self.task, change=patch, tests=self.checked.text)
        with self.caller.attempt("reviewer", self.task, messages, self.failures) as attempt:
            ended = self.converse(attempt, messages)
        return ended.body.strip() if ended is not None and ended.tool == "reject" else ""

    def opening(self, role: str, goal: str, **sections: str) -> Messages:
        copy = self.tools.copy
        shown = prompts.named_files(copy, self.task, goal, self.plan)
        smallest = min(self.room(name) for name in self.caller.state.speakers("chat", role))
        first = prompts.opening(self.task, copy, shown, smallest // 2, **sections)
        return [
            {"role": "system", "content": prompts.system_prompt(role)},
            {"role": "user", "content": first},
        ]

    def room(self, model: str) -> int:
        table = self.caller.state.table.models[model]
        return prompts.room_of(table.max_context, self.caller.allowance.longest_answer(model))

    def converse(self, attempt: AgentAttempt, messages: Messages, free_text: str = "") -> Block | None:
        """Exchanges messages until the model ends its work, and returns the block that ended it.

        None if it gets nowhere.

        With `free_text`, an answer without any block counts as a block of that tool.
        """
        role, misses = attempt.decision.role, 0
        last = next(tool for tool in prompts.TOOLS[role] if tool in ENDS)
        for _ in range(TURNS):
            answer = attempt.ask(prompts.fitting(messages, self.room(attempt.model)))
            if free_text and answer.text.strip() and "```" not in answer.text:
                return Block(free_text, body=answer.text)
            ended, told = self.act(attempt, answer)
            if ended is not None:
                return ended
            misses = misses + 1 if all(text.startswith("Error") for text in told) else 0
            if misses >= MOST_MISSES:
                return None
            told.append(f"Write a block {last} when you have finished.")
            messages += [
                {"role": "assistant", "content": answer.text},
                {"role": "user", "content": "\n\n".join(told)},
            ]
        return None

    def act(self, attempt: AgentAttempt, answer: ModelAnswer) -> tuple[Block | None, list[str]]:
        """Does what an answer says; returns the block that ends the work, and the messages for the model.

        The block is None if there is none, or if something before it failed.
        """
        role = attempt.decision.role
        told: list[str] = []
        try:
            blocks = blocks_of(answer.text, prompts.TOOLS[role])
        except ToolError as error:
            cut = " Your answer was cut: it was too long." if answer.cut else ""
            return None, [f"Error: {error}{cut}"]
        for block in blocks:
            if block.tool not in ENDS:
                told.append(self.do(role, attempt.model, block))
            elif any(text.startswith("Error") for text in told):
                break  # the model hears first of what did not work
            else:
                return block, told
        return None, told

    def do(self, role: str, model: str, block: Block) -> str:
        """Calls the tool of a block, adds the event to the trace, and returns the message for the model."""
        result = self.tools.call(block)
        named = f"{block.tool} {block.path}" if block.argument else block.tool
        self.tell(f"{role} ({model}): {named}")
        self.trace.add("tool", role=role, tool=block.tool, argument=block.argument, body=block.body, result=result)
        return result if result.startswith("Error") else f"# Result of {named}\n\n{result}"

"""One task for an agent that reads text and calls tools: every call is executed, charged and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sage.grading.task import Task
from sage.sandbox import Backend
from sage.sim.agents import running, tools
from sage.sim.agents.tools import Tool
from sage.sim.environment import rules
from sage.sim.policies import RepairAttempt
from sage.workspace.searching import matches
from sage.workspace.workspace import TaskWorkspace, ToolError

ENDS = {tools.SUBMIT.name: "submit", tools.GIVE_UP.name: "stop"}  # as reports name them
MOST_COST = 1e6
AN_ACTION = '{"tool": "read_file", "arguments": {"path": "PATH"}}'
KEPT_ARGUMENT = 2_000  # characters of a call that cannot be read, in the transcript


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of an episode: the number of calls, and the cost in the currency of the rules; by default those of
    `sage/SoftwareTask-v0`."""

    calls: int = rules.HORIZON
    spent: float = rules.MOST_SPENT  # then it can only hand in or give up

    def __post_init__(self) -> None:
        if self.calls < 1 or not self.spent > 0:
            raise ValueError(f"budget: calls={self.calls} must be at least 1, and spent={self.spent} more than 0")


@dataclass(frozen=True, kw_only=True)
class Call:
    """Record of one tool call: its arguments, its answer, and its cost, which includes what the agent paid for models
    before it."""

    tool: str
    arguments: object
    text: str
    cost: float
    refused: bool = False

    @property
    def action(self) -> str:
        return f"{self.tool} (refused)" if self.refused else self.tool


class TextEpisode:
    """A task in progress: its files as the agent left them, its calls so far, and the rest of its budget.

    Example:
        >>> episode = TextEpisode(backend, task)
        >>> print(episode.observation)
        >>> print(episode.call("edit", {"path": "calc.py", "old": "a - b", "new": "a + b"}))
        >>> print(episode.call("run_tests"))
        >>> episode.call("submit")
        >>> grade(backend, task, episode.workspace.files).solved
        True
    """

    def __init__(
        self,
        backend: Backend,
        task: Task,
        budget: Budget | None = None,
        record: Callable[[Call], None] = lambda _: None,
    ) -> None:
        self.backend, self.task, self.record = backend, task, record
        self.budget = budget or Budget()
        self.workspace = TaskWorkspace(task)
        self.transcript: list[Call] = []
        self.spent = 0.0
        self.ended = ""  # submit, stop, or horizon: no calls are left

    def call(self, name: object, arguments: object = None, *, cost: object = 0.0) -> str:
        """Calls a tool and returns its answer, or a sentence that begins with Error if the call cannot be made.
        `arguments` are a mapping or its JSON text; `cost` is what the agent paid for models before this call, in the
        currency of the rules."""
        paid = valid_cost(cost)
        try:
            if paid is None:
                raise ToolError(f"cost={cost!r:.50} must be a number from 0, below {MOST_COST:,.0f}, in cents")
            tool, given = tools.checked_call(name, arguments)
            self.check_affordable(tool, self.spent + paid)
            text = self.run(tool, given)
        except ToolError as error:
            known = isinstance(name, str) and name in tools.BY_NAME
            return self.refuse(str(error), str(name) if known else "?", arguments, paid or 0.0)
        self.keep(Call(tool=tool.name, arguments=given, text=text, cost=round(paid + self.cost_of(tool, given), 6)))
        self.ended = ENDS.get(tool.name, self.ended)
        return text

    def act(self, message: str) -> str:
        """Calls the tool of a JSON text such as {"tool": "read_file", "arguments": {"path": "calc.py"}, "cost": 0.3},
        and returns its answer."""
        try:
            values = tools.parse_json(message, "a call")
        except ToolError:
            values = None
        if not isinstance(values, dict) or not isinstance(values.get("tool"), str):
            return self.refuse(f"a call is a line such as {AN_ACTION}", "?", message)
        return self.call(values["tool"], values.get("arguments"), cost=values.get("cost", 0.0))

    def refuse(self, sentence: str, name: str, arguments: object, paid: float = 0.0) -> str:
        """Returns the error of a call that is not made, and charges rules.COST_FORBIDDEN for it; charges nothing if the
        task has ended."""
        if self.ended:
            return f"Error: the task has ended ({self.ended}), and nothing was done."
        seen = arguments[:KEPT_ARGUMENT] if isinstance(arguments, str) else arguments
        cost = round(paid + rules.COST_FORBIDDEN, 6)
        self.keep(Call(tool=name, arguments=seen, text=f"Error: {sentence}.", cost=cost, refused=True))
        return self.transcript[-1].text

    def keep(self, call: Call) -> None:
        self.spent += call.cost
        self.transcript.append(call)
        self.record(call)
        if self.calls_left == 0:
            self.ended = "horizon"

    def check_affordable(self, tool: Tool, spent: float) -> None:
        if self.ended:
            raise ToolError("the task has ended")
        if spent >= self.budget.spent and tool not in tools.LAST:
            left = " or ".join(one.name for one in tools.LAST)
            raise ToolError(f"{spent:g} of {self.budget.spent:g} is spent: only {left} is left")

    def cost_of(self, tool: Tool, given: dict) -> float:
        if tool is tools.RUN_TESTS and len(running.selected(self.task, given.get("names", ()))) < len(
            self.task.visible
        ):
            return rules.COST_TRY
        return tool.cost

    def run(self, tool: Tool, given: dict) -> str:
        files, task, backend = self.workspace, self.task, self.backend
        match tool.name:
            case "list_files":
                return files.listed()
            case "read_file":
                return files.read(given["path"], int(given.get("start", 1)), int(given.get("end", 0)) or None)
            case "search":
                return matches(backend, files.files, given["pattern"])
            case "edit":
                return files.edit(given["path"], given["old"], given["new"])
            case "write_file":
                return files.write(given["path"], given["content"])
            case "revert":
                return files.revert(given.get("path"))
            case "run_tests":
                return running.run_chosen_tests(
                    backend, task, files.files, running.selected(task, given.get("names", ()))
                )
            case "localise":
                return running.suspicious_lines(backend, task, files.files)
            case "submit":
                return "The files are handed in."
            case _:
                return "Nothing is handed in."

    @property
    def calls_left(self) -> int:
        return self.budget.calls - len(self.transcript)

    @property
    def observation(self) -> str:
        """Returns a text of the task, its files, the last result and the budget, which is enough to go on without any
        memory."""
        last = self.transcript[-1] if self.transcript else None
        told = f"# Result of {last.action}\n\n{last.text}" if last else "Nothing was called yet."
        ended = f"\n\nThe task has ended ({self.ended})." if self.ended else ""
        return (
            f"# Task\n\n{self.task.instruction}\n\n# Files\n\n{self.workspace.listed()}\n\n{told}\n\n# Budget\n\n"
            f"{self.calls_left} of {self.budget.calls} calls are left, and {self.spent:.2f} of {self.budget.spent:g} is spent."
            f"{ended}"
        )

    def state(self) -> dict[str, object]:
        """Returns the last answer, the observation and the budget as a mapping, for programs."""
        return {
            "text": self.transcript[-1].text if self.transcript else "",
            "refused": bool(self.transcript) and self.transcript[-1].refused,
            "observation": self.observation,
            "calls_left": self.calls_left,
            "spent": round(self.spent, 6),
            "most_spent": self.budget.spent,
            "ended": self.ended,
        }

    def attempt(self, ended: str = "") -> RepairAttempt:
        """Returns the attempt for grading, with files only if they were submitted; `ended` says why an episode did not
        end by itself."""
        return RepairAttempt(
            files=self.workspace.files if self.ended == "submit" else None,
            ended=self.ended or ended,
            cost=round(self.spent, 3),
            actions=tuple(call.action for call in self.transcript),
        )


def valid_cost(value: object) -> float | None:
    """Returns what an agent says it paid, as a float; None unless it is a number from 0 and below MOST_COST."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST_COST
    return float(value) if known else None

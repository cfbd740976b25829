"""Coding agents and SDKs that `serve_clients.py` runs: for each, how one turn of it is started against a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripted_model import COMMAND

SCRIPTS = Path(__file__).resolve().parent / "clients"
OFFLINE_LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@dataclass(frozen=True)
class Turn:
    """How a client is started, in a folder of its own that is also its home."""

    words: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)  # a command that configures it
    version: list[str] = field(default_factory=list)  # a command that tells it; --version unless given


@dataclass(frozen=True)
class Client:
    name: str
    package: str  # which has an environment of its own
    setting: str  # how it is pointed at sage, in a line
    turn: Callable[[str, str], Turn]  # of its program (npm) or Python (PyPI), and of the server's URL without /v1

    @property
    def option(self) -> str:
        return self.name.lower().replace(" ", "-")


def by_python(python: str, package: str, *words: str, **more: Mapping[str, str]) -> Turn:
    """A turn of what an environment of Python has."""
    version = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return Turn([python, *words], **more, version=[python, "-c", version])


def codex(program: str, url: str) -> Turn:
    provider = f'{{name="sage",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
    settings = ["-c", "model_provider=sage", "-c", f"model_providers.sage={provider}", "-m", "gpt-5"]
    return Turn([program, "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", *settings, "hello"])


def claude(program: str, url: str) -> Turn:
    quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return Turn([program, "-p", "hello", "--model", "claude-sonnet-4-5", "--allowedTools", "Bash"], quiet)


def opencode(program: str, url: str, file: str = "opencode.json", *words: str) -> Turn:
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "sage", "models": {"sage": {"name": "sage"}}}
    provider |= {"options": {"baseURL": f"{url}/v1", "apiKey": "none"}}
    config = {"provider": {"sage": provider}, "autoupdate": False, "share": "disabled"}
    return Turn([program, "run", *words, "-m", "sage/sage", "hello"], files={file: json.dumps(config)})


def kilo(program: str, url: str) -> Turn:
    return opencode(program, url, "kilo.json", "--auto")


def qwen(program: str, url: str) -> Turn:
    server = ["--auth-type", "openai", "--openai-api-key", "none", "--openai-base-url", f"{url}/v1", "-m", "sage"]
    return Turn([program, *server, "--yolo", "-p", "hello"])


def continue_cli(program: str, url: str) -> Turn:
    model = {"name": "sage", "provider": "openai", "model": "sage", "apiBase": f"{url}/v1", "apiKey": "none"}
    model |= {"roles": ["chat"], "capabilities": ["tool_use"]}
    config = {"name": "sage", "version": "1.0.0", "schema": "v1", "models": [model]}
    return Turn(
        [program, "-p", "--auto", "--config", "config.yaml", "hello"], files={"config.yaml": json.dumps(config)}
    )


def cline(program: str, url: str) -> Turn:
    model = ["--provider", "openai-compatible", "--apikey", "none", "--modelid", "sage", "--baseurl", f"{url}/v1"]
    alone = {"CLINE_SESSION_BACKEND_MODE": "local"}  # no daemon stays behind
    return Turn([program, "say hello"], alone, before=[program, "auth", *model])


def pi(program: str, url: str) -> Turn:
    price = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    model = {"id": "sage", "name": "sage", "reasoning": False, "input": ["text"], "cost": price}
    model |= {"contextWindow": 100_000, "maxTokens": 4096}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
    files = {".pi/agent/models.json": json.dumps({"providers": {"sage": provider}})}
    return Turn([program, "--provider", "sage", "--model", "sage", "-p", "hello"], files=files)


def mini(python: str, url: str) -> Turn:
    settings = {"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "OPENAI_API_BASE": f"{url}/v1"}
    words = ["-m", "openai/sage", "-t", "hello", "-y", "--exit-immediately", "-o", "trajectory.json"]
    module = ["-m", "minisweagent.run.mini"]
    return by_python(python, "mini-swe-agent", *module, *words, environment=settings | OFFLINE_LITELLM)


def aider(python: str, url: str) -> Turn:
    """It has no tools: it edits a file as the answer says, runs a command, and tells the model what that printed."""
    quiet = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--analytics-disable"]
    checked = ["--no-pretty", "--edit-format", "diff", "--auto-test", "--test-cmd", COMMAND]
    words = ["-m", "aider", "--model", "openai/sage", *quiet, *checked, "--message", "hello", "hello.py"]
    return by_python(python, "aider-chat", *words, environment={"OPENAI_API_BASE": f"{url}/v1"} | OFFLINE_LITELLM)


def llm(python: str, url: str) -> Turn:
    model = {"model_id": "sage", "model_name": "sage", "api_base": f"{url}/v1", "supports_tools": True}
    files = {"llm/extra-openai-models.yaml": json.dumps([model])}
    words = ["-m", "llm", "-m", "sage", "--functions", (SCRIPTS / "shell_tool.py").read_text(), "hello"]
    return by_python(python, "llm", *words, environment={"LLM_USER_PATH": "llm"}, files=files)


def sdk(package: str, script: str) -> Callable[[str, str], Turn]:
    """A turn of an SDK, by a program of the folder clients."""
    return lambda python, _: by_python(python, package, str(SCRIPTS / script))


def ai_sdk(prefix: str, url: str) -> Turn:
    version = f"require({json.dumps(prefix + '/node_modules/ai/package.json')}).version"
    return Turn(["node", str(SCRIPTS / "ai_sdk_turn.mjs"), prefix], version=["node", "-p", version])


URL = "http://127.0.0.1:8484"
OPENAI = f"`OPENAI_BASE_URL={URL}/v1`"
ANTHROPIC = f"`ANTHROPIC_BASE_URL={URL}`"
LITELLM = f"`OPENAI_API_BASE={URL}/v1`, model `openai/sage`"
COMPATIBLE = f"provider `@ai-sdk/openai-compatible`, `options.baseURL` `{URL}/v1`"
CODEX = f"`~/.codex/config.toml`: `model_provider`, and its `base_url` `{URL}/v1`, `wire_api` `responses`"
CLINE = f"`cline auth --provider openai-compatible --apikey KEY --modelid sage --baseurl {URL}/v1`"
CLIENTS = (
    Client("codex", "npm @openai/codex", CODEX, codex),
    Client("Claude Code", "npm @anthropic-ai/claude-code", ANTHROPIC, claude),
    Client("opencode", "npm opencode-ai", f"`opencode.json`: {COMPATIBLE}", opencode),
    Client("Kilo Code", "npm @kilocode/cli", f"`kilo.json`: {COMPATIBLE}", kilo),
    Client("Qwen Code", "npm @qwen-code/qwen-code", f"`--auth-type openai --openai-base-url {URL}/v1`", qwen),
    Client("Continue", "npm @continuedev/cli", f"`config.yaml`: `provider: openai`, `apiBase: {URL}/v1`", continue_cli),
    Client("Cline", "npm cline", CLINE, cline),
    Client("pi", "npm @mariozechner/pi-coding-agent", f"`~/.pi/agent/models.json`: `baseUrl` `{URL}/v1`", pi),
    Client("mini-swe-agent", "PyPI mini-swe-agent", LITELLM, mini),
    Client("aider", "PyPI aider-chat", LITELLM, aider),
    Client("llm", "PyPI llm", f"`extra-openai-models.yaml`: `api_base: {URL}/v1`", llm),
    Client("OpenAI Agents SDK", "PyPI openai-agents", OPENAI, sdk("openai-agents", "openai_agents_turn.py")),
    Client("LangGraph", "PyPI langchain, langchain-openai", OPENAI, sdk("langgraph", "langgraph_turn.py")),
    Client("Pydantic AI", "PyPI pydantic-ai-slim", ANTHROPIC, sdk("pydantic-ai-slim", "pydantic_ai_turn.py")),
    Client(
        "smolagents", "PyPI smolagents", f"`OpenAIModel(api_base='{URL}/v1')`", sdk("smolagents", "smolagents_turn.py")
    ),
    Client("AI SDK", "npm ai, @ai-sdk/openai-compatible", f"`createOpenAICompatible`, `baseURL` `{URL}/v1`", ai_sdk),
)

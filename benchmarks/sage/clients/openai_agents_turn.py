"""A turn of the OpenAI Agents SDK (responses, streamed); it takes the server from OPENAI_BASE_URL."""

from __future__ import annotations

import asyncio

from agents import Agent, Runner, function_tool, set_tracing_disabled
from shell_tool import run_command


async def main() -> None:
    set_tracing_disabled(True)
    running = Runner.run_streamed(Agent(name="hello", model="sage", tools=[function_tool(run_command)]), "hello")
    async for _ in running.stream_events():
        pass
    print(running.final_output)


asyncio.run(main())

"""A turn of an agent of Pydantic AI (messages, streamed); it takes the server from ANTHROPIC_BASE_URL."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent
from shell_tool import run_command


async def main() -> None:
    agent = Agent("anthropic:sage", tools=[run_command])
    async with agent.run_stream("hello") as running:
        print(await running.get_output())


asyncio.run(main())

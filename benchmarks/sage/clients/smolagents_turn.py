"""A turn of an agent of smolagents (chat completions, whole); it takes the server from OPENAI_BASE_URL."""

from __future__ import annotations

import os

from shell_tool import run_command
from smolagents import OpenAIModel, ToolCallingAgent, tool

model = OpenAIModel(model_id="sage", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
print(ToolCallingAgent(tools=[tool(run_command)], model=model, max_steps=4).run("hello"))

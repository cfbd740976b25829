"""A turn of an agent of LangChain and LangGraph (chat completions, streamed); it takes the server from OPENAI_BASE_URL."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from shell_tool import run_command

agent = create_agent(ChatOpenAI(model="sage", streaming=True), [run_command])
print(agent.invoke({"messages": [HumanMessage("hello")]})["messages"][-1].content)

"""The dialects that `sage serve` speaks, by name."""

from __future__ import annotations

from sage.serve.dialects.chat import Chat
from sage.serve.dialects.dialect import Dialect
from sage.serve.dialects.embeddings import Embeddings
from sage.serve.dialects.messages import Messages
from sage.serve.dialects.responses import Responses

BY_NAME: dict[str, Dialect] = {dialect.name: dialect for dialect in (Chat(), Responses(), Messages(), Embeddings())}

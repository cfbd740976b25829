"""The dialects that `sage serve` speaks, by name."""

from __future__ import annotations

from sage.upstream.dialects.chat import Chat
from sage.upstream.dialects.dialect import Dialect
from sage.upstream.dialects.embeddings import Embeddings
from sage.upstream.dialects.messages import Messages
from sage.upstream.dialects.responses import Responses

BY_NAME: dict[str, Dialect] = {dialect.name: dialect for dialect in (Chat(), Responses(), Messages(), Embeddings())}

"""Edits of a JSON body that leave every other byte as the client wrote it."""

from __future__ import annotations

import re

from sage.upstream.dialects.dialect import dumps

MODEL = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")')
MODEL_KEY = re.compile(rb'"model"[ \t\r\n]*:')
ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")  # in which a key could hide


def edited(body: bytes, values: dict, model: str, more: dict) -> bytes:
    """Returns the body with `model` as its model and with the fields of `more`; `values` is the parsed body, from which
    it is written anew if it cannot be edited in place."""
    found = MODEL.search(body)
    if (
        found is None
        or MODEL_KEY.search(body, found.end())
        or (b"\\" in body and ESCAPED_LETTER.search(body))  # a single byte is found much faster than a pattern
        or any(name in values for name in more)
    ):
        return dumps(values | {"model": model} | more)
    brace = body.index(b"{") + 1
    added = dumps(more)[1:-1] + b"," if more else b""
    view = memoryview(body)  # so that a large body is copied once
    return b"".join([view[:brace], added, view[brace : found.start(1)], dumps(model), view[found.end(1) :]])

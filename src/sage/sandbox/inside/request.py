"""The request that a supervisor receives."""

from __future__ import annotations

import base64
from typing import NamedTuple

WORK, TEMPORARY, SHARED_MEMORY = "/work", "/tmp", "/dev/shm"
MOST_FILES = 20_000
INNER_ID, NOBODY = 1000, 65534  # who a command is inside, and who root becomes first
ENVIRONMENT = {  # of every command
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "SOURCE_DATE_EPOCH": "1700000000",
}


class Request(NamedTuple):
    argv: list[str]
    env: dict[str, str]
    stdin: bytes
    files: dict[str, bytes]
    limits: dict[str, float]
    filter: bytes


def request_of(header: dict, blobs: list[bytes]) -> Request:
    return Request(
        argv=header["argv"],
        env=header["env"],
        stdin=blobs[0],
        files=dict(zip(header["paths"], blobs[1:], strict=True)),
        limits=header["limits"],
        filter=base64.b64decode(header["filter"]),
    )

"""The records in an offline file of Weights & Biases, by the package's own messages.

The file has a header of 7 bytes and is a log of LevelDB from there: blocks of 32 KiB, with pieces of records behind headers of
7 bytes each, which say the checksum, the length and whether the record goes on.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

BLOCK = 32_768
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records_of(file: Path) -> list[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, begun, found = file.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # no room for a header
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        piece, at = data[at + 7 : at + 7 + length], at + 7 + length
        begun = begun + piece if kind in (MIDDLE, LAST) else piece
        if kind in (WHOLE, LAST):
            found.append(Record.FromString(begun))
    return found

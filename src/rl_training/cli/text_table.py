"""Tables as aligned text and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence


def text_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()) -> str:
    """Returns a table with aligned columns; those in `left` begin at the left, the others end at the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    texts = []
    for line in lines:
        cells = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(head, line, widths, strict=True)
        ]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def csv_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table as CSV; None becomes an empty cell, and nested values are written as JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([json.dumps(cell) if isinstance(cell, dict | list) else cell for cell in row] for row in rows)
    return text.getvalue().rstrip("\n")

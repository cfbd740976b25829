"""Runs `scripts/demo_sage.sh` and draws what it prints as an animated SVG: `python scripts/record_demo.py [SVG]`.

The lines are those of a real run, in order and at their times, but for two things: a wait is at most `LONGEST_WAIT_S`, and
output stays for a moment, so that it can be read. Long lines are cut.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "sage" / "demo.svg"
COLUMNS, ROWS = 120, 26
CHARACTER, LINE, MARGIN, BAR = 7.3, 17, 14, 30  # pixels
LONGEST_WAIT_S, READING_S, LONGEST_READING_S, END_S = 0.8, 0.14, 2.8, 5.0
TITLE = "make demo-sage: SYNTHETIC data, nobody ran the routed models"
KINDS = {
    "== ": "step",
    "$ ": "command",
    "#": "note",
    "refuse": "no",
    "promote": "yes",
    "rolled": "yes",
    "warning": "no",
}
STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d5dbe3; white-space: pre; }
.step { fill: #7cc4ff; font-weight: bold; } .command { fill: #8ee08e; } .note { fill: #f2c14e; } .no { fill: #ff8f80; }
.yes { fill: #8ee08e; } .time { fill: #77818c; text-anchor: end; } .bar { fill: #f2c14e; }
"""


class Line(NamedTuple):
    """A printed line, and the seconds of the run after which it came."""

    seconds: float
    text: str


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    lines = list(printed())
    out.write_text(drawn(lines), encoding="utf-8")
    print(f"{out}: {len(lines)} lines of {lines[-1].seconds:.0f} s, {out.stat().st_size:,} bytes")


def printed() -> Iterator[Line]:
    """Yields the lines of a run as they come; the folder of the run has its usual name in them."""
    with tempfile.TemporaryDirectory() as name:
        folder, began = str(Path(name, "run")), time.monotonic()
        command = [str(ROOT / "scripts" / "demo_sage.sh"), folder]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert running.stdout is not None
        for text in running.stdout:
            yield Line(time.monotonic() - began, text.rstrip("\n").replace(folder, "runs/demo-sage"))
        if running.wait():
            raise SystemExit("the demo failed: nothing is drawn")


def shown_at(lines: Sequence[Line]) -> list[float]:
    """Returns when each line is shown, in seconds of the animation."""
    moments, unread = [0.0], 0.0
    for before, line in pairwise(lines):
        unread += READING_S
        new = line.text.startswith(("$ ", "== "))
        moments.append(
            moments[-1] + min(line.seconds - before.seconds, LONGEST_WAIT_S) + new * min(unread, LONGEST_READING_S)
        )
        unread = 0.0 if new else unread
    return moments


def drawn(lines: Sequence[Line]) -> str:
    """Returns the SVG: all lines one below the other, moved up behind a window whenever new ones come."""
    moments = shown_at(lines)
    total = moments[-1] + END_S
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), BAR + ROWS * LINE + MARGIN
    offsets = {f"{100 * moment / total:.2f}": (ROWS - i) * LINE for i, moment in enumerate(moments, start=1)}
    frames = "".join(f"{at}%{{transform:translateY({offset}px)}}" for at, offset in offsets.items())
    last = (ROWS - len(lines)) * LINE
    moves = f"@keyframes scroll {{{frames}100%{{transform:translateY({last}px)}}}}"
    rows = "\n".join(drawn_line(line, BAR + (i + 0.75) * LINE) for i, line in enumerate(lines) if line.text)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>{TITLE}</title>
<style>{STYLE}{moves}
.lines {{ transform: translateY({last}px); animation: scroll {total:.1f}s step-end infinite; }}
@media (prefers-reduced-motion: reduce) {{ .lines {{ animation: none; }} }}
</style>
<clipPath id="window"><rect y="{BAR}" width="{width}" height="{ROWS * LINE}"/></clipPath>
<rect width="{width}" height="{height}" rx="8" fill="#14181d"/>
<text class="bar" x="{MARGIN}" y="20">{TITLE}</text>
<text class="time" x="{width - MARGIN}" y="20">a real run; waits are shortened</text>
<g clip-path="url(#window)"><g class="lines">
{rows}
</g></g>
</svg>
"""


def drawn_line(line: Line, y: float) -> str:
    """Returns the text of a line, in the colour of its kind."""
    kind = next((kind for start, kind in KINDS.items() if line.text.startswith(start)), "")
    text = line.text if len(line.text) <= COLUMNS else f"{line.text[: COLUMNS - 1]}\u2026"
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{MARGIN}" y="{y:.0f}" xml:space="preserve">{escape(text, quote=False)}</text>'


if __name__ == "__main__":
    main()

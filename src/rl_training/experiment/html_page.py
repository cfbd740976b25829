"""HTML pages that need no other file: their style, Markdown as HTML, and pictures as SVG."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, OTHER, LINE = "#1f6f8b", "#b0b7bd", "#444444"  # colours of pictures
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1150px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 } td, th { padding: 2px 10px 2px 0; text-align: left }
th { border-bottom: 1px solid #999 } tr:nth-child(even) td { background: #f6f7f8 }
strong { color: #b03a2e } svg { max-width: 100%; height: auto } .tables { overflow-x: auto }
"""


class Html(str):
    """Text that is HTML already, and is not escaped when it becomes part of an element."""

    __slots__ = ()


def element(name: str, *parts: str | None, **attributes: str | None) -> Html:
    """Returns an HTML element with its attributes and its content; text that is not `Html` is escaped.

    Parts and attributes that are None are left out. An attribute `class_` is written `class`, `stroke_width`
    `stroke-width`.
    """
    given = (
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(part if isinstance(part, Html) else html.escape(part) for part in parts if part is not None)
    return Html(f"<{name}{''.join(given)}>{content}</{name}>")


def html_page(title: str, parts: Iterable[str], style: str = STYLE) -> str:
    """Returns the text of a complete HTML page with a title, a style sheet, and the HTML `parts` as its body."""
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f"{head}{view}<style>{style}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"


def to_html(markdown: str) -> str:
    """Returns Markdown as HTML; knows tables, lists, paragraphs and bold text, and nothing else."""
    return "\n".join(block_to_html(block) for block in markdown.split("\n\n") if block.strip())


def block_to_html(block: str) -> str:
    lines = block.strip().splitlines()
    if lines[0].startswith("|"):
        head, _, *rows = [[inline(cell) for cell in line.strip("|").split("|")] for line in lines]
        top = "".join(f"<th>{cell}</th>" for cell in head)
        body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        return f'<div class="tables"><table><tr>{top}</tr>\n{body}</table></div>'
    if lines[0].startswith("- "):
        return "<ul>" + "\n".join(f"<li>{inline(line.removeprefix('- '))}</li>" for line in lines) + "</ul>"
    return f"<p>{inline(' '.join(lines))}</p>"


def inline(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text.strip()))


def to_svg(figure: Figure) -> str:
    """Returns a figure as SVG text for an HTML page; its text stays text, and it refers to no other file."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rl_training"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)

"""The report as one HTML page that needs no other file: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from html import escape

from sage.dollars import in_usd

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:right;padding:.25rem .6rem;border-bottom:1px solid #dde3ea}th:first-child,td:first-child{text-align:left}
.cards{display:flex;flex-wrap:wrap;gap:1rem}.card{border:1px solid #dde3ea;border-radius:.5rem;padding:.6rem 1rem}
.card b{display:block;font-size:1.4rem}.warn{background:#fff3cd;border:1px solid #e0c060;padding:.6rem 1rem}
.bar{background:#4a7dbd;height:.6rem;display:inline-block}p.note{color:#566}
"""
SYNTHETIC = "<p class=warn><b>Synthetic data.</b> Nobody ran these models: nothing here is evidence.</p>"
HEAD = ("decisions", "outcomes", "quality", "cost, USD each", "cost, USD in all", "latency, s")


def render(summary: dict, served: Sequence[str] = ()) -> str:
    """Returns the HTML page of a summary, and of lines about promoted policies; every text is escaped."""
    about = f"{escape(summary['log'])}, data source <b>{escape(summary['data_source'])}</b>"
    parts = [
        f"<h1>sage: routing report</h1><p>{about}, {moment(summary['from'])} to {moment(summary['to'])}</p>",
        "" if summary["evidence"] else SYNTHETIC,
        other_sources(summary["other_sources"]),
        unreadable(summary["unreadable"]),
        cards(summary),
        "<h2>Compared with always one model</h2>" + savings(summary["savings"]),
        *(
            f"<h2>{title}</h2>" + groups(summary[key])
            for title, key in (
                ("By model", "by_model"),
                ("By role", "by_role"),
                ("By role and model", "by_role_and_model"),
                ("By policy", "by_policy"),
            )
        ),
        "<h2>Asked besides, in the shadow</h2>" + groups(summary["shadows"]) if summary["shadows"] else "",
        cascades(summary["cascades"]),
        "<h2>Policy against static</h2>" + evaluation(summary["evaluation"]),
        f"<h2>Served, against its proof</h2><pre>{escape(chr(10).join(served))}</pre>" if served else "",
        "<h2>Guard</h2>"
        + table(("verdict", "decisions"), [(escape(k), str(n)) for k, n in summary["verdicts"].items()]),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>sage report</title><style>{STYLE}</style></head>"
        f"<body>\n{body}\n</body></html>\n"
    )


def unreadable(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    return (
        f"<p class=warn>{len(sentences)} records cannot be read and are left out, the first: {escape(sentences[0])}</p>"
    )


def cards(summary: dict) -> str:
    total, found = summary["total"], summary["savings"]
    shown = {
        "decisions": f"{total['decisions']:,}",
        "with an outcome": f"{total['outcomes']:,}",
        "mean quality": show(total["quality"]),
        "cost, USD": usd(total["total_cost_usd"]),
    }
    if (model := found.get("against")) in found["models"]:
        ratio = interval(found["models"][model]["cost_ratio"], "{:.3g}".format)
        shown[f"times the cost of always {escape(model)}, {found['level']:.0%} interval"] = ratio
    return "<div class=cards>" + "".join(f"<div class=card><b>{v}</b>{k}</div>" for k, v in shown.items()) + "</div>"


def savings(found: dict) -> str:
    refused = "".join(f"<p class=note>{escape(m)}: {escape(why)}</p>" for m, why in found["not_judged"].items())
    if not found["models"]:
        why = found.get("refusal") or "The log cannot say what a single model would have given."
        return f"<p>{escape(why)}</p>{refused}"
    rows = [
        (
            escape(name),
            interval(m["quality"], "{:+.4f}".format),
            interval(m["cost_usd"], partial(in_usd, sign="+")),
            interval(m["cost_ratio"], "{:.3g}".format),
            f"{m['could_answer']:.0%}",
        )
        for name, m in found["models"].items()
    ]
    together = "" if found["against"] else ", which hold for all models of the table together"
    note = (
        f"<p class=note>As routed minus always the model, per decision, with {found['level']:.0%} intervals{together}, over "
        f"{found['rows']:,} decisions of {found['tasks']:,} tasks. Estimated from the logged probabilities as the gate does, "
        "whatever the outcomes that nobody reported were. Where the model could not be chosen, it is compared as routed.</p>"
    )
    head = ("always", "quality", "cost, USD each", "times its cost", "could be chosen")
    return note + table(head, rows) + refused


def interval(part: dict | None, shown: Callable[[float], str]) -> str:
    if part is None:
        return "not known"
    return f"{shown(part['value'])} ({shown(part['low'])} to {shown(part['high'])})"


def groups(found: dict[str, dict]) -> str:
    rows = [
        (
            escape(name),
            f"{g['decisions']:,}",
            f"{g['outcomes']:,}",
            show(g["quality"]),
            usd(g["cost_usd"]),
            usd(g["total_cost_usd"]),
            show(g["latency_s"]),
        )
        for name, g in found.items()
    ]
    return table(("", *HEAD), rows)


def cascades(found: dict | None) -> str:
    if found is None:
        return ""
    gaps = ", ".join(f"{number:,} with {escape(reason)}" for reason, number in found["missing"].items())
    parts = [f"<h2>Cascades</h2><p>{found['begun']:,} begun{f': {gaps}' if gaps else ''}.</p>"]
    for title, key in (("policy", "by_policy"), ("the answer is of", "by_answer")):
        rows = [
            (escape(name), f"{g['cascades']:,}", show(g["attempts"]), show(g["quality"]), usd(g["cost_usd"]))
            for name, g in found[key].items()
        ]
        parts.append(table((title, "cascades", "attempts each", "quality", "cost, USD each"), rows) if rows else "")
    rows = [
        (
            f"{escape(one['verifier'])} / {escape(one['model'])}",
            f"{one['verdicts']:,}",
            f"{one['known']:,}",
            share(one["true_positive"]),
            share(one["false_positive"]),
        )
        for one in found["verifiers"]
    ]
    head = ("verifier / model", "verdicts", "with known quality", "passes right answers", "passes wrong answers")
    notes = sorted({one["note"] for one in found["verifiers"] if one["note"]})
    parts += [table(head, rows) if rows else "", *(f"<p class=note>{escape(note)}</p>" for note in notes[:1])]
    return "".join(parts)


def share(rate: dict | None) -> str:
    return "-" if rate is None else f"{rate['share']:.3f} ({rate['low']:.3f} to {rate['high']:.3f})"


def evaluation(values: dict | None) -> str:
    if values is None:
        return (
            "<p class=note>Means of two policies in a log are not comparable: they met different tasks. For a proof run "
            "<code>sage prove</code> and give its file with <code>--proof</code>.</p>"
        )
    rows = []
    for name, value in values.items():
        if isinstance(value, dict) and {"low", "high"} <= set(value):
            value = f"{show(value['low'])} to {show(value['high'])}"
        if isinstance(value, dict) and {"now", "full"} <= set(value):
            name, part = f"power for a gain of {value['gain']:g}", value["now"] / value["full"]
            value = f"{value['now']:.2f}, {part:.0%} of what full information would allow"
        if not isinstance(value, dict | list):
            rows.append((escape(name), escape(show(value))))
    return table(("from sage prove", ""), rows)


def other_sources(counts: dict[str, int]) -> str:
    if not counts:
        return ""
    held = ", ".join(f"{number:,} {escape(source)}" for source, number in counts.items())
    return f"<p class=note>Not in this report, as sources are never mixed: {held} (choose with --data-source).</p>"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Returns an HTML table with one line for the head and one for each row; all cells are HTML already."""
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table><tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>" + "".join(lines) + "</table>"


def moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s"


def usd(value: float | None) -> str:
    return "-" if value is None else in_usd(value)


def show(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"

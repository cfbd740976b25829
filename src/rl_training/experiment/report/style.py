"""The style sheet of a report: plain, in light and dark, on screens and on paper."""

LIGHT = ("#1f66c1", "#c8570b", "#0b8073", "#8a3fb8", "#b8860b", "#c2255c", "#5c7a29", "#5f6b76")
DARK = ("#6ba7f5", "#f0914d", "#3fc4b1", "#c08ae8", "#e0b73c", "#f27aa0", "#a3c466", "#a9b4bf")


def colours(values: tuple[str, ...]) -> str:
    return "".join(f"--g{number}:{value};" for number, value in enumerate(values))


GROUPS = "".join(f".g{number}{{--c:var(--g{number})}}" for number in range(len(LIGHT)))
STYLE = f"""
:root {{ color-scheme: light dark; --page:#fbfbfa; --card:#ffffff; --ink:#1d2328; --soft:#59636d; --rule:#d8dde2;
  --grid:#e9ecef; --accent:#1f66c1; --bad:#b3261e; {colours(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ --page:#14171a; --card:#1b1f23; --ink:#e7eaed; --soft:#a2acb5; --rule:#363d44;
  --grid:#292f35; --accent:#8ab8f7; --bad:#ff8a80; {colours(DARK)} }} }}
{GROUPS}
* {{ box-sizing: border-box }}
body {{ margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }}
main, header {{ max-width: 1000px; margin: 0 auto; padding: 0 20px }}
header {{ padding-top: 28px }}
h1 {{ font-size: 26px; line-height: 1.25; margin: 0 0 6px }}
h2 {{ font-size: 19px; margin: 40px 0 8px; padding-top: 14px; border-top: 1px solid var(--rule) }}
h3 {{ font-size: 15px; margin: 22px 0 4px }}
p {{ margin: 6px 0; max-width: 76ch }}
a {{ color: var(--accent) }}
.lead {{ font-size: 16px }} .soft, figcaption span, caption {{ color: var(--soft) }}
nav {{ display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 14px 0 0; font-size: 14px }}
:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 2px }}
figure {{ margin: 12px 0; padding: 12px 12px 6px; background: var(--card); border: 1px solid var(--rule); border-radius: 8px }}
figcaption {{ font-weight: 600; font-size: 14px; margin: 0 0 4px 4px }} figcaption span {{ font-weight: 400 }}
.few {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(290px, 1fr)); gap: 12px; margin: 8px 0 }}
.few figure {{ margin: 0; padding: 8px 8px 2px }} .few figcaption {{ font-size: 13px }}
.legend {{ display: flex; flex-wrap: wrap; gap: 2px 18px; list-style: none; margin: 8px 0; padding: 0; font-size: 14px }}
.swatch {{ vertical-align: -1px; margin-right: 7px }}
figure {{ overflow-x: auto }} svg.chart {{ display: block; width: 100%; height: auto }} svg.big {{ min-width: 620px }}
svg text {{ fill: var(--soft); font: 11.5px system-ui, sans-serif }} .few svg text {{ font-size: 12px }}
svg .x {{ text-anchor: middle }} svg .y {{ text-anchor: end }} svg .row {{ fill: var(--ink); font-size: 13px }}
.grid {{ stroke: var(--grid) }} .axis {{ stroke: var(--soft) }}
.line {{ fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round }}
.faint {{ stroke-width: 1; opacity: .3 }}
.band {{ fill: var(--c); opacity: .16 }} .dot {{ fill: var(--c) }} .dot:hover {{ stroke: var(--ink) }}
.bar {{ stroke: var(--c); stroke-width: 5; stroke-linecap: round; opacity: .45 }}
.value {{ fill: none; stroke: var(--c); opacity: .7 }}
.wide {{ overflow-x: auto; margin: 8px 0 }}
table {{ border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; background: var(--card) }}
caption {{ text-align: left; font-size: 13px; padding-bottom: 4px }}
th, td {{ padding: 4px 14px 4px 8px; text-align: left;
  vertical-align: top; border-bottom: 1px solid var(--grid); white-space: nowrap }}
thead th {{ border-bottom: 1px solid var(--rule); color: var(--soft); font-weight: 600; vertical-align: bottom }}
tbody th {{ font-weight: 400 }} .n {{ text-align: right }} td.long {{ white-space: normal; min-width: 26ch; overflow-wrap: anywhere }}
.bad {{ color: var(--bad); font-weight: 600 }}
.notes {{ margin: 12px 0; padding: 8px 14px; border-left: 4px solid var(--bad); background: var(--card) }}
.notes ul {{ margin: 0; padding-left: 18px }}
details {{ margin: 8px 0 }} summary {{ cursor: pointer; color: var(--accent); font-size: 14px }}
pre {{ font: 12.5px/1.45 ui-monospace, monospace; overflow-x: auto; padding: 10px;
  background: var(--card); border: 1px solid var(--grid) }}
img, video {{ max-width: 100%; height: auto; border-radius: 4px }}
footer {{ max-width: 1000px; margin: 40px auto 30px; padding: 0 20px; font-size: 13px; color: var(--soft) }}
@media print {{ nav {{ display: none }} figure, tr {{ break-inside: avoid }} }}
"""

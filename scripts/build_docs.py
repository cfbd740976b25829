"""Builds the documentation's site in build/site, with search and a reference; warnings are errors.

Usage: python scripts/build_docs.py

The pages are copied to build/pages first: formulas become MathML, and what pages link to outside of docs/ (sources,
results, the READMEs of folders) becomes part of the site, so that nothing is fetched from elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS, STAGED, SITE = ROOT / "docs", ROOT / "build" / "pages", ROOT / "build" / "site"
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$((?:[^$\n]|\n(?!\s*\n))+?)\$", re.DOTALL)
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"  # sources would hide the pages about them


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with a change made everywhere but in code."""
    return "".join(part if part.startswith("`") else change(part) for part in CODE.split(text))


def with_formulas(text: str) -> str:
    from latex2mathml.converter import convert

    def render(found: re.Match[str]) -> str:
        source = " ".join((found[1] or found[2]).split())
        formula = convert(source, display="block" if found[1] else "inline")
        if "\\" in formula:
            raise ValueError(f"${source}$ has a command that latex2mathml does not know: write it in others")
        if found[1]:
            return f'<div class="formula">{formula}</div>'
        return f"<span>{formula}</span>"  # a line that begins with <math> would end its paragraph

    return outside_code(text, lambda part: FORMULA.sub(render, part))


def place_of(source: Path) -> Path:
    """Where a file of the repository stands among the pages: Python and folders as pages, the rest as it is."""
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    place = Path("repository") / source.relative_to(ROOT)
    if source.is_dir():
        return place / "index.md"
    if source.name == "README.md":
        return place.with_name("index.md")
    return place.with_suffix(".py.md") if source.suffix == ".py" else place


def text_of(source: Path) -> str:
    """The page of a file or a folder."""
    if source.suffix == ".md":
        return source.read_text()
    name = source.relative_to(ROOT)
    if source.suffix == ".py":
        return f"# {name.name}\n\n`{name}`\n\n```python\n{source.read_text()}```\n"
    names = sorted(path.name for path in source.iterdir() if path.suffix in (".py", ".md"))
    return f"# {name}\n\n" + "\n".join(f"- [{file}]({file})" for file in names) + "\n"


class Stage:
    """Copies a page and everything that it links to, once."""

    def __init__(self) -> None:
        self.waiting: list[Path] = sorted(path for path in DOCS.rglob("*") if path.is_file())
        self.seen = set(self.waiting)

    def target(self, link: str, source: Path) -> Path:
        found = ((source if source.is_dir() else source.parent) / link).resolve()
        if (found / "README.md").exists():
            found /= "README.md"
        if found not in self.seen:
            self.seen.add(found)
            self.waiting.append(found)
        return found

    def page(self, source: Path) -> str:
        here = place_of(source)

        def redirect(found: re.Match[str]) -> str:
            if re.match(r"[a-z]+:", found[1]):
                return found[0]
            there = place_of(self.target(found[1], source))
            return f"]({os.path.relpath(there, here.parent)}{found[2] or ''})"

        page = with_formulas(outside_code(text_of(source), lambda part: LINK.sub(redirect, part)))
        return page if source.is_relative_to(DOCS) else NOT_SEARCHED + page

    def run(self) -> None:
        shutil.rmtree(STAGED, ignore_errors=True)
        while self.waiting:
            source = self.waiting.pop()
            place = STAGED / place_of(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.suffix == ".md":
                place.write_text(self.page(source))
            else:
                shutil.copyfile(source, place)


def fetched_from_elsewhere() -> list[str]:
    """Pages that ask another server for a script, a style or a picture."""
    foreign = re.compile(r"""<(?:script|img|iframe)[^>]+src="?https?:|<link[^>]+rel="?stylesheet[^>]+href="?https?:""")
    return [str(path.relative_to(SITE)) for path in sorted(SITE.rglob("*.html")) if foreign.search(path.read_text())]


def main() -> int:
    Stage().run()
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run([zensical, "build", "--strict", "--clean"], cwd=ROOT, check=False)
    if done.returncode:
        return done.returncode
    foreign = fetched_from_elsewhere()
    if foreign:
        print(f"these pages fetch something from elsewhere: {', '.join(foreign)}", file=sys.stderr)
        return 1
    print(f"{SITE.relative_to(ROOT)}: {sum(1 for _ in SITE.rglob('*.html'))} pages. Read them with search:")
    print(f"python -m http.server --directory {SITE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

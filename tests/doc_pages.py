"""The pages of the documentation, and the blocks of code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path
    for part in (".", "docs", "src", "examples", "benchmarks")
    for path in (ROOT / part).glob("*.md" if part == "." else "**/*.md")
)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)

"""The pages of the documentation, and the blocks of code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path
    for part in (".", "docs", "src", "examples", "benchmarks")
    for path in (ROOT / part).glob("*.md" if part == "." else "**/*.md")
)

SWITCHES = ("double_dqn", "dueling_dqn", "prioritized_dqn", "n_step_dqn", "noisy_dqn")  # which share one page


def algorithm_page(name: str) -> str:
    """Returns the file name of the page that describes a registered algorithm."""
    return "dqn_switches.md" if name in SWITCHES else f"{name}.md"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def named_files(page: Path) -> dict[str, str]:
    """Returns the files that a reader writes: the content of blocks with a title, by name."""
    return dict(re.findall(r'^```python title="(\S+)"\n(.*?)^```', page.read_text(), flags=re.DOTALL | re.MULTILINE))

"""The report of sage, two pages for a reader, and its appendix, which holds every table."""

from __future__ import annotations

from pathlib import Path

from result_tables import DOCS, RESULTS, ROOT, read, table

from report import learning, local, proof, serving, simulator, trade_offs
from report.figures import figures
from report.parts import Part, paragraphs, prose
from report.targets import SCOPE, missed_musts, misses

RESULT_PARTS = (*proof.PARTS, *trade_offs.PARTS, *learning.PARTS, *local.PARTS, *serving.PARTS, *simulator.PARTS)
APPENDIX = ROOT / "benchmarks" / "sage" / "appendix.md"
APPENDIX_LINK = "../../benchmarks/sage/appendix.md"
ABSTRACT = prose("""
    A coding agent makes thousands of model calls, and the best model for all of them is expensive. sage chooses a
    model per call, logs the probability of every choice, learns a better policy from that log, and lets it serve
    only after an off-policy proof on other tasks shows a gain.
""")
PROBLEM = """
Teams choose models by hand, in a table, or trust a router whose gain nobody can check. Checking is hard for three
reasons. A log shows the outcome of the chosen model only. Calls that went to one model differ from calls that went to
another, so comparing means of matching rows is wrong. And a policy looks better than it is on the log that it was learned from.
"""
METHOD = """
- **Log.** Every decision keeps its candidates, the probability of each, and its features. The outcome is joined later,
  in parts. Rows say whether they are real, replayed or synthetic, and synthetic rows are never evidence.
- **Learning.** A table per role and category with shrinkage, a pessimistic doubly robust learner, conservative
  Q-learning, text policies, and cascades by optimal stopping. Each choice has a calibrated confidence; below a floor the
  static table decides.
- **Proof.** A cross-fitted doubly robust estimate of new minus static on tasks that were not learned from, clustered by
  task, with an interval, an effective sample size and a check of overlap. It refuses to answer where the log cannot
  tell ([estimators](estimators.md)).
- **Gate.** It promotes if the lower bound is above zero, at any number of looks, with missing outcomes at their worst
  ([prove a policy](prove.md)).
- **Serving.** A proxy in front of the models logs every call, and falls back to the static table when anything is wrong
  ([security](serve_security.md), [operating guide](operate.md)).
"""
PICTURES = (
    "![False promotion of the gate and of the naive rule, by table](report/false_promotion.svg)",
    "![Quality and cost of learned cascades relative to the best single model](report/cascades.svg)",
)
AGAIN = prose(f"""
    `benchmarks/sage/render_docs.py` writes this page, its figures and the appendix from the result files, and with
    `--check` says whether they match. `scripts/verify_local.sh DATA` computes all claims again from a folder of outcome
    tables. The appendix names [the command behind each table]({APPENDIX_LINK}#compute-a-table-again).
""")


def data(results: Path) -> str:
    if not (results / "online_bandits.json").exists():
        return "The outcome tables are described by `online_bandits.json`, which is not there."
    found = read(results / "online_bandits.json")["tables"]
    lines = [
        [name, f"{row['rounds']:,}", str(row["models"]), str(row["cells"]), row["licence"], f"`{row['sha256'][:12]}`"]
        for name, row in found.items()
    ]
    return paragraphs(
        prose("""
            Outcome tables hold what every model did on every task, so that the truth about any policy is known and logs can
            be drawn from them. They are published by others and are not part of this repository:
        """),
        table(["table", "tasks", "models", "categories", "licence", "sha256"], lines),
        prose("""
            An experiment may use a part of a table; its own table then says how many tasks.
            The local models, their tasks and the simulator's tasks are made by commands of this repository.
        """),
    )


def reproduction(parts: tuple[Part, ...], results: Path) -> str:
    lines = [
        [
            part.title,
            f"`{source.command}`",
            source.link if source not in part.missing(results) else f"`{source.name}`: not there",
        ]
        for part in parts
        for source in part.sources
    ]
    return paragraphs(
        prose("""
            Run programs with the environment's Python from the repository's root; DATA is the folder of outcome tables,
            TABLES a file of `sage sim compile`. `scripts/verify_local.sh DATA` computes all claims again.
        """),
        table(["part", "command", "result"], lines),
    )


def report(results: Path) -> str:
    """Returns the page of two pages' length: the problem, the method, one line per subject, and what is missed."""
    there = [part for part in RESULT_PARTS if part.headline and not part.missing(results)]
    sections = {
        "Problem": PROBLEM.strip(),
        "Method": METHOD.strip(),
        "Results": paragraphs(
            f"Every number follows from a stored result; the [appendix]({APPENDIX_LINK}) has them all.",
            "\n".join(f"- **{part.title}.** {part.headline(results)}" for part in there if part.headline),
            *PICTURES,
        ),
        "Limitations": paragraphs(SCOPE.strip(), missed_musts(results)),
        "Compute it again": AGAIN,
    }
    return page("sage: model routing that is proved before it serves", {"": ABSTRACT} | sections)


def appendix(results: Path) -> str:
    """Returns every table of results, the claims and targets that are missed, and the command behind each number."""
    parts = (*RESULT_PARTS, learning.ABLATIONS)
    sections = {
        "": prose("""
            This page is written by `benchmarks/sage/render_docs.py` from the stored results.
            [The report](../../docs/sage/report.md) says what they mean.
        """),
        "Data": data(results),
        **{part.title: part.text(results) for part in parts},
        "Claims and targets": misses(results),
        "Compute a table again": reproduction(parts, results),
    }
    return page("Results of sage", sections).replace("](report/", "](../../docs/sage/report/")


def page(title: str, sections: dict[str, str]) -> str:
    """Returns a Markdown page of sections by heading; the one with the heading "" stands below the title."""
    told = [f"## {heading}\n\n{text}" if heading else text for heading, text in sections.items()]
    return f"# {title}\n\n" + "\n\n".join(told) + "\n"


def pages(results: Path = RESULTS) -> dict[Path, str]:
    """Returns the report, its appendix and its figures, by where they belong."""
    return {DOCS / "report.md": report(results), APPENDIX: appendix(results)} | {
        DOCS / "report" / name: text for name, text in figures(results).items()
    }

"""Families of synthetic programs with reference implementations."""

FAMILIES = (
    "intervals",
    "caches",
    "graphs",
    "expressions",
    "dates",
    "layout",
    "codecs",
    "machines",
    "scheduling",
    "diffs",
    "configs",
    "logs",
)

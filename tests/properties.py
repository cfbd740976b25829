"""How often properties are tried: the same examples in every run, and nothing is kept between runs."""

from hypothesis import settings


def examples(number: int) -> settings:
    return settings(max_examples=number, derandomize=True, deadline=None, database=None)

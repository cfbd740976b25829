"""How often properties are tried: the same examples in every run, and nothing is kept between runs."""

from hypothesis import HealthCheck, settings


def examples(number: int) -> settings:
    # A busy machine is no fault of the code: nothing here is a matter of time.
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=number, derandomize=True, deadline=None, database=None, suppress_health_check=slow)

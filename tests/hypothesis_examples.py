"""The number of examples of randomized tests."""

from typing import Any

from hypothesis import settings


def examples(count: int, **others: Any) -> settings:
    """Settings with *count* examples in ``make test-slow``, and with 30 percent of them in ``make test``."""
    return settings(max_examples=count * settings().max_examples // 100, **others)

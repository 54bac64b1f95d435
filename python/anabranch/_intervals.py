"""Intervals of means and of shares."""

from __future__ import annotations

from math import sqrt
from statistics import stdev
from typing import TYPE_CHECKING

from anabranch._distributions import beta_quantile, student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONFIDENCE = 0.95


def half_width(values: Sequence[float]) -> float | None:
    """Return half the width of the 95 % t-interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return student_quantile((1 + _CONFIDENCE) / 2, len(values) - 1) * stdev(values) / sqrt(len(values))


def of_share(count: int, total: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share (Clopper and Pearson 1934)."""
    beyond = (1 - _CONFIDENCE) / 2
    low = beta_quantile(beyond, count, total - count + 1) if count else 0.0
    high = beta_quantile(1 - beyond, count + 1, total - count) if count < total else 1.0
    return low, high

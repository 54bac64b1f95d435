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


def ends(mean: float, half_width: float, *, is_signed: bool) -> tuple[float, float]:
    """Return the ends of a symmetric interval.

    The lower end is cut at zero if the values cannot be negative. A negative mean shows that they can.

    Parameters
    ----------
    mean, half_width
        The mean, and half the width of its interval.
    is_signed
        Whether the values can be negative (`anabranch.metrics.score.can_be_negative`).
    """
    low = mean - half_width
    return (low if is_signed or mean < 0 else max(low, 0.0)), mean + half_width


def of_share(count: int, total: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share (Clopper and Pearson 1934)."""
    beyond = (1 - _CONFIDENCE) / 2
    low = beta_quantile(beyond, count, total - count + 1) if count else 0.0
    high = beta_quantile(1 - beyond, count + 1, total - count) if count < total else 1.0
    return low, high

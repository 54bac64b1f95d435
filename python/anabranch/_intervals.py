"""Intervals of means."""

from __future__ import annotations

from math import sqrt
from statistics import stdev
from typing import TYPE_CHECKING

from anabranch._distributions import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONFIDENCE = 0.95


def half_width(values: Sequence[float]) -> float | None:
    """Return half the width of the 95 % t-interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return student_quantile((1 + _CONFIDENCE) / 2, len(values) - 1) * stdev(values) / sqrt(len(values))

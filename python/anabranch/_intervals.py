"""Intervals of means."""

from __future__ import annotations

from math import sqrt
from statistics import stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONFIDENCE = 0.95


def half_width(values: Sequence[float]) -> float | None:
    """Return half the width of the 95 % t-interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return quantile((1 + _CONFIDENCE) / 2, len(values) - 1) * stdev(values) / sqrt(len(values))


def quantile(share: float, freedom: int) -> float:
    """Return what a share of Student's t stays below, by its degrees of freedom.

    `scipy.stats.t.ppf` computes it so; importing all distributions takes longer than a small sweep.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def below(value: float, freedom: int) -> float:
    """Return the share of Student's t that stays below a value, by its degrees of freedom."""
    from scipy.special import stdtr

    return float(stdtr(freedom, value))

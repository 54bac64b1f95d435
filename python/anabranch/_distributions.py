"""The distributions behind intervals and p-values: beta and Student's t.

scipy has these functions too, but it is a third of a base installation. The tests compare them with scipy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The most terms of a continued fraction. Convergence needs fewer than five times the square root of the
#: larger parameter.
_MOST_TERMS = 100_000
#: The most steps of a root search; bisection alone takes 64 for a number near 1.
_MOST_STEPS = 2_000
_ROUNDING = 2.0**-53
_TINY = 1e-300


def student_below(value: float, freedom: int) -> float:
    """Return the probability that Student's t is below a value."""
    if math.isnan(value):
        return math.nan
    tail = _student_tail(abs(value), freedom)
    return tail if value < 0 else 1.0 - tail


@lru_cache(maxsize=4096)
def student_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's t for a probability."""
    if share == 0.5:
        return 0.0
    if share < 0.5:
        return -student_quantile(1.0 - share, freedom)
    over, high = 1.0 - share, 1.0
    while _student_tail(high, freedom) > over:
        high *= 2.0
    return _root(lambda value: over - _student_tail(value, freedom), 0.0, high)


@lru_cache(maxsize=4096)
def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the quantile of a beta distribution for a probability."""
    return _root(lambda x: beta_below(x, 1.0 - x, a, b) - share, 0.0, 1.0)


def beta_below(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b).

    Parameters
    ----------
    x, rest
        The argument and `1 - x`, which keeps the digits of an argument near 1.
    a, b
        The parameters, above zero.
    """
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    # The fraction converges quickly below the mean.
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_below(rest, x, b, a)
    return _density(x, rest, a, b) * _fraction(x, a, b) / a


def discoveries(levels: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995)."""
    adjusted = [0.0] * len(levels)
    least = 1.0
    falling = sorted(range(len(levels)), key=levels.__getitem__, reverse=True)
    for place, rank in zip(falling, range(len(levels), 0, -1), strict=True):
        least = min(least, levels[place] * (len(levels) / rank))
        adjusted[place] = least
    return adjusted


def _student_tail(value: float, freedom: int) -> float:
    """Return the probability that Student's t is above a value that is not negative."""
    if math.isinf(value):
        return 0.0
    square = value * value
    whole = freedom + square
    return beta_below(freedom / whole, square / whole, freedom / 2.0, 0.5) / 2.0


def _density(x: float, rest: float, a: float, b: float) -> float:
    """Return `x**a * rest**b / B(a, b)` (Loader 2000: no large numbers are subtracted)."""
    total = a + b
    away = total * x - a if x <= rest else b - total * rest
    power = a * _log_ratio(away, a, total * x) + b * _log_ratio(-away, b, total * rest)
    power += _stirling(total) - _stirling(a) - _stirling(b)
    return math.sqrt(a * b / (2.0 * math.pi * total)) * math.exp(power)


def _log_ratio(away: float, mean: float, value: float) -> float:
    """Return the logarithm of `value / mean`, where `value` is `mean + away`."""
    return math.log1p(away / mean) if abs(away) < mean / 4.0 else math.log(value / mean)


def _stirling(z: float) -> float:
    """Return the error of Stirling's formula for the logarithm of the gamma function of `z + 1`."""
    if z < 16.0:
        return math.lgamma(z + 1.0) - (z + 0.5) * math.log(z) + z - 0.5 * math.log(2.0 * math.pi)
    # The series of NIST's DLMF, 5.11.1.
    inverse = 1.0 / (z * z)
    series = 1 / 1680 - inverse * (1 / 1188 - inverse * (691 / 360360 - inverse / 156))
    return (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * series))) / z


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22)."""
    upper, lower = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0) or _TINY)
    result = lower
    for m in range(1, _MOST_TERMS):
        last = a + 2 * m
        even = m * (b - m) * x / ((last - 1.0) * last)
        odd = -(a + m) * (a + b + m) * x / (last * (last + 1.0))
        for term in (even, odd):
            lower = 1.0 / (1.0 + term * lower or _TINY)
            upper = 1.0 + term / upper or _TINY
            change = upper * lower
            result *= change
        if abs(change - 1.0) <= _ROUNDING:
            break
    return result


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of an increasing function in an interval (Illinois method with bisection)."""
    below, above = rising(low), rising(high)
    for step in range(_MOST_STEPS):
        middle = (low + high) / 2.0
        if step % 3 < 2 and above > below:
            middle = min(max(high - above * (high - low) / (above - below), low), high)
        if not low < middle < high:
            middle = (low + high) / 2.0
        if not low < middle < high:
            break
        at = rising(middle)
        if at == 0.0:
            return middle
        if at < 0.0:
            low, below, above = middle, at, above / 2.0
        else:
            high, above, below = middle, at, below / 2.0
    return low if abs(rising(low)) <= abs(rising(high)) else high

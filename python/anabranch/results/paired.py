"""Differences between two sides that ran with the same random draws: means over pairs, with intervals.

Run 7 has the same random draws in every cell, so the difference of two cells is computed for each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from anabranch import _intervals
from anabranch._distributions import student_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

#: The seed of the resampling: the same data have the same interval.
_SEED = 1
_RESAMPLES = 2_000
#: The fewest pairs for the bootstrap. With fewer, its intervals are too narrow.
_FEW = 12
#: The level of intervals.
LEVEL = 0.95
#: The power for which the smallest detectable effect and the needed trials are computed.
POWER = 0.8
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Effect:
    """An estimate from pairs of runs: a mean, a difference of means or a quotient of means.

    Attributes
    ----------
    value
        The mean, difference or quotient; None without a pair, or when the divisor's mean is not positive.
    low, high
        Its 95 % interval, by the bias-corrected and accelerated bootstrap over pairs, or with fewer than
        twelve pairs by Student's t; None with fewer than two. If all pairs are equal, both ends are the same.
    pairs
        The number of pairs without a missing value.
    detectable
        The smallest effect that this number of pairs detects with a power of 80 %; None with fewer than two
        pairs.
    """

    value: float | None
    low: float | None
    high: float | None
    pairs: int
    detectable: float | None


def matched(
    left: Mapping[int, float], right: Mapping[int, float], *, exact: tuple[bool, bool] = (False, False)
) -> tuple[Values, Values]:
    """Return the values of two sides in pairs. Runs of the same number have the same random draws.

    Parameters
    ----------
    left, right
        A value by the number of the run.
    exact
        Whether each side has no random draws. Such a side has one run, which is paired with all runs.
    """
    import numpy as np

    if exact[0] and not exact[1] and left:
        left = dict.fromkeys(right, next(iter(left.values())))
    elif exact[1] and not exact[0] and right:
        right = dict.fromkeys(left, next(iter(right.values())))
    shared = sorted(left.keys() & right.keys())
    sides = (np.array([side[run] for run in shared], dtype=float) for side in (left, right))
    return next(sides), next(sides)


def difference(left: Values, right: Values | None = None) -> Effect:
    """Return the mean difference of pairs, or the mean if there is no right side."""
    values = left if right is None else left - right
    if values.size == 0:
        return Effect(value=None, low=None, high=None, pairs=0, detectable=None)
    low, high = interval(values)
    return Effect(
        value=float(values.mean()), low=low, high=high, pairs=values.size, detectable=detectable(values)
    )


def quotient(left: Values, right: Values) -> Effect:
    """Return the quotient of two means over pairs."""
    if left.size == 0 or right.mean() <= 0:
        return Effect(value=None, low=None, high=None, pairs=left.size, detectable=None)
    value = float(left.mean() / right.mean())
    low, high = _between(left, right)
    spread = detectable(left - value * right)
    return Effect(
        value=value,
        low=low,
        high=high,
        pairs=left.size,
        detectable=None if spread is None else spread / float(right.mean()),
    )


def interval(values: Values) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a mean, computed as in `Effect`."""
    return _between(values, None)


def detectable(values: Values) -> float | None:
    """Return the smallest mean that values with this number and spread would distinguish from zero."""
    import numpy as np

    count = values.size
    if count < 2:
        return None
    error = float(np.std(values, ddof=1)) / float(np.sqrt(count))
    return error * (student_quantile((1 + LEVEL) / 2, count - 1) + student_quantile(POWER, count - 1))


def same(values: Values) -> bool:
    """Return whether values differ by no more than rounding."""
    import numpy as np

    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def _between(above: Values, below: Values | None) -> tuple[float | None, float | None]:
    """Return the interval of a mean, or of a quotient of means."""
    if above.size < 2:
        return None, None
    # If all pairs have the same value or quotient, all resamples have it too.
    point = float(above.mean() if below is None else above.mean() / below.mean())
    around = above if below is None else above - point * below
    if same(around):
        return point, point
    if above.size >= _FEW:
        return _bootstrapped(above, below)
    # For a quotient, this is Student's t on its linearisation (the delta method).
    half = _intervals.half_width(around.tolist()) or 0.0
    half /= 1.0 if below is None else float(below.mean())
    return point - half, point + half


def _bootstrapped(above: Values, below: Values | None) -> tuple[float | None, float | None]:
    """Return the bootstrap interval of a mean, or of a quotient of means. The pairs must not all be equal.

    The interval is bias-corrected and accelerated (Efron and Tibshirani 1993, 14.3), with the draws of
    `scipy.stats.bootstrap`.
    """
    import numpy as np

    def statistic(places: NDArray[np.intp]) -> Values:
        means = above[places].mean(axis=-1)
        return np.asarray(means if below is None else means / below[places].mean(axis=-1))

    count = above.size
    every = np.arange(count)
    without = np.delete(np.tile(every, count), every * (count + 1)).reshape(count, count - 1)
    with np.errstate(all="ignore"):
        drawn = statistic(np.random.default_rng(_SEED).integers(0, count, (_RESAMPLES, count)))
        point, left = statistic(every), statistic(without)
        share = (np.count_nonzero(drawn < point) + np.count_nonzero(drawn <= point)) / (2 * _RESAMPLES)
        influence = (count - 1) * (left.mean() - left)
        skew = (influence**3).sum() / (influence**2).sum() ** 1.5 / 6
        # The interval does not exist if nearly all resamples are equal, or if the divisor is zero.
        if not (0 < share < 1 and np.isfinite(skew)):
            return None, None
        bias, normal = _NORMAL.inv_cdf(share), _NORMAL.inv_cdf((1 - LEVEL) / 2)
        moved = [bias + (bias + side) / (1 - skew * (bias + side)) for side in (normal, -normal)]
        low, high = map(float, np.quantile(drawn, [_NORMAL.cdf(float(at)) for at in moved]))
    return (None, None) if np.isnan(low) or np.isnan(high) else (low, high)

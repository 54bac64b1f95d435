"""Tests of two relations that are not about a mean: a share of runs, and a quotient of quotients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch import _intervals
from anabranch._distributions import beta_below, student_quantile
from anabranch.claims._logic import Chance, every
from anabranch.results import paired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.results.paired import Effect, Values


def share(counted: int, runs: int) -> Effect:
    """Return a share of runs with its exact interval.

    Parameters
    ----------
    counted, runs
        The runs that count, and all of them.
    """
    low, high = _intervals.of_share(counted, runs)
    return paired.Effect(value=counted / runs, low=low, high=high, pairs=runs, detectable=None)


def share_within(counted: int, runs: int, within: tuple[float, float], *, trials: int | None) -> Chance:
    """Return the p-values for a share within two bounds, by the binomial distribution.

    Parameters
    ----------
    counted, runs
        The runs that count, and all of them.
    within
        The bounds. Those below 0 and above 1 bound nothing.
    trials
        The number of runs for which p-values are estimated, with the share that four of five samples have on
        the wrong side; None is the runs themselves.
    """
    low, high = within
    chances = []
    if low > 0:
        found, count = _expected(counted, runs, low, trials)
        chances.append(
            Chance(false_if_holds=_at_least(found, count, low), false_if_fails=_at_most(found, count, low))
        )
    if high < 1:
        found, count = _expected(counted, runs, high, trials)
        chances.append(
            Chance(false_if_holds=_at_most(found, count, high), false_if_fails=_at_least(found, count, high))
        )
    return every(chances) if chances else Chance(false_if_holds=0.0, false_if_fails=1.0)


def _expected(counted: int, runs: int, bound: float, trials: int | None) -> tuple[int, int]:
    """Return a number of runs that count, of so many trials, and the trials."""
    if trials is None:
        return counted, runs
    whole = counted / runs
    away = student_quantile(paired.POWER, max(1, trials - 1)) * math.sqrt(
        max(whole * (1 - whole), 0.0) / trials
    )
    nearer = max(whole - away, bound) if whole > bound else min(whole + away, bound)
    return round(nearer * trials), trials


def _at_least(counted: int, runs: int, chance: float) -> float:
    """Return the probability of at least this number of runs that count."""
    return beta_below(chance, 1 - chance, counted, runs - counted + 1) if counted > 0 else 1.0


def _at_most(counted: int, runs: int, chance: float) -> float:
    """Return the probability of at most this number of runs that count."""
    return beta_below(1 - chance, chance, runs - counted, counted + 1) if counted < runs else 1.0


def logarithms(sides: Sequence[Values]) -> Values | None:
    """Return values whose mean is the logarithm of (A / B) / (C / D), linearised for each run.

    Parameters
    ----------
    sides
        The values of A, B, C and D, run by run. None if a mean is not above zero.
    """
    import numpy as np

    means = [float(side.mean()) for side in sides]
    if not all(mean > 0 for mean in means):
        return None
    signs = (1, -1, -1, 1)
    whole = sum(sign * math.log(mean) for sign, mean in zip(signs, means, strict=True))
    # The delta method: a run's influence on the logarithm of a mean is its value over the mean, minus one.
    influence = [sign * (side / mean - 1) for sign, side, mean in zip(signs, sides, means, strict=True)]
    logarithm: Values = whole + np.sum(influence, axis=0)
    return logarithm


def quotient(logarithms: Values) -> Effect:
    """Return a quotient of quotients, with the interval of Student's t on its logarithm.

    Parameters
    ----------
    logarithms
        The result of `logarithms`, or no values.
    """
    if logarithms.size == 0:
        return paired.Effect(value=None, low=None, high=None, pairs=0, detectable=None)
    mean = float(logarithms.mean())
    half = _intervals.half_width(logarithms.tolist()) if logarithms.size > 1 else None
    spread = paired.detectable(logarithms)
    return paired.Effect(
        value=math.exp(mean),
        low=None if half is None else math.exp(mean - half),
        high=None if half is None else math.exp(mean + half),
        pairs=logarithms.size,
        detectable=None if spread is None else math.expm1(spread),
    )

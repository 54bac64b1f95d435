"""Statistics of a few trials: whether they have two modes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import float64, intp
    from numpy.typing import NDArray

# The smallest number of values on either side of a split. With two, an outlier and its neighbour would count
# as a mode.
_MODE_LEAST = 3
# The level of significance. A setting has a dozen values. At 5 %, in every second setting one of them would
# seem to have two modes.
_MODES_SIGNIFICANCE = 0.01
_MODES_DRAWS = 4000


class Split(NamedTuple):
    """Two modes: the value between them, and how far their means are apart."""

    value: float
    apart: float


def two_modes(values: Sequence[float]) -> Split | None:
    """Return where values split into two modes, or None if they have one mode.

    The values are split where the variation within the two sides is smallest (Fisher's natural break). The
    distance of the sides is Ashman's D: the difference of their means over the root mean square of their
    standard deviations (Ashman, Bird and Zepf 1994). Splitting any sample separates its sides, so Ashman's
    own threshold of 2 cannot be used. Instead, the sides count as two modes if at most 1 % of equally large
    samples of a normal distribution, split in the same way, reach this D.
    """
    if len(values) < 2 * _MODE_LEAST:
        return None
    import numpy as np

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    (place,), (distance,) = _splits(ordered[None, :])
    if not distance > _chance(len(ordered)):
        return None
    apart = float(ordered[place:].mean() - ordered[:place].mean())
    return Split(float(ordered[place - 1] + ordered[place]) / 2, apart)


def _splits(ordered: NDArray[float64]) -> tuple[NDArray[intp], NDArray[float64]]:
    """Return where each row of sorted values is split, and Ashman's D of its sides."""
    import numpy as np

    count = ordered.shape[1]
    places = np.arange(_MODE_LEAST, count - _MODE_LEAST + 1)
    # Values are taken relative to each row's mean, so that sums of squares lose no digits.
    centred = ordered - ordered.mean(axis=1, keepdims=True)
    sums, squares = centred.cumsum(axis=1), (centred**2).cumsum(axis=1)
    low_sum, low_square = sums[:, places - 1], squares[:, places - 1]
    high_sum, high_square = sums[:, -1:] - low_sum, squares[:, -1:] - low_square
    low = np.maximum(low_square - low_sum**2 / places, 0)
    high = np.maximum(high_square - high_sum**2 / (count - places), 0)
    best = (low + high).argmin(axis=1)
    row, chosen = np.arange(len(ordered)), places[best]
    apart = high_sum[row, best] / (count - chosen) - low_sum[row, best] / chosen
    spread = np.sqrt((low[row, best] / (chosen - 1) + high[row, best] / (count - chosen - 1)) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return chosen, np.where(apart > 0, apart / spread, 0.0)


@cache
def _chance(count: int) -> float:
    """Return the D that only one in a hundred samples of one normal distribution exceeds."""
    import numpy as np

    # The seed is fixed, so the same measurements always get the same verdict.
    draws = np.sort(np.random.default_rng(1994).standard_normal((_MODES_DRAWS, count)), axis=1)
    return float(np.quantile(_splits(draws)[1], 1 - _MODES_SIGNIFICANCE))

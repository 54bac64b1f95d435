"""The results of one set of paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.comparison import price
    from anabranch.results.paired import Effect

#: A measure's values by the number of the run.
Values = dict[int, float]


@dataclass(frozen=True, kw_only=True)
class Used:
    """The results of a set of paths.

    Attributes
    ----------
    paths
        Their names.
    runs
        The number of runs.
    exact
        Whether the set has no random draws, so that all its runs are equal.
    means
        Mean of each measure, in the results' units, by its column, with its 95 % interval.
    shares
        The share of the payload that each path carried.
    cost
        The mean cost, in the currency of `price_per_gb`; None if no path has a price.
    use
        The data of an hour, and its cost.
    unfinished
        Runs in which the end of the simulation cut a session off.
    unstarted
        Runs in which a player never started.
    unreached
        Runs in which a player did not reach the end, including those that never started.
    values
        Each measure by the number of the run, by its column.
    """

    paths: tuple[str, ...]
    runs: int
    exact: bool
    means: Mapping[str, Effect]
    shares: Mapping[str, float]
    cost: float | None
    use: price.Use
    unfinished: int
    unstarted: int
    unreached: int
    values: Mapping[str, Values] = field(repr=False)

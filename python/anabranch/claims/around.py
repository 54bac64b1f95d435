"""Claims over the range of an open assumption: the study with one assumption changed at a time.

Each such world has only a few runs, so no test is made. The verdict depends on the side on which the means
lie. By its means, a claim holds everywhere, here (in some worlds) or nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch.claims import judge
from anabranch.study import variants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.claims.cells import Cell
    from anabranch.claims.measure import Metric
    from anabranch.claims.statement import Stated
    from anabranch.claims.stored import Endings, Runs
    from anabranch.study.models import Study
    from anabranch.study.variants import Reach

Where = Literal["everywhere", "here", "nowhere", "unknown"]


@dataclass(frozen=True, kw_only=True)
class World:
    """The study with another value of one assumption, or with a joint assumption.

    Attributes
    ----------
    assumption, said
        The assumption or joint assumption, and the settings that are changed, as results label them.
    reaches
        The cells that it concerns, for each changed assumption. For others, the study's own runs count.
    """

    assumption: str
    said: str
    reaches: tuple[Reach, ...]

    def concerns(self, cell: Cell) -> bool:
        """Return whether this world has other settings for a cell."""
        labels = dict(cell.labels)
        return any(one.has(labels) for one in self.reaches)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The worlds in which a claim holds by its means.

    Attributes
    ----------
    own
        Whether it holds in the unchanged study; None if its cells were not run or lack values.
    worlds
        The same for each changed world that concerns the claim.
    """

    own: bool | None
    worlds: Mapping[World, bool | None]

    @property
    def where(self) -> Where:
        """Return where the claim holds, judged by the worlds with results."""
        known = [holds for holds in (self.own, *self.worlds.values()) if holds is not None]
        if not known:
            return "unknown"
        return "everywhere" if all(known) else "here" if any(known) else "nowhere"

    @property
    def flips(self) -> list[World]:
        """Return the worlds whose result differs from that of the unchanged study."""
        if self.own is None:
            return []
        return [world for world, holds in self.worlds.items() if holds is not None and holds != self.own]


def worlds(study: Study) -> list[World]:
    """Return the worlds around a study."""
    return [
        World(assumption=one.name, said=one.label, reaches=one.reaches(study))
        for name in variants.names(study)
        for one in variants.variants(study, name)
    ]


def spread(one: Stated, own: Runs, around: Mapping[World, Runs]) -> Spread:
    """Return in which worlds a claim holds.

    Parameters
    ----------
    one
        The claim.
    own
        The runs of the unchanged study.
    around
        The runs of each changed world.
    """
    cells = one.cells()
    found = {
        world: _holds(one, _Means(own, runs, world))
        for world, runs in around.items()
        if any(map(world.concerns, cells))
    }
    return Spread(own=_holds(one, _Means(own)), worlds=found)


def by_means(one: Stated, runs: Runs) -> bool | None:
    """Return whether a claim holds by the means of some runs; None if they lack cells or values."""
    return _holds(one, _Means(runs))


def _holds(one: Stated, means: _Means) -> bool | None:
    """Return whether a claim holds by its means."""
    if one.claim.missing is not None or any(cell not in means for cell in one.cells()):
        return None
    _, chance = judge.weighed(one, means)
    if chance.false_if_holds == chance.false_if_fails:
        return None
    return chance.false_if_holds < chance.false_if_fails


class Mixed:
    """Runs of another world for the cells that it concerns, and those of the unchanged study for others.

    Parameters
    ----------
    own
        The runs of the unchanged study.
    other, world
        The runs of the other world.
    """

    def __init__(self, own: Runs, other: Runs, world: World) -> None:
        self._own, self._other, self._world = own, other, world

    def __contains__(self, cell: Cell) -> bool:
        """Return whether some run of a cell is there."""
        return cell in self._of(cell)

    def is_exact(self, cell: Cell) -> bool:
        """Return whether a cell's values do not depend on random draws."""
        return self._of(cell).is_exact(cell)

    def values(self, cell: Cell, metric: Metric) -> dict[int, float]:
        """Return a metric by the number of the run."""
        return self._of(cell).values(cell, metric)

    def each(self, cell: Cell, metric: Metric) -> dict[int, float]:
        """Return a metric by the number of the run."""
        return self._of(cell).each(cell, metric)

    def alike(self, left: Cell, right: Cell) -> bool:
        """Return whether two cells have the same runs."""
        return self._of(left) is self._of(right) and self._of(left).alike(left, right)

    def endings(self, cell: Cell) -> Endings:
        """Return how many runs of a cell ended early."""
        return self._of(cell).endings(cell)

    def _of(self, cell: Cell) -> Runs:
        """Return the runs that count for a cell."""
        return self._other if self._world.concerns(cell) else self._own


class _Means:
    """Means over runs, treated as exact values.

    Parameters
    ----------
    own
        The runs of the unchanged study.
    other, world
        The runs of another world, which count for the rows that it concerns.
    """

    def __init__(self, own: Runs, other: Runs | None = None, world: World | None = None) -> None:
        self._own = own
        self._other = other
        self._world = world
        # If the unchanged study has more trials, only trials with the same random draws are used on both
        # sides.
        self._numbers = None if other is None else other.numbers()

    def __contains__(self, cell: Cell) -> bool:
        """Return whether some run of a cell is there."""
        return cell in self._of(cell)

    def is_exact(self, cell: Cell) -> bool:  # noqa: ARG002 - as runs have it
        """Return True, because means are treated as exact."""
        return True

    def values(self, cell: Cell, metric: Metric) -> dict[int, float]:
        """Return the mean of a metric as the value of a single run; empty if no run has the metric."""
        whole = self._of(cell).values(cell, metric)
        found = {run: value for run, value in whole.items() if self._numbers is None or run in self._numbers}
        return {0: sum(found.values()) / len(found)} if found else {}

    def each(self, cell: Cell, metric: Metric) -> dict[int, float]:
        """Return a metric by the number of the run."""
        whole = self._of(cell).each(cell, metric)
        return {run: value for run, value in whole.items() if self._numbers is None or run in self._numbers}

    def alike(self, left: Cell, right: Cell) -> bool:
        """Return whether two cells have the same runs."""
        return self._of(left) is self._of(right) and self._of(left).alike(left, right)

    def endings(self, cell: Cell) -> Endings:
        """Return how many runs of a cell ended early."""
        return self._of(cell).endings(cell)

    def _of(self, cell: Cell) -> Runs:
        """Return the runs that count for a cell."""
        if self._other is None or self._world is None or not self._world.concerns(cell):
            return self._own
        return self._other


def counted(spreads: Sequence[Spread]) -> dict[Where, int]:
    """Return how many claims hold everywhere, here and nowhere."""
    kinds: tuple[Where, ...] = ("everywhere", "here", "nowhere", "unknown")
    return {kind: sum(one.where == kind for one in spreads) for kind in kinds}

"""Claims over the range of an open assumption: the study with one assumption changed at a time.

Few runs are made of each such world, so they are not tested: what counts is on which side the means lie. A
claim holds by its means everywhere, here (in some worlds) or nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch.claims import judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.claims.cells import Cell
    from anabranch.claims.measure import Metric
    from anabranch.claims.statement import Stated
    from anabranch.claims.stored import Endings, Runs
    from anabranch.study.models import Study

Where = Literal["everywhere", "here", "nowhere", "unknown"]


@dataclass(frozen=True, kw_only=True)
class World:
    """The study with another value of one assumption.

    Attributes
    ----------
    assumption, said
        The assumption, and the settings that are changed, as results label them.
    rows
        The rows that it concerns; of others the study's own runs count.
    about
        The same of values of an axis: key and value, `transport.scheduler` and "spdx"; empty is all.
    """

    assumption: str
    said: str
    rows: frozenset[str]
    about: frozenset[tuple[str, str]] = frozenset()

    def concerns(self, cell: Cell) -> bool:
        """Return whether a cell is another one in this world."""
        labels = dict(cell.labels)
        keys = {key for key, _ in self.about}
        return labels.get("row") in self.rows and all((key, labels.get(key)) in self.about for key in keys)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """In which worlds a claim holds by its means.

    Attributes
    ----------
    own
        Whether it holds in the study as it stands; None when its cells were not run, or say nothing.
    worlds
        The same for each world that concerns it.
    """

    own: bool | None
    worlds: Mapping[World, bool | None]

    @property
    def where(self) -> Where:
        """Return where it holds, of the worlds of which something is known."""
        known = [holds for holds in (self.own, *self.worlds.values()) if holds is not None]
        if not known:
            return "unknown"
        return "everywhere" if all(known) else "here" if any(known) else "nowhere"

    @property
    def flips(self) -> list[World]:
        """Return the worlds in which it comes out otherwise than in the study as it stands."""
        if self.own is None:
            return []
        return [world for world, holds in self.worlds.items() if holds is not None and holds != self.own]


def worlds(study: Study) -> list[World]:
    """Return the worlds around a study."""
    from anabranch.study import study as studies
    from anabranch.study.assume import said

    every = set(study.rows())
    return [
        World(
            assumption=name,
            said=said(other),
            rows=frozenset(one.scenarios or every),
            about=frozenset(
                (key, value) for key, values in studies.about(study, other).items() for value in values
            ),
        )
        for name, one in study.assumptions.items()
        for other in one.sweep
    ]


def spread(one: Stated, own: Runs, around: Mapping[World, Runs]) -> Spread:
    """Return in which worlds a claim holds.

    Parameters
    ----------
    one
        The claim.
    own
        The runs of the study as it stands.
    around
        Those of each world that was run.
    """
    cells = one.cells()
    found = {
        world: _holds(one, _Means(own, runs, world))
        for world, runs in around.items()
        if any(map(world.concerns, cells))
    }
    return Spread(own=_holds(one, _Means(own)), worlds=found)


def _holds(one: Stated, means: _Means) -> bool | None:
    """Return whether a claim holds by its means."""
    if one.claim.missing is not None or any(cell not in means for cell in one.cells()):
        return None
    _, chance = judge.weighed(one, means)
    if chance.false_if_holds == chance.false_if_fails:
        return None
    return chance.false_if_holds < chance.false_if_fails


class _Means:
    """Means over runs, as if they were known without chance.

    Parameters
    ----------
    own
        The runs of the study as it stands.
    other, world
        Those of another world, which count for the rows that it concerns.
    """

    def __init__(self, own: Runs, other: Runs | None = None, world: World | None = None) -> None:
        self._own = own
        self._other = other
        self._world = world
        # The same luck on both sides, where the study as it stands has more trials.
        self._numbers = None if other is None else other.numbers()

    def __contains__(self, cell: Cell) -> bool:
        """Return whether some run of a cell is there."""
        return cell in self._of(cell)

    def is_exact(self, cell: Cell) -> bool:  # noqa: ARG002 - as runs have it
        """Return that there is no chance in means."""
        return True

    def values(self, cell: Cell, metric: Metric) -> dict[int, float]:
        """Return the mean of a metric as that of a single run; nothing where no run has it."""
        whole = self._of(cell).values(cell, metric)
        found = {run: value for run, value in whole.items() if self._numbers is None or run in self._numbers}
        return {0: sum(found.values()) / len(found)} if found else {}

    def endings(self, cell: Cell) -> Endings:
        """Return how many runs of a cell ended too early."""
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

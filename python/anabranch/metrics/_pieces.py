"""Ranges of bytes: which segments cover them, and when everything before them has arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.float64]
    Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Ranges cut at every begin and end of a segment, in order.

    Attributes
    ----------
    start, size
        Of each piece, bytes.
    first, source
        The earliest time of the segments that cover the range (infinite without one), and the index of that
        segment (-1 without one).
    last
        The latest time of these segments.
    count
        The number of these segments.
    """

    start: Places
    size: Places
    first: Times
    source: Places
    last: Times
    count: Places

    @property
    def ready(self) -> Times:
        """Return when each range and all before it have arrived; infinite after one that never does."""
        if self.start.size and self.start[0] > 0:
            return np.full(self.start.size, np.inf)
        return np.maximum.accumulate(self.first)

    @property
    def awaited(self) -> Places:
        """Return for each range the one that makes it ready: itself, or an earlier one that came last."""
        places = np.arange(self.start.size)
        before = np.concatenate(([-np.inf], np.maximum.accumulate(self.first)[:-1]))
        result: Places = np.maximum.accumulate(np.where(self.first > before, places, 0))
        return result

    def at(self, position: Places) -> Places:
        """Return the piece that each of some positions lies in."""
        result: Places = np.searchsorted(self.start, position, side="right") - 1
        return result


def cut(start: Places, size: Places, times: Times) -> Pieces:
    """Return the ranges of some segments, each with a time.

    Parameters
    ----------
    start, size
        The segments.
    times
        The time at which each segment was sent or arrived.
    """
    bounds = distinct(np.concatenate((start, start + size)))
    begin, end = np.searchsorted(bounds, start), np.searchsorted(bounds, start + size)
    spans = end - begin
    whose = np.repeat(np.arange(start.size), spans)
    # The ranges of each segment one after another.
    piece = np.arange(whose.size) + np.repeat(begin - np.concatenate(([0], np.cumsum(spans)[:-1])), spans)
    order = np.lexsort((times[whose], piece))
    piece, whose = piece[order], whose[order]
    found, heads, counts = np.unique(piece, return_index=True, return_counts=True)
    pieces = max(bounds.size - 1, 0)
    first, last = np.full(pieces, np.inf), np.full(pieces, -np.inf)
    source, count = np.full(pieces, -1), np.zeros(pieces, dtype=np.int64)
    source[found], count[found] = whose[heads], counts
    first[found], last[found] = times[whose[heads]], times[whose[heads + counts - 1]]
    return Pieces(start=bounds[:-1], size=np.diff(bounds), first=first, source=source, last=last, count=count)


def distinct(values: Places) -> Places:
    """Return each value once, in ascending order.

    Sorting is faster here than the hashes of `numpy.unique`.
    """
    ordered: Places = np.sort(values)
    first = np.ones(ordered.size, dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    result: Places = ordered[first]
    return result


def union_s(begin: Times, end: Times) -> float:
    """Return the length of the union of some intervals."""
    keep = end > begin
    order = np.argsort(begin[keep])
    begin, end = begin[keep][order], np.maximum.accumulate(end[keep][order])
    if not begin.size:
        return 0.0
    # An interval that begins before earlier ones end adds only the part after their end.
    before = np.concatenate(([-np.inf], end[:-1]))
    return float(np.sum(np.maximum(end - np.maximum(begin, before), 0.0)))

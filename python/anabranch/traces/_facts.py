"""Facts about a recording that its file does not state: units of columns, and the meaning of gaps."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.traces._trace import Step, Trace

#: The keys of a recording in a scenario that name a file.
FILE_KEYS = ("file", "light")
RateUnit: TypeAlias = Literal["bit/s", "kbit/s", "Mbit/s"]
TimeUnit: TypeAlias = Literal["s", "ms"]
Gaps: TypeAlias = Literal["hold", "outage", "cut"]

#: The units of rates in bits per second, and of times in seconds.
RATES: dict[str, float] = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6}
TIMES: dict[str, float] = {"s": 1.0, "ms": 1e-3}
GAPS = ("hold", "outage", "cut")
#: A gap is longer than this many of the usual times between two rows.
_GAP = 3


@dataclass(frozen=True, kw_only=True)
class RecordingFacts:
    """Facts about a recording that its file does not state.

    Attributes
    ----------
    rate_unit, time_unit
        The units of two columns without names; None leaves those of the format.
    gaps
        The meaning of a time without rows: `hold` (the row before it holds), `outage` (the rate is 0 when the
        row before has lasted as long as is usual), or `cut` (unknown, and therefore left out).
    """

    rate_unit: RateUnit | None = None
    time_unit: TimeUnit | None = None
    gaps: Gaps = "hold"

    @property
    def has_units(self) -> bool:
        """Whether a unit is given."""
        return self.rate_unit is not None or self.time_unit is not None


def usual_ns(steps: Sequence[Step]) -> int | None:
    """Return the median time between two rows; None for fewer than three rows."""
    if len(steps) < 3:
        return None
    return int(median(after.at_ns - step.at_ns for step, after in itertools.pairwise(steps)))


def gaps(steps: Sequence[Step]) -> list[int]:
    """Return the places of the rows that a gap follows."""
    usual = usual_ns(steps)
    if usual is None:
        return []
    return [
        place
        for place, (step, after) in enumerate(itertools.pairwise(steps))
        if after.at_ns - step.at_ns > _GAP * usual
    ]


def without_gaps(trace: Trace, how: Gaps) -> Trace:
    """Return a recording whose gaps are outages (`outage`) or left out (`cut`)."""
    places, usual = set(gaps(trace.steps)), usual_ns(trace.steps)
    if how == "hold" or not places or usual is None:
        return trace
    result: list[Step] = []
    cut_ns = 0
    for place, step in enumerate(trace.steps):
        result.append(replace(step, at_ns=step.at_ns - cut_ns))
        if place not in places:
            continue
        end = step.at_ns + usual
        if how == "outage":
            result.append(replace(step, at_ns=end, rate_bps=0))
        else:
            cut_ns += trace.steps[place + 1].at_ns - end
    # The last row lasted as long as the gap before it.
    length = result[-1].at_ns + usual if len(trace.steps) - 2 in places else trace.length_ns - cut_ns
    return replace(trace, steps=tuple(result), length_ns=length)

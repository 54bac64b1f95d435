"""Warnings about recordings whose numbers look like those of another unit."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from anabranch.errors import Fault

if TYPE_CHECKING:
    from anabranch.traces._trace import Trace

_SECOND = 10**9
#: The mean rates between which a recording is plausible, in bits per second, by its form.
_PLAUSIBLE_BPS = {
    "anabranch": (1e3, 2e10),
    "mahimahi": (1e3, 2e10),
    # Without a header the unit is not in the file. A column of kb/s makes rates too low by a thousand,
    # in Pensieve's form too high by a thousand.
    "pairs": (1e5, 2e10),
    "pensieve": (1e3, 3e9),
    "sabre": (1e3, 2e10),
}
#: The times between rows that are plausible, nanoseconds.
_SHORTEST_NS, _LONGEST_NS = 5 * 10**6, 100 * _SECOND
#: The unit of the rates of each form, and what to do about a file in another unit.
_UNITS = {
    "anabranch": "rate_mbps is in Mb/s and t_s in seconds",
    "mahimahi": "each line is the millisecond in which 1,500 bytes may leave",
    "pairs": "rates after a comma are in bits per second and times in seconds; "
    "write Mb/s below the header t_s,rate_mbps",
    "pensieve": "rates after a space or a tab are in Mb/s, and times in seconds",
    "sabre": "bandwidth_kbps is in kb/s and duration_ms in milliseconds",
}


def doubts(trace: Trace, where: str) -> list[Fault]:
    """Return a warning for each number of a recording that looks like one of another unit.

    Parameters
    ----------
    trace
        The recording.
    where
        How messages name its file.
    """
    messages = []
    mean = trace.mean_bps()
    least, most = _PLAUSIBLE_BPS[trace.form]
    if mean < least:
        messages.append(f"the mean rate of the trace is only {_shown(mean)}")
    elif mean > most:
        messages.append(f"the mean rate of the trace is {_shown(mean)}")
    if len(trace.steps) > 2:
        apart = statistics.median(end - step.at_ns for step, end in trace.spans())
        if not _SHORTEST_NS <= apart < _LONGEST_NS:
            messages.append(f"the rows of the trace are {apart / _SECOND:g} s apart")
    hint = f"are the units right? {_UNITS[trace.form]}"
    return [Fault(message=message, where=where, hint=hint) for message in messages]


def _shown(rate_bps: float) -> str:
    """Return a rate with a unit that keeps its number short."""
    for unit, size in (("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if rate_bps >= size:
            return f"{rate_bps / size:.3g} {unit}"
    return f"{rate_bps:.3g} b/s"

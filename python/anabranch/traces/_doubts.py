"""Warnings about recordings whose numbers seem to be in another unit."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from anabranch.errors import Fault

if TYPE_CHECKING:
    from anabranch.traces._trace import Trace

_SECOND = 10**9
#: The range of plausible mean rates for each format of recording, in bits per second.
_PLAUSIBLE_BPS = {
    "anabranch": (1e3, 2e10),
    "mahimahi": (1e3, 2e10),
    # A file without a header does not state its unit. If a column of kb/s is read in this format, the rates
    # are too low by a thousand. In Pensieve's format they are too high by a thousand.
    "pairs": (1e5, 2e10),
    "pensieve": (1e3, 3e9),
    "sabre": (1e3, 2e10),
}
#: The range of plausible times between rows, nanoseconds.
_SHORTEST_NS, _LONGEST_NS = 5 * 10**6, 100 * _SECOND
#: The unit of the rates of each format, and a hint for files in another unit.
_UNITS = {
    "anabranch": "rate_mbps is in Mb/s and t_s in seconds",
    "mahimahi": "each line is the millisecond in which 1,500 bytes may leave",
    "pairs": "rates after a comma are in bits per second and times in seconds; "
    "write Mb/s below the header t_s,rate_mbps",
    "pensieve": "rates after a space or a tab are in Mb/s, and times in seconds",
    "sabre": "bandwidth_kbps is in kb/s and duration_ms in milliseconds",
}


def doubts(trace: Trace, where: str) -> list[Fault]:
    """Return a warning for each number of a recording that seems to be in another unit.

    Parameters
    ----------
    trace
        The recording.
    where
        The name of the file in messages.
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
    """Return a rate in the largest unit that fits."""
    for unit, size in (("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if rate_bps >= size:
            return f"{rate_bps / size:.3g} {unit}"
    return f"{rate_bps:.3g} b/s"

"""Warnings about recordings whose numbers seem to be in another unit."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

from anabranch.errors import Fault
from anabranch.traces._facts import RecordingFacts, gaps, usual_ns

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
#: Rows come regularly if this share of them is within this share of the usual time after the row before. A
#: time without rows is then conspicuous if it is longer by this factor.
_MOSTLY, _REGULAR, _LONG = 0.9, 0.5, 10
#: The unit of the rates of each format, and a hint for files in another unit.
_UNITS = {
    "anabranch": "rate_mbps is in Mb/s and t_s in seconds",
    "mahimahi": "each line is the millisecond in which 1,500 bytes may leave",
    "pairs": "rates after a comma are in bits per second and times in seconds, "
    "unless rate_unit and time_unit (`--rate-unit`, `--time-unit`) are given",
    "pensieve": "rates after a space or a tab are in Mb/s and times in seconds, "
    "unless rate_unit and time_unit (`--rate-unit`, `--time-unit`) are given",
    "sabre": "bandwidth_kbps is in kb/s and duration_ms in milliseconds",
}


def doubts(trace: Trace, where: str, facts: RecordingFacts | None = None) -> list[Fault]:
    """Return a warning for each number of a recording that seems to be in another unit, and for gaps.

    Parameters
    ----------
    trace
        The recording.
    where
        The name of the file in messages.
    facts
        The facts with which it was read.
    """
    facts = RecordingFacts() if facts is None else facts
    messages = []
    mean = trace.mean_bps()
    # With a given unit, only rates that no link has are doubted.
    least, most = _PLAUSIBLE_BPS["anabranch" if facts.rate_unit else trace.form]
    if mean < least:
        messages.append(f"the mean rate of the trace is only {_shown(mean)}")
    elif mean > most:
        messages.append(f"the mean rate of the trace is {_shown(mean)}")
    if len(trace.steps) > 2:
        apart = statistics.median(end - step.at_ns for step, end in trace.spans())
        if not _SHORTEST_NS <= apart < _LONGEST_NS:
            messages.append(f"the rows of the trace are {apart / _SECOND:g} s apart")
    hint = f"are the units right? {_UNITS[trace.form]}"
    found = [Fault(message=message, where=where, hint=hint) for message in messages]
    return [*found, *_gaps(trace, where, facts)]


def _gaps(trace: Trace, where: str, facts: RecordingFacts) -> list[Fault]:
    """Return a warning about gaps in rows that otherwise come regularly."""
    usual = usual_ns(trace.steps)
    if facts.gaps != "hold" or usual is None or trace.form == "sabre":
        return []
    apart = [after.at_ns - step.at_ns for step, after in itertools.pairwise(trace.steps)]
    regular = sum(abs(one - usual) <= _REGULAR * usual for one in apart)
    if regular < _MOSTLY * len(apart) or max(apart) <= _LONG * usual:
        return []
    # The message is about all gaps that the option would change.
    lost = [apart[place] for place in gaps(trace.steps)]
    count, whole = len(lost), (sum(lost) - len(lost) * usual) / _SECOND
    message = f"the trace lacks rows for {whole:g} s in {count} {'gap' if count == 1 else 'gaps'}"
    hint = 'the row before a gap holds; gaps = "outage" or "cut" (`--gaps`) changes this'
    return [Fault(message=message, where=where, hint=hint)]


def _shown(rate_bps: float) -> str:
    """Return a rate in the largest unit that fits."""
    for unit, size in (("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if rate_bps >= size:
            return f"{rate_bps / size:.3g} {unit}"
    return f"{rate_bps:.3g} b/s"

"""Writing recordings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch._numbers import decimal
from anabranch.errors import Fault, InputError
from anabranch.traces._trace import MAHIMAHI_BYTES, Step, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

_SECOND = 10**9
_MS = 10**6
_MOST_OPPORTUNITIES = 10**7


def write(trace: Trace, form: str, *, step_ns: int = _SECOND) -> tuple[str, list[str]]:
    """Return a recording as the text of a file, and the properties that this form cannot express.

    Parameters
    ----------
    trace
        The recording.
    form
        One of `FORMS`.
    step_ns
        Opportunities become rates, and steps pairs, over windows of this length; in nanoseconds.

    Raises
    ------
    InputError
        When these would be more than two million windows, or ten million opportunities.
    """
    forms: dict[str, Callable[[Trace, int], str]] = {
        "anabranch": _own,
        "mahimahi": _mahimahi,
        "pairs": _pairs,
        "pensieve": _pensieve,
        "sabre": _sabre,
    }
    lost = []
    if form in ("mahimahi", "pairs", "pensieve") and any(step.delay_ns for step in trace.steps):
        lost.append("delays")
    if form != "anabranch" and any(step.loss for step in trace.steps):
        lost.append("losses")
    return forms[form](trace, step_ns), lost


def _steps(trace: Trace, step_ns: int) -> list[Step]:
    """Return the steps of a trace; of opportunities, their windows."""
    return list(trace.steps) or trace.windows(step_ns)


def _own(trace: Trace, step_ns: int) -> str:
    rows = [
        f"{decimal(step.at_ns / _SECOND, 9)},{decimal(step.rate_bps / 1e6, 9)},"
        f"{decimal(step.delay_ns / _MS, 9)},{decimal(step.loss, 9)}"
        for step in _steps(trace, step_ns)
    ]
    return "\n".join(["t_s,rate_mbps,delay_ms,loss", *rows, ""])


def _pairs(trace: Trace, step_ns: int) -> str:
    rows = [f"{decimal(step.at_ns / _SECOND, 9)},{step.rate_bps}" for step in trace.windows(step_ns)]
    return "\n".join([*rows, ""])


def _pensieve(trace: Trace, step_ns: int) -> str:
    rows = [
        f"{decimal(step.at_ns / _SECOND, 9)}\t{decimal(step.rate_bps / 1e6, 9)}"
        for step in trace.windows(step_ns)
    ]
    return "\n".join([*rows, ""])


def _sabre(trace: Trace, step_ns: int) -> str:
    steps = _steps(trace, step_ns)
    ends = [*[step.at_ns for step in steps[1:]], trace.length_ns]
    entries = [
        {
            "duration_ms": (end - step.at_ns) / _MS,
            "bandwidth_kbps": step.rate_bps / 1000,
            "latency_ms": 2 * step.delay_ns / _MS,
        }
        for step, end in zip(steps, ends, strict=True)
    ]
    return json.dumps(entries, indent=1) + "\n"


def _check_opportunities(trace: Trace) -> None:
    """Check that a trace does not serve more packets than a file can hold."""
    count = round(trace.mean_bps() * trace.length_ns / _SECOND / (MAHIMAHI_BYTES * 8))
    if count > _MOST_OPPORTUNITIES:
        message = f"the trace serves {count:,} packets, each a line of Mahimahi's form"
        hint = f"at most {_MOST_OPPORTUNITIES:,}: another form has room for it"
        raise InputError([Fault(message=message, hint=hint)])


def _mahimahi(trace: Trace, step_ns: int) -> str:
    """Write an opportunity after every 1500 served bytes, at the next whole millisecond.

    The file's last line is its length. If less than a packet is served at the end, an opportunity for the
    incomplete packet is written there.
    """
    del step_ns
    times = list(trace.opportunities_ms)
    if not times:
        _check_opportunities(trace)
        whole = MAHIMAHI_BYTES * 8 * _SECOND
        served = 0
        for step, end in trace.spans():
            at = step.at_ns
            while step.rate_bps and served + step.rate_bps * (end - at) >= whole:
                passed = -(-(whole - served) // step.rate_bps)
                # Bytes that rounding served too early are subtracted from the next packet.
                served += step.rate_bps * passed - whole
                at += passed
                times.append(-(-at // _MS))
            served += step.rate_bps * max(end - at, 0)
        length = -(-trace.length_ns // _MS)
        if not times or times[-1] < length:
            times.append(length)
    return "".join(f"{ms}\n" for ms in times)

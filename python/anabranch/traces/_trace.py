"""A recording as values, independent of its file format."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from anabranch.errors import Fault, InputError

#: The bytes of one delivery opportunity: an IP packet. Mahimahi's 1504 include its TUN header.
MAHIMAHI_BYTES = 1500
_MS = 10**6
#: The most windows that a recording may be cut into: 23 days of seconds, or half an hour of milliseconds.
_MOST_WINDOWS = 2_000_000


def check_windows(length_ns: int, step_ns: int) -> None:
    """Check that a recording is not cut into too many windows.

    Raises
    ------
    InputError
        When there would be more than two million.
    """
    count = -(-length_ns // step_ns)
    if count > _MOST_WINDOWS:
        message = f"{length_ns / 1e9:g} s are {count:,} windows of {step_ns / 1e9:g} s"
        hint = f"at most {_MOST_WINDOWS:,}: longer windows, or a shorter recording"
        raise InputError([Fault(message=message, hint=hint)])


@dataclass(frozen=True, kw_only=True)
class Step:
    """The conditions of a link until the next step.

    Attributes
    ----------
    at_ns
        The start of the step, from the trace's beginning.
    rate_bps
        Bits per second; 0 is an outage.
    delay_ns
        One-way delay beyond that of the path.
    loss
        Share of packets lost, 0 to 1.
    """

    at_ns: int
    rate_bps: int
    delay_ns: int = 0
    loss: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recording: steps, or delivery opportunities.

    Attributes
    ----------
    form
        Which form of file it was read from.
    length_ns
        The end of the recording, after which it may begin again.
    steps
        The conditions, the first at 0; empty for opportunities.
    opportunities_ms
        The times at which 1500 bytes may leave, in whole milliseconds; empty for steps.
    has_delays
        Whether it has delays of packets.
    """

    form: str
    length_ns: int
    steps: tuple[Step, ...] = ()
    opportunities_ms: tuple[int, ...] = ()
    has_delays: bool = False

    def begun_at(self, share: float) -> Trace:
        """Return the trace rotated to begin at another place.

        Parameters
        ----------
        share
            The place, as a share of the length, from 0 to less than 1. Opportunities begin at the last one
            before the place. A silence is therefore included completely, and as often as its length suggests.
        """
        at_ns = int(share * self.length_ns)
        if self.opportunities_ms:
            length = self.opportunities_ms[-1]
            at = max((ms for ms in self.opportunities_ms if ms * _MS <= at_ns), default=length)
            times = sorted(ms - at + (length if ms <= at else 0) for ms in self.opportunities_ms)
            return replace(self, opportunities_ms=tuple(times))
        cut = [
            (begin, end, step)
            for step, end in self.spans()
            for begin, end in ((step.at_ns, min(end, at_ns)), (max(step.at_ns, at_ns), end))
            if begin < end
        ]
        moved = [
            replace(step, at_ns=begin - at_ns + (0 if begin >= at_ns else self.length_ns))
            for begin, _, step in cut
        ]
        return replace(self, steps=tuple(sorted(moved, key=lambda step: step.at_ns)))

    def plan(self, *, repeat: bool) -> dict[str, Any]:
        """Return the trace as a link's model in the plan; opportunities always repeat."""
        if self.opportunities_ms:
            times = [ms * _MS for ms in self.opportunities_ms]
            return {"opportunities": {"opportunities_ns": times, "opportunity_bytes": MAHIMAHI_BYTES}}
        return {
            "steps": {
                "begin_ns": [step.at_ns for step in self.steps],
                "rates_bps": [step.rate_bps for step in self.steps],
                "delays_ns": [step.delay_ns for step in self.steps],
                "losses": [step.loss for step in self.steps],
                "repeat_ns": self.length_ns if repeat else None,
            }
        }

    def mean_bps(self) -> float:
        """Return the mean rate."""
        if self.opportunities_ms:
            return len(self.opportunities_ms) * MAHIMAHI_BYTES * 8 * 1e9 / self.length_ns
        return sum(step.rate_bps * (end - step.at_ns) for step, end in self.spans()) / self.length_ns

    def spans(self) -> list[tuple[Step, int]]:
        """Return the steps, each with its end."""
        ends = [step.at_ns for step in self.steps[1:]]
        return list(zip(self.steps, [*ends, self.length_ns], strict=True))

    def windows(self, step_ns: int) -> list[Step]:
        """Return the trace in windows of one length: mean rate, and the means of delay and loss by time.

        Raises
        ------
        InputError
            When these are more than two million.
        """
        check_windows(self.length_ns, step_ns)
        if self.opportunities_ms:
            return self._counted(step_ns)
        result = []
        spans = self.spans()
        first = 0
        for start in range(0, self.length_ns, step_ns):
            stop = min(start + step_ns, self.length_ns)
            while spans[first][1] <= start:
                first += 1
            bits = delay = loss = 0.0
            for step, end in itertools.islice(spans, first, None):
                if step.at_ns >= stop:
                    break
                overlap = min(end, stop) - max(step.at_ns, start)
                bits += step.rate_bps * overlap / 1e9
                delay += step.delay_ns * overlap
                loss += step.loss * overlap
            span = stop - start
            result.append(
                Step(
                    at_ns=start,
                    rate_bps=round(bits * 1e9 / span),
                    delay_ns=round(delay / span),
                    loss=loss / span,
                )
            )
        return result

    def _counted(self, step_ns: int) -> list[Step]:
        """Return opportunities as rates; the last one belongs to the last window."""
        counts = [0] * -(-self.length_ns // step_ns)
        for ms in self.opportunities_ms:
            counts[min(ms * _MS // step_ns, len(counts) - 1)] += 1
        starts = range(0, self.length_ns, step_ns)
        return [
            Step(
                at_ns=start,
                rate_bps=round(count * MAHIMAHI_BYTES * 8 * 1e9 / min(step_ns, self.length_ns - start)),
            )
            for start, count in zip(starts, counts, strict=True)
        ]

"""The queue and the loss of a path, from the round-trip times and the missing bytes of a capture.

A segment that waited in the queue saw the bytes that the link carried while it waited. Losses that are much
more frequent at a long queue are taken as drops of a full one, and the others as losses of the link. The
loss is estimated from the tenths of a second that have any, because a burst of losses is one event for a
congestion control, as single losses are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import exp, expm1, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Above this share of the longest queue, a lost segment may have met a full queue.
_FULL = 0.7
#: The longest queue of a path that was ever full has at least this many packets.
_LEAST_FULL = 4.0
#: A queue was full if losses at long queues are more frequent than others by this factor.
_MORE_OFTEN = 4.0
#: Tenths of a second around a loss in which the queue that it met shows.
_NEAR = 3


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A tenth of a second of a TCP connection: its number, and the packets that were sent and lost in it."""

    number: int
    sent: float
    lost: float


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The length of a queue and the loss of its link.

    Attributes
    ----------
    packets
        The longest queue that a segment met.
    was_full
        Whether it was full, so that this is its length.
    loss
        The share of packets that the link lost.
    """

    packets: float
    was_full: bool
    loss: float


def queue(
    ticks: Sequence[Tick], times: Mapping[int, float], least_ms: float, rates: Sequence[float], begin: int
) -> Queue:
    """Return what a capture shows of the queue of a path.

    Parameters
    ----------
    ticks
        The tenths of a second of the path's connections.
    times
        The round-trip time in each tenth of a second that shows one, in milliseconds.
    least_ms
        The least round-trip time.
    rates
        The rate of the link in each second of the session, in packets per second.
    begin
        The tenth of a second in which the session begins.
    """
    carried = [0.0, *accumulate(rate / 10 for rate in rates for _ in range(10))]
    lengths = {
        tick: _between(carried, tick - begin - (time - least_ms) / 100, tick - begin)
        for tick, time in times.items()
    }
    ordered = sorted(lengths.values())
    most = ordered[int(0.99 * (len(ordered) - 1))] if ordered else 0.0
    threshold = _FULL * most
    full = [tick for tick in ticks if _length(lengths, tick.number) > threshold]
    rest = [tick for tick in ticks if _length(lengths, tick.number) <= threshold]
    dropped, lost = loss(full), loss(rest)
    was_full = (
        most >= _LEAST_FULL and sum(tick.lost > 0 for tick in full) > 1 and dropped > _MORE_OFTEN * lost
    )
    return Queue(packets=most, was_full=was_full, loss=lost if was_full else loss(ticks))


def _between(carried: Sequence[float], first: float, last: float) -> float:
    """Return the packets that the link carried between two times, in tenths of a second of the session."""

    def until(time: float) -> float:
        at = min(max(time, 0.0), len(carried) - 1.0)
        low = min(int(at), len(carried) - 2)
        return carried[low] + (at - low) * (carried[low + 1] - carried[low])

    return until(last) - until(first) if len(carried) > 1 else 0.0


def _length(lengths: Mapping[int, float], tick: int) -> float:
    """Return the longest queue near a tenth of a second; the one before if none shows."""
    found = [lengths[at] for at in range(tick - _NEAR, tick + _NEAR + 1) if at in lengths]
    if found:
        return max(found)
    return next((lengths[at] for at in range(tick - _NEAR, tick - 10 * _NEAR, -1) if at in lengths), 0.0)


def loss(ticks: Sequence[Tick]) -> float:
    """Return the loss of single packets at which these ticks with and without loss are the most likely.

    Packets are lost independently with probability 1 - exp(-h), so a tick of n packets is without loss with
    exp(-h n). The derivative of the likelihood's logarithm is zero at the result. It is at most the share of
    the packets that were lost.
    """
    with_loss = [max(tick.sent, 1.0) for tick in ticks if tick.lost > 0]
    without_loss = sum(tick.sent for tick in ticks if tick.lost <= 0)
    if not with_loss:
        return 0.0
    low, high = 0.0, _hazard(ticks)
    for _ in range(60):
        middle = (low + high) / 2
        gain = sum(size / expm1(min(middle * size, 700.0)) for size in with_loss)
        low, high = (middle, high) if gain > without_loss else (low, middle)
    return 1 - exp(-low)


def _hazard(ticks: Sequence[Tick]) -> float:
    """Return the hazard at which as many packets are lost as were."""
    lost, sent = sum(tick.lost for tick in ticks), sum(max(tick.sent, tick.lost, 1.0) for tick in ticks)
    return -log(max(1 - lost / sent, 1e-6))

"""Properties of a recording, as numbers that can be compared with published ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from anabranch.traces._trace import Trace

_SECOND = 10**9
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Statistics of a recording. The rate is taken over windows of a second.

    Attributes
    ----------
    form
        Which form of file it was read from.
    length_s
        Its length.
    mean_mbps
        The mean rate.
    rate_mbps
        The 5, 25, 50, 75 and 95 % quantiles of the rate.
    idle_share
        The share of seconds below 0.1 Mb/s.
    longest_gap_s
        The longest time in which nothing is served.
    autocorrelation
        The correlation between the rates of consecutive seconds; None if the recording is shorter than three
        seconds or the rate never changes.
    delay_ms
        The 5, 50 and 95 % quantiles of the one-way delay by time; None without delays.
    loss
        The mean share of packets lost, by time.
    """

    form: str
    length_s: float
    mean_mbps: float
    rate_mbps: tuple[float, ...]
    idle_share: float
    longest_gap_s: float
    autocorrelation: float | None
    delay_ms: tuple[float, ...] | None
    loss: float


def summarise(trace: Trace) -> Summary:
    """Return the statistics of a recording."""
    windows = trace.windows(_SECOND)
    rates = np.array([window.rate_bps / 1e6 for window in windows])
    delay = None
    loss = 0.0
    if trace.steps:
        spans = np.array([end - step.at_ns for step, end in trace.spans()], dtype=float)
        loss = float(np.average([step.loss for step in trace.steps], weights=spans))
        if trace.has_delays:
            delays = np.array([step.delay_ns / 1e6 for step in trace.steps])
            delay = tuple(_weighted(delays, spans, share) for share in (0.05, 0.5, 0.95))
    varies = len(rates) > 2 and rates[:-1].std() > 0 and rates[1:].std() > 0
    return Summary(
        form=trace.form,
        length_s=trace.length_ns / _SECOND,
        mean_mbps=trace.mean_bps() / 1e6,
        rate_mbps=tuple(float(value) for value in np.quantile(rates, _QUANTILES)),
        idle_share=float((rates < 0.1).mean()),
        longest_gap_s=_longest_gap_ns(trace) / _SECOND,
        autocorrelation=float(np.corrcoef(rates[:-1], rates[1:])[0, 1]) if varies else None,
        delay_ms=delay,
        loss=loss,
    )


def _weighted(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return a weighted quantile."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) >= share * weights.sum()
    return float(values[order][np.argmax(reached)])


def _longest_gap_ns(trace: Trace) -> int:
    """Return the longest time without service: between opportunities, or of steps with rate zero."""
    if trace.opportunities_ms:
        return int(np.diff((0, *trace.opportunities_ms)).max()) * 10**6
    longest = gap = 0
    for step, end in trace.spans():
        gap = gap + end - step.at_ns if step.rate_bps == 0 else 0
        longest = max(longest, gap)
    return longest

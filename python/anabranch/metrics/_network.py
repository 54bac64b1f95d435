"""Metrics of the network for one client."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import Any, NamedTuple

from anabranch.metrics._receiver import receiver
from anabranch.metrics._rows import REPAIR, SAMPLE_S, Tables, rounded, rows

#: Milliseconds between the samples that means are over: every second one, as the papers took them.
_MEAN_STEP_MS = 200


def network(own: Tables) -> dict[str, Any]:
    """Return the `qos` object of a client with these tables, without the links' drops."""
    connection = next(rows(own["connections"]))
    duration = connection["duration_s"]
    samples = _samples(own)
    change = _first_change(own)
    subflows = [
        _subflow(row, samples.get(row["subflow"], []), duration, change) for row in rows(own["subflows"])
    ]
    inside = receiver(own)
    for row, subflow in zip(rows(own["subflows"]), subflows, strict=True):
        subflow |= {} if inside is None else inside[1].get(row["subflow"], {"awaited_share": 0.0})
    means = [subflow["srtt_ms_mean"] for subflow in subflows if subflow["srtt_ms_mean"] is not None]
    return {
        "goodput_mbps": rounded(_mbps(connection["bytes_read"], duration)),
        "rtt_diff_ms": rounded(max(means) - min(means), 3) if means else None,
        "reinjected_bytes": connection["reinjected_bytes"],
        # A client without a byte waited all the time.
        "max_read_gap_s": rounded(connection["max_read_gap_s"] if connection["bytes_read"] else duration),
        "subflows": subflows,
        **({} if inside is None else {"receiver": inside[0]}),
    }


class _Sample(NamedTuple):
    """A sample of a subflow."""

    t_s: float
    cwnd: float | None
    srtt_ms: float | None
    in_flight: int
    retransmissions: int
    state: str

    @property
    def is_apart(self) -> bool:
        """It is one of those that means are over."""
        return round(self.t_s * 1000) % _MEAN_STEP_MS == 0


def _subflow(
    row: dict[str, Any], samples: list[_Sample], duration_s: float, change_s: float | None
) -> dict[str, Any]:
    """Return one subflow's numbers from its totals and its samples."""
    windows = [one.cwnd for one in samples if one.is_apart and one.cwnd is not None]
    times = [one.srtt_ms for one in samples if one.is_apart and one.srtt_ms is not None and one.srtt_ms > 0]
    states = Counter(one.state for one in samples)
    found = {
        "path": row["path"],
        "bytes": row["bytes"],
        "throughput_mbps": rounded(_mbps(row["bytes"], duration_s)),
        "retransmissions": row["retransmissions"],
        "srtt_ms_mean": rounded(fmean(times), 3) if times else None,
        "cwnd_segments_mean": rounded(fmean(windows), 3) if windows else None,
        "cwnd_segments_median": rounded(median(windows), 3) if windows else None,
        "cwnd_segments_std": rounded(pstdev(windows), 3) if windows else None,
        "recovery_s": rounded(SAMPLE_S * states["Recovery"]),
        "loss_s": rounded(SAMPLE_S * states["Loss"]),
        "idle_s": rounded(SAMPLE_S * sum(not one.in_flight for one in samples)),
        "window_back_s": rounded(_window_back(samples)),
    }
    if change_s is None:
        return found
    before = max((one.retransmissions for one in samples if one.t_s <= change_s), default=0)
    return {
        **found,
        "retransmissions_before_change": before,
        "retransmissions_after_change": row["retransmissions"] - before,
    }


def _window_back(samples: list[_Sample]) -> float | None:
    """Return the mean time from the start of a repair until the window is restored; None without one."""
    waits: list[float] = []
    before: float | None = None
    began = 0.0
    for last, one in pairwise(samples):
        if before is None and one.state in REPAIR and last.state not in REPAIR and last.cwnd is not None:
            before, began = last.cwnd, last.t_s
        if before is not None and one.state not in REPAIR and one.cwnd is not None and one.cwnd >= before:
            waits.append(one.t_s - began)
            before = None
    if before is not None:
        waits.append(samples[-1].t_s - began)
    return fmean(waits) if waits else None


def _first_change(own: Tables) -> float | None:
    """Return when the world first changed; None if it never did."""
    return min(own.get("events", {}).get("t_s", ()), default=None)


def _samples(own: Tables) -> dict[int, list[_Sample]]:
    """Return each subflow's samples in order."""
    table = own.get("samples", {})
    result: dict[int, list[_Sample]] = {}
    if not table:
        return result
    names = ("t_s", "cwnd_segments", "srtt_ms", "in_flight_segments", "retransmissions", "state")
    columns = (table[name] for name in names)
    for subflow, *values in zip(table["subflow"], *columns, strict=True):
        result.setdefault(subflow, []).append(_Sample(*values))
    return result


def _mbps(count: float, seconds: float) -> float:
    """Return bytes over seconds as Mb/s; nothing over no time is 0."""
    return count * 8e-6 / seconds if seconds > 0 else 0.0

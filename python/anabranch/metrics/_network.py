"""What the network did for one client."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

from anabranch.metrics._rows import Tables, rounded, rows

#: Samples come every 100 ms; means are over every second one, as the papers took them.
_SAMPLE_STEP_MS = 200


def network(own: Tables) -> dict[str, Any]:
    """Return the `qos` object of a client with these tables, without the links' drops."""
    connection = next(rows(own["connections"]))
    duration = connection["duration_s"]
    samples = _samples(own)
    subflows = [_subflow(row, samples.get(row["subflow"], []), duration) for row in rows(own["subflows"])]
    means = [subflow["srtt_ms_mean"] for subflow in subflows if subflow["srtt_ms_mean"] is not None]
    return {
        "goodput_mbps": rounded(_mbps(connection["bytes_read"], duration)),
        "rtt_diff_ms": rounded(max(means) - min(means), 3) if means else None,
        "reinjected_bytes": connection["reinjected_bytes"],
        # Who never got a byte waited for one all the time.
        "max_read_gap_s": rounded(connection["max_read_gap_s"] if connection["bytes_read"] else duration),
        "subflows": subflows,
    }


def _subflow(row: dict[str, Any], samples: list[tuple[float, float]], duration_s: float) -> dict[str, Any]:
    """Return one subflow's numbers from its totals and its (cwnd, srtt) samples."""
    windows = [cwnd for cwnd, _ in samples if cwnd is not None]
    times = [srtt for _, srtt in samples if srtt is not None and srtt > 0]
    return {
        "path": row["path"],
        "bytes": row["bytes"],
        "throughput_mbps": rounded(_mbps(row["bytes"], duration_s)),
        "retransmissions": row["retransmissions"],
        "srtt_ms_mean": rounded(fmean(times), 3) if times else None,
        "cwnd_segments_mean": rounded(fmean(windows), 3) if windows else None,
        "cwnd_segments_median": rounded(median(windows), 3) if windows else None,
    }


def _samples(own: Tables) -> dict[int, list[tuple[float, float]]]:
    """Return each subflow's (cwnd, srtt) at the multiples of 200 ms."""
    table = own.get("samples", {})
    result: dict[int, list[tuple[float, float]]] = {}
    if not table:
        return result
    columns = (table[name] for name in ("t_s", "subflow", "cwnd_segments", "srtt_ms"))
    for time, subflow, cwnd, srtt in zip(*columns, strict=True):
        if round(time * 1000) % _SAMPLE_STEP_MS == 0:
            result.setdefault(subflow, []).append((cwnd, srtt))
    return result


def _mbps(count: float, seconds: float) -> float:
    """Return bytes over seconds as Mb/s; nothing over no time is 0."""
    return count * 8e-6 / seconds if seconds > 0 else 0.0

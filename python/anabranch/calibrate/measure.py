"""The values that the laboratory measured on a kernel, computed from a trace in the same way.

The laboratory's server queried the kernel for the state of every subflow when `accept` returned, and then
every 200 ms while it sent. Means are over those samples, and totals are from the last sample. The
laboratory's client counted the bytes that it read until the time was up, from its own `connect`. It also
recorded silences of more than 150 ms between reads.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from anabranch.calibrate import vlc
from anabranch.calibrate.settings import path_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.calibrate.model import Setting
    from anabranch.metrics._rows import Tables

Figures = dict[str, float]

#: The rate of the film whose stalls are computed, and the length of film that a player buffers before it
#: starts.
FILM_BPS = 5.24e6
CACHE_S = 1.0

# The trace samples every 100 ms, the laboratory every 200 ms.
_TRACE_STEP_MS = 100
_STEP_MS = 200
# accept() returns when the handshake's third segment arrives, one and a half round trips after connect() was
# called.
_ACCEPT_RTTS = 1.5
# The shortest silence that the laboratory's client reports. For a handover, the value is the longest silence
# that ends after the cut and begins less than 1.5 s after it.
_GAP_S = 0.15
_STALL_WITHIN_S = 1.5


def figures(setting: Setting, tables: Tables, *, cut_at_s: float | None) -> Figures:
    """Return one run's figures under the names of the measurements' columns.

    Parameters
    ----------
    setting
        The setting that was run.
    tables
        The trace.
    cut_at_s
        The time at which path 1 was lost.
    """
    if setting.kind == "vlc":
        return vlc.figures(tables)
    result = {"goodput_mbps": goodput_mbps(tables)}
    result["max_read_gap_s"] = float(tables["connections"]["max_read_gap_s"][0])
    if setting.kind == "film":
        player = tables["player"]
        result["stalls"] = float(stalls(list(zip(player["t_s"], player["bytes_read"], strict=True))))
    sampled = samples(setting, tables)
    for number in range(1, len(setting.legs) + 1):
        own = sampled.get(path_name(number), [])
        result |= {f"sf{number}_{name}": value for name, value in subflow(own).items()}
    if setting.kind == "handoff":
        result["resume_after_cut_s"] = resume_s(tables["gaps"], cut_at_s or 0.0)
        return result
    if setting.kind == "paced" and len(setting.legs) > 1:
        acked = [result[f"sf{number}_bytes_acked"] for number in range(1, len(setting.legs) + 1)]
        result["split_1_percent"] = 100 * acked[0] / sum(acked) if sum(acked) else 0.0
    return result


def goodput_mbps(tables: Tables) -> float:
    """Return the bytes that the client read divided by the time since its connect."""
    connections = tables["connections"]
    return float(connections["bytes_read"][0] * 8e-6 / connections["duration_s"][0])


def samples(setting: Setting, tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Return each path's samples at the laboratory's times, with `t_s` counted from the accept.

    These are the first sample of the trace after the accept and every second one from there on.
    """
    table = tables["samples"]
    accept_ms = _ACCEPT_RTTS * setting.legs[0].rtt_ms
    first_ms = -int(-accept_ms // _TRACE_STEP_MS) * _TRACE_STEP_MS
    names = ("cwnd_segments", "srtt_ms", "bytes_acked", "retransmissions")
    columns = (table[name] for name in ("t_s", "path", *names))
    result: dict[str, list[dict[str, Any]]] = {}
    for time, path, *values in zip(*columns, strict=True):
        since_ms = round(time * 1000) - first_ms
        row = dict(zip(names, values, strict=True))
        # A subflow has a smoothed RTT only after its handshake. The laboratory ignores subflows without one.
        if since_ms >= 0 and since_ms % _STEP_MS == 0 and row["srtt_ms"] is not None and row["srtt_ms"] > 0:
            result.setdefault(path, []).append({"t_s": since_ms / 1000, **row})
    return result


def subflow(rows: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the values of one subflow from its samples. A subflow without samples carried nothing."""
    if not rows:
        return {"bytes_acked": 0.0, "retrans_segs": 0.0}
    windows = sorted(row["cwnd_segments"] for row in rows)
    return {
        "bytes_acked": float(rows[-1]["bytes_acked"]),
        "retrans_segs": float(rows[-1]["retransmissions"]),
        "cwnd_mean": fmean(windows),
        # For an even number of values, the laboratory uses the upper of the two middle ones.
        "cwnd_median": float(windows[len(windows) // 2]),
        "srtt_mean_ms": fmean(row["srtt_ms"] for row in rows),
    }


def stalls(arrivals: Sequence[tuple[float, float]]) -> int:
    """Return how often a player of a film at `FILM_BPS` would have stalled, given the arrival times.

    The player starts with `CACHE_S` of film, and resumes with the same amount after each stall. A stall that
    lasts until the end counts.

    Parameters
    ----------
    arrivals
        Times, and the bytes that had arrived by then.
    """
    count = 0
    played = 0.0
    since: float | None = None
    for time, arrived in arrivals:
        if since is None:
            if arrived - played >= CACHE_S * FILM_BPS / 8:
                since = time
            continue
        played += (time - since) * FILM_BPS / 8
        since = time
        if played > arrived:
            count, played, since = count + 1, arrived, None
    return count


def resume_s(gaps: Mapping[str, Sequence[Any]], cut_at_s: float) -> float:
    """Return the time from the cut to the next in-order data; 0 if there was no silence.

    Parameters
    ----------
    gaps
        The trace's table of silences between reads.
    cut_at_s
        When the path was lost.
    """
    found = [
        (length, begin + length)
        for begin, length in zip(gaps["t_s"], gaps["gap_s"], strict=True)
        if length > _GAP_S and begin < cut_at_s + _STALL_WITHIN_S and begin + length > cut_at_s
    ]
    return max(found)[1] - cut_at_s if found else 0.0

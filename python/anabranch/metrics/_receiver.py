"""The metrics of a client's receive buffer, from the segments that a run recorded on request (`record`).

The data of a segment may wait twice: on its subflow for a lost segment, and in the connection for data on
another subflow. It can be read when both waits are over. All means are weighted by bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import REPAIR, SAMPLE_S, Tables, rounded, rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Whole = NDArray[np.int64]
    Flags = NDArray[np.bool_]

#: If the ratio of two windows is below this number, one is far lower than the other.
_FAR_LOWER = 0.5
#: The length of film whose absence is visible: three pictures of thirty a second.
_SEEN_S = 0.1
#: The length of the intervals of a session in which a subflow is used or not, seconds.
_STRETCH_S = 10.0
#: If less than this is left of the window, the sender is limited by it: two segments' payload, bytes.
_EDGE = 2 * 1460


@dataclass(frozen=True, kw_only=True)
class _Stream:
    """The received data of a connection, in ranges by position.

    Attributes
    ----------
    size
        Bytes.
    subflow
        The subflow that delivered each range.
    sent_s, came_s, up_s, ready_s
        When the data was first sent, when it arrived, when its subflow had all data before it, and when it
        could be read.
    until_s
        The same time, or the time at which its connection was given up.
    behind
        The subflow with whose data it became readable.
    repaired
        Whether the data that made it readable had been retransmitted.
    copies
        How often it was sent, on any subflow.
    retransmitted
        How often it had been sent before on the same subflow.
    """

    size: Whole
    subflow: Whole
    sent_s: Numbers
    came_s: Numbers
    up_s: Numbers
    ready_s: Numbers
    until_s: Numbers
    behind: Whole
    repaired: Flags
    copies: Whole
    retransmitted: Whole


def receiver(own: Tables) -> tuple[dict[str, Any], dict[int, dict[str, Any]]] | None:
    """Return the metrics of a client's receiver, and those by subflow; None if they were not recorded."""
    if not own.get("departures") or not own.get("arrivals") or not len(own["arrivals"]["t_s"]):
        return None
    # Imported late: most runs have no such records, and the import takes longer than a short run.
    import numpy as np

    from anabranch.metrics._pieces import distinct

    sent, came = _columns(own["departures"]), _columns(own["arrivals"])
    again = _again(sent)
    ends = _ends(came)
    whole = _joined(
        [
            _stream(_where(sent, left), _where(came, came["connection"] == one), again[left], end_s)
            for one, end_s in ends.items()
            for left in [sent["connection"] == one]
        ]
    )
    duration = next(rows(own["connections"]))["duration_s"]
    reads = np.isfinite(whole.ready_s)
    size = whole.size[reads]
    in_subflow = whole.up_s[reads] - whole.came_s[reads]
    in_stream = whole.ready_s[reads] - whole.up_s[reads]
    late = whole.until_s > whole.came_s
    bytes_read = max(float(size.sum()), 1.0)
    found = {
        "subflow_wait_ms": 1e3 * float((size * in_subflow).sum()) / bytes_read,
        "stream_wait_ms": 1e3 * float((size * in_stream).sum()) / bytes_read,
        "reordered_share": float(size[in_stream > 0].sum()) / bytes_read,
        "held_s": _union(whole, late, duration),
        "held_for_repair_s": _union(whole, late & whole.repaired, duration),
        **_changes(sent, ~again, duration),
        **_underflows(own, whole),
        **_buffer(own, sent, ends),
    }
    by_subflow = {
        one: {
            **_of_subflow(whole, one, duration),
            **_in_repair(own, _where(sent, ~again), one),
            "used_share": _used(sent, one),
        }
        for one in distinct(sent["subflow"]).tolist()
    }
    return {name: rounded(value) for name, value in found.items()}, by_subflow


def _ends(came: dict[str, Any]) -> dict[int, float]:
    """Return the time at which each connection was given up.

    A player leaves a connection with unread data when it seeks in the film. A connection is not given up if
    it received data after all others. Any other connection is given up with the last data that it received.
    """
    import numpy as np

    from anabranch.metrics._pieces import distinct

    last = {
        one: float(came["t_s"][came["connection"] == one].max())
        for one in distinct(came["connection"]).tolist()
    }
    latest = max(last.values())
    return {one: np.inf if at == latest else at for one, at in last.items()}


def _columns(table: Any) -> dict[str, Any]:  # noqa: ANN401 - a table of the trace, or lists
    """Return a table's numeric columns as arrays."""
    import numpy as np

    names = [name for name in table if name != "path"]
    if hasattr(table, "__arrow_c_stream__"):  # the simulator's: half a million numbers at once
        import polars

        frame = polars.DataFrame(table)
        return {name: frame[name].to_numpy() for name in names}
    return {name: np.asarray(list(table[name])) for name in names}


def _where(columns: dict[str, Any], keep: Flags) -> dict[str, Any]:
    """Return some rows of columns."""
    return {name: values[keep] for name, values in columns.items()}


def _again(sent: dict[str, Any]) -> Flags:
    """Return for each segment whether its subflow had sent it before."""
    import numpy as np

    from anabranch.metrics._pieces import distinct

    again = np.zeros(sent["t_s"].size, dtype=bool)
    for one in distinct(sent["subflow"]).tolist():
        own = sent["subflow"] == one
        ends = np.maximum.accumulate((sent["position"] + sent["bytes"])[own])
        again[own] = sent["position"][own] < np.concatenate(([0], ends[:-1]))
    return again


def _stream(sent: dict[str, Any], came: dict[str, Any], again: Flags, end_s: float) -> _Stream:
    """Return the data of one connection, which was given up at the given time."""
    import numpy as np

    from anabranch.metrics._pieces import cut, distinct

    starts, sizes, came_s, up_s, whose = [], [], [], [], []
    for one in distinct(came["subflow"]).tolist():
        left, here = _where(sent, sent["subflow"] == one), _where(came, came["subflow"] == one)
        pieces = cut(here["position"], here["bytes"], here["t_s"])
        known, place = np.unique(left["position"], return_index=True)
        at = np.searchsorted(known, pieces.start, side="right") - 1
        there = pieces.count > 0
        data = left["data_position"][place[at]] + pieces.start - known[at]
        starts.append(data[there])
        sizes.append(pieces.size[there])
        came_s.append(pieces.first[there])
        up_s.append(pieces.ready[there])
        whose.append(np.full(int(there.sum()), one))
    came_all, whose_all = np.concatenate(came_s), np.concatenate(whose)
    stream = cut(np.concatenate(starts), np.concatenate(sizes), np.concatenate(up_s))
    there = stream.count > 0
    leaves = cut(sent["data_position"], sent["bytes"], sent["t_s"])
    repeats = cut(sent["data_position"][again], sent["bytes"][again], sent["t_s"][again])
    repeated = np.zeros(stream.start.size, dtype=np.int64)
    if repeats.start.size:
        at = repeats.at(stream.start)
        inside = (at >= 0) & (stream.start < repeats.start[-1] + repeats.size[-1])
        repeated[inside] = repeats.count[at[inside]]
    at = leaves.at(stream.start)
    awaited = stream.awaited
    return _Stream(
        size=stream.size[there],
        subflow=whose_all[stream.source[there]],
        sent_s=leaves.first[at][there],
        came_s=came_all[stream.source[there]],
        up_s=stream.first[there],
        ready_s=stream.ready[there],
        until_s=np.minimum(stream.ready[there], end_s),
        behind=whose_all[stream.source[awaited]][there],
        repaired=(repeated[awaited] > 0)[there],
        copies=leaves.count[at][there],
        retransmitted=repeated[there],
    )


def _joined(streams: list[_Stream]) -> _Stream:
    """Return the data of several connections as that of one."""
    import numpy as np

    names = _Stream.__dataclass_fields__
    return _Stream(**{name: np.concatenate([getattr(one, name) for one in streams]) for name in names})


def _union(whole: _Stream, which: Flags, duration_s: float) -> float:
    """Return for how long some of the data waited to become readable."""
    import numpy as np

    from anabranch.metrics._pieces import union_s

    return union_s(whole.came_s[which], np.minimum(whole.until_s[which], duration_s))


def _changes(sent: dict[str, Any], new: Flags, duration_s: float) -> dict[str, float | None]:
    """Return how often new data changes its path, and the share on other paths than the nearest."""
    import numpy as np

    subflow, size = sent["subflow"][new], sent["bytes"][new]
    others = subflow != sent["nearest"][new]
    low = sent["nearest_cwnd_segments"][new] < _FAR_LOWER * sent["cwnd_segments"][new]
    changes = int(np.count_nonzero(np.diff(subflow)))
    off = float(size[others].sum())
    return {
        "path_changes_per_s": changes / duration_s if duration_s > 0 else 0.0,
        "off_nearest_share": off / max(float(size.sum()), 1.0),
        # If no data arrived, the share is undefined.
        "off_nearest_low_share": float(size[others & low].sum()) / off if off else None,
    }


def _underflows(own: Tables, whole: _Stream) -> dict[str, float]:
    """Return the number of underflows with enough arrived but unreadable data, by the reason."""
    import numpy as np

    frames = own.get("frames")
    if not frames or not len(frames["size"]):
        return {}
    rate = sum(frames["size"]) / max(max(frames["pts_s"]), 1.0)
    counts = {False: 0, True: 0}
    for row in rows(own.get("playback", {})):
        if row["event"] != "underflow":
            continue
        held = (whole.came_s <= row["t_s"]) & (whole.until_s > row["t_s"])
        if whole.size[held].sum() >= _SEEN_S * rate:
            # The player awaits the data that the first piece awaits.
            counts[bool(whole.repaired[int(np.argmax(held))])] += 1
    return {"underflows_reordered": counts[False], "underflows_repaired": counts[True]}


def _buffer(own: Tables, sent: dict[str, Any], ends: dict[int, float]) -> dict[str, float | None]:
    """Return how full of waiting data the buffer was, and how long its window limited the sender."""
    import numpy as np

    from anabranch.metrics._pieces import distinct

    if not own.get("receivers") or not len(own["receivers"]["t_s"]):
        return {}
    seen = _columns(own["receivers"])
    # A connection that received nothing, or that was given up, has no values.
    until = np.array([ends.get(one, -np.inf) for one in seen["connection"].tolist()])
    seen = _where(seen, seen["t_s"] <= until)
    waits = seen["ahead_bytes"] + seen["subflow_bytes"]
    share = waits / np.maximum(seen["limit_bytes"], 1)
    at_edge = np.zeros(seen["t_s"].size, dtype=bool)
    for one in distinct(seen["connection"]).tolist():
        here, left = seen["connection"] == one, _where(sent, sent["connection"] == one)
        reach = np.maximum.accumulate(left["data_position"] + left["bytes"])
        last = np.searchsorted(left["t_s"], seen["t_s"][here], side="right") - 1
        ahead = np.where(last >= 0, reach[np.maximum(last, 0)], 0) - seen["in_order_bytes"][here]
        at_edge[here] = (seen["window_bytes"][here] > 0) & (ahead > seen["window_bytes"][here] - _EDGE)
    blocked = (waits > 0) & (seen["unread_bytes"] == 0)
    return {
        "reader_blocked_s": SAMPLE_S * float(np.unique(seen["t_s"][blocked]).size),
        "buffer_waiting_share_max": float(share.max(initial=0.0)),
        "buffer_waiting_bytes_max": float(waits.max(initial=0)),
        "window_limited_s": SAMPLE_S * float(np.unique(seen["t_s"][at_edge]).size),
    }


def _in_repair(own: Tables, new: dict[str, Any], number: int) -> dict[str, Any]:
    """Return how much new data a subflow sent while it repaired a loss."""
    import numpy as np

    samples = [one for one in rows(own.get("samples", {})) if one["subflow"] == number]
    if not samples:
        return {}
    repairs = [one["state"] in REPAIR for one in samples]
    # Only the time between two samples with this state is counted, because most repairs begin and end between
    # samples.
    inside = np.array([False, *(one and other for one, other in pairwise(repairs)), False])
    left = new["subflow"] == number
    during = inside[np.searchsorted([one["t_s"] for one in samples], new["t_s"][left], side="right")]
    return {"repair_new_bytes": int(new["bytes"][left][during].sum())}


def _used(sent: dict[str, Any], number: int) -> float | None:
    """Return the share of the session's intervals, until the last data is sent, in which a subflow sent."""
    import numpy as np

    stretch = np.floor_divide(sent["t_s"], _STRETCH_S)
    count = float(stretch.max())
    own = np.unique(stretch[sent["subflow"] == number])
    return rounded(float((own < count).sum()) / count) if count else None


def _of_subflow(whole: _Stream, number: int, duration_s: float) -> dict[str, Any]:
    """Return the metrics of one subflow."""
    import numpy as np

    reads = np.isfinite(whole.ready_s)
    wait = np.zeros(whole.size.size)
    wait[reads] = (whole.ready_s[reads] - whole.up_s[reads]) * whole.size[reads]
    own = (whole.subflow == number) & reads
    latency = 1e3 * (whole.came_s - whole.sent_s)
    once = latency[own & (whole.copies == 1)]
    twice = latency[own & (whole.copies == 2) & (whole.retransmitted == 1)]
    until = np.minimum(np.minimum(whole.up_s, whole.until_s), duration_s)
    below = np.maximum(until - whole.came_s, 0.0)[whole.subflow == number]
    held = float((whole.size[whole.subflow == number] * below).sum()) / max(duration_s, SAMPLE_S)
    return {
        "awaited_share": rounded(float(wait[whole.behind == number].sum() / wait.sum()))
        if wait.any()
        else None,
        "out_of_order_bytes_mean": rounded(held, 3),
        "latency_ms_median": rounded(float(np.median(once)), 3) if once.size else None,
        "latency_repaired_ms_median": rounded(float(np.median(twice)), 3) if twice.size else None,
    }

"""The columns of a captured run's tables, and those that a capture cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FLOAT, _INT, _TEXT, _BOOL = "float", "int", "text", "bool"

#: The columns of every table by kind, as crate `trace` has them.
TABLES: Mapping[str, Mapping[str, str]] = {
    "connections": {
        "client": _INT,
        "connect_s": _FLOAT,
        "duration_s": _FLOAT,
        "bytes_read": _INT,
        "reinjected_bytes": _INT,
        "max_read_gap_s": _FLOAT,
        "refused_packets": _INT,
        "fallback": _BOOL,
        "finished": _BOOL,
        "planned_s": _FLOAT,
    },
    "subflows": {
        "client": _INT,
        "subflow": _INT,
        "path": _TEXT,
        "established": _BOOL,
        "bytes": _INT,
        "bytes_sent": _INT,
        "retransmissions": _INT,
        "bytes_retransmitted": _INT,
        "data_segments": _INT,
        "timeouts": _INT,
        "undos": _INT,
        "penalties": _INT,
        "delivered_ce": _INT,
        "ecn_reductions": _INT,
    },
    "samples": {
        "t_s": _FLOAT,
        "client": _INT,
        "subflow": _INT,
        "path": _TEXT,
        "cwnd_segments": _INT,
        "ssthresh_segments": _FLOAT,
        "in_flight_segments": _INT,
        "srtt_ms": _FLOAT,
        "min_rtt_ms": _FLOAT,
        "delivery_rate_mbps": _FLOAT,
        "pacing_rate_mbps": _FLOAT,
        "bytes_acked": _INT,
        "unsent_bytes": _INT,
        "retransmissions": _INT,
        "state": _TEXT,
    },
    "player": {
        "t_s": _FLOAT,
        "client": _INT,
        "bytes_read": _INT,
        "buffer_s": _FLOAT,
        "buffer_bytes": _INT,
    },
    "gaps": {"client": _INT, "t_s": _FLOAT, "gap_s": _FLOAT},
    "frames": {
        "client": _INT,
        "index": _INT,
        "pts_s": _FLOAT,
        "kind": _TEXT,
        "size": _INT,
        "fate": _TEXT,
        "why": _TEXT,
        "due_s": _FLOAT,
        "shown_s": _FLOAT,
    },
    "playback": {"client": _INT, "t_s": _FLOAT, "event": _TEXT, "pts_s": _FLOAT, "delay_ms": _FLOAT},
    "requests": {
        "client": _INT,
        "id": _INT,
        "t_s": _FLOAT,
        "resource": _TEXT,
        "first_byte_s": _FLOAT,
        "done_s": _FLOAT,
        "bytes": _INT,
    },
    "chunks": {
        "client": _INT,
        "track": _TEXT,
        "index": _INT,
        "rendition": _INT,
        "duration_s": _FLOAT,
        "bytes": _INT,
        "t_s": _FLOAT,
        "first_byte_s": _FLOAT,
        "done_s": _FLOAT,
        "throughput_mbps": _FLOAT,
        "buffer_before_s": _FLOAT,
        "buffer_after_s": _FLOAT,
        "abandoned": _BOOL,
    },
    "renditions": {
        "track": _TEXT,
        "rendition": _INT,
        "name": _TEXT,
        "bandwidth_bps": _INT,
        "average_bps": _FLOAT,
        "width": _INT,
        "height": _INT,
        "frame_rate": _FLOAT,
        "codecs": _TEXT,
        "duration_s": _FLOAT,
    },
    "links": {
        "link": _TEXT,
        "enqueued": _INT,
        "delivered": _INT,
        "dropped_queue": _INT,
        "dropped_loss": _INT,
    },
    "events": {"t_s": _FLOAT, "link": _TEXT, "what": _TEXT},
    "cross_traffic": {"flow": _INT, "name": _TEXT},
}

#: Columns by table.
_Columns = dict[str, tuple[str, ...]]

#: Columns that no capture shows.
_NEVER: _Columns = {
    "connections": ("refused_packets", "planned_s"),
    "subflows": ("timeouts", "undos", "penalties", "delivered_ce", "ecn_reductions"),
    "samples": (
        *("cwnd_segments", "ssthresh_segments", "delivery_rate_mbps", "pacing_rate_mbps"),
        *("unsent_bytes", "state"),
    ),
    "player": ("buffer_s", "buffer_bytes"),
}
#: Columns that only a capture at the server shows.
_AT_SERVER: _Columns = {
    "subflows": ("bytes_sent", "retransmissions", "bytes_retransmitted", "data_segments"),
    "samples": ("in_flight_segments", "retransmissions"),
}
#: Columns that only a capture at the client shows.
_AT_CLIENT: _Columns = {"connections": ("connect_s",)}
#: Columns that a capture shows only if its side is known.
_WITH_SIDE: _Columns = {"samples": ("srtt_ms", "min_rtt_ms")}

#: Metrics of a subflow or path that rest on columns of a capture at the server.
_METRICS_AT_SERVER = ("retransmissions", "idle_s")
#: Metrics of a subflow that rest on columns that no capture shows.
_METRICS_NEVER = (
    *("cwnd_segments_mean", "cwnd_segments_median", "cwnd_segments_std", "recovery_s", "loss_s"),
    *("window_back_s", "retransmissions_before_change", "retransmissions_after_change"),
)


def unseen(side: str | None) -> dict[str, tuple[str, ...]]:
    """Return the columns that a capture at a side cannot show, by table."""
    lists = [_NEVER]
    lists += [] if side == "server" else [_AT_SERVER]
    lists += [] if side == "client" else [_AT_CLIENT]
    lists += [] if side else [_WITH_SIDE]
    found: dict[str, tuple[str, ...]] = {}
    for one in lists:
        for table, columns in one.items():
            found[table] = found.get(table, ()) + tuple(columns)
    return found


#: Columns that are null if a network card joined segments.
_NOT_EXACT = {"subflows": ("retransmissions", "data_segments")}


def kinds(table: str, side: str | None, *, exact: bool) -> dict[str, str]:
    """Return the columns of a table with their kinds. A column that may be null holds floats."""
    null = (*unseen(side).get(table, ()), *(() if exact else _NOT_EXACT.get(table, ())))
    return {name: _FLOAT if name in null and kind == _INT else kind for name, kind in TABLES[table].items()}


def fitting(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the columns of a table; a column of whole numbers that rows lack holds floats."""
    return {
        name: _FLOAT if kind == _INT and any(row.get(name) is None for row in rows) else kind
        for name, kind in columns.items()
    }


def without_unseen(client: Mapping[str, Any], side: str | None) -> dict[str, Any]:
    """Return the metrics of a client; those that rest on columns that cannot be seen are None."""
    gone = (*_METRICS_NEVER, *(() if side == "server" else _METRICS_AT_SERVER))
    qos = dict(client["qos"])
    for part in ("subflows", "paths"):
        qos[part] = [
            {name: None if name in gone else value for name, value in one.items()} for one in qos[part]
        ]
    return {**client, "qos": qos}

"""Metrics: pure functions of a trace's tables, under the papers' names.

`qoe` has the viewer's metrics, `qos` the network's; both are the objects that `anabranch run --json` prints.
The Rust crate `metrics` computes them. Only the metrics of the receiver (`receiver`) are computed here. With
several clients, each number is the mean over the clients, and a flag is true if it is true for all.
`by_client` returns each client's own values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.metrics._receiver import receiver
from anabranch.metrics._rows import Tables, of_each, rows
from anabranch.plugins.tables import module

#: The tables from which the metrics of clients, links and cross traffic are computed.
_OF_CLIENTS = (
    *("connections", "subflows", "samples", "player", "frames", "playback"),
    *("requests", "chunks", "renditions", "events"),
)
_OF_ALL = ("links", "cross_traffic")

#: The result of `by_client`.
Clients = Sequence[Mapping[str, Any]]

#: Every number that an expectation may name, with its meaning.
METRICS: Mapping[str, str] = {
    "picture_discards": "pictures decoded too late to be shown, or without what they refer to",
    "buffer_underflows": "times the player ran out of media",
    "recovery_time_s": "mean time that the buffer stays empty after an underflow",
    "startup_delay_s": "from the connect to the first picture",
    "rebuffer_s": "total time that the buffer stayed empty after underflows",
    "rebuffer_longest_s": "the longest of these times",
    "still_s": "time without a new picture, from the first one to the end",
    "still_longest_s": "the longest stretch of it",
    "unplayed_s": "film that was not shown, up to its end or that of application.duration",
    "play_time_s": "film that was shown: time from the first picture to the end, less still_s",
    "frames.total": "pictures in the film",
    "frames.displayed": "pictures shown",
    "frames.discarded": "pictures discarded",
    "frames.flushed": "pictures thrown away unseen when the player began to buffer again",
    "startup_s": "S_o: from the first HTTP request to the start of playback",
    "total_s": "P_total: from the first HTTP request to the end of playback",
    "rebuffer_total_s": "R_total: P_total less S_o less the film's duration",
    "resolution_mean": "Res_avg: mean height of the chunks in pixels",
    "resolution_changes": "Res_ch: how often a chunk has another rendition than the one before",
    "top_share": "share of the film's time in the highest rendition",
    "bitrate_mean_mbps": "mean rate of the chunks that were played, sound of its own left out",
    "throughput_mean_mbps": "Th_avg: mean over whole seconds of what was read, idle ones included",
    "throughput_std_mbps": "standard deviation of the same",
    "throughput_active_mbps": "the same mean over the seconds alone in which something was read",
    "downloaded_bytes": "DB_total: payload that the subflows delivered, reinjected bytes included",
    "chunks_abandoned": "chunks that were given up for a lower rendition",
    "reached_end": "whether the player came to the end of the film or of application.duration",
    "finished": "whether the film was played to its end",
    "goodput_mbps": "in-order bytes that the client read, over the time from its connect",
    "rtt_diff_ms": "largest less smallest mean smoothed RTT of the subflows",
    "reinjected_bytes": "bytes sent again on another subflow",
    "max_read_gap_s": "longest time without a byte to read; from the connect to the end where none came",
    "queue_drops": "packets that found a queue full",
    "cross_traffic_mbps": "in-order bytes that background flows read, from the first start to the last end",
    "duration_s": "how long the session lasted",
    "receiver.subflow_wait_ms": "mean time a byte that came waited for a loss on its own subflow",
    "receiver.stream_wait_ms": "mean time it then waited for what another subflow had yet to bring",
    "receiver.reordered_share": "share of the bytes that waited for another subflow",
    "receiver.held_s": "time in which something had come and could not be read",
    "receiver.held_for_repair_s": "the same, for a segment that was retransmitted",
    "receiver.reader_blocked_s": "time in which something waited and the reader had read all there was",
    "receiver.path_changes_per_s": "how often a second new data went on another subflow than that before it",
    "receiver.off_nearest_share": "share of new data sent on another subflow than the one with the least RTT",
    "receiver.off_nearest_low_share": "of that, the share sent while the nearest's window was below half",
    "receiver.underflows_reordered": "underflows while 0.1 s of film waited for what was still under way",
    "receiver.underflows_repaired": "the same, for a segment that was retransmitted",
    "receiver.buffer_waiting_share_max": "largest share of the receive buffer taken by data that waited",
    "receiver.buffer_waiting_bytes_max": "the most bytes that waited",
    "receiver.window_limited_s": "time in which the sender had sent all that the receiver let it",
}

#: The numbers of each subflow with their meanings; an expectation names `subflows.PATH.NAME`.
SUBFLOW_METRICS: Mapping[str, str] = {
    "bytes": "payload acknowledged on the subflow",
    "throughput_mbps": "payload acknowledged over the time from the connect",
    "retransmissions": "segments sent again on the same subflow",
    "srtt_ms_mean": "mean smoothed RTT over samples 200 ms apart",
    "cwnd_segments_mean": "mean congestion window over samples 200 ms apart",
    "cwnd_segments_median": "median congestion window over samples 200 ms apart",
    "cwnd_segments_std": "standard deviation of the congestion window over the same samples",
    "recovery_s": "time in the state Recovery, in steps of 100 ms",
    "loss_s": "time in the state Loss, after a retransmission timeout, in steps of 100 ms",
    "idle_s": "time with nothing in flight, in steps of 100 ms",
    "window_back_s": "mean time from the start of a repair until the window is what it was, or the end",
    "retransmissions_before_change": "retransmissions up to the first change of the world",
    "retransmissions_after_change": "those from then on",
    "awaited_share": "of the time that data waited in the connection, the share for what this one brought",
    "out_of_order_bytes_mean": "mean bytes that waited for a loss on it, over the session",
    "latency_ms_median": "median time from sending to arrival, of data that was sent once",
    "latency_repaired_ms_median": "the same of data that was retransmitted once",
    "used_share": "share of the session's stretches of 10 s in which it sent data",
    "repair_new_bytes": "payload first sent on it between two samples in Recovery or Loss",
}


def qoe(tables: Tables, each: Clients | None = None) -> dict[str, Any] | None:
    """Return what the viewer saw.

    Parameters
    ----------
    tables
        The trace.
    each
        The result of `by_client`, if it was computed already.

    Returns
    -------
    dict or None
        The metrics of `METRICS` that concern the viewer, means over clients; None when nothing was played.
    """
    found = [client["qoe"] for client in (_clients(tables, ()) if each is None else each)]
    seen = [one for one in found if one is not None]
    return _mean(seen) if seen else None


#: The metrics of a path, with their descriptions. Means over its subflows are weighted by their bytes.
PATH_METRICS: Mapping[str, str] = {
    "subflows": "subflows that the path had",
    "bytes": "payload acknowledged on the path",
    "bytes_share": "share of the payload of all paths; null if there was none",
    "throughput_mbps": "payload acknowledged over the time from the connect",
    "retransmissions": "segments sent again on the same subflow, of all subflows of the path",
    "srtt_ms_mean": "mean smoothed RTT over samples 200 ms apart",
    "cwnd_segments_mean": "mean congestion window of a subflow over the same samples",
}


def qos(tables: Tables, each: Clients | None = None, *, paths: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the network did.

    Parameters
    ----------
    tables
        The trace.
    each
        The result of `by_client`, if it was computed already.
    paths
        The scenario's paths in its order.

    Returns
    -------
    dict
        The metrics of `METRICS` that concern the network, as means over the clients. `subflows` is a list
        with `SUBFLOW_METRICS` for each subflow in the order of establishment. `paths` is a list with
        `PATH_METRICS` in the scenario's order. With cross traffic, its results are added.
    """
    found = [client["qos"] for client in (by_client(tables, paths=paths) if each is None else each)]
    result: dict[str, Any] = module().whole_metrics(_some(tables, _OF_ALL), _mean(found))
    return result


def by_client(tables: Tables, *, paths: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return each client's own `qoe` and `qos` (without `queue_drops`, which belong to the links)."""
    result = _clients(tables, paths)
    if "arrivals" in tables and len(tables["arrivals"].get("t_s", ())):
        for found, (_, own) in zip(result, of_each(tables), strict=True):
            _add_receiver(found["qos"], own)
    return result


def _clients(tables: Tables, paths: Sequence[str]) -> list[dict[str, Any]]:
    """Return each client's metrics, without those of its receiver."""
    result: list[dict[str, Any]] = module().client_metrics(_some(tables, _OF_CLIENTS), list(paths))
    return result


def _some(tables: Tables, names: Sequence[str]) -> Tables:
    """Return the tables of these names."""
    return {name: tables[name] for name in names if name in tables}


def _add_receiver(qos: dict[str, Any], own: Tables) -> None:
    """Add the metrics of a client's receiver to the client's metrics."""
    inside = receiver(own)
    if inside is None:
        return
    for row, subflow in zip(rows(own["subflows"]), qos["subflows"], strict=True):
        subflow |= inside[1].get(row["subflow"], {"awaited_share": 0.0})
    qos["receiver"] = inside[0]


def duration_s(tables: Tables) -> float | None:
    """Return how long the longest session lasted from its connect, in seconds; None without a client."""
    return max(tables.get("connections", {}).get("duration_s", ()), default=None)


def lookup(
    name: str, *, qoe: Mapping[str, Any] | None, qos: Mapping[str, Any], duration: float | None
) -> Any:  # noqa: ANN401 - numbers and flags
    """Return the value of the metric that an expectation names; None when the run does not have it.

    Parameters
    ----------
    name
        A key of `METRICS`, or `subflows.PATH.NAME`.
    qoe, qos
        The run's objects.
    duration
        The run's `duration_s`.
    """
    if name == "duration_s":
        return duration
    if name.startswith("subflows."):
        _, path, metric = name.split(".", 2)
        found = [subflow.get(metric) for subflow in qos["subflows"] if subflow["path"] == path]
        return found[0] if found else None
    if name.startswith("frames."):
        return qoe["frames"].get(name.removeprefix("frames.")) if qoe else None
    if name.startswith("receiver."):
        return qos.get("receiver", {}).get(name.removeprefix("receiver."))
    return qos[name] if name in qos else (qoe or {}).get(name)


def _mean(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of objects of the same form, number by number.

    A single object is returned unchanged.
    """
    if len(each) == 1:
        return each[0]
    result: dict[str, Any] = module().mean_metrics(list(each))
    return result

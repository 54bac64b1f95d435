"""The viewer's metrics of a session that is known from a player's log."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._viewer import stall_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.logs._parsed import PlayerLog

#: Metrics that rest on single pictures that were shown.
_PICTURES = ("still_s", "still_longest_s", "unplayed_s", "play_time_s")
#: Metrics that rest on the ends of downloads.
_DOWNLOADS = (
    *("bitrate_mean_mbps", "rebuffer_total_s", "chunks_abandoned"),
    *("throughput_mean_mbps", "throughput_std_mbps", "throughput_active_mbps", "downloaded_bytes"),
)
#: Metrics that rest on the bytes that the client read, over time.
_READ = ("throughput_mean_mbps", "throughput_std_mbps", "throughput_active_mbps", "downloaded_bytes")


def metrics(log: PlayerLog, found: Mapping[str, Any] | None, *, captured: bool) -> dict[str, Any] | None:
    """Return the metrics of the viewer; those that the log cannot show are None.

    Parameters
    ----------
    log
        The log.
    found
        The metrics as they follow from the tables; None if the tables have neither pictures nor renditions.
    captured
        Whether a capture shows the bytes that the client read.
    """
    if log.clock == "none":
        return None
    result = dict(found) if found is not None else _basic(log)
    started = any(row["event"] == "start" for row in log.tables["playback"])
    ended = any(row["event"] == "end" for row in log.tables["playback"])
    gone: set[str] = set() if ended else {"reached_end", "finished"}
    gone |= {"unplayed_s"}
    if "frames" in result or not started:
        gone |= set(_PICTURES)
    if not started:
        gone |= {"startup_delay_s"}
    if not captured:
        gone |= set(_READ)
    done = any(row.get("done_s") is not None for row in log.tables["chunks"])
    if "frames" not in result and not done:
        gone |= set(_DOWNLOADS)
        result |= _requested(log)
    if "frames" in result:
        lost = sum(row["fate"] == "discarded" for row in log.tables["frames"])
        result["frames"] = {"total": None, "displayed": None, "discarded": lost, "flushed": None}
    return {name: None if name in gone else value for name, value in result.items()}


def _basic(log: PlayerLog) -> dict[str, Any]:
    """Return the metrics that follow from the events of playback alone."""
    events = [row for row in log.tables["playback"] if row["t_s"] is not None]
    lengths = [end - begin for begin, end in stall_times(events, log.last_s)]
    pictures = {"picture_discards": 0} if log.kind == "VLC" else {}
    start = next((row["t_s"] for row in events if row["event"] == "start"), None)
    ended = any(row["event"] == "end" for row in events)
    found: dict[str, Any] = {
        **pictures,
        "buffer_underflows": len(lengths),
        "recovery_time_s": sum(lengths) / len(lengths) if lengths else 0.0,
        "startup_delay_s": start,
        "rebuffer_s": sum(lengths),
        "rebuffer_longest_s": max(lengths, default=0.0),
        **dict.fromkeys(_PICTURES),
        "frames": {},
        "reached_end": ended,
        "finished": ended,
    }
    return found


def _requested(log: PlayerLog) -> dict[str, Any]:
    """Return the changes of rendition, and the highest one's share, by the requested chunks."""
    rows: Sequence[Mapping[str, Any]] = [
        row for row in log.tables["chunks"] if row["track"] == "video" and row.get("rendition") is not None
    ]
    if not rows:
        return {"resolution_changes": None, "top_share": None}
    lengths = [row.get("duration_s") for row in rows]
    top = max(row["rendition"] for row in log.tables["renditions"])
    share = None
    if all(length is not None for length in lengths) and (whole := sum(one or 0.0 for one in lengths)):
        share = sum(row["duration_s"] for row in rows if row["rendition"] == top) / whole
    changes = sum(one["rendition"] != other["rendition"] for one, other in pairwise(rows))
    return {"resolution_changes": changes, "top_share": share}

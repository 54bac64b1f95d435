"""Metrics of one viewer."""

from __future__ import annotations

from collections import Counter
from typing import Any

from anabranch.metrics._adaptive import adaptive
from anabranch.metrics._rows import Tables, rounded, rows
from anabranch.metrics._still import screen


def viewer(own: Tables) -> dict[str, Any] | None:
    """Return the `qoe` object of a client with these tables, or None if it had no player."""
    fates = Counter(own.get("frames", {}).get("fate", ()))
    streamed = adaptive(own)
    if not fates and not streamed:
        return None
    connection = next(rows(own["connections"]))
    events = sorted(rows(own.get("playback", {})), key=lambda row: row["t_s"])
    stalls = stall_times(events, connection["duration_s"])
    started = next((row["t_s"] for row in events if row["event"] == "start"), None)
    ended = next((row["t_s"] for row in events if row["event"] == "end"), None)
    rebuffer = sum(end - begin for begin, end in stalls)
    shown = screen(own)
    pictures = {
        "picture_discards": fates.get("discarded", 0),
        "frames": {
            "total": sum(fates.values()),
            "displayed": fates.get("displayed", 0),
            "discarded": fates.get("discarded", 0),
            "flushed": fates.get("flushed", 0),
        },
    }
    seen = {
        "buffer_underflows": len(stalls),
        "recovery_time_s": rounded(rebuffer / len(stalls)) if stalls else 0.0,
        "startup_delay_s": rounded(started),
        "rebuffer_s": rounded(rebuffer),
        "rebuffer_longest_s": rounded(max((end - begin for begin, end in stalls), default=0.0)),
        "still_s": rounded(shown.still_s),
        "still_longest_s": rounded(shown.longest_s),
        "unplayed_s": rounded(shown.unplayed_s),
        "play_time_s": rounded(shown.shown_s),
        "reached_end": shown.is_reached,
        "finished": bool(connection["finished"]) and ended is not None,
    }
    # For an adaptive player, the fate of each picture is unknown.
    rest = streamed or pictures
    order = dict.fromkeys(("picture_discards", *seen, *rest))
    order.pop("reached_end")
    order.pop("finished")
    found = {**seen, **rest}
    return {key: found[key] for key in (*order, "reached_end", "finished") if key in found}


def stall_times(events: list[dict[str, Any]], until_s: float) -> list[tuple[float, float]]:
    """Return when each underflow began and when playing went on, in seconds.

    Parameters
    ----------
    events
        One client's playback events by time.
    until_s
        The end of the session: an underflow without a resume lasts until then.
    """
    stalls: list[tuple[float, float]] = []
    began: float | None = None
    for row in events:
        if began is not None and row["event"] in ("underflow", "resume", "end"):
            # An underflow while the buffer is still empty is counted, and its time from then on.
            stalls.append((began, row["t_s"]))
            began = None
        if row["event"] == "underflow":
            began = row["t_s"]
    if began is not None:
        stalls.append((began, max(until_s, began)))
    return stalls

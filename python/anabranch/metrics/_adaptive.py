"""Metrics of one viewer of an adaptive player, as UQ18 defines them."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

from anabranch.metrics._rows import Tables, rounded, rows


def chunks(own: Tables, *, track: str = "video") -> list[dict[str, Any]]:
    """Return a client's chunks of a track that came in whole, each with its rendition's size and rate."""
    ladder = {row["rendition"]: row for row in rows(own.get("renditions", {})) if row["track"] == track}
    found = rows(own.get("chunks", {}))
    return [
        {**row, **{key: ladder[row["rendition"]][key] for key in ("name", "width", "height")}}
        for row in found
        if row["track"] == track and row["done_s"] is not None
    ]


def adaptive(own: Tables) -> dict[str, Any]:
    """Return what `qoe` has of an adaptive player alone; nothing of another."""
    ladder = [row for row in rows(own.get("renditions", {})) if row["track"] == "video"]
    if not ladder:
        return {}
    seen = chunks(own)
    events = {row["event"]: row["t_s"] for row in rows(own["playback"])}
    begun, ended, first = events.get("start"), events.get("end"), first_request_s(own)
    film_s = sum(row["duration_s"] for row in seen)
    startup = None if begun is None or first is None else begun - first
    total = None if ended is None or first is None else ended - first
    highest = max(row["height"] for row in ladder)
    top = max(row["rendition"] for row in ladder)
    at_top = sum(row["duration_s"] for row in seen if row["rendition"] == top)
    heights = [row["height"] for row in seen]
    changes = sum(one["rendition"] != other["rendition"] for one, other in pairwise(seen))
    rates = _rates(own)
    active = [rate for rate in rates if rate > 0]
    return {
        "startup_s": rounded(startup),
        "total_s": rounded(total),
        "rebuffer_total_s": None if total is None or startup is None else rounded(total - startup - film_s),
        "resolution_mean": rounded(fmean(heights)) if highest and heights else None,
        "resolution_changes": changes,
        "top_share": rounded(at_top / film_s) if film_s else 0.0,
        "bitrate_mean_mbps": rounded(8e-6 * sum(row["bytes"] for row in seen) / film_s) if film_s else 0.0,
        "throughput_mean_mbps": rounded(fmean(rates)) if rates else None,
        "throughput_std_mbps": rounded(pstdev(rates)) if rates else None,
        "throughput_active_mbps": rounded(fmean(active)) if active else None,
        "downloaded_bytes": sum(row["bytes"] for row in rows(own["subflows"])),
        "chunks_abandoned": sum(row["abandoned"] for row in rows(own["chunks"])),
    }


def first_request_s(own: Tables) -> float | None:
    """Return when the first HTTP request was sent, which requires a connection; None if none was sent."""
    connection = next(rows(own["connections"]))
    asked = min((row["t_s"] for row in rows(own["requests"])), default=None)
    return None if asked is None else float(max(asked, connection["connect_s"] or 0.0))


def _rates(own: Tables) -> list[float]:
    """Return what was read in each whole second from the first request to the last byte, in Mb/s."""
    requests = [row for row in rows(own["requests"]) if row["done_s"] is not None]
    if not requests:
        return []
    begun, done = min(row["t_s"] for row in requests), max(row["done_s"] for row in requests)
    # Samples come ten times a second: the first of each second is the mark.
    marks: dict[int, int] = {}
    for row in rows(own.get("player", {})):
        marks.setdefault(int(row["t_s"] + 1e-6), row["bytes_read"])
    whole = range(int(begun), int(done))
    return [8e-6 * (marks[at + 1] - marks[at]) for at in whole if at in marks and at + 1 in marks]

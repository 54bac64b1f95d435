"""Chunks and requests of an adaptive player."""

from __future__ import annotations

from typing import Any

from anabranch.metrics._rows import Tables, rows


def chunks(own: Tables, *, track: str = "video") -> list[dict[str, Any]]:
    """Return a client's completely received chunks of a track, each with its rendition's size and rate.

    Chunks of an unknown rendition, which a player's log may have, are left out.
    """
    ladder = {row["rendition"]: row for row in rows(own.get("renditions", {})) if row["track"] == track}
    found = rows(own.get("chunks", {}))
    return [
        {**row, **{key: ladder[row["rendition"]][key] for key in ("name", "width", "height")}}
        for row in found
        if row["track"] == track and row["done_s"] is not None and row["rendition"] in ladder
    ]


def first_request_s(own: Tables) -> float | None:
    """Return when the first HTTP request was sent, which requires a connection; None if none was sent."""
    connection = next(rows(own["connections"]))
    asked = min((row["t_s"] for row in rows(own["requests"])), default=None)
    return None if asked is None else float(max(asked, connection["connect_s"] or 0.0))

"""Start-up costs of a film's layout: the place of its index, connections, and interleaving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch.media import _boxes
from anabranch.media.probe import probe

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.media.probe import Packets

#: The length of film that VLC buffers before it plays: more than its network delay of 1 s, in steps of 250
#: ms.
GATHERED_S = 1.25
#: The round trips of connection establishment and of the request, before the first byte arrives (RFC 9293
#: section 3.5).
ROUND_TRIPS_PER_CONNECTION = 2

Index = Literal["front", "end", "fragments", "none"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of a film's file.

    Attributes
    ----------
    container
        The format's short name.
    index
        Where an MP4's index lies (`moov`): before or behind the media data, or in fragments. `none` is
        for formats that play without one.
    index_bytes
        Its size.
    connections
        HTTP connections that VLC 3 opens before it plays an MP4: it reads after the media data and comes
        back.
    least_connections
        Connections of a player that reads only what it needs.
    first_bytes
        Bytes that must arrive before it plays: up to the last packet of the first 1.25 s, and the index.
    needed_bytes
        The same number if the index were at the front and sound were interleaved with the pictures.
    apart_s
        The longest time between sound and pictures at one place of the file.
    """

    container: str
    index: Index
    index_bytes: int
    connections: int
    least_connections: int
    first_bytes: int
    needed_bytes: int
    apart_s: float


def start_s(connections: int, size_bytes: int, *, rtt_s: float, rate_bps: float) -> float:
    """Return the shortest possible startup delay of a film over a path, seconds.

    Slow start and losses add to it.

    Parameters
    ----------
    connections, size_bytes
        The number of connections opened one after the other, and the bytes that have to arrive.
    rtt_s, rate_bps
        The path.
    """
    return connections * ROUND_TRIPS_PER_CONNECTION * rtt_s + size_bytes * 8 / rate_bps


def check(path: Path) -> Layout:
    """Return a film's layout.

    Raises
    ------
    MediaError
        When the file is missing, unreadable, truncated, or holds no video.
    """
    found = probe(path)
    packets = found.packets
    first, needed = _gathered(packets)
    begin = min((at for at in packets.position if at is not None), default=0)
    index, index_bytes = _index(path) if found.container == "mp4" else ("none", 0)
    behind = index_bytes if index == "end" else 0
    is_mp4 = found.container == "mp4"
    return Layout(
        container=found.container,
        index=index,
        index_bytes=index_bytes,
        connections=3 if is_mp4 else 1,
        least_connections=3 if index == "end" else 1,
        first_bytes=first + behind,
        needed_bytes=begin + behind + needed,
        apart_s=_apart(packets),
    )


def _gathered(packets: Packets) -> tuple[int, int]:
    """Return the bytes up to the last packet of the first 1.25 s, and the bytes of these packets alone."""
    start = min(packets.dts_ns)
    last, total, at = 0, 0, 0
    for position, size, dts in zip(packets.position, packets.size, packets.dts_ns, strict=True):
        # A packet without a position is in the same unit as the previous packet.
        at = at + size if position is None else position + size
        if dts - start <= GATHERED_S * 1e9:
            last, total = max(last, at), total + size
    return last, total


def _apart(packets: Packets) -> float:
    """Return the longest time between sound and pictures in the order of the file, seconds."""
    reached: dict[str, int] = {}
    worst = 0
    if len(set(packets.stream)) < 2:
        return 0.0
    start = min(packets.dts_ns)
    for stream, dts in zip(packets.stream, packets.dts_ns, strict=True):
        reached[stream] = max(reached.get(stream, dts), dts)
        worst = max(worst, abs(reached.get("video", start) - reached.get("audio", start)))
    return worst / 1e9


def _index(path: Path) -> tuple[Index, int]:
    """Return the place and the size of an MP4's index."""
    names = list(_boxes.outermost(path))
    size = sum(length for name, length in names if name == b"moov")
    order = [name for name, _ in names]
    if b"moof" in order:
        return "fragments", size
    if b"moov" not in order or b"mdat" not in order:
        return "front", size
    return ("front" if order.index(b"moov") < order.index(b"mdat") else "end"), size

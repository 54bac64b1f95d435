"""The figures of a session that the capture of its headers shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from anabranch import capture as captures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path as File

    from anabranch.capture import Capture
    from anabranch.capture import Path as Subflow
    from anabranch.capture import Session as Connection
    from anabranch.measure._paths import Path


@dataclass(frozen=True, kw_only=True)
class PathSeen:
    """A path of a session, over all of its subflows.

    Attributes
    ----------
    bytes
        Payload that arrived, each byte of a subflow counted once.
    rtt_ms, min_rtt_ms
        Mean of the round-trip times of all subflows together, and the least; None if the capture shows none.
    rtt_from
        How most of them were measured: `data`, `timestamps` or `handshake`.
    out_of_order
        Frames that came while an earlier one of the subflow was missing.
    twice_bytes
        Bytes that came twice on a subflow: the server retransmitted them needlessly.
    head_of_line_s
        How long data of other paths waited for data of this path; None without MPTCP.
    """

    bytes: int
    rtt_ms: float | None
    min_rtt_ms: float | None
    rtt_from: str | None
    out_of_order: int
    twice_bytes: int
    head_of_line_s: float | None


@dataclass(frozen=True, kw_only=True)
class Captured:
    """The capture of a session.

    Attributes
    ----------
    file
        The file, if it is kept.
    frames, drops
        Numbers of packets: those in it, and those that the kernel dropped before they could be written.
    paths
        The paths that were used, by name.
    reinjected_bytes
        Bytes of which copies arrived on two paths; None without MPTCP.
    fallback
        Why MPTCP was not used; None if it was, or was not asked for.
    throughput
        UQ18's `Th_avg` and `Th_std`, Mb/s; None for a session of less than a second.
    not_visible
        Values that the capture cannot show, with the reasons.
    """

    file: str | None
    frames: int
    drops: int
    paths: Mapping[str, PathSeen] = field(default_factory=dict)
    reinjected_bytes: int | None = None
    fallback: str | None = None
    throughput: tuple[float | None, float | None] = (None, None)
    not_visible: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the session's packets are in it, without a gap."""
        return bool(self.paths) and not self.drops


def read_capture(
    file: File, *, kept: bool, drops: int, ends: Iterable[tuple[str, int]], paths: Sequence[Path]
) -> Captured:
    """Return what a file shows of the connections that begin at these addresses and ports of this host.

    Parameters
    ----------
    file, kept, drops
        The file, whether it stays, and the number of packets that it lacks.
    ends
        The local addresses and ports of the session's sockets.
    paths
        This host's paths.
    """
    found = captures.read(file, progress=False)
    own = set(ends)
    together = [
        one
        for one in captures.sessions(found, side="client")
        if any(_end(path.client) in own for path in one.paths)
    ]
    name, frames = str(file) if kept else None, found.counts["records"]
    if not together:
        return Captured(file=name, frames=frames, drops=drops)
    figures = captures.joined(found, together).run().summary["uq18"]
    reinjected = [one.reinjected_bytes for one in together if one.reinjected_bytes is not None]
    return Captured(
        file=name,
        frames=frames,
        drops=drops,
        paths=_paths(found, together, paths),
        reinjected_bytes=sum(reinjected) if reinjected else None,
        fallback=next((one.fallback for one in together if one.fallback), None),
        throughput=(figures["Th_avg"], figures["Th_std"]),
        not_visible=tuple(
            dict.fromkeys(what for one in together for what in one.not_visible if what != captures.NEEDS_LOG)
        ),
    )


def _end(text: str) -> tuple[str, int]:
    """Return the address and port of an end."""
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


def _paths(found: Capture, together: Sequence[Connection], paths: Sequence[Path]) -> dict[str, PathSeen]:
    """Return the paths of connections, in the order of this host's."""
    streams = {stream["stream"]: stream for stream in found.streams}
    result = {}
    for path in paths:
        seen = [one for session in together for one in session.paths if _end(one.client)[0] == path.address]
        if not seen:
            continue
        leasts = [one.min_rtt_ms for one in seen if one.min_rtt_ms is not None]
        waits = [one.head_of_line_s for one in seen if one.head_of_line_s is not None]
        # A subflow that the server opened has its two directions exchanged.
        down = [
            streams[one.stream]["to_client" if streams[one.stream]["client"] == one.client else "to_server"]
            for one in seen
        ]
        result[path.name] = PathSeen(
            bytes=sum(one.bytes for one in seen),
            rtt_ms=_rtt_mean(seen),
            min_rtt_ms=min(leasts, default=None),
            rtt_from=max(seen, key=lambda one: one.rtt_samples).rtt_from,
            out_of_order=sum(one.out_of_order or 0 for one in seen),
            twice_bytes=sum(way["resent_bytes"] for way in down),
            head_of_line_s=sum(waits) if waits else None,
        )
    return result


def _rtt_mean(subflows: Sequence[Subflow]) -> float | None:
    """Return the mean round-trip time of subflows, ms, each weighted by its samples; None without any."""
    known = [(one.rtt_mean_ms, one.rtt_samples) for one in subflows if one.rtt_mean_ms is not None]
    return fmean(*zip(*known, strict=True)) if known else None

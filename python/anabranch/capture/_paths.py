"""The results of each session in a capture, and of each of its paths.

Where a capture was taken decides what it can say. At the sender of the data, repeated bytes are
retransmissions, and the time from a segment to its acknowledgement is the path's round-trip time. At the
receiver, segments that were lost and sent again are seen once, and that time is the receiver's own. There the
path's round-trip time follows from the echoes of the receiver's timestamps, or from its SYN and the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.capture._read import Capture


@dataclass(frozen=True, kw_only=True)
class Path:
    """One TCP connection of a session: a subflow, or the whole session over plain TCP.

    Attributes
    ----------
    stream
        Number of the TCP connection in the capture.
    client, server
        Addresses and ports.
    bytes
        Bytes to the client, each counted once.
    bytes_to_server
        Bytes to the server, each counted once.
    throughput_mbps
        Those to the client over the session's duration, in Mb/s.
    rtt_ms, min_rtt_ms
        Median and least round-trip time of the path in milliseconds; None if the capture shows none.
    rtt_mean_ms
        Their mean (UQ18's `RTT_avg`).
    rtt_from, rtt_samples
        How it was measured, `data`, `timestamps` or `handshake`, and how often.
    retransmitted_bytes
        Bytes to the client that were sent again; None where retransmissions cannot be seen.
    unneeded_bytes
        Those of them that the client reported as received twice (D-SACK).
    out_of_order
        Segments that came while an earlier one was missing; None where it cannot be seen.
    head_of_line_s
        How long data of other paths waited for data that this path brought, in seconds; None without MPTCP,
        and where the capture was not taken at the client.
    idle_s
        All silences of at least one second, in seconds.
    zero_windows
        How often the client advertised a window of zero.
    """

    stream: int
    client: str
    server: str
    bytes: int
    bytes_to_server: int
    throughput_mbps: float | None
    rtt_ms: float | None
    min_rtt_ms: float | None
    rtt_mean_ms: float | None
    rtt_from: str | None
    rtt_samples: int
    retransmitted_bytes: int | None
    unneeded_bytes: int | None
    out_of_order: int | None
    head_of_line_s: float | None
    idle_s: float
    zero_windows: int


@dataclass(frozen=True, kw_only=True)
class Session:
    """An MPTCP connection, or a TCP connection without MPTCP.

    Attributes
    ----------
    name
        `MPTCP 0`, `TCP 3`: its kind and number.
    connection
        The number of the MPTCP connection; None without MPTCP.
    captured_at
        `client` or `server`; None if the capture does not tell.
    evidence
        A sentence with the reason for this.
    duration_s
        From its first segment to its last, in seconds.
    bytes
        Bytes to the client, each counted once.
    goodput_mbps
        Those over the duration, in Mb/s.
    reinjected_bytes
        Bytes to the client that a second subflow carried too; None without MPTCP.
    head_of_line_s
        How long data to the client waited for earlier data, in seconds; None as in `Path`.
    fallback
        Why MPTCP is not used; None if it is, or was not asked for.
    paths
        The subflows.
    not_visible
        Values that this capture cannot show, with the reason.
    """

    name: str
    connection: int | None
    captured_at: str | None
    evidence: str
    duration_s: float
    bytes: int
    goodput_mbps: float | None
    reinjected_bytes: int | None
    head_of_line_s: float | None
    fallback: str | None
    paths: tuple[Path, ...]
    not_visible: tuple[str, ...]

    @property
    def rtt_diff_ms(self) -> float | None:
        """The largest difference between two paths' mean round-trip times (UQ18's `RTT_diff`)."""
        known = [path.rtt_mean_ms for path in self.paths if path.rtt_mean_ms is not None]
        return max(known) - min(known) if len(known) > 1 else None


def sessions(capture: Capture, *, side: str | None = None) -> list[Session]:
    """Return the MPTCP connections of a capture, and then its TCP connections without MPTCP.

    Parameters
    ----------
    capture
        The capture.
    side
        The host at which it was taken, `client` or `server`, if the caller knows it. None infers it.
    """
    found = [_mptcp(capture, connection, side) for connection in capture.connections]
    found += [
        _tcp(stream, side)
        for stream in capture.streams
        if stream["connection"] is None and stream["orphan_token"] is None
    ]
    return found


def _mptcp(capture: Capture, connection: Mapping[str, Any], known: str | None) -> Session:
    """Return an MPTCP connection."""
    by_number = {stream["stream"]: stream for stream in capture.streams}
    subflows = connection["subflows"]
    streams = [by_number[subflow["stream"]] for subflow in subflows]
    side, evidence = _side(
        [
            _seen_from_client(stream) if subflow["from_server"] else stream
            for subflow, stream in zip(subflows, streams, strict=True)
        ],
        known,
    )
    begin = min(stream["begin_s"] for stream in streams)
    end = max(stream["begin_s"] + stream["duration_s"] for stream in streams)
    data = connection["to_client"]
    # At the server it would be the order in which the scheduler sent.
    at_client = side == "client"
    received = data["unique_bytes"] + data["unmapped_bytes"]
    paths = tuple(
        _path(
            stream,
            side,
            end - begin,
            head_of_line_s=(
                data["head_of_line_s_by_stream"].get(str(stream["stream"]), 0.0) if at_client else None
            ),
            from_server=subflow["from_server"],
        )
        for subflow, stream in zip(subflows, streams, strict=True)
    )
    name = f"MPTCP {connection['connection']}" + (
        " (matched by data sequence numbers)" if connection["guessed"] else ""
    )
    return Session(
        name=name,
        connection=connection["connection"],
        captured_at=side,
        evidence=evidence,
        duration_s=end - begin,
        bytes=received,
        goodput_mbps=_rate(received, end - begin),
        reinjected_bytes=data["reinjected_bytes"],
        head_of_line_s=data["head_of_line_s"] if at_client else None,
        fallback=connection["fallback"],
        paths=paths,
        not_visible=tuple(_not_visible(side, connection)),
    )


def _tcp(stream: Mapping[str, Any], known: str | None) -> Session:
    """Return a TCP connection without MPTCP."""
    side, evidence = _side([stream], known)
    path = _path(stream, side, stream["duration_s"], head_of_line_s=None, from_server=False)
    return Session(
        name=f"TCP {stream['stream']}",
        connection=None,
        captured_at=side,
        evidence=evidence,
        duration_s=stream["duration_s"],
        bytes=path.bytes,
        goodput_mbps=path.throughput_mbps,
        reinjected_bytes=None,
        head_of_line_s=None,
        fallback=None,
        paths=(path,),
        not_visible=tuple(_not_visible(side, None)),
    )


def _seen_from_client(stream: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the handshake of a subflow that the session's server opened, with the two hosts exchanged."""
    other = {"client": "server", "server": "client", None: None}
    return {
        **stream,
        "captured_at": other[stream["captured_at"]],
        "syn_to_syn_ack_ms": stream["syn_ack_to_ack_ms"],
        "syn_ack_to_ack_ms": stream["syn_to_syn_ack_ms"],
    }


def _side(streams: Sequence[Mapping[str, Any]], known: str | None) -> tuple[str | None, str]:
    """Return the host at which the capture was taken, and a sentence with the reason."""
    if known is not None:
        return known, f"Taken at the {known}."
    told = [stream for stream in streams if stream["captured_at"] is not None]
    sides = {stream["captured_at"] for stream in told}
    if len(sides) != 1:
        why = "its subflows disagree" if sides else "no host answers much sooner than the other"
        return None, f"The capture does not tell at which host it was taken: {why}."
    (side,) = sides
    shake = next((stream for stream in told if stream["syn_ack_to_ack_ms"] is not None), None)
    if shake is None or shake["syn_to_syn_ack_ms"] is None:
        return side, f"Taken at the {side}: it acknowledges data at once, and the other host does not."
    server, client = shake["syn_to_syn_ack_ms"], shake["syn_ack_to_ack_ms"]
    return side, (
        f"Taken at the {side}, or near it: in the handshake the server answered after {server:,.3g} ms and "
        f"the client after {client:,.3g} ms."
    )


def _path(
    stream: Mapping[str, Any],
    side: str | None,
    duration_s: float,
    *,
    head_of_line_s: float | None,
    from_server: bool,
) -> Path:
    """Return what a stream says. `side` is that of the session."""
    # A subflow that the server opened: its client is the session's server.
    up, down = ("to_client", "to_server") if from_server else ("to_server", "to_client")
    data = stream[down]
    rtt = _round_trip(_seen_from_client(stream) if from_server else stream, side, up, down)
    seen = side == "server"
    return Path(
        stream=stream["stream"],
        client=stream["server" if from_server else "client"],
        server=stream["client" if from_server else "server"],
        bytes=data["unique_bytes"],
        bytes_to_server=stream[up]["unique_bytes"],
        throughput_mbps=_rate(data["unique_bytes"], duration_s),
        rtt_ms=rtt[0],
        min_rtt_ms=rtt[1],
        rtt_mean_ms=rtt[2],
        rtt_from=rtt[3],
        rtt_samples=rtt[4],
        retransmitted_bytes=data["resent_bytes"] if seen else None,
        unneeded_bytes=data["duplicate_sack_bytes"] if seen else None,
        out_of_order=None if seen or side is None else data["out_of_order_frames"],
        head_of_line_s=head_of_line_s,
        idle_s=stream["idle_s"],
        zero_windows=stream[up]["zero_windows"],
    )


def _round_trip(
    stream: Mapping[str, Any], side: str | None, up: str, down: str
) -> tuple[float | None, float | None, float | None, str | None, int]:
    """Return median, least and mean round-trip time of the path, and how and how often it was measured."""
    # Data of the host at which the capture was taken, or the echo of its timestamps.
    own = up if side == "client" else down
    if side is not None:
        for what, times in (("data", stream[own]["ack_rtt"]), ("timestamps", stream[own]["echo_rtt"])):
            # The requests of a client are too few for a median.
            if times["count"] >= _LEAST_SAMPLES:
                return times["median_ms"], times["min_ms"], times["mean_ms"], what, times["count"]
    shake = stream["syn_to_syn_ack_ms" if side == "client" else "syn_ack_to_ack_ms"]
    if side is not None and shake is not None:
        return shake, shake, shake, "handshake", 1
    return None, None, None, None, 0


#: The part of a session that only its player's log shows.
NEEDS_LOG = "pictures, stalls and start-up: they need the player's log"
#: Fewer samples give no median.
_LEAST_SAMPLES = 5


def _not_visible(side: str | None, connection: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what the capture cannot show, each with its reason."""
    if side == "client":
        yield "retransmissions to the client: a lost segment does not reach it, so it sees only the second"
        if connection is not None and len(connection["subflows"]) > 1:
            yield "reinjections to the client of which only one copy arrived"
    elif side == "server":
        yield "segments out of order at the client, and waiting data there: the server sees what it sends"
    else:
        yield "retransmissions, order and round-trip times: the side of the capture is not known"
    yield NEEDS_LOG
    yield "window (cwnd) and scheduler: they are not on the wire"
    if connection is not None and not connection["both_keys_seen"]:
        yield "whether joins are genuine: the keys were not captured"


def _rate(count: int, duration_s: float) -> float | None:
    """Return bytes over a duration in Mb/s."""
    return count * 8 / duration_s / 1e6 if duration_s > 0 else None

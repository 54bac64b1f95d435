"""Two captures of one session, at the client and at the server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.capture._read import reading
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars

    from anabranch.metrics._rows import Tables


@dataclass(frozen=True, kw_only=True)
class Way:
    """One direction of a TCP connection that is in both captures.

    Attributes
    ----------
    sent_bytes, received_bytes, lost_bytes
        Payload that left one host, that arrived at the other, and the difference. Retransmissions count.
    sent_segments, received_segments, lost_segments
        The same in segments; None if a network card split or joined segments.
    matched_segments
        Segments whose one-way delay is known.
    min_delay_ms, median_delay_ms, p95_delay_ms, max_delay_ms
        Their one-way delays; None without any.
    """

    sent_bytes: int
    received_bytes: int
    lost_bytes: int
    sent_segments: int | None
    received_segments: int | None
    lost_segments: int | None
    matched_segments: int
    min_delay_ms: float | None
    median_delay_ms: float | None
    p95_delay_ms: float | None
    max_delay_ms: float | None


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A TCP connection that is in both captures.

    Attributes
    ----------
    client_stream, server_stream
        Its number in the capture at the client and in that at the server.
    client, server
        Its ends, as the client's capture has them.
    to_server, to_client
        Both directions.
    """

    client_stream: int
    server_stream: int
    client: str
    server: str
    to_server: Way
    to_client: Way


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two captures of the same sessions.

    Attributes
    ----------
    first_is_server
        Whether the first file was taken at the server.
    server_ahead_ms
        By how much the clock of the server's capture is ahead. It assumes that the fastest segments take
        equally long in both directions.
    right_to_ms
        How far this can be wrong: half of the least round-trip time.
    connections
        The TCP connections that are in both files.
    only_at_client, only_at_server
        How many connections only one file has.
    tables
        `capture_delays`: the one-way delays of each connection and direction every 0.1 s.
    """

    first_is_server: bool
    server_ahead_ms: float | None
    right_to_ms: float | None
    connections: Sequence[Connection]
    only_at_client: int
    only_at_server: int
    tables: Tables = field(repr=False)
    damage: Sequence[str] = ()

    def delays(self) -> polars.DataFrame:
        """Return the one-way delays: one row for 0.1 s, connection and direction."""
        import polars

        return polars.DataFrame(self.tables["capture_delays"])

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can have it."""
        import dataclasses

        whole = dataclasses.asdict(dataclasses.replace(self, tables={}))
        del whole["tables"]
        return whole


def match(first: str | Path, second: str | Path) -> Pair:
    """Match two captures of the same sessions, one at the client and one at the server.

    Parameters
    ----------
    first, second
        The files in any order. The handshakes show which of them was taken at the server; if they do not, it
        is the second.

    Raises
    ------
    InputError
        When a file cannot be read or is no capture, or when they have no TCP connection in common.

    Examples
    --------
    >>> from anabranch import capture
    >>> both = capture.match("client.pcap", "server.pcap")  # doctest: +SKIP
    >>> both.connections[0].to_client.lost_segments  # doctest: +SKIP
    """
    where = f"{first} and {second}"
    with reading(first, second):
        raw = plugins.module().match_captures(str(first), str(second))
    found = json.loads(raw["json"])
    if not found["connections"]:
        hint = "connections are matched by the sequence numbers of their handshakes, or by their addresses"
        message = "the captures have no TCP connection in common"
        raise InputError([Fault(message=message, where=where, hint=hint)])
    return Pair(
        first_is_server=found["first_is_server"],
        server_ahead_ms=found["server_ahead_ms"],
        right_to_ms=found["right_to_ms"],
        connections=[_connection(one) for one in found["connections"]],
        only_at_client=found["only_at_client"],
        only_at_server=found["only_at_server"],
        tables=raw["tables"],
        damage=raw["damage"],
    )


def _connection(one: Mapping[str, Any]) -> Connection:
    """Return a connection of the module."""
    ways = {name: Way(**one[name]) for name in ("to_server", "to_client")}
    return Connection(**{**one, **ways})

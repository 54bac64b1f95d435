"""A captured session as a run: the tables of a trace, as far as the capture shows them.

The trace has one client: the connections between one pair of hosts. A column that the capture cannot show is
null. A log of a player can be merged: `Traced.tables` may get rows of `playback` and `frames` before
`Traced.run` computes the metrics.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import metrics
from anabranch._run import Run
from anabranch.capture import _columns, _http
from anabranch.capture._course import Course, courses, merged
from anabranch.capture._paths import Session, sessions
from anabranch.capture._read import Capture, read
from anabranch.errors import Fault, InputError
from anabranch.live._tables import made

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch import _progress

#: The most rows of samples. Of a longer session only the times with segments have rows.
_MOST_ROWS = 500_000


@dataclass(frozen=True, kw_only=True)
class Part:
    """A TCP connection of the session: its description, its path, and the names of both directions."""

    number: int
    path: str
    stream: Mapping[str, Any]
    down: str
    up: str


@dataclass(frozen=True, kw_only=True)
class Traced:
    """A session on its way to a run.

    Attributes
    ----------
    name
        The name of the run.
    session
        The sessions of the pair of hosts, as `sessions` returns them, the largest first.
    tables
        Rows by table. A player's log may add to them.
    summary
        The run's summary.
    paths
        The paths in the order of their first segments.
    parts
        The TCP connections.
    multipath
        Whether MPTCP was used.
    side
        The host at which the capture was taken.
    identity
        The hash of the file.
    exact
        Whether frames are segments: no network card joined any.
    viewed
        Corrects the viewer's metrics by a player's log; None without a log.
    """

    name: str
    session: Sequence[Session]
    tables: dict[str, list[dict[str, Any]]]
    summary: dict[str, Any]
    paths: tuple[str, ...]
    parts: Sequence[Part]
    multipath: bool
    side: str | None = None
    identity: str = ""
    exact: bool = True
    viewed: Callable[[Mapping[str, Any] | None], dict[str, Any] | None] | None = None

    def _table(self, name: str) -> Mapping[str, Any]:
        """Return the columns of a table. Only rows of a player's log lack values that a capture has."""
        rows = self.tables.get(name, ())
        kinds = _columns.kinds(name, self.side, exact=self.exact)
        table: Mapping[str, Any] = made(kinds if self.viewed is None else _columns.fitting(kinds, rows), rows)
        return table

    def run(self) -> Run:
        """Return the run, with its metrics."""
        tables = {name: self._table(name) for name in _columns.TABLES}
        clients = [
            _columns.without_unseen(client, self.side)
            for client in metrics.by_client(tables, paths=self.paths)
        ]
        if self.viewed is not None:
            clients = [{**client, "qoe": self.viewed(client["qoe"])} for client in clients]
        elif not self.tables.get("playback"):
            clients = [{**client, "qoe": None} for client in clients]
        qos = metrics.qos(tables, clients, paths=self.paths)
        plan = _plan(self)
        found = Run(
            scenario=self.name,
            seed=0,
            run=0,
            scheduler="unknown",
            congestion="unknown",
            plan=plan,
            tables=tables,
            summary=self.summary,
            # There is one client, so no mean is taken.
            qoe=clients[0]["qoe"],
            qos={**qos, "queue_drops": None},
            clients=clients,
            identity=self.identity,
        )
        from anabranch.capture._uq18 import uq18

        return replace(found, summary={**self.summary, "uq18": uq18(found, self.session)})


def read_capture(file: str | Path, *, session: str | None = None, progress: _progress.Asked = None) -> Run:
    """Read a capture and return its largest session as a run.

    Parameters
    ----------
    file
        A pcap or pcapng file, also compressed with gzip.
    session
        The name of another session, for example `MPTCP 2`. All connections between the same client address
        and the same server belong to it.
    progress
        As in `anabranch.capture.read`.

    Returns
    -------
    Run
        The tables of a trace and the metrics. Values that the capture cannot show are None.
        `summary["not_visible"]` names them, `summary["captured_at"]` is the side, and `summary["uq18"]` has
        UQ18's figures.

    Raises
    ------
    InputError
        When the file cannot be read, is no capture, or has no such session.

    Examples
    --------
    >>> import anabranch
    >>> run = anabranch.read_capture("session.pcapng")  # doctest: +SKIP
    >>> run.qos["goodput_mbps"], run.summary["uq18"]["RTT_avg"]  # doctest: +SKIP
    """
    return traced(read(file, progress=progress), session=session).run()


def traced(capture: Capture, *, session: str | None = None) -> Traced:
    """Return a session of a capture with its tables. The parameters are those of `read_capture`."""
    found = sessions(capture)
    chosen = _chosen(found, session, capture.file)
    return joined(capture, [one for one in found if _hosts(one) == _hosts(chosen)], whole=len(found))


def joined(capture: Capture, together: Sequence[Session], *, whole: int | None = None) -> Traced:
    """Return connections as one session with its tables.

    Parameters
    ----------
    capture
        The capture.
    together
        The connections of the session, from `sessions`.
    whole
        The number of sessions in the capture; None if these are all.
    """
    own = sorted(together, key=lambda one: -one.bytes)
    side = own[0].captured_at
    parts = _parts(capture, own)
    begin = min(part.stream["begin_s"] for part in parts)
    data = _data(capture, own, side)
    end = data.last_s if data.last_s is not None else max(_end(part.stream) for part in parts)
    exact = not capture.counts["frames_over_1600"]
    tables = {
        "connections": [_connection(own, parts, data, begin, end, side)],
        "subflows": [_subflow(part, side, exact=exact) for part in parts],
        "samples": _samples(capture, parts, begin, side),
        "player": [{"t_s": time, "client": 0, "bytes_read": count} for time, count in data.steps(begin, end)],
        "gaps": [
            {"client": 0, "t_s": at - begin, "gap_s": length} for at, length in data.pauses if at >= begin
        ],
        **_http.tables(_http.exchanges(capture, own), begin),
    }
    summary: dict[str, Any] = {
        "world": "captured",
        "digest": "",
        "duration_s": end - begin,
        "steps": capture.counts["tcp_segments"],
        "captured_at": side,
        "evidence": own[0].evidence,
        "sent_bytes": sum(one.bytes for one in own),
        "begin_s": begin,
        "begin_unix_s": _unix(capture, begin),
        "sessions": [one.name for one in own],
        "not_visible": list(dict.fromkeys(what for one in own for what in one.not_visible)),
    }
    summary["notes"] = _notes(capture, own, len(own) if whole is None else whole)
    return Traced(
        name=_name(capture.file),
        session=own,
        tables=tables,
        summary=summary,
        paths=tuple(dict.fromkeys(part.path for part in parts)),
        parts=parts,
        multipath=any(one.reinjected_bytes is not None and not one.fallback for one in own),
        side=side,
        identity=capture.identity,
        exact=exact,
    )


def _name(file: str) -> str:
    """Return the file's own name."""
    return Path(file).name


def _unix(capture: Capture, begin_s: float) -> float | None:
    """Return when the session began, in seconds since 1970; None if frames have no time."""
    first = capture.counts["first_unix_s"]
    return None if first is None else first + begin_s


def _chosen(found: Sequence[Session], name: str | None, file: str) -> Session:
    """Return the session of a name, or the one with the most bytes to the client."""
    if not found:
        raise InputError([Fault(message="no TCP connection in the capture", where=file)])
    if name is None:
        return max(found, key=lambda one: (one.bytes, -found.index(one)))
    named = [one for one in found if one.name == name]
    if not named:
        hint = "sessions are " + ", ".join(one.name for one in found[:5])
        raise InputError([Fault(message=f"no such session: `{name}`", where=file, hint=hint)])
    return named[0]


def _hosts(session: Session) -> tuple[str, str]:
    """Return the client's address and the server's address and port, of the first path."""
    first = session.paths[0]
    return _address(first.client), first.server


def _address(end: str) -> str:
    """Return the address of an end without its port."""
    return end.rpartition(":")[0].strip("[]")


def _parts(capture: Capture, own: Sequence[Session]) -> list[Part]:
    """Return the TCP connections of sessions, in the order of their first segments."""
    by_number = {stream["stream"]: stream for stream in capture.streams}
    paths = sorted((path for session in own for path in session.paths), key=lambda path: path.stream)
    pairs = list(dict.fromkeys((_address(path.client), _address(path.server)) for path in paths))
    clients = {client for client, _ in pairs}
    result = []
    for number, path in enumerate(paths):
        client, server = _address(path.client), _address(path.server)
        name = client if len(clients) == len(pairs) else f"{client} {server}"
        stream = by_number[path.stream]
        # A subflow that the server opened carries data to the client in the other direction.
        turned = stream["client"] != path.client
        down, up = ("to_server", "to_client") if turned else ("to_client", "to_server")
        result.append(Part(number=number, path=name, stream=stream, down=down, up=up))
    return result


def _data(capture: Capture, own: Sequence[Session], side: str | None) -> Course:
    """Return the course of the bytes to the client: those in order, or at the server those acknowledged."""
    what = "acknowledged" if side == "server" else "in_order"
    known = courses(capture)
    found = []
    for session in own:
        key = ("connection", session.connection, "to_client", what)
        if session.connection is None or (key not in known and session.fallback):
            key = ("stream", session.paths[0].stream, "to_client", what)
        if key in known:
            found.append(known[key])
    return merged(found)


def _end(stream: Mapping[str, Any]) -> float:
    """Return the time of the last segment of a stream."""
    return float(stream["begin_s"] + stream["duration_s"])


def _connection(
    own: Sequence[Session], parts: Sequence[Part], data: Course, begin: float, end: float, side: str | None
) -> dict[str, Any]:
    """Return the row of table `connections`."""
    first = parts[0].stream
    answered = first["syn_ack_s"] if side == "client" and first["syn_seen"] else None
    reinjected = [one.reinjected_bytes for one in own if one.reinjected_bytes is not None]
    return {
        "client": 0,
        "connect_s": None if answered is None else answered - begin,
        "duration_s": end - begin,
        "bytes_read": data.bytes,
        "reinjected_bytes": sum(reinjected),
        "max_read_gap_s": data.longest_pause_s,
        "fallback": any(one.fallback for one in own),
        "finished": any(part.stream[part.down]["fin"] for part in parts),
    }


def _subflow(part: Part, side: str | None, *, exact: bool) -> dict[str, Any]:
    """Return a row of table `subflows`. Segments are counted `exact` if no network card joined them."""
    down = part.stream[part.down]
    row = {
        "client": 0,
        "subflow": part.number,
        "path": part.path,
        "established": part.stream["syn_ack_s"] is not None or down["data_frames"] > 0,
        "bytes": down["acknowledged"]["bytes"],
    }
    if side == "server":
        row |= {
            "bytes_sent": down["payload_bytes"],
            "bytes_retransmitted": down["resent_bytes"],
            "retransmissions": down["resent_frames"] if exact else None,
            "data_segments": down["data_frames"] if exact else None,
        }
    return row


def _samples(capture: Capture, parts: Sequence[Part], begin: float, side: str | None) -> list[dict[str, Any]]:
    """Return the rows of table `samples`: every subflow at every tenth of a second."""
    table = capture.tables["capture_samples"]
    names = "ack" if side == "server" else "echo"
    columns = {
        name: list(table[name])
        for name in (
            *("t_s", "stream", "direction", "acked_bytes", "resent_segments", "in_flight_bytes"),
            *(f"{names}_srtt_ms", f"{names}_min_rtt_ms"),
        )
    }
    # At the client, the timestamps of the client's own segments show the path's times.
    times = {(part.stream["stream"], part.down if side == "server" else part.up): part for part in parts}
    data = {(part.stream["stream"], part.down): part for part in parts}
    origin = round(begin * 10 - 0.5) if begin else 0
    states: dict[int, dict[int, dict[str, Any]]] = {part.number: {} for part in parts}
    for row in zip(*columns.values(), strict=True):
        at_s, stream, direction, acked, resent, in_flight, srtt, least = row
        tick = round(at_s * 10) - origin + 1
        if part := data.get((stream, direction)):
            state = states[part.number].setdefault(tick, {})
            longest = max(part.stream[part.down]["longest_payload"], 1)
            state |= {"bytes_acked": acked}
            if side == "server":
                state |= {"retransmissions": resent, "in_flight_segments": -(-in_flight // longest)}
        if side is not None and (part := times.get((stream, direction))):
            states[part.number].setdefault(tick, {}).update(srtt_ms=srtt, min_rtt_ms=least)
    return [row for part in parts for row in _filled(part, states[part.number], len(parts), side)]


def _filled(
    part: Part, states: Mapping[int, dict[str, Any]], parts: int, side: str | None
) -> list[dict[str, Any]]:
    """Return the rows of a subflow. Between two states with segments nothing changes."""
    if not states:
        return []
    first, last = min(states), max(states)
    every = (last - first) * parts <= _MOST_ROWS
    state: dict[str, Any] = {"bytes_acked": 0}
    if side == "server":
        state |= {"retransmissions": 0, "in_flight_segments": 0}
    result = []
    for tick in range(first, last + 1) if every else sorted(states):
        state = {**state, **states.get(tick, {})}
        row = {"t_s": tick / 10, "client": 0, "subflow": part.number, "path": part.path, **state}
        result.append(row)
    return result


def _notes(capture: Capture, own: Sequence[Session], sessions_found: int) -> list[str]:
    """Return the notes of a captured run."""
    notes = [own[0].evidence]
    if len(own) > 1:
        notes.append(f"{len(own)} connections of the same two hosts are one session here.")
    if others := sessions_found - len(own):
        notes.append(f"{others:,} other session{'s' if others > 1 else ''} of the capture are left out.")
    if capture.damage:
        notes.append(f"The capture could be read in part only: {capture.damage}.")
    if own[0].fallback:
        notes.append(f"No MPTCP: {own[0].fallback}.")
    return notes


def _plan(traced: Traced) -> dict[str, Any]:
    """Return a plan with all that is known of the session. It cannot be simulated."""
    paths = [
        {"name": name, "down": [], "up": [], "backup": False, "strips_mptcp": False} for name in traced.paths
    ]
    unknown = json.dumps({"name": "unknown"})
    return {
        "scenario": traced.name,
        "seed": 0,
        "run": 0,
        "clients": 1,
        "application": {
            "kind": "captured",
            "rate_bps": None,
            "duration_ns": None,
            "bytes": None,
            "adaptive": None,
        },
        "film": None,
        "ladder": None,
        "transport": {"multipath": traced.multipath, "scheduler": unknown, "congestion": unknown},
        "links": [],
        "paths": paths,
        "cross_traffic": [],
        "events": [],
    }

"""A player's log as a run, alone or together with a capture of the same session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.capture import NEEDS_LOG, Traced
from anabranch.errors import Fault, InputError
from anabranch.logs import _viewer
from anabranch.logs._parsed import path_of
from anabranch.logs._read import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch._run import Run
    from anabranch.logs._parsed import PlayerLog

#: A session's log and its capture may begin this long apart.
_APART_S = 120.0
_TRANSPORT = "subflows, round-trip times and retransmissions: a capture shows them (`--log`)"


def read_log(file: str | Path, *, kind: str | None = None, session: str | None = None) -> Run:
    """Read a player's log and return its session as a run.

    Parameters
    ----------
    file
        Messages of `vlc -vv`, events of hls.js or dash.js, or an access log or JSON lines with CMCD.
    kind
        `vlc`, `hlsjs`, `dashjs` or `cmcd`; None decides by the contents.
    session
        The session of a log with CMCD (`sid`); None is the one with the most requests.

    Returns
    -------
    Run
        The tables of a trace and the viewer's metrics. Values that the log cannot show are None, and
        `summary["not_visible"]` names them. `summary["log"]` has the counts of messages.

    Raises
    ------
    InputError
        When the file cannot be read, is no log, or has no such session.

    Examples
    --------
    >>> import anabranch
    >>> run = anabranch.read_log("player.log")  # doctest: +SKIP
    >>> run.qoe["buffer_underflows"]  # doctest: +SKIP
    """
    return alone(read(file, kind=kind, session=session)).run()


def alone(log: PlayerLog) -> Traced:
    """Return a log on its way to a run."""
    sizes = [row["bytes"] for row in log.tables["requests"] if row.get("bytes") is not None]
    ended = any(row["event"] == "end" for row in log.tables["playback"])
    # Events without times are only counted, because all uses of a run's events need the times.
    dated: dict[str, Any] = {"playback": [], "chunks": []} if log.clock == "none" else {}
    tables: dict[str, Any] = {
        **log.tables,
        **dated,
        "connections": [
            {
                "client": 0,
                "duration_s": log.last_s,
                "bytes_read": sum(sizes) if sizes else None,
                "fallback": False,
                "finished": ended,
            }
        ],
    }
    summary: dict[str, Any] = {
        "world": "captured",
        "digest": "",
        "duration_s": log.last_s,
        "steps": 0,
        "captured_at": None,
        "evidence": "",
        "begin_s": 0.0,
        "begin_unix_s": log.zero_unix_s,
        "sessions": [log.session] if log.session else [],
        "not_visible": [*log.unseen, _TRANSPORT],
        "notes": list(log.notes),
        "log": described(log),
    }
    return Traced(
        name=Path(log.file).name,
        session=(),
        tables=tables,
        summary=summary,
        paths=(),
        parts=(),
        multipath=False,
        viewed=lambda found: _viewer.metrics(log, found, captured=False),
    )


def merge(traced: Traced, log: PlayerLog, *, offset_s: float | None = None) -> Traced:
    """Return a captured session with the player's log on its axis of time.

    Parameters
    ----------
    traced
        The session of a capture.
    log
        The log of its player.
    offset_s
        The time 0 of the log in seconds after the begin of the captured session. None is found: from the time
        of day, if both files have it; else the first requests of both are taken as one.

    Raises
    ------
    InputError
        When the log has no times, or both files are of different times of day.
    """
    if log.clock == "none":
        hint = "only logs with times can be put on the time axis of a capture"
        raise InputError([Fault(message="the log has no times", where=log.file, hint=hint)])
    shift_s, how = _offset(traced, log, offset_s)
    moved = log.shifted(shift_s)
    tables = dict(traced.tables)
    for name in ("playback", "frames"):
        tables[name] = moved[name]
    for name in ("requests", "chunks", "renditions"):
        if not tables.get(name):
            tables[name] = moved[name]
    if not traced.tables.get("chunks"):
        tables["chunks"] = _answered(tables["chunks"], traced.tables.get("requests", ()))
    tables["player"] = _buffers(tables["player"], moved["player"])
    duration_s = max(traced.summary["duration_s"], log.last_s + shift_s)
    tables["connections"] = [{**row, "duration_s": duration_s} for row in tables["connections"]]
    gone = [one for one in traced.summary["not_visible"] if one != NEEDS_LOG]
    summary = {
        **traced.summary,
        "duration_s": duration_s,
        "not_visible": [*gone, *log.unseen],
        "notes": [*traced.summary["notes"], *log.notes],
        "log": {**described(log), "aligned_by": how, "offset_s": shift_s, "end_s": log.last_s + shift_s},
    }
    return replace(
        traced,
        tables=tables,
        summary=summary,
        viewed=lambda found: _viewer.metrics(log, found, captured=True),
    )


def described(log: PlayerLog) -> dict[str, Any]:
    """Return the description of a log that a run's summary has."""
    return {
        "file": log.file,
        "kind": log.kind,
        "clock": log.clock,
        "session": log.session,
        "counts": dict(log.counts),
        "lines_not_read": len(log.bad),
        "starts_by": log.starts_by,
        "notes": list(log.notes),
    }


def _offset(traced: Traced, log: PlayerLog, given_s: float | None) -> tuple[float, str]:
    """Return how much later the log's time 0 is than the session's begin, and how it was found."""
    if given_s is not None:
        return given_s, f"aligned by the given offset of {given_s:g} s"
    begin = traced.summary["begin_unix_s"]
    # A capture of a simulated run begins in 1970, which is no time of day.
    if log.zero_unix_s is not None and begin is not None and begin > 1e9:
        shift_s = log.zero_unix_s - begin
        if -log.last_s - _APART_S <= shift_s <= traced.summary["duration_s"] + _APART_S:
            return shift_s, "aligned by the time of day in both files"
        message = f"the log begins {shift_s:+,.0f} s after the captured session"
        hint = "if both are of one session, give the offset: `--log-offset SECONDS`"
        raise InputError([Fault(message=message, where=log.file, hint=hint)])
    first = next((row["t_s"] for row in log.tables["requests"] if row["t_s"] is not None), None)
    asked = _first(traced.tables.get("requests", ()), log.tables["requests"])
    if first is not None and asked is not None:
        return asked - first, "aligned by the first request of both files"
    if first is not None:
        connected = traced.tables["connections"][0].get("connect_s") or 0.0
        return connected - first, "aligned by its first request, taken as the begin of the captured session"
    return 0.0, "not aligned: it is taken to begin with the captured session"


def _first(captured: Sequence[Mapping[str, Any]], logged: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the time of the captured request that is the log's first one; else of the first request."""
    name = str(logged[0]["resource"]).partition("?")[0] if logged else ""
    same = (row["t_s"] for row in captured if str(row["resource"]).partition("?")[0] == name)
    return next(same, min((row["t_s"] for row in captured), default=None))


def _answered(
    chunks: Sequence[dict[str, Any]], captured: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a log's chunks; those without a size have size and times of their captured responses.

    The captured requests for a resource are those of the log in the same order.
    """
    responses: dict[str, list[Mapping[str, Any]]] = {}
    for row in captured:
        if path := _path(row):
            responses.setdefault(path, []).append(row)
    found = []
    for chunk in chunks:
        own = responses.get(_path(chunk), [])
        response = own.pop(0) if own else None
        if response is None or response["done_s"] is None or chunk.get("bytes") is not None:
            found.append(chunk)
        else:
            took_s = response["done_s"] - response["t_s"]
            mbps = 8e-6 * response["bytes"] / took_s if took_s > 0 else None
            times = {name: response[name] for name in ("bytes", "first_byte_s", "done_s")}
            found.append({**chunk, **times, "throughput_mbps": mbps})
    return found


def _path(row: Mapping[str, Any]) -> str:
    """Return the path of a request's resource, without host, query and first slashes."""
    return path_of(str(row.get("resource", ""))).lstrip("/")


def _buffers(rows: Sequence[dict[str, Any]], logged: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of `player` in which the row after each report has the buffer that it reports."""
    found = {round(row["t_s"] * 10 + 0.4999): row["buffer_s"] for row in logged}
    return [{**row, "buffer_s": found.get(round(row["t_s"] * 10))} for row in rows]

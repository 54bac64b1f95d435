"""Common Media Client Data (CTA-5004, versions 1 and 2) of an adaptive session, one report for each request.

The reports are those of request mode. They follow from the trace, so the run itself sends nothing more.

The keys `nor`, `nrr`, `rtp` and `cid` are absent: the trace does not have the player's plans and limits. `pr`
is absent because it is 1. Throughput (`mtp`) is that of the last complete chunk. `su` is set until playing
begins, and during each stall.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import Tables, of_each, rows
from anabranch.metrics._viewer import stall_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The versions, and the forms in which reports are written.
VERSIONS = (1, 2)
FORMS = ("json", "query", "headers")
#: The header field of each key.
_FIELDS = {
    **dict.fromkeys(("br", "d", "lb", "ot", "tb"), "CMCD-Object"),
    **dict.fromkeys(("bl", "dl", "mtp", "nor", "nrr", "sn", "sta", "su"), "CMCD-Request"),
    **dict.fromkeys(("bs", "bsa", "bsd", "bsda", "pt", "rtp"), "CMCD-Status"),
    **dict.fromkeys(("cid", "msd", "pr", "sf", "sid", "st", "v"), "CMCD-Session"),
}
#: Keys whose values are tokens, without quotation marks.
_TOKENS = frozenset({"ot", "sf", "st", "sta"})
#: Keys whose values are inner lists in version 2, with the object's type as identifier.
_LISTS = frozenset({"bl", "br", "lb", "mtp", "tb"})
#: The name space of session identifiers.
_SPACE = uuid.UUID("4b1d2c5e-3f0a-5a7e-9d6a-0f6c5d2e8a11")


@dataclass(frozen=True)
class Report:
    """The report of a request.

    Attributes
    ----------
    t_s
        The time of the request.
    resource
        The path of the request.
    values
        The keys in alphabetical order. True keys are True, and false ones are absent.
    """

    t_s: float
    resource: str
    values: Mapping[str, Any]

    def text(self, *, only: str | None = None) -> str:
        """Return the report as a list of keys; `only` keeps those of one header field."""
        kept = {key: value for key, value in self.values.items() if only in {None, _FIELDS[key]}}
        if self.values.get("v") == VERSIONS[-1]:
            kind = self.values.get("ot")
            kept = {key: _listed(value, kind) if key in _LISTS else value for key, value in kept.items()}
        return ",".join(_item(key, value) for key, value in kept.items())

    def line(self, form: str) -> str:
        """Return the report as a line, or as a request's head, in one of the `FORMS`."""
        from urllib.parse import quote

        if form == "json":
            told = {"t_s": self.t_s, "resource": self.resource, "cmcd": dict(self.values)}
            return json.dumps(told, allow_nan=False)
        if form == "query":
            return f"/{self.resource}?CMCD={quote(self.text(), safe='')}"
        fields = ((name, self.text(only=name)) for name in sorted({*_FIELDS.values()}))
        head = "".join(f"{name}: {text}\n" for name, text in fields if text)
        return f"GET /{self.resource} HTTP/1.1\n{head}"


def _listed(value: int, kind: str | None) -> list[str]:
    """Return a value of version 2 as an inner list, with the type of a media object as its identifier."""
    return [f"{value};{kind}" if kind in {"a", "v", "av"} else f"{value}"]


def _item(key: str, value: Any) -> str:  # noqa: ANN401
    """Return a key with its value, as in a header field."""
    if value is True:
        return key
    if isinstance(value, list):
        return f"{key}=({' '.join(map(str, value))})"
    quoted = isinstance(value, str) and key not in _TOKENS
    return f'{key}="{value}"' if quoted else f"{key}={value}"


def reports(tables: Tables, *, session: str, version: int = 1) -> list[Report]:
    """Return the reports of all requests of a run, by time.

    Parameters
    ----------
    tables
        The trace of an adaptive application.
    session
        A name of the run, for example its digest. Each client gets its own session identifier.
    version
        Version 1 or 2. Version 2 adds the player's state (`sta`, `pt`), its startup delay (`msd`), its stalls
        (`bsa`, `bsd`, `bsda`), the lowest rate (`lb`) and a number (`sn`).
    """
    found: list[Report] = []
    for client, own in of_each(tables):
        found += _Session(own, f"{session}/{client}", version).reports()
    return sorted(found, key=lambda report: report.t_s)


class _Session:
    """The session of a client."""

    def __init__(self, own: Tables, name: str, version: int) -> None:
        self.version = version
        self.sid = str(uuid.uuid5(_SPACE, name))
        self.requests = sorted(rows(own["requests"]), key=lambda row: (row["t_s"], row["id"]))
        self.chunks = list(rows(own["chunks"]))
        self.ladder = list(rows(own["renditions"]))
        events = sorted(rows(own["playback"]), key=lambda row: row["t_s"])
        self.start_s = next((row["t_s"] for row in events if row["event"] == "start"), None)
        self.end_s = next((row["t_s"] for row in events if row["event"] == "end"), None)
        self.stalls = stall_times(events, max((row["t_s"] for row in events), default=0.0))
        self.separate = any(row["track"] == "audio" for row in self.ladder)

    def reports(self) -> Iterator[Report]:
        """Yield the reports in the order of the requests."""
        waiting: dict[float, list[dict[str, Any]]] = {}
        for row in self.chunks:
            waiting.setdefault(row["t_s"], []).append(row)
        before_s = 0.0
        started = False
        for number, request in enumerate(self.requests):
            t_s, resource = request["t_s"], request["resource"]
            listed = resource.partition("?")[0].endswith(".m3u8")
            same = waiting.get(t_s, [])
            chunk = same.pop(0) if same and not listed else None
            values: dict[str, Any] = {"sf": "h", "sid": self.sid, "st": "v", **self._state(t_s, before_s)}
            values["ot"] = "m" if listed else "o" if chunk is None else self._kind(chunk)
            if chunk is not None:
                values.update(self._object(chunk))
            if (kbps := self._measured_kbps(t_s)) is not None:
                values["mtp"] = _hundreds(kbps)
            if self.version == VERSIONS[-1]:
                values.update(self._second(t_s, before_s), sn=number, v=2)
                if not started and self.start_s is not None and self.start_s <= t_s:
                    values["msd"] = round(1e3 * self.start_s)
                    started = True
            before_s = t_s
            yield Report(t_s, resource, {key: values[key] for key in sorted(values)})

    def _kind(self, chunk: Mapping[str, Any]) -> str:
        """Return the type of a chunk: `a`, `v`, or `av` with the sound inside."""
        if chunk["track"] == "audio":
            return "a"
        return "v" if self.separate else "av"

    def _object(self, chunk: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of a chunk."""
        rates = {
            row["rendition"]: row["bandwidth_bps"] or row["average_bps"]
            for row in self.ladder
            if row["track"] == chunk["track"]
        }
        values: dict[str, Any] = {"d": round(1e3 * chunk["duration_s"])}
        # If a playlist has both peak and average rates, the peak is reported.
        if (bps := rates.get(chunk["rendition"])) is not None:
            values["br"] = round(bps / 1e3)
        known = [bps for bps in rates.values() if bps is not None]
        if known:
            values["tb"] = round(max(known) / 1e3)
            if self.version == VERSIONS[-1]:
                values["lb"] = round(min(known) / 1e3)
        if (buffer_s := chunk["buffer_before_s"]) is not None:
            values["bl"] = _hundreds(1e3 * buffer_s)
            values["dl"] = values["bl"] if self._plays(chunk["t_s"]) else 0
        return values

    def _state(self, t_s: float, before_s: float) -> dict[str, Any]:
        """Return the keys of the buffer's state."""
        values: dict[str, Any] = {}
        if any(begun <= t_s and ended > before_s for begun, ended in self.stalls):
            values["bs"] = True
        if not self._plays(t_s):
            values["su"] = True
        return values

    def _second(self, t_s: float, before_s: float) -> dict[str, Any]:
        """Return the keys of the player's state that version 2 adds."""
        begun = [stall for stall in self.stalls if stall[0] <= t_s]
        over = [stall for stall in begun if stall[1] <= t_s]
        values: dict[str, Any] = {"sta": self._state_token(t_s)}
        if self.start_s is not None and self.start_s <= t_s:
            until_s = t_s if self.end_s is None else min(t_s, self.end_s)
            stood_s = sum(min(end, until_s) - begin for begin, end in begun)
            values["pt"] = round(1e3 * (until_s - self.start_s - stood_s))
        if begun:
            values["bsa"] = [len(begun)]
        if over:
            values["bsda"] = [round(1e3 * sum(end - begin for begin, end in over))]
        # Each stall is reported once, at the first request after it.
        if ended := [round(1e3 * (end - begin)) for begin, end in over if end > before_s]:
            values["bsd"] = ended
        return values

    def _state_token(self, t_s: float) -> str:
        """Return the state: starting, rebuffering, ended or playing."""
        if self.start_s is None or t_s < self.start_s:
            return "s"
        if self.end_s is not None and t_s >= self.end_s:
            return "e"
        return "p" if self._plays(t_s) else "r"

    def _plays(self, t_s: float) -> bool:
        """Return whether pictures move at a time."""
        if self.start_s is None or t_s < self.start_s:
            return False
        return not any(begin <= t_s < end for begin, end in self.stalls)

    def _measured_kbps(self, t_s: float) -> float | None:
        """Return the throughput of the last chunk that was complete at a time."""
        done = [row for row in self.chunks if row["done_s"] is not None and row["done_s"] <= t_s]
        if not done:
            return None
        mbps = max(done, key=lambda row: row["done_s"])["throughput_mbps"]
        return None if mbps is None else 1e3 * float(mbps)


def _hundreds(value: float) -> int:
    """Return a value rounded to the nearest 100; halves are rounded up."""
    return int((value + 50) // 100) * 100


def text(found: Sequence[Report], form: str) -> str:
    """Return reports as the content of a file."""
    return "".join(f"{report.line(form)}\n" for report in found)

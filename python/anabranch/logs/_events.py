"""Events of hls.js, dash.js and the video element, as sessions of a browser report them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.logs import _times
from anabranch.logs._parsed import MOST_COUNTED, Found, PlayerLog, ladder

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Event:
    """An event of a player.

    Attributes
    ----------
    kind
        `loading`, `loaded`, `abandoned`, `switching` (the rule chose another level), `switched` (it is on the
        screen), `playing`, `waiting`, `stalled`, `unstalled`, `seeking`, `ended`, `dropped` or `levels`.
    at_s
        The time of the event; None if the log has none.
    index, level, audio, resource, duration_s
        The chunk: its number, its rendition, whether it is sound alone, its path, and its length.
    asked_s, first_byte_s, done_s
        When it was requested, and when its first and last byte arrived.
    bytes
        Its size.
    buffer_s, position_s
        The film that is buffered, and the film time on the screen.
    lasted_s
        How long a stall lasted that is over.
    levels
        The renditions: rate in bit/s, and height.
    """

    kind: str
    at_s: float | None = None
    index: int | None = None
    level: int | None = None
    audio: bool = False
    resource: str = ""
    duration_s: float | None = None
    asked_s: float | None = None
    first_byte_s: float | None = None
    done_s: float | None = None
    bytes: int | None = None
    buffer_s: float | None = None
    position_s: float | None = None
    lasted_s: float | None = None
    levels: Sequence[tuple[float | None, int | None]] = ()


_UNSEEN_TIME = "times: the lines have none"
_UNSEEN_START = "the start of playback: no event `playing` is in the log"
_UNSEEN_BYTES = "bytes of responses"
_UNSEEN_STALLS = "the length of some stalls: the log does not have their ends"


class Session:
    """A browser's session, from its events."""

    def __init__(self, kind: str, events: Sequence[Event]) -> None:
        self.kind = kind
        self.timed = any(one.at_s is not None for one in events)
        self.events = self._ordered(events)
        times = [at for one in self.events for at in (one.asked_s, one.at_s) if at is not None]
        self.zero_s = min(times, default=0.0)
        self.found = Found()
        self.counts: dict[str, int | float] = {}
        self.notes: list[str] = []
        self.seen = {one.kind for one in self.events}

    def _ordered(self, events: Sequence[Event]) -> list[Event]:
        """Return the events in the order of time. Those without a time are left out if others have one."""
        if not self.timed:
            return list(events)
        timed = [one for one in events if one.at_s is not None]
        return sorted(timed, key=lambda one: one.at_s or 0.0)

    def log(self, file: str, **named: Any) -> PlayerLog:  # noqa: ANN401 - as PlayerLog has them
        """Return the session as a log."""
        self._loads()
        self._play()
        self._ladder()
        wall = self.timed and _times.is_unix(self.zero_s)
        self.counts["requests"] = len(self.found.requests)
        self.counts["dropped_pictures"] = sum(row["event"] == "drop" for row in self.found.playback)
        return PlayerLog(
            file=file,
            kind=self.kind,
            clock="wall" if wall else "own" if self.timed else "none",
            zero_unix_s=self.zero_s if wall else None,
            tables=self.found.tables(self.zero_s),
            counts=self.counts,
            unseen=self._unseen(),
            notes=self.notes,
            **named,
        )

    def _unseen(self) -> list[str]:
        """Return what the log cannot show."""
        stalls = [row["event"] for row in self.found.playback if row["event"] in {"underflow", "resume"}]
        known = any(row["bytes"] is not None for row in self.found.requests)
        return [
            "single pictures: the player reports only how many were dropped",
            *([] if self.timed else [_UNSEEN_TIME]),
            *([] if "playing" in self.seen else [_UNSEEN_START]),
            *([] if known else [_UNSEEN_BYTES]),
            *([_UNSEEN_STALLS] if stalls.count("underflow") > stalls.count("resume") else []),
        ]

    def _loads(self) -> None:
        """Add requests and chunks: each `loaded` or `abandoned`, with the `loading` before it."""
        waiting: dict[tuple[Any, ...], Event] = {}
        rows: list[tuple[float | None, dict[str, Any], Event]] = []
        for one in self.events:
            key = (one.audio, one.index, one.resource)
            if one.kind == "loading":
                waiting[key] = one
            elif one.kind in {"loaded", "abandoned"}:
                asked = waiting.pop(key, None)
                rows.append(self._load(one, asked))
        rows += [self._load(replace(one, kind="unfinished"), one) for one in waiting.values()]
        for _, row, one in sorted(rows, key=lambda item: item[0] or 0.0):
            self.found.requests.append({name: row[name] for name in _REQUEST})
            if one.index is not None or one.level is not None or one.duration_s is not None:
                self.found.chunks.append(row)
            self.found.buffer(row["t_s"], row["buffer_before_s"])

    def _load(self, one: Event, asked: Event | None) -> tuple[float | None, dict[str, Any], Event]:
        """Return a row of `chunks` and `requests`, with the time of the request."""
        at_s = one.asked_s if one.asked_s is not None else None if asked is None else asked.at_s
        done_s = one.done_s if one.done_s is not None else one.at_s
        done_s = done_s if one.kind == "loaded" else None
        mbps = None
        if one.bytes and at_s is not None and done_s is not None and done_s > at_s:
            mbps = 8e-6 * one.bytes / (done_s - at_s)
        held_s = one.buffer_s if asked is None or asked.buffer_s is None else asked.buffer_s
        row = {
            "client": 0,
            "track": "audio" if one.audio else "video",
            "index": one.index,
            "rendition": one.level if one.level is not None or asked is None else asked.level,
            "duration_s": one.duration_s,
            "bytes": one.bytes,
            "resource": one.resource or (asked.resource if asked else ""),
            "t_s": at_s,
            "first_byte_s": one.first_byte_s,
            "done_s": done_s,
            "throughput_mbps": mbps,
            "buffer_before_s": held_s,
            "abandoned": one.kind == "abandoned",
        }
        return at_s, row, one

    def _play(self) -> None:
        """Add the events of playback. `waiting` of the video element precedes the player's `stalled`."""
        starved = "waiting" if "waiting" in self.seen else "stalled"
        started = stalled = seeking = False
        # Without an event `playing`, a stall is one in a session that had begun.
        begun = "playing" not in self.seen
        for one in self.events:
            if one.kind == "seeking":
                seeking = True
            elif one.kind == "playing":
                if not started:
                    self.found.happened(one.at_s, "start", pts_s=one.position_s)
                elif stalled:
                    self.found.happened(one.at_s, "resume", pts_s=one.position_s)
                started, stalled, seeking = True, False, False
            elif one.kind == starved and (started or begun) and not stalled and not seeking:
                stalled = True
                self.found.happened(one.at_s, "underflow", pts_s=one.position_s)
            elif one.kind == "unstalled" and starved == "stalled" and stalled:
                stalled = False
                self._unstalled(one)
            elif one.kind == "switched":
                self.found.happened(one.at_s, "switch", pts_s=one.position_s)
            elif one.kind == "dropped":
                lost = min(one.index or 1, MOST_COUNTED)
                self.found.playback += [{"client": 0, "t_s": one.at_s, "event": "drop"}] * lost
            elif one.kind == "ended":
                self.found.happened(one.at_s, "end", pts_s=one.position_s)
                stalled = False
        self.counts["stalls"] = sum(row["event"] == "underflow" for row in self.found.playback)
        self.counts["switches"] = sum(one.kind == "switched" for one in self.events) or sum(
            one.level != other.level for one, other in pairwise(self._chosen())
        )

    def _chosen(self) -> list[Event]:
        """Return the loaded chunks of pictures with a known rendition."""
        return [
            one for one in self.events if one.kind == "loaded" and not one.audio and one.level is not None
        ]

    def _unstalled(self, one: Event) -> None:
        """Add the end of a stall, and set its begin if the message has the length."""
        if one.lasted_s is not None and one.at_s is not None:
            last = next(row for row in reversed(self.found.playback) if row["event"] == "underflow")
            last["t_s"] = one.at_s - one.lasted_s
        self.found.happened(one.at_s, "resume")

    def _ladder(self) -> None:
        """Add the renditions: as listed, else those that were loaded."""
        listed = next((one.levels for one in self.events if one.kind == "levels"), ())
        if listed:
            self.found.renditions = ladder([(bps, height, _name(bps, height)) for bps, height in listed])
            return
        numbers = [row["rendition"] for row in self.found.chunks if row["rendition"] is not None]
        known = range(min(max(numbers, default=-1) + 1, MOST_COUNTED))
        self.found.renditions = ladder([(None, None, f"level {number}") for number in known])


def _name(bps: float | None, height: int | None) -> str:
    """Return the name of a rendition."""
    return f"{height}p" if height else f"{(bps or 0.0) / 1e6:g} Mb/s"


_REQUEST = ("client", "t_s", "resource", "first_byte_s", "done_s", "bytes")

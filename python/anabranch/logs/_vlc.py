"""Messages of `vlc -vv`.

VLC's own lines have no time. Programs that show or store them often add one at the begin of the line. Without
it, the order of the messages and the durations within them remain.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anabranch.logs import _times
from anabranch.logs._parsed import Found, PlayerLog

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A line of VLC: module, kind of object and level; or one of the messages below without these.
LINE = re.compile(
    r"\b(?:main|core|avcodec|adaptive|http|prefetch|mp4|ts|VLC)\b.*?\b(?:debug|warning|error)\s*[:|]"
    r"|picture is too late to be displayed|ES_OUT_SET_\(GROUP_\)PCR|Stream buffering done"
)
#: A picture that missed its time by this many milliseconds (video_output.c). It counts as lost.
_LATE = re.compile(r"picture is too late to be displayed \(missing (-?\d+) ms\)")
_MAYBE_LATE = re.compile(r"picture might be displayed late")
#: Data that came too late for the clock (es_out.c). VLC then discards its buffer and fills it again.
_TOO_LATE = re.compile(r"ES_OUT_SET_\(GROUP_\)PCR +is called too late")
_IGNORED = re.compile(r"jitter of \d+ ms ignored")
_BUFFERED = re.compile(r"Stream buffering done \((\d+) ms in (\d+) ms\)")
_SOUND = re.compile(r"buffer too late \(|playback way too late \(")
_HURRIED = re.compile(r"of late video -> dropping frame|late frames?, dropping frame|early picture skipped")
#: Requests of the adaptive demuxer (HTTPConnection.cpp).
_RETRIEVING = re.compile(r"Retrieving (\S+?)(?: @\d+(?:-\d+)?)?\s*$")
_ASKED = re.compile(r"(?:^|\s)GET (\S+) HTTP/1\.[01]\s*$")
_ENDED = re.compile(r"\bEOF reached\b|\bEnd of stream\b", re.IGNORECASE)

_COUNTS = (
    *("lost_pictures", "late_pictures", "hurried_pictures", "late_sound"),
    *("rebuffers", "ignored_jitters"),
)
_UNSEEN = (
    "pictures that were shown: VLC logs only those that it lost",
    "pictures that a flush discarded: VLC does not count them",
    "bytes of responses, and when they arrived",
)
_UNSEEN_TIME = "times: VLC's lines have none (pipe them through `ts '%.s'`)"


def read(file: str, lines: Sequence[str], **named: Any) -> PlayerLog:  # noqa: ANN401 - as PlayerLog has them
    """Read the messages of a session of VLC."""
    session = _Session()
    for line in lines:
        session.message(line)
    return session.log(file, **named)


class _Session:
    """A session of VLC while its messages are read."""

    def __init__(self) -> None:
        self.found = Found()
        self.prefixes = _times.Prefixes()
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.started = self.filling = False
        self.counts: dict[str, int | float] = dict.fromkeys(_COUNTS, 0)
        self.startup_s: float | None = None
        self.refill_s = 0.0

    def message(self, line: str) -> None:
        """Take a line."""
        at_s = self.prefixes.time(line)
        if at_s is not None:
            self.first_s = at_s if self.first_s is None else self.first_s
            self.last_s = at_s
        if (late := _LATE.search(line)) is not None:
            self.counts["lost_pictures"] += 1
            due_s = None if at_s is None else at_s - int(late[1]) / 1e3
            self.found.frames.append({"client": 0, "fate": "discarded", "why": "late", "due_s": due_s})
        elif _TOO_LATE.search(line):
            self._starved(line, at_s)
        elif (done := _BUFFERED.search(line)) is not None:
            self._filled(at_s, int(done[2]) / 1e3)
        elif (asked := _RETRIEVING.search(line) or _ASKED.search(line)) is not None:
            path = urlsplit(asked[1]).path.removeprefix("/")
            self.found.requests.append({"client": 0, "t_s": at_s, "resource": path})
        elif _ENDED.search(line) and "input" in line and self.started:
            self.found.happened(at_s, "end")
        else:
            self.counts["late_pictures"] += _MAYBE_LATE.search(line) is not None
            self.counts["late_sound"] += _SOUND.search(line) is not None
            self.counts["hurried_pictures"] += _HURRIED.search(line) is not None

    def _starved(self, line: str, at_s: float | None) -> None:
        """Take a message that data came too late. VLC then buffers again, unless it ignores the delay."""
        if _IGNORED.search(line):
            self.counts["ignored_jitters"] += 1
        elif self.started and not self.filling:
            self.counts["rebuffers"] += 1
            self.filling = True
            self.found.happened(at_s, "underflow")

    def _filled(self, at_s: float | None, took_s: float) -> None:
        """Take a message that the buffer is full, after a time that it states."""
        if not self.started:
            self.started = True
            self.startup_s = took_s
            self.found.happened(at_s, "start")
        elif self.filling:
            self.refill_s += took_s
            self.found.happened(at_s, "resume")
        self.filling = False

    def log(self, file: str, **named: Any) -> PlayerLog:  # noqa: ANN401 - as PlayerLog has them
        """Return the session as a log."""
        clock = "none" if self.first_s is None else "wall" if _times.is_unix(self.first_s) else "own"
        counts = {**self.counts, "refill_s": round(self.refill_s, 3)}
        if self.startup_s is not None:
            counts["first_fill_s"] = self.startup_s
        return PlayerLog(
            file=file,
            kind="VLC",
            clock=clock,
            zero_unix_s=self.first_s if clock == "wall" else None,
            tables=self.found.tables(self.first_s or 0.0),
            counts=counts,
            unseen=[*_UNSEEN, *([_UNSEEN_TIME] if clock == "none" else [])],
            **named,
        )

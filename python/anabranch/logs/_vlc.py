"""Messages of `vlc -vv`.

VLC's own lines have no time. Programs that show or store them often add one at the begin of the line. Without
it, the order of the messages and the durations within them remain.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.logs import _times
from anabranch.logs._parsed import MOST_COUNTED, Found, PlayerLog, ladder, path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A line of VLC: module, kind of object and level; or one of the messages below without these.
LINE = re.compile(
    r"\b(?:main|core|avcodec|adaptive|http|prefetch|mp4|ts|VLC)\b.{0,80}?\b(?:debug|warning|error)\s{0,9}[:|]"
    r"|picture is too late to be displayed|ES_OUT_SET_\(GROUP_\)PCR|Stream buffering done"
)
#: A picture that missed its time by this many milliseconds (video_output.c). It counts as lost.
_LATE = re.compile(r"picture is too late to be displayed \(missing (-?\d{1,12}) ms\)")
_MAYBE_LATE = re.compile(r"picture might be displayed late")
#: Data that came too late for the clock (es_out.c). VLC then discards its buffer and fills it again.
_TOO_LATE = re.compile(r"ES_OUT_SET_\(GROUP_\)PCR +is called too late")
_IGNORED = re.compile(r"jitter of \d{1,15} ms ignored")
_BUFFERED = re.compile(r"Stream buffering done \((\d{1,12}) ms in (\d{1,12}) ms\)")
_SOUND = re.compile(r"buffer too late \(|playback way too late \(")
_HURRIED = re.compile(r"of late video -> dropping frame|late frames?, dropping frame|early picture skipped")
#: Requests of the adaptive demuxer (HTTPConnection.cpp).
_RETRIEVING = re.compile(r"Retrieving (\S+?)(?: @\d{1,20}(?:-\d{1,20})?)?\s{0,9}$")
_ASKED = re.compile(r"(?:^|\s)GET (\S+) HTTP/1\.[01]\s{0,9}$")
#: The lists of segments that the adaptive demuxer writes when it has read a playlist: a set of renditions, a
#: rendition, and its segments with lengths in microseconds.
_SET = re.compile(r"\badaptive\b.{0,20}BaseAdaptationSet (\S+)")
_RENDITION = re.compile(r"\badaptive\b.{0,20}Representation (\S+)")
_SEGMENT = re.compile(
    r"\badaptive\b.{0,20}Segment #(\d{1,15}) url=(\S+)(?:.{0,40}\bduration (\d{1,15}))?",
)
#: Smaller lengths are in another unit, which the line does not name.
_LEAST_US = 10_000
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


class _Listed:
    """The segments that the adaptive demuxer listed, of the first set of renditions: that of the pictures."""

    def __init__(self) -> None:
        self.renditions: list[str] = []
        self.segments: dict[str, tuple[int, int, float | None]] = {}
        self._first: str | None = None
        self._is_first = True
        self._rendition: int | None = None

    def line(self, line: str) -> bool:
        """Take a line; return whether it is of a list."""
        if (found := _SET.search(line)) is not None:
            self._first = found[1] if self._first is None else self._first
            self._is_first = found[1] == self._first
        elif (found := _SEGMENT.search(line)) is not None:
            if self._rendition is not None and self._is_first:
                length = int(found[3] or 0)
                lasts_s = length / 1e6 if length >= _LEAST_US else None
                self.segments[found[2].partition("?")[0]] = (self._rendition, int(found[1]), lasts_s)
        elif (found := _RENDITION.search(line)) is not None:
            name = found[1].partition("?")[0]
            if self._is_first and name not in self.renditions and len(self.renditions) < MOST_COUNTED:
                self.renditions.append(name)
            self._rendition = self.renditions.index(name) if name in self.renditions else None
        return found is not None

    @staticmethod
    def chunk(place: tuple[int, int, float | None]) -> dict[str, Any]:
        """Return the columns of a chunk of a place."""
        rendition, index, lasts_s = place
        return {
            "track": "video",
            "index": index,
            "rendition": rendition,
            "duration_s": lasts_s,
            "abandoned": False,
        }


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
        self.listed = _Listed()

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
            row = {"client": 0, "t_s": at_s, "resource": path_of(asked[1])}
            self.found.requests.append(row)
            if (place := self.listed.segments.get(asked[1].partition("?")[0])) is not None:
                self.found.chunks.append({**row, **self.listed.chunk(place)})
        elif self.listed.line(line):
            pass
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

    def _switches(self) -> int:
        """Return how often a segment has another rendition than the one before it."""
        return sum(one["rendition"] != other["rendition"] for one, other in pairwise(self.found.chunks))

    def log(self, file: str, **named: Any) -> PlayerLog:  # noqa: ANN401 - as PlayerLog has them
        """Return the session as a log."""
        clock = "none" if self.first_s is None else "wall" if _times.is_unix(self.first_s) else "own"
        counts = {**self.counts, "refill_s": round(self.refill_s, 3)}
        if self.startup_s is not None:
            counts["first_fill_s"] = self.startup_s
        if self.found.chunks:
            counts["switches"] = self._switches()
            self.found.renditions = ladder([(None, None, name) for name in self.listed.renditions])
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

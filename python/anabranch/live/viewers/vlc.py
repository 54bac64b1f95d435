"""VLC as a viewer of real packets: its start, and its counters translated to the trace's tables.

VLC does not report single pictures. Its late ones (`lost_pictures`) are `discarded`; those that it puts on
the screen while it plays are `displayed`. While it buffers it shows one picture again and again
(`VOUT_REDISPLAY_DELAY`), of which one counts. It does the same while its input is blocked. In that case the
number of new pictures is computed from the count and the time. All other pictures are `unplayed`, including
those that a flush discarded, which VLC does not count.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from anabranch import _extras, _pieces
from anabranch.live.viewers import tables
from anabranch.live.viewers.session import Underflows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.live.viewers.session import Told, ViewerOrder
    from anabranch.media.films import Film
    from anabranch.metrics._rows import Table

#: The commands that install VLC.
_INSTALL = f"apt install libvlc5 vlc-plugin-base; {_extras.command('live')}"
_NO_PLUGINS = "no plug-ins"
#: The program that checks whether python-vlc and libvlc work together.
_TRIAL = f"import sys, vlc; sys.exit(None if vlc.Instance(['--quiet']) else {_NO_PLUGINS!r})"
#: VLC's value for a full buffer, percent.
_FULL = 100.0
#: VLC shows a picture again after this time if the next one is late (`VOUT_REDISPLAY_DELAY`), in seconds.
_REDISPLAY_S = 0.08
#: The shortest time without changed counters that indicates a blocked input, in seconds. The input thread
#: refreshes them four times a second.
_LONG_S = 0.6
#: The shortest film, in seconds.
_LEAST_S = 0.04
#: The events after which it plays.
_BEGINS = ("start", "resume")
#: The counters that change while the input is read.
_REFRESHED = ("read", "demuxed", "decoded")


def lacks() -> str | None:
    """Return what this host lacks for it, in a sentence; None when it has all."""
    try:
        found = importlib.util.find_spec("vlc")
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is None:
        return f"python-vlc is not installed: {_INSTALL}"
    # Run in a separate process, because python-vlc may raise anything or crash if libvlc is missing or
    # broken.
    failure = _pieces.fails([sys.executable, "-c", _TRIAL])
    if failure is None:
        return None
    if failure == _NO_PLUGINS:
        return f"libvlc has no plug-ins: {_INSTALL}"
    return f"python-vlc finds no libvlc that works ({failure}): {_INSTALL}"


def install() -> list[str]:
    """Return the commands that install it."""
    return [
        "apt-get install libvlc5 vlc-plugin-base",
        _extras.command("live"),
    ]


def command(order: ViewerOrder) -> list[str]:
    """Return the program and its arguments."""
    program = [sys.executable, "-m", "anabranch.live.viewers.vlc_program"]
    return [*program, order.url, f"{order.seconds:g}", order.user, f"--network-caching={order.cache_ms}"]


def read(told: Told, film: Film, begin_s: float, sent: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables of VLC's reports.

    Parameters
    ----------
    told
        Its lines.
    film
        The film that it played.
    begin_s
        When the run began, by the clock of its lines.
    sent
        The row of `connections` as far as the sender knows it.
    """
    lines = [{**line, "t_s": line["t"] - begin_s} for line in told]
    counted = [line for line in lines if line["what"] == "counters"]
    events = playback(lines)
    over = next((line["t_s"] for line in lines if line["what"] in ("end", "stop", "error")), None)
    until_s = sent["duration_s"] if over is None else over
    counts = [0, *(line["read"] for line in counted)]
    read_at = [line["t_s"] for line, before in zip(counted, counts, strict=False) if line["read"] > before]
    silences = tables.gaps([(t_s, t_s) for t_s in read_at])
    whole = any(line["what"] in ("end", "stop") for line in lines)
    return {
        "connections": tables.connection(
            sent,
            silences,
            duration_s=until_s,
            bytes_read=counts[-1],
            finished=whole and any(line["what"] == "play" for line in lines),
        ),
        "playback": tables.table("playback", events),
        "frames": tables.table("frames", _frames(counted, events, film)),
        "player": tables.table("player", _player(counted, film, until_s)),
        "gaps": tables.table("gaps", silences),
    }


def version(ready: Mapping[str, Any]) -> str:
    """Return its name and version by its report `ready`."""
    return f"VLC {ready['version']}"


def position(counters: Mapping[str, Any]) -> float:
    """Return the position in the film by a report `counters`, in seconds."""
    return max(float(counters.get("time_ms", 0)), 0.0) / 1e3


def dropped(counters: Mapping[str, Any]) -> int:
    """Return the pictures that came too late to be shown, by a report `counters`."""
    return int(counters["lost"])


def playback(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the playback events: VLC's buffer became full, or is no longer full."""
    found: list[dict[str, Any]] = []
    plays, began = False, False
    for line in lines:
        at = {"t_s": line["t_s"], "pts_s": max(line.get("time_ms", 0), 0) / 1e3}
        if line["what"] == "buffering" and line["percent"] >= _FULL and not plays:
            found += [{**at, "event": "full"}, {**at, "event": "resume" if began else "start"}]
            plays = began = True
        elif line["what"] == "buffering" and line["percent"] < _FULL and plays:
            found.append({**at, "event": "underflow"})
            plays = False
        elif line["what"] == "end":
            found.append({**at, "event": "end"})
    return found


def _frames(
    counted: Sequence[Mapping[str, Any]], playback: Sequence[Mapping[str, Any]], film: Film
) -> list[dict[str, Any]]:
    """Return the fate of each picture that VLC counted, in the order of counting."""
    pictures = _pictures(film)
    lasts_s = max(pictures[-1][0] - pictures[0][0], _LEAST_S) / max(len(pictures) - 1, 1)
    found: list[dict[str, Any]] = []
    before: Mapping[str, Any] = {"t_s": 0.0, "displayed": 0, "lost": 0}
    still = False
    for line in counted:
        shown, late = line["displayed"] - before["displayed"], line["lost"] - before["lost"]
        if not (shown or late):
            if any(line[name] != before.get(name) for name in _REFRESHED):
                before = line
            continue
        passed_s = line["t_s"] - before["t_s"]
        # A picture that is shown while VLC buffers is due when it plays again.
        began_s, due_s = before["t_s"], 0.0
        if _plays(playback, line["t_s"]):
            shown, still = _new(shown, passed_s, lasts_s), False
            began_s = max(began_s, _plays_since(playback, line["t_s"]))
        elif passed_s < _LONG_S:
            # While VLC buffers, it shows one picture repeatedly.
            shown, still = min(shown, int(not still)), still or bool(shown)
            due_s = _plays_from(playback, line["t_s"], counted[-1]["t_s"])
        else:
            # The input was blocked, and no picture was counted until data arrived.
            shown = _new(shown, passed_s, lasts_s)
        times = [min(began_s + lasts_s * (place + 1), line["t_s"]) for place in range(shown)]
        found += [{"fate": "displayed", "due_s": max(at_s, due_s), "shown_s": at_s} for at_s in times]
        found += [{"fate": "discarded", "why": "late", "due_s": line["t_s"]}] * late
        before = line
    found = found[: len(pictures)]
    found += [{"fate": "unplayed"}] * (len(pictures) - len(found))
    return [
        {**row, "index": index, "pts_s": pts_s, "kind": kind, "size": size}
        for index, (row, (pts_s, kind, size)) in enumerate(zip(found, pictures, strict=True))
    ]


def _new(shown: int, passed_s: float, lasts_s: float) -> int:
    """Return the number of new pictures among those that VLC counted.

    While the next picture is late, VLC shows the last one again every 80 ms and counts it. If n pictures are
    new, n * lasts_s + (shown - n) * 80 ms = passed_s.

    Parameters
    ----------
    shown
        The number of pictures that VLC counted.
    passed_s
        The time in which they were counted.
    lasts_s
        The duration of a picture of the film.
    """
    if passed_s - shown * lasts_s > _REDISPLAY_S and lasts_s < _REDISPLAY_S:
        new = (shown * _REDISPLAY_S - passed_s) / (_REDISPLAY_S - lasts_s)
        return max(min(round(new), shown), 0)
    # At a restart VLC also counts pictures that it showed before. This bounds the count by the film's rate.
    return min(shown, int(passed_s / lasts_s) + 2)


def _pictures(film: Film) -> list[tuple[float, str, int]]:
    """Return the film's pictures in display order: time, type, and size in bytes."""
    packets = film.plan["recorded"]["packets"] if film.plan else {}
    columns = (packets[name] for name in ("stream", "pts_ns", "kind", "size"))
    every = zip(*columns, strict=True)
    return sorted((pts / 1e9, kind, size) for stream, pts, kind, size in every if stream == "video")


def _plays(playback: Sequence[Mapping[str, Any]], t_s: float) -> bool:
    """Return whether the film moved at a time."""
    before = [row["event"] for row in playback if row["t_s"] <= t_s]
    return bool(before) and before[-1] in (*_BEGINS, "end")


def _plays_since(playback: Sequence[Mapping[str, Any]], t_s: float) -> float:
    """Return when VLC last began to play before a time, in seconds; 0 if it did not."""
    began = (row["t_s"] for row in playback if row["event"] in _BEGINS and row["t_s"] <= t_s)
    return max(began, default=0.0)


def _plays_from(playback: Sequence[Mapping[str, Any]], t_s: float, until_s: float) -> float:
    """Return when VLC next begins to play after a time, in seconds; `until_s` if it does not."""
    begins = (row["t_s"] for row in playback if row["event"] in _BEGINS and row["t_s"] > t_s)
    return min(begins, default=until_s)


def _player(counted: Sequence[Mapping[str, Any]], film: Film, until_s: float) -> list[dict[str, Any]]:
    """Return the length of its buffer: the film that was read and not shown yet."""
    known = _Position(film)
    nothing = {"read": 0, "demuxed": 0}
    counters = tables.Steps([(line["t_s"], line) for line in counted], nothing)
    rows = []
    for t_s in tables.grid(until_s):
        line = counters.at(t_s)
        shown_s = max(line.get("time_ms", 0), 0) / 1e3
        rows.append(
            {
                "t_s": t_s,
                "bytes_read": line["read"],
                "buffer_s": max(known.seconds(line["read"]) - shown_s, 0.0),
                "buffer_bytes": max(line["read"] - line["demuxed"], 0),
            }
        )
    return rows


class _Position:
    """How much film so many bytes of its file hold."""

    def __init__(self, film: Film) -> None:
        packets = film.plan["recorded"]["packets"] if film.plan else {}
        columns = (packets[name] for name in ("stream", "position", "size", "pts_ns"))
        ends: list[tuple[int, float]] = []
        latest = 0.0
        for stream, position, size, pts_ns in zip(*columns, strict=True):
            if stream == "video" and position is not None:
                latest = max(latest, pts_ns / 1e9)
                ends.append((position + size, latest))
        self._steps = tables.Steps(sorted(ends), 0.0)

    def seconds(self, count: int) -> float:
        """Return the film within the first bytes of the file, in seconds."""
        found: float = self._steps.at(count)
        return found


class Now:
    """The state of VLC while it plays: its counters, and whether its buffer is full."""

    def __init__(self, film: Film) -> None:
        self._known = _Position(film)
        self._line: Mapping[str, Any] = {"read": 0, "lost": 0}
        self._underflows = Underflows()

    def hear(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Read the reports since the last call."""
        for line in told:
            if line["what"] == "counters":
                self._line = {**self._line, **line}
            elif line["what"] == "buffering":
                self._underflows.plays(line["percent"] >= _FULL)

    def player(self) -> dict[str, float | int | None]:
        """Return `buffer_s`, `position_s`, `discards` (VLC's lost pictures) and `underflows`."""
        shown_s = max(self._line.get("time_ms", 0), 0) / 1e3
        return {
            "buffer_s": max(self._known.seconds(self._line["read"]) - shown_s, 0.0),
            "position_s": shown_s,
            "discards": self._line["lost"],
            "underflows": self._underflows.count,
        }


def notes(told: Told) -> list[str]:
    """Return notes about it besides its tables."""
    ready = next((line for line in told if line["what"] == "ready"), None)
    return [] if ready is None else [f"VLC {ready['version']} played, as user {ready['user']}."]

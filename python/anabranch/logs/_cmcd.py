"""Sessions in access logs and JSON lines with Common Media Client Data (CTA-5004, versions 1 and 2)."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.logs import _states, _times
from anabranch.logs._cmcd_lines import Request, requests
from anabranch.logs._cmcd_values import number, numbers
from anabranch.logs._parsed import Found, PlayerLog, ladder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_UNSEEN = (
    "single pictures: CMCD has no counts of pictures",
    "when a response arrived: a server's log has the time of its last write",
    "when another rendition came on the screen: only its requests are known",
)
_UNSEEN_1 = "the length of a stall in version 1: it is estimated from the buffer (`bl`) and `su`"
_UNSEEN_TIME = "times: the lines have none"
#: The types of objects (`ot`) of each track.
_KINDS = {"video": {"v", "av"}, "audio": {"a"}}
#: A height in the address of a chunk: `film/720p/3.ts`.
_HEIGHT = re.compile(r"(?<![0-9A-Za-z])([1-9][0-9]{2,3})p(?![0-9A-Za-z])")


def read(file: str, lines: Sequence[str], *, session: str | None = None) -> PlayerLog:
    """Read the requests with CMCD of a session.

    Parameters
    ----------
    file, lines
        The name of the file, and its lines.
    session
        The identifier of the session (`sid`); None is the one with the most requests.

    Raises
    ------
    InputError
        When there is no such session.
    """
    found, bad = requests(lines)
    names = Counter(str(one.cmcd.get("sid", "")) for one in found)
    if session is not None and session not in names:
        hint = did_you_mean(session, names) or "sessions are " + ", ".join(list(names)[:5])
        raise InputError([Fault(message=f"no such session: `{session}`", where=file, hint=hint)])
    # Of equal numbers of requests, the session that begins first is chosen.
    name = names.most_common(1)[0][0] if session is None and names else session or ""
    own = [one for one in found if str(one.cmcd.get("sid", "")) == name]
    return _Session(own).log(file, bad=bad, session=name, others=[one for one in names if one != name])


class _Session:
    """The requests of one session."""

    def __init__(self, own: Sequence[Request]) -> None:
        self.timed = bool(own) and all(self._at(one) is not None for one in own)
        self.second = any(one.cmcd.get("v") == 2 or "sta" in one.cmcd for one in own)
        self.own = sorted(own, key=lambda one: self._at(one) or 0.0) if self.timed else list(own)
        self.asked = [one for one in self.own if not _states.is_event(one.cmcd)]
        self.responses = [one for one in self.own if one.cmcd.get("e") == "rr" and one.resource]
        # The requests themselves are preferred to the player's reports of their responses.
        self.asked = self.asked or self.responses
        self.by_states = self.timed and _states.has_states(one.cmcd for one in self.own)
        self.found = Found()
        self.notes: list[str] = []
        self.starts_by = False
        self.stalls: list[tuple[float, float | None]] = []
        first = self._at(self.own[0]) if self.timed else 0.0
        self.wall = self.timed and _times.is_unix(first)
        self.zero_s = first or 0.0 if self.wall else 0.0

    @staticmethod
    def _at(one: Request) -> float | None:
        """Return the time of a request. A player's own time (`ts`, version 2) is preferred."""
        stamp = number(dict(one.cmcd), "ts")
        return _times.possible(one.t_s if stamp is None else stamp / 1e3)

    def log(self, file: str, **named: Any) -> PlayerLog:  # noqa: ANN401 - as PlayerLog has them
        """Return the session as a log."""
        self._objects()
        counts: dict[str, int | float] = {"requests": len(self.asked)}
        if len(self.own) > len(self.asked):
            counts["events"] = len(self.own) - len(self.asked)
        if self.timed:
            self._play()
            counts["stalls"] = len(self.stalls)
        else:
            counts |= self._untimed()
        done = any(row.get("done_s") is not None for row in self.found.requests)
        switched = any(row["event"] == "switch" for row in self.found.playback)
        pictures, responses, switches = _UNSEEN
        unseen = [
            pictures,
            *([] if done else [responses]),
            *([] if switched else [switches]),
            *([] if self.second or self.by_states else [_UNSEEN_1]),
            *([] if self.timed else [_UNSEEN_TIME]),
        ]
        if self.timed and any(one.ended for one in self.own):
            self.notes.append(
                "The log does not say how long a response took, so the time of a request is that of its line."
            )
        return PlayerLog(
            file=file,
            kind="CMCD",
            clock="wall" if self.wall else "own" if self.timed else "none",
            zero_unix_s=self.zero_s if self.wall else None,
            tables=self.found.tables(self.zero_s),
            counts=counts,
            unseen=unseen,
            notes=self.notes,
            starts_by=self.starts_by,
            **named,
        )

    def _objects(self) -> None:
        """Add the requests, the chunks, the renditions and the buffer."""
        rates = {track: self._rates(track) for track in ("video", "audio")}
        for track, known in rates.items():
            rungs = [(1e3 * one, self._height(track, one), _rate(one)) for one in known]
            self.found.renditions += ladder(rungs, track)
        indices: Counter[str] = Counter()
        for one in self.own:
            at_s, cmcd = self._at(one), dict(one.cmcd)
            held_ms = number(cmcd, "bl")
            kind = str(cmcd.get("ot", ""))
            self.found.buffer(at_s, None if held_ms is None or kind == "a" else held_ms / 1e3)
        for one in self.asked:
            at_s, cmcd = self._at(one), dict(one.cmcd)
            row: dict[str, Any] = {"client": 0, "t_s": at_s, "resource": one.resource, "bytes": one.bytes}
            row |= _states.response(cmcd, at_s)
            self.found.requests.append(row)
            held_ms = number(cmcd, "bl")
            kind = str(cmcd.get("ot", ""))
            if kind in {"v", "av", "a"}:
                track = "audio" if kind == "a" else "video"
                rate, length_ms = number(cmcd, "br"), number(cmcd, "d")
                self.found.chunks.append(
                    {
                        **row,
                        "track": track,
                        "index": indices[track],
                        "rendition": rates[track].index(rate) if rate in rates[track] else None,
                        "duration_s": None if length_ms is None else length_ms / 1e3,
                        "buffer_before_s": None if held_ms is None else held_ms / 1e3,
                        "abandoned": False,
                    }
                )
                indices[track] += 1

    def _rates(self, track: str) -> list[float]:
        """Return the rates of a track's requested chunks and its highest one, kbit/s, the lowest first."""
        own = [dict(one.cmcd) for one in self.own if str(one.cmcd.get("ot")) in _KINDS[track]]
        rates = {rate for cmcd in own if (rate := number(cmcd, "br")) is not None}
        # A list of version 2 has the highest rate of each track: that of the pictures is the larger one.
        tops = (numbers(cmcd, "tb") for cmcd in own)
        top = max((max(one) for one in tops if one and (len(one) == 1 or track == "video")), default=0.0)
        return sorted(rates | {top} if rates and top > max(rates) else rates)

    def _height(self, track: str, rate: float) -> int | None:
        """Return the height that the addresses of a rendition's chunks name; None if none or several."""
        found = {
            int(named[1])
            for one in self.asked
            if str(one.cmcd.get("ot")) in _KINDS[track]
            and number(dict(one.cmcd), "br") == rate
            and (named := _HEIGHT.search(one.resource))
        }
        return found.pop() if track == "video" and len(found) == 1 else None

    def _play(self) -> None:
        """Add the events of playback."""
        if self.by_states:
            reports = [(self._at(one) or 0.0, one.cmcd) for one in self.own if _states.is_event(one.cmcd)]
            self.stalls = _states.play(reports, self.found)
            self._stall()
            return
        start_s = self._start()
        if start_s is not None:
            self.found.happened(start_s, "start")
            self.stalls = list(self._stalls_of_2(start_s) if self.second else self._stalls_of_1(start_s))
        self._stall()
        ended = next((one for one in self.own if one.cmcd.get("sta") == "e"), None)
        if ended is not None:
            self.found.happened(self._at(ended), "end")

    def _stall(self) -> None:
        """Add the begins and the ends of the stalls."""
        for begin_s, end_s in self.stalls:
            self.found.happened(begin_s, "underflow")
            if end_s is not None:
                self.found.happened(end_s, "resume")

    def _start(self) -> float | None:
        """Return when playback began; None if the log does not show it."""
        delay_ms = next((value for one in self.own if (value := number(dict(one.cmcd), "msd"))), None)
        if delay_ms is not None:
            return self.zero_s + delay_ms / 1e3
        plays = next((one for one in self.own if self._plays(one)), None)
        if plays is None:
            return None
        if plays is self.own[0]:
            self.notes.append("The log begins while the session plays, so the startup delay is not known.")
        else:
            self.starts_by = True
            self.notes.append("Playback began at the latest at the first request that does not have `su`.")
        return self._at(plays)

    def _plays(self, one: Request) -> bool:
        """Return whether a report is of a session that has begun to play."""
        if self.second and "sta" in one.cmcd:
            return one.cmcd["sta"] not in {"s", "d"}
        return "su" not in one.cmcd and one.cmcd.get("ot") in {"v", "a", "av"}

    def _stalls_of_2(self, start_s: float) -> Iterator[tuple[float, float | None]]:
        """Yield the stalls of version 2: lengths from `bsd`, and begins from `sta` and `pt`."""
        open_s: float | None = None
        stalled_s, before_s = 0.0, start_s
        for one in self.own:
            at_s, cmcd = self._at(one) or 0.0, dict(one.cmcd)
            lengths = [ms / 1e3 for ms in numbers(cmcd, "bsd")]
            if open_s is not None and lengths:
                length = lengths.pop(0)
                yield open_s, open_s + length
                stalled_s, before_s, open_s = stalled_s + length, open_s + length, None
            elif open_s is not None and cmcd.get("sta") in {"p", "e"}:
                yield open_s, at_s
                stalled_s, before_s, open_s = stalled_s + at_s - open_s, at_s, None
            # A request follows the end of the stall that it reports, so the last one ends just before it.
            end_s = at_s
            ended = []
            for length in reversed(lengths):
                begin_s = max(end_s - length, before_s)
                ended.append((begin_s, begin_s + length))
                end_s = begin_s
            yield from reversed(ended)
            stalled_s += sum(lengths)
            before_s = max(before_s, at_s)
            if open_s is None and cmcd.get("sta") == "r":
                played_ms = number(cmcd, "pt")
                open_s = at_s if played_ms is None else min(start_s + played_ms / 1e3 + stalled_s, at_s)
        if open_s is not None:
            yield open_s, None

    def _stalls_of_1(self, start_s: float) -> Iterator[tuple[float, float | None]]:
        """Yield the stalls of version 1: from when the buffer had to be empty to the next request in play."""
        open_s: float | None = None
        for before, one in pairwise(self.own):
            at_s, last_s = self._at(one) or 0.0, self._at(before) or 0.0
            if at_s <= start_s:
                continue
            if "bs" in one.cmcd and open_s is None:
                held_ms = number(dict(before.cmcd), "bl")
                open_s = max(min(last_s + (held_ms or 0.0) / 1e3, at_s), start_s)
            if open_s is not None and "su" not in one.cmcd:
                yield open_s, at_s
                open_s = None
        if open_s is not None:
            yield open_s, None

    def _untimed(self) -> dict[str, int | float]:
        """Return the counts of a session without times."""
        reported = [numbers(dict(one.cmcd), "bsa") for one in self.own]
        if self.second:
            lengths = [ms / 1e3 for one in self.own for ms in numbers(dict(one.cmcd), "bsd")]
            stalls = max((int(sum(one)) for one in reported), default=0)
            return {"stalls": stalls, "stalled_s": round(sum(lengths), 3)}
        # Requests during one stall all report it.
        runs = groupby(self.own, key=lambda one: "bs" in one.cmcd)
        return {"stalls": sum(1 for stalled, _ in runs if stalled)}


def _rate(kbps: float) -> str:
    """Return a rate for the narrow labels of figures."""
    return f"{kbps:g} kb/s" if kbps < 1000 else f"{kbps / 1e3:.4g} Mb/s"

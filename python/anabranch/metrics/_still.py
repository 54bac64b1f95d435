"""Time without a new picture, and film that is not shown.

For a progressive player, each new picture fills its own duration, and the screen stands still for the rest of
the time. The trace of an adaptive player has no pictures, so the film time at its events is used instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.metrics._rows import Tables

    #: Begin and end, in seconds.
    Stretch = tuple[float, float]

#: The shortest stretch that counts as a freeze, in seconds. W3C's WebRTC statistics define `freezeCount` with
#: a delay of 150 ms.
FREEZE_S = 0.15
#: A player has not reached its end if it has shown no new picture for this long when `application.duration`
#: ends, in seconds.
STANDING_S = 10.0
#: The same as a share of the time that is wanted: in a short session the shorter one counts.
_STANDING_SHARE = 0.5
#: The share of the wanted film that a player has to show before it can reach the end of
#: `application.duration`.
_SHOWN_SHARE = 0.1
#: The events after which an adaptive player plays, and those after which it does not.
_PLAYS, _STOPS = ("start", "resume"), ("underflow", "end", "stop")


@dataclass(frozen=True, kw_only=True)
class Screen:
    """The time for which a client's screen showed new pictures.

    Attributes
    ----------
    begin_s
        When the first picture began to play; None if nothing was shown.
    until_s
        The end of the film, of `application.duration` or of the run, whichever is first.
    stretches
        The stretches without a new picture, in order.
    shown_s
        Seconds of film that were shown.
    wanted_s
        The film's length, or `application.duration` if that is shorter.
    is_reached
        Whether the player reached the end of `wanted_s`.
    """

    begin_s: float | None
    until_s: float
    stretches: Sequence[Stretch]
    shown_s: float
    wanted_s: float
    is_reached: bool

    @property
    def still_s(self) -> float | None:
        """Seconds without a new picture; None if nothing was shown."""
        return None if self.begin_s is None else max(self.until_s - self.begin_s - self.shown_s, 0.0)

    @property
    def longest_s(self) -> float | None:
        """The longest stretch; None if nothing was shown."""
        if self.still_s is None:
            return None
        longest = max((end - begin for begin, end in self.stretches), default=0.0)
        # A picture that is shown a little late makes a stretch, but the next one may recover the delay.
        return min(longest, self.still_s)

    @property
    def unplayed_s(self) -> float:
        """Seconds of `wanted_s` that were not shown."""
        return max(self.wanted_s - self.shown_s, 0.0)

    def freezes(self) -> list[Stretch]:
        """Return the stretches that are long enough to be a freeze, joined if they nearly touch."""
        found: list[Stretch] = []
        for begin, end in self.stretches:
            if end - begin < FREEZE_S:
                continue
            if found and begin - found[-1][1] < FREEZE_S:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
        return found


def screen(own: Tables) -> Screen:
    """Return the screen of the client with these tables; an empty one if it has no player."""
    connection = next(rows(own["connections"]))
    events = sorted(rows(own.get("playback", {})), key=lambda row: row["t_s"])
    started_s = next((row["t_s"] for row in events if row["event"] == "start"), None)
    ended_s = next((row["t_s"] for row in events if row["event"] == "end"), None)
    until_s = connection["duration_s"] if ended_s is None else ended_s
    frames = own.get("frames")
    if frames and len(frames["fate"]):
        film_s, shown = _pictures(frames, until_s)
    else:
        ladder = [row for row in rows(own.get("renditions", {})) if row["track"] == "video"]
        film_s = max((row["duration_s"] for row in ladder), default=0.0)
        shown = list(_played(events, until_s, ladder))
    # A player shows its first picture while it buffers for the start.
    begin_s = None if not shown else max(shown[0][0], started_s or 0.0)
    stretches = [] if begin_s is None else list(_between(shown, begin_s, until_s))
    planned_s = connection.get("planned_s")
    if planned_s is None and connection["finished"] and ended_s is None:
        planned_s = connection["duration_s"]
    standing_s = stretches[-1][1] - stretches[-1][0] if stretches and stretches[-1][1] >= until_s else 0.0
    shown_s = sum(film for _, film in shown)
    wanted_s = film_s if planned_s is None else min(film_s, planned_s)
    return Screen(
        begin_s=begin_s,
        until_s=until_s,
        stretches=stretches,
        shown_s=shown_s,
        wanted_s=wanted_s,
        is_reached=ended_s is not None
        or (started_s is not None and bool(connection["finished"]) and _plays(shown_s, standing_s, wanted_s)),
    )


def standing_times(own: Tables) -> list[Stretch]:
    """Return a client's freezes; a session of a player that shows no picture is one from its begin."""
    shown = screen(own)
    if shown.begin_s is None and shown.wanted_s > 0 and own.get("player"):
        return [(0.0, shown.until_s)]
    return shown.freezes()


def _plays(shown_s: float, standing_s: float, wanted_s: float) -> bool:
    """Return whether a started player still plays when its time ends.

    Parameters
    ----------
    shown_s
        Seconds of film that were shown.
    standing_s
        Seconds since the last new picture ended.
    wanted_s
        Seconds of film that are wanted; 0 if the trace does not have it.
    """
    least_s = min(STANDING_S, _STANDING_SHARE * wanted_s) if wanted_s else STANDING_S
    return shown_s >= _SHOWN_SHARE * wanted_s and standing_s < least_s


def _pictures(frames: Mapping[str, Sequence[Any]], until_s: float) -> tuple[float, list[tuple[float, float]]]:
    """Return a film's length, and for each shown picture its time and its duration, seconds."""
    times = list(frames["pts_s"])
    lasts = [later - pts for pts, later in pairwise(times)]
    # The duration of the last picture is unknown. The mean of the others is used.
    lasts.append((times[-1] - times[0]) / len(lasts) if lasts else 0.0)
    shown = []
    for at_s, due_s, lasts_s in zip(frames["shown_s"], frames["due_s"], lasts, strict=True):
        # A picture that is shown while the player buffers counts from the time at which it is due.
        if at_s is not None and at_s <= until_s:
            moves_s = min(at_s if due_s is None else max(at_s, due_s), until_s)
            shown.append((moves_s, min(lasts_s, until_s - moves_s)))
    return sum(lasts), sorted(shown)


def _played(
    events: Sequence[Mapping[str, Any]], until_s: float, ladder: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[float, float]]:
    """Yield the begin of each stretch of playing of an adaptive player, and the film shown in it, seconds.

    A picture that the browser dropped was not shown, so its duration is subtracted.
    """
    rates = [row["frame_rate"] for row in ladder if row["frame_rate"]]
    picture_s = 1.0 / max(rates) if rates else 0.0
    began: Mapping[str, Any] | None = None
    dropped = 0
    for row in (*events, {"t_s": until_s, "event": "stop", "pts_s": None}):
        if row["event"] in _PLAYS and began is None:
            began, dropped = row, 0
        elif row["event"] == "drop":
            dropped += 1
        elif row["event"] in _STOPS and began is not None:
            lasted_s = row["t_s"] - began["t_s"]
            film_s = lasted_s if row["pts_s"] is None else min(row["pts_s"] - began["pts_s"], lasted_s)
            yield began["t_s"], max(film_s - dropped * picture_s, 0.0)
            began = None


def _between(shown: Sequence[tuple[float, float]], begin_s: float, until_s: float) -> Iterator[Stretch]:
    """Yield the stretches between the end of one picture and the begin of the next one, or the end."""
    last_s = begin_s
    for at_s, film_s in (*shown, (until_s, 0.0)):
        if at_s > last_s:
            yield last_s, at_s
        last_s = max(last_s, at_s + film_s)

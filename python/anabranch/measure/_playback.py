"""The viewer: when a film starts, stalls and ends, from the times at which its chunks came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(kw_only=True)
class Playback:
    """A player that starts and resumes with a whole chunk. Times are seconds since the first request.

    Attributes
    ----------
    started_s
        When the first picture was shown; None before.
    stalls
        When the buffer was empty, and when playback resumed.
    media_s, played_s
        Seconds of film that came, and that were shown.
    """

    started_s: float | None = None
    stalls: list[tuple[float, float]] = field(default_factory=list)
    media_s: float = 0.0
    played_s: float = 0.0
    _playing: bool = False
    _last_s: float = 0.0
    _empty_s: float = 0.0

    @classmethod
    def of_events(cls, events: Sequence[Mapping[str, Any]], until_s: float) -> Playback:
        """Return the playback of a program's events, each at `t_s`.

        They are `start`, `underflow`, `resume`, and `end`, which ends a stall too.
        """
        found = cls()
        empty_s: float | None = None
        for event in events:
            if event["event"] == "start":
                found.started_s = event["t_s"]
            elif event["event"] == "underflow":
                empty_s = event["t_s"]
            elif event["event"] in ("resume", "end") and empty_s is not None:
                found.stalls.append((empty_s, event["t_s"]))
                empty_s = None
        if empty_s is not None and empty_s < until_s:
            found.stalls.append((empty_s, until_s))
        return found

    def advance(self, now_s: float) -> None:
        """Play until a time."""
        if self._playing:
            passed = now_s - self._last_s
            if self.played_s + passed >= self.media_s:
                self._empty_s = self._last_s + self.media_s - self.played_s
                self.played_s, self._playing = self.media_s, False
            else:
                self.played_s += passed
        self._last_s = now_s

    def add(self, now_s: float, duration_s: float) -> None:
        """Take in a whole chunk that came at a time."""
        self.advance(now_s)
        self.media_s += duration_s
        if self._playing:
            return
        if self.started_s is None:
            self.started_s = now_s
        elif now_s > self._empty_s:
            self.stalls.append((self._empty_s, now_s))
        self._playing = True

    def finish(self, now_s: float) -> float:
        """Return when the last picture is shown, if no more chunks come after a time."""
        self.advance(now_s)
        return now_s + self.buffer_s if self._playing else self._empty_s

    @property
    def buffer_s(self) -> float:
        """Seconds of film that came and were not shown yet."""
        return self.media_s - self.played_s

    @property
    def stalled_s(self) -> float:
        """Seconds of all stalls."""
        return sum(until - since for since, until in self.stalls)

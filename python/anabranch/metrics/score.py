"""The score of a run for a viewer or a transfer, and the trials that count as failed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.metrics._still import FREEZE_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.media.films import Film

#: The share of the worst trials, whose mean is the risk.
WORST = 0.1
#: The columns with the score in a run's row. Waiting is the negative score of a film.
WAITING, RATE, GOODPUT = "waiting_s", "rate_less_waiting_mbps", "goodput_mbps"
#: The smallest difference in score that matters: seconds of a film, the share of a rate, and the least of an
#: adaptive film. 50 kbit/s is 1 % of a usual top rendition of 5 Mb/s. Near a score of zero, a share of the
#: score would be next to nothing.
LEAST_S, LEAST_SHARE, LEAST_MBPS = 0.1, 0.01, 0.05


def can_be_negative(column: str) -> bool:
    """Return whether a column of a run's row can be below zero: only the rate less the waiting can."""
    return column == RATE


@dataclass(frozen=True, kw_only=True)
class Score:
    """Converts a run's row to a number, of which larger is better.

    Attributes
    ----------
    kind
        `adaptive`, `progressive`, or `transfer`.
    film_s
        Length of the film in seconds; 0 for a transfer. For an adaptive film, the part that the session wants
        to play.
    top_mbps
        Rate of an adaptive film's highest rendition, sound included.
    """

    kind: str
    film_s: float = 0.0
    top_mbps: float = 0.0

    @property
    def unit(self) -> str:
        """The unit of the number."""
        return "s" if self.kind == "progressive" else "Mb/s"

    @property
    def meaning(self) -> str:
        """The meaning of the number, in words."""
        return {
            "progressive": (
                "minus the seconds before the start, without a new picture, and of film not shown; "
                "+1 s is a second less"
            ),
            "adaptive": "the pictures' mean rate, less the top rate for the share of waiting",
            "transfer": "goodput",
        }[self.kind]

    def matters(self, value: float) -> float:
        """Return the smallest difference that matters at a value: 0.1 s, or 1 % of a rate.

        The score of an adaptive film may be zero or negative, so at least `LEAST_MBPS` matters there.
        """
        if self.kind == "progressive":
            return LEAST_S
        return max(LEAST_MBPS if self.kind == "adaptive" else 0.0, LEAST_SHARE * abs(value))

    def of(self, row: Mapping[str, Any]) -> float:
        """Return the number of a run.

        Parameters
        ----------
        row
            The run's row of the table `runs`.
        """
        if self.kind == "transfer":
            return float(row.get("goodput_mbps") or 0.0)
        # A session that never started waited for all of its duration.
        start = row.get("startup_delay_s")
        waited = float(row["duration_s"]) if start is None else float(start) + float(_still_s(row) or 0.0)
        # In sessions that did not reach the end, film that was not shown counts as waiting, too.
        waited += float(row.get("unplayed_s") or 0.0) if _is_short(row) else 0.0
        if self.kind == "adaptive":
            return float(row.get("bitrate_mean_mbps") or 0.0) - self.top_mbps * waited / self.film_s
        # Discarded pictures are part of `still_s`, but film that a flush skipped is not.
        total, skipped = int(row.get("frames.total") or 0), float(row.get("frames.flushed") or 0)
        return -(waited + (self.film_s * skipped / total if total and not _is_short(row) else 0.0))

    def columns(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Return the column with the score for a run's row. A transfer's score is its goodput."""
        if self.kind == "transfer":
            return {}
        value = self.of(row)
        return {WAITING: -value} if self.kind == "progressive" else {RATE: value}

    def went_wrong(self, row: Mapping[str, Any]) -> bool:
        """Return whether the picture froze in a run, or a player did not reach the end."""
        froze = (row.get("still_longest_s") or 0.0) >= FREEZE_S or bool(row.get("buffer_underflows"))
        return froze or (self.kind != "transfer" and _is_short(row)) or bool(row.get("unfinished_sessions"))


def _still_s(row: Mapping[str, Any]) -> float | None:
    """Return the time without a new picture. Results of older builds have only the player's own count."""
    found: float | None = row.get("still_s", row.get("rebuffer_s"))
    return found


def _is_short(row: Mapping[str, Any]) -> bool:
    """Return whether a player of a run did not reach the end."""
    return row.get("startup_delay_s") is None or not row.get(
        "reached_end", not row.get("unfinished_sessions")
    )


def of(kind: str, film: Film | None, duration_ns: int | None = None) -> Score:
    """Return how runs of an application are scored.

    Parameters
    ----------
    kind
        The application's.
    film
        The film that it streams.
    duration_ns
        The application's `duration`, if it has one.
    """
    if kind not in ("progressive", "adaptive") or film is None:
        return Score(kind="transfer")
    if kind == "progressive":
        return Score(kind=kind, film_s=film.duration_ns / 1e9)
    # Waiting is computed relative to the time in which the session can play. Otherwise it would cost little
    # in a short session.
    wanted_ns = film.duration_ns if duration_ns is None else min(film.duration_ns, duration_ns)
    return Score(kind=kind, film_s=wanted_ns / 1e9, top_mbps=_top_mbps(film))


def _top_mbps(film: Film) -> float:
    """Return the mean rate of a ladder's highest rendition, sound included."""
    from anabranch.media.ladders import resolve

    plan: dict[str, Any] = film.plan or {}
    ladder = plan.get("recorded") or resolve(plan)[0]
    sound = [ladder["audio"]] if ladder["audio"] else []
    rendition = ladder["renditions"][-1]
    size = sum(chunk["bytes"] for track in (rendition, *sound) for chunk in track["chunks"])
    return float(size * 8e3 / sum(chunk["duration_ns"] for chunk in rendition["chunks"]))


def worst(values: Sequence[float]) -> float:
    """Return the mean of the worst tenth of the values, at least of one (conditional value at risk)."""
    count = max(1, math.ceil(WORST * len(values) - 1e-9))
    return sum(sorted(values)[:count]) / count

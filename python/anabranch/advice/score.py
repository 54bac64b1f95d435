"""One number for what a viewer or a transfer got, and what counts as a trial that went wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.media.films import Film

#: The share of trials whose mean says how bad it gets.
WORST = 0.1


@dataclass(frozen=True, kw_only=True)
class Score:
    """How a run's row becomes a number, of which more is better.

    Attributes
    ----------
    kind
        `adaptive`, `progressive`, or `transfer`.
    film_s
        Length of the film in seconds; 0 for a transfer.
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
        """What the number is, in words."""
        return {
            "progressive": "minus the seconds of waiting for the start, of freezes and of lost pictures",
            "adaptive": "the pictures' mean rate, less the top rate for the share of waiting",
            "transfer": "goodput",
        }[self.kind]

    def matters(self, value: float) -> float:
        """Return the smallest difference that matters beside a value: 0.1 s, or 1 % of a rate."""
        return 0.1 if self.kind == "progressive" else 0.01 * abs(value)

    def of(self, row: Mapping[str, Any]) -> float:
        """Return the number of a run.

        Parameters
        ----------
        row
            The run's row of the table `runs`.
        """
        if self.kind == "transfer":
            return float(row.get("goodput_mbps") or 0.0)
        # A session that never began waited for all of its time.
        start = row.get("startup_delay_s")
        waited = float(row["duration_s"] if start is None else start) + float(row.get("rebuffer_s") or 0.0)
        is_cut = bool(row.get("unfinished_sessions"))
        if self.kind == "adaptive":
            # Nothing counts a silence at the end of a session that was cut off.
            waited = max(waited, float(row["duration_s"]) - self.film_s) if is_cut else waited
            return float(row.get("bitrate_mean_mbps") or 0.0) - self.top_mbps * waited / self.film_s
        total = int(row.get("frames.total") or 0)
        lost = row.get("picture_discards") or 0
        if is_cut:
            lost = total - int(row.get("frames.displayed") or 0)
        return -(waited + (self.film_s * float(lost) / total if total else 0.0))

    def went_wrong(self, row: Mapping[str, Any]) -> bool:
        """Tell whether the picture froze in a run, or the end of the simulation cut the session off."""
        return bool(row.get("unfinished_sessions")) or bool(row.get("buffer_underflows"))


def of(kind: str, film: Film | None) -> Score:
    """Return how runs of an application are scored.

    Parameters
    ----------
    kind
        The application's.
    film
        What it streams.
    """
    if kind not in ("progressive", "adaptive") or film is None:
        return Score(kind="transfer")
    top = _top_mbps(film) if kind == "adaptive" else 0.0
    return Score(kind=kind, film_s=film.duration_ns / 1e9, top_mbps=top)


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
    """Return the mean of the worst tenth of values, at least of one: their conditional value at risk."""
    count = max(1, math.ceil(WORST * len(values) - 1e-9))
    return sum(sorted(values)[:count]) / count

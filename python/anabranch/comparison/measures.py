"""The measures by which sets of paths are compared, for each kind of application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch._numbers import three_digits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anabranch.results.paired import Effect


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One column of the results.

    Attributes
    ----------
    column
        Its name there.
    name
        Its name for people.
    unit
        Its unit, as it is shown.
    scale
        From the results' unit to that one.
    better
        1 where more is better, -1 where less is, 0 where a verdict does not hang on it.
    matters
        The smallest difference that matters, in the shown unit.
    relative
        The same as a share of the value without the path; the larger of both counts.
    """

    column: str
    name: str
    unit: str = ""
    scale: float = 1.0
    better: int = 0
    matters: float = 0.0
    relative: float = 0.0

    @property
    def heading(self) -> str:
        """Name and unit, over a column."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def number(self, value: float, *, signed: bool = False) -> str:
        """Return a value of the results as it is shown."""
        return three_digits(value * self.scale, signed=signed)

    def with_interval(self, effect: Effect, *, signed: bool = False) -> str:
        """Return a mean or a difference as it is shown, with the larger side of its interval."""
        if effect.value is None:
            return "-"
        text = self.number(effect.value, signed=signed)
        if effect.low is None or effect.high is None:
            return text
        width = self.number(max(effect.value - effect.low, effect.high - effect.value))
        return text if width == "0" else f"{text} ± {width}"

    def judged(self, effect: Effect, before: float) -> int:
        """Return whether a difference is for the better (1), for the worse (-1), or neither (0).

        Parameters
        ----------
        effect
            The difference: with the path less without it.
        before
            The mean without it.
        """
        if effect.value is None or effect.low is None or effect.high is None:
            return 0
        least = max(self.matters / self.scale, self.relative * abs(before))
        is_seen = effect.low > 0 or effect.high < 0
        if not self.better or not is_seen or abs(effect.value) < least:
            return 0
        return self.better if effect.value > 0 else -self.better


#: The number of sessions in a run that did not reach the end. A verdict compares these first, because other
#: means only cover sessions with a value. Tables count the runs instead.
UNREACHED = Measure(
    column="unreached_sessions", name="sessions that do not reach the end", better=-1, matters=0.01
)
#: The sessions of a run whose player never started: the viewer's means are over the others.
UNSTARTED = Measure(column="unstarted_sessions", name="sessions that never start", better=-1, matters=0.01)
#: Measures that tables and sentences give as a count of runs, not as a mean.
COUNTED = (UNREACHED, UNSTARTED)
_STARTUP = Measure(column="startup_delay_s", name="start", unit="s", better=-1, matters=0.5)
_STILL = Measure(column="still_s", name="still", unit="s", better=-1, matters=0.1)
_UNPLAYED = Measure(column="unplayed_s", name="film not shown", unit="s", better=-1, matters=0.5)
_FREEZES = Measure(column="buffer_underflows", name="freezes")
_GOODPUT = Measure(column="goodput_mbps", name="goodput", unit="Mb/s")

#: An adaptive player's.
ADAPTIVE = (
    UNREACHED,
    UNSTARTED,
    Measure(column="top_share", name="time at the top", unit="%", scale=100, better=1, matters=1),
    Measure(column="bitrate_mean_mbps", name="rate of the pictures", unit="Mb/s", better=1, relative=0.01),
    _STILL,
    _UNPLAYED,
    Measure(column="resolution_mean", name="resolution", unit="p"),
    Measure(column="resolution_changes", name="switches"),
    _FREEZES,
    _STARTUP,
)
#: Those of a player of one film.
PROGRESSIVE = (
    UNREACHED,
    UNSTARTED,
    _STILL,
    _UNPLAYED,
    Measure(column="picture_discards", name="discarded pictures", better=-1, matters=1),
    _FREEZES,
    _STARTUP,
    _GOODPUT,
)
#: Those of a transfer.
TRANSFER = (
    Measure(column="goodput_mbps", name="goodput", unit="Mb/s", better=1, relative=0.01),
    Measure(column="max_read_gap_s", name="longest wait for a byte", unit="s", better=-1, matters=0.1),
    Measure(column="duration_s", name="duration", unit="s"),
)


def score_text(effect: Effect, unit: str, *, signed: bool = False) -> str:
    """Return a score, or a difference of scores, with its interval and unit."""
    return f"{Measure(column='', name='score').with_interval(effect, signed=signed)} {unit}"


def of(columns: Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of the application whose results have these columns."""
    known = set(columns)
    if "top_share" in known:
        return ADAPTIVE
    return PROGRESSIVE if "picture_discards" in known else TRANSFER

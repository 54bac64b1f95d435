"""The measures by which sets of paths are compared, for each kind of application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch._numbers import three_digits
from anabranch.metrics import score
from anabranch.results import judging
from anabranch.results.paired import LEVEL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.results.paired import Effect


#: The kinds of a shown value: a number with ± and half a width, one with both ends of its interval, a number
#: alone, and words instead of a number.
PLUS_MINUS, INTERVAL, NUMBER, WORDS = "plus_minus", "interval", "number", "words"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A value as a text.

    Attributes
    ----------
    text
        The text.
    kind
        `PLUS_MINUS`, `INTERVAL`, `NUMBER` or `WORDS`.
    """

    text: str
    kind: str

    @property
    def has_interval(self) -> bool:
        """Whether the text contains an interval."""
        return self.kind in (PLUS_MINUS, INTERVAL)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One column of the results.

    Attributes
    ----------
    column
        The column's name.
    name
        Its name for people.
    unit
        The shown unit.
    scale
        Factor from the results' unit to the shown unit.
    better
        1 if more is better, -1 if less is better, 0 if verdicts ignore the measure.
    matters
        The smallest difference that matters, in the shown unit.
    relative
        The same as a share of the value without the path. The larger of the two limits applies.
    is_score
        Whether it is the score, on which verdicts rest (`anabranch.metrics.score`).
    """

    column: str
    name: str
    unit: str = ""
    scale: float = 1.0
    better: int = 0
    matters: float = 0.0
    relative: float = 0.0
    is_score: bool = False

    @property
    def heading(self) -> str:
        """The heading of a column: name and unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def number(self, value: float, *, signed: bool = False) -> str:
        """Return the text of a value of the results."""
        return three_digits(value * self.scale, signed=signed)

    def with_interval(self, effect: Effect, *, signed: bool = False, level: float = LEVEL) -> str:
        """Return the text of a mean or a difference with its interval (`shown`)."""
        return self.shown(effect, signed=signed, level=level).text

    def shown(self, effect: Effect, *, signed: bool = False, level: float = LEVEL) -> Shown:
        """Return a mean or a difference, with the larger side of its interval.

        A difference whose interval contains zero is printed as that interval, `-3 to +12`, because not even
        its sign is known. A mean has it in brackets: `4 (0 to 11)`. The text names the level of the interval
        unless it is 95 %.
        """
        if effect.value is None:
            return Shown(text="-", kind=WORDS)
        text = self.number(effect.value, signed=signed)
        if effect.low is None or effect.high is None:
            return Shown(text=text, kind=NUMBER)
        width = self.number(max(effect.value - effect.low, effect.high - effect.value))
        if width == "0":
            is_zero = signed and text in ("+0", "-0")
            return Shown(text="no difference", kind=WORDS) if is_zero else Shown(text=text, kind=NUMBER)
        if effect.low < 0 < effect.high:
            is_signed = signed or effect.value < 0 or score.can_be_negative(self.column)
            low = effect.low if is_signed else 0.0
            low_text, high_text = (self.number(end, signed=signed) for end in (low, effect.high))
            reach = f"{low_text} to {high_text}"
            text = reach if signed else f"{text} ({reach})"
            return Shown(text=f"{text}{at_level(level)}", kind=INTERVAL)
        return Shown(text=f"{text} ± {width}{at_level(level)}", kind=PLUS_MINUS)

    def least(self, before: float) -> float:
        """Return the smallest difference that matters, in the results' unit, for a value without the path."""
        return max(self.matters / self.scale, self.relative * abs(before))

    def judge(
        self,
        left: Mapping[int, float],
        right: Mapping[int, float],
        *,
        exact: tuple[bool, bool] = (False, False),
        comparisons: int = 1,
    ) -> judging.Judgement:
        """Return the verdict on having `left` instead of `right` (`anabranch.results.judging`)."""
        before = sum(right.values()) / len(right) if right else 0.0
        return judging.judge(
            left,
            right,
            better=self.better,
            matters=self.least(before),
            exact=exact,
            comparisons=comparisons,
        )

    def judged(self, effect: Effect, before: float) -> int:
        """Return 1 if a difference is an improvement, -1 if it is a deterioration, and otherwise 0.

        Parameters
        ----------
        effect
            The value with the path minus the value without it.
        before
            The mean without the path.
        """
        if effect.value is None or effect.low is None or effect.high is None:
            return 0
        least = self.least(before)
        is_seen = effect.low > 0 or effect.high < 0
        if not self.better or not is_seen or abs(effect.value) < least:
            return 0
        return self.better if effect.value > 0 else -self.better


#: The number of sessions in a run that did not reach the end. A verdict compares these first, because other
#: means only cover sessions with a value. Tables count the runs instead.
UNREACHED = Measure(
    column="unreached_sessions", name="sessions that do not reach the end", better=-1, matters=0.01
)
#: The number of sessions in a run whose player never started. The viewer's means are over the others.
UNSTARTED = Measure(column="unstarted_sessions", name="sessions that never start", better=-1, matters=0.01)
#: Measures that tables and sentences give as a count of runs, not as a mean.
COUNTED = (UNREACHED, UNSTARTED)
_STARTUP = Measure(column="startup_delay_s", name="start", unit="s", better=-1, matters=0.5)
_STILL = Measure(column="still_s", name="still", unit="s", better=-1, matters=0.1)
_UNPLAYED = Measure(column="unplayed_s", name="film not shown", unit="s", better=-1, matters=0.5)
_FREEZES = Measure(column="buffer_underflows", name="freezes")
_GOODPUT = Measure(column="goodput_mbps", name="goodput", unit="Mb/s")

#: The measures of an adaptive player.
ADAPTIVE = (
    UNREACHED,
    UNSTARTED,
    Measure(
        column=score.RATE,
        name="rate less waiting",
        unit="Mb/s",
        better=1,
        matters=score.LEAST_MBPS,
        relative=score.LEAST_SHARE,
        is_score=True,
    ),
    Measure(column="top_share", name="time at the top", unit="%", scale=100, better=1, matters=1),
    Measure(column="bitrate_mean_mbps", name="rate of the pictures", unit="Mb/s", better=1, relative=0.01),
    _STILL,
    _UNPLAYED,
    Measure(column="resolution_mean", name="resolution", unit="p"),
    Measure(column="resolution_changes", name="switches"),
    _FREEZES,
    _STARTUP,
)
#: The measures of a progressive player.
PROGRESSIVE = (
    UNREACHED,
    UNSTARTED,
    Measure(column=score.WAITING, name="waiting", unit="s", better=-1, matters=score.LEAST_S, is_score=True),
    _STILL,
    _UNPLAYED,
    Measure(column="picture_discards", name="discarded pictures", better=-1, matters=1),
    _FREEZES,
    _STARTUP,
    _GOODPUT,
)
#: The measures of a transfer.
TRANSFER = (
    Measure(
        column=score.GOODPUT,
        name="goodput",
        unit="Mb/s",
        better=1,
        relative=score.LEAST_SHARE,
        is_score=True,
    ),
    Measure(column="max_read_gap_s", name="longest wait for a byte", unit="s", better=-1, matters=0.1),
    Measure(column="duration_s", name="duration", unit="s"),
)


def score_text(effect: Effect, unit: str, *, signed: bool = False, level: float = LEVEL) -> str:
    """Return a score, or a difference of scores, with its interval at a level, and its unit."""
    # The score of a film is minus its waiting, so it can be negative.
    shown = Measure(column=score.RATE, name="score").shown(effect, signed=signed)
    if shown.kind == WORDS:
        return shown.text
    return f"{shown.text} {unit}{at_level(level) if shown.has_interval else ''}"


def at_level(level: float) -> str:
    """Return the words that name an interval's level; empty for 95 %."""
    return "" if level == LEVEL else f" at {100 * level:.3g} %"


def primary(found: Sequence[Measure], columns: Collection[str]) -> Measure | None:
    """Return the measure that verdicts rest on: the score, or the first one of results without a score.

    Parameters
    ----------
    found
        The measures of the application.
    columns
        The columns that have values. Results of older builds have no score.
    """
    judged = [one for one in found if one.better and one not in COUNTED and one.column in columns]
    return next((one for one in judged if one.is_score), judged[0] if judged else None)


def of(columns: Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of the application whose results have these columns."""
    known = set(columns)
    if "top_share" in known:
        return ADAPTIVE
    return PROGRESSIVE if "picture_discards" in known else TRANSFER

"""The simulator compared with the real player: both values, their difference, and the verdict."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch._intervals import half_width
from anabranch.results.read import rows
from anabranch.viewed import stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.results.store import Row
    from anabranch.viewed.read import Case, LiveStudy


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric that is compared.

    Attributes
    ----------
    title
        Its name for people, with its unit.
    within
        The tolerance of the simulator, in its unit; None for no limit.
    share
        The tolerance as a share of the real player's value, used if it is larger.
    """

    title: str
    within: float | None = None
    share: float = 0.0


#: The compared metrics, by the column of the results.
METRICS: Mapping[str, Metric] = {
    "startup_delay_s": Metric(title="startup, s", within=0.3),
    "buffer_underflows": Metric(title="buffer underflows", within=2),
    "picture_discards": Metric(title="picture discards", within=10, share=0.25),
    "rebuffer_s": Metric(title="time frozen, s"),
    # The viewer's metrics, independent of the player's counters; a trial without a picture has no `still_s`.
    "still_s": Metric(title="time without a new picture, s"),
    "unplayed_s": Metric(title="film not shown, s"),
    "unstarted_sessions": Metric(title="sessions that never start"),
    "unreached_sessions": Metric(title="sessions that do not reach the end"),
    "resolution_mean": Metric(title="mean resolution, pixels"),
    "resolution_changes": Metric(title="changes of resolution"),
    "goodput_mbps": Metric(title="goodput, Mb/s"),
    "max_read_gap_s": Metric(title="longest gap without a byte, s"),
    "retransmissions": Metric(title="retransmissions"),
}
#: The columns with the share of the film's time in each rendition, in percent, and their tolerance.
_TIME_AT = "time_at."
_TIME = Metric(title="", within=10)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A metric of an arm in both worlds.

    Attributes
    ----------
    arm, name, metric
        The arm, the column, and its tolerance.
    viewer, simulator
        Its value in each trial that counts.
    cause
        The reason for a difference, from the study; empty if it has none.
    """

    arm: str
    name: str
    metric: Metric
    viewer: tuple[float, ...]
    simulator: tuple[float, ...]
    cause: str

    @property
    def apart(self) -> float:
        """The simulator's mean minus the real player's."""
        return statistics.fmean(self.simulator) - statistics.fmean(self.viewer)

    @property
    def interval(self) -> float | None:
        """Half the width of the real player's 95 % interval; None for fewer than two trials."""
        return half_width(self.viewer)

    @property
    def verdict(self) -> str:
        """The verdict: `inside`, `inside the interval`, `apart`, or empty without a tolerance."""
        if self.metric.within is None:
            return ""
        asked = max(self.metric.within, self.metric.share * abs(statistics.fmean(self.viewer)))
        if abs(self.apart) <= asked:
            return "inside"
        near = self.interval is not None and abs(self.apart) <= self.interval
        return "inside the interval" if near else "apart"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A live study's results.

    Attributes
    ----------
    differences
        Arm by arm, metric by metric.
    trials
        The number of valid runs over real packets, by arm.
    voids
        The number of runs that do not count because the emulator was late, for each arm.
    late_ms
        The worst lateness of a run that counts, at the 99th percentile, milliseconds.
    """

    differences: tuple[Difference, ...]
    trials: Mapping[str, int]
    voids: Mapping[str, int]
    late_ms: float

    def to_json(self) -> list[dict[str, Any]]:
        """Return the differences as an object for JSON."""
        return [
            {
                "arm": one.arm,
                "metric": one.name,
                "viewer": list(one.viewer),
                "simulator": list(one.simulator),
                "apart": one.apart,
                "interval": one.interval,
                "verdict": one.verdict or None,
                "cause": one.cause or None,
            }
            for one in self.differences
        ]


def compare(
    folder: Path, found: LiveStudy, simulated: Sequence[Row], recorded: Sequence[Row] = ()
) -> Compared:
    """Compare the two worlds.

    Parameters
    ----------
    folder
        The folder of the runs over real packets.
    found
        The live part of the study.
    simulated
        The rows of the same runs in the simulator.
    recorded
        The rows of runs over real packets that are not in the folder.

    Raises
    ------
    InputError
        When a file is damaged.
    """
    # A missing folder is a fault if there are no recorded runs.
    live = [*stored.runs(folder), *recorded] if recorded else rows(folder).to_dicts()
    counting = [row for row in live if not row["void"]]
    cases = [case for case in found.cases() if any(case.owns(row) for row in counting)]

    def own(rows: Sequence[Row], case: Case) -> list[Row]:
        return [row for row in rows if case.owns(row)]

    return Compared(
        differences=tuple(
            one
            for case in cases
            for one in _of(case, own(counting, case), own(simulated, case), found.causes)
        ),
        trials={case.name: len(own(counting, case)) for case in cases},
        voids={case.name: sum(row["voids"] for row in own(live, case)) for case in cases},
        late_ms=max((row["late.p99_ms"] for row in counting), default=0.0),
    )


def _of(
    case: Case, live: Sequence[Row], simulated: Sequence[Row], causes: Mapping[str, str]
) -> Iterator[Difference]:
    """Yield the differences of an arm."""
    times = {name for row in (*live, *simulated) for name in row if name.startswith(_TIME_AT)}
    for name in (*METRICS, *sorted(times, key=_height)):
        viewer, simulator = (
            tuple(float(row[name]) for row in rows if row.get(name) is not None) for rows in (live, simulated)
        )
        if not viewer or not simulator:
            continue
        metric = METRICS.get(name) or Metric(
            title=f"time at {_height(name)}p, %", within=_TIME.within, share=_TIME.share
        )
        cause = causes.get(f"{case.name}: {name}", causes.get(name, ""))
        yield Difference(
            arm=case.name, name=name, metric=metric, viewer=viewer, simulator=simulator, cause=cause
        )


def _height(name: str) -> int:
    """Return the pixels of a rendition's column."""
    return int(name.removeprefix(_TIME_AT).removesuffix("p"))

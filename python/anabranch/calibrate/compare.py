"""Kernel and simulator compared, figure by figure.

A figure with a target is judged by these rules, each independent of the others:

- **Outside.** A simulator's mean outside the range of all trials by more than the target is a miss.
- **Interval.** The kernel's mean is only known within its 95 % t-interval, which replaces a narrower
  target: unchanged with `TRIALS_FOR_INTERVAL` trials or more, with fewer up to `INTERVAL_MOST` times the
  target.
- **Modes.** With as many trials, a figure that has two modes is compared mode by mode: the share of the lower
  one lies in the exact interval of the kernel's, and on either side the mean of the simulator's runs is as
  near to the kernel's mode as the two rules above require of a separate figure. If no run falls
  into a mode, the share decides.
- **Missing.** A figure that the simulator does not have is a miss.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from anabranch._intervals import half_width
from anabranch.calibrate import statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate.measure import Figures
    from anabranch.calibrate.model import Measured, Setting

Verdict = Literal["ok", "miss", "not judged"]

#: The number of trials from which on the interval of the kernel's mean may replace any narrower target, and
#: two modes are distinguished.
TRIALS_FOR_INTERVAL = 12
#: The limit of the interval of fewer trials, as a multiple of the target.
INTERVAL_MOST = 2.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """How far the simulator's mean may be from the kernel's: the wider of both.

    Attributes
    ----------
    relative
        As a share of the kernel's figure; of all subflows' bytes together for a subflow's bytes.
    absolute
        In the figure's own unit.
    """

    relative: float = 0.0
    absolute: float = 0.0

    def amount(self, of: float) -> float:
        """Return the target in the figure's unit, for a figure of this size."""
        return max(self.relative * of, self.absolute)


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """How far a simulator's mean may be from the mean of some trials.

    Attributes
    ----------
    target
        The tolerance of the target.
    allowed
        The tolerance that applies: that one, or the interval in its place.
    why
        The replacement of the target; empty if it applies itself.
    """

    target: float
    allowed: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Mode:
    """One of a figure's two modes.

    Attributes
    ----------
    kernel, simulator
        Mean of the trials and of the runs in it; the latter is None when no run is.
    allowed
        The permitted distance.
    holds
        Whether they are as near.
    """

    kernel: float
    simulator: float | None
    allowed: float
    holds: bool


@dataclass(frozen=True, kw_only=True)
class Modes:
    """A figure with two modes, compared by how often each came and where it lies.

    Attributes
    ----------
    split
        The value between the modes.
    kernel, simulator
        Share of runs below it.
    low, high
        95 % interval of the kernel's share.
    lower, upper
        The modes.
    """

    split: float
    kernel: float
    simulator: float
    low: float
    high: float
    lower: Mode
    upper: Mode

    @property
    def hold(self) -> bool:
        """Whether share and places are the kernel's."""
        return self.low <= self.simulator <= self.high and self.lower.holds and self.upper.holds


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One figure of one setting.

    Attributes
    ----------
    figure
        The measurements' column.
    trials, runs
        How many the means are of.
    kernel, simulator
        The means; the simulator's is None when it has none.
    half_width
        Of the 95 % t-interval of the kernel's mean; None for one trial.
    allowed
        The permitted distance of the means; None without a target, and with two modes.
    modes
        The modes, where there are two.
    verdict
        The verdict; a figure with a target is always judged.
    why
        Why nothing was judged, or what was judged in place of the target.
    """

    figure: str
    trials: int
    runs: int
    kernel: float
    simulator: float | None
    half_width: float | None
    allowed: float | None
    modes: Modes | None
    verdict: Verdict
    why: str

    @property
    def error(self) -> float | None:
        """Simulator less kernel."""
        return None if self.simulator is None else self.simulator - self.kernel

    def to_json(self) -> dict[str, Any]:
        """Return the object of `anabranch calibrate --json`."""
        error = self.error
        return {
            "figure": self.figure,
            "kernel": {"mean": self.kernel, "trials": self.trials, "t95_half_width": self.half_width},
            "simulator": {"mean": self.simulator, "runs": self.runs},
            "error": error,
            "error_percent": 100 * error / self.kernel if self.kernel and error is not None else None,
            "allowed": self.allowed,
            "modes": None if self.modes is None else asdict(self.modes),
            "verdict": self.verdict,
            "why": self.why,
        }


def target(setting: Setting, figure: str) -> Target | None:
    """Return the tolerance of a figure; None if it is only reported."""
    name = figure.split("_", 1)[1] if figure.startswith("sf") else figure
    if name == "bytes_acked" and (setting.kind == "paced" or setting.pace_bps):
        # Of a paced application the split is judged.
        return None
    return {
        "goodput_mbps": Target(relative=0.03 if setting.congestion == "bbr" else 0.02),
        "max_read_gap_s": Target(relative=0.15, absolute=0.1),
        "bytes_acked": Target(relative=0.05),
        "retrans_segs": Target(relative=0.15, absolute=10),
        "cwnd_mean": Target(relative=0.10),
        "srtt_mean_ms": Target(relative=0.10),
        "split_1_percent": Target(absolute=8),
        "resume_after_cut_s": Target(relative=0.15, absolute=0.1),
        "stalls": Target(relative=0.25, absolute=2),
        "startup_s": Target(absolute=0.3),
        "rebuffer_count": Target(absolute=2),
        "rebuffer_s": Target(relative=0.20),
        "lost_pictures": Target(relative=0.25),
    }.get(name)


def compare(measured: Measured, runs: Sequence[Figures]) -> list[Comparison]:
    """Return every figure of a setting that both sides have, and those with a target that the kernel has.

    Parameters
    ----------
    measured
        The kernel's trials.
    runs
        The simulator's figures, run by run.
    """
    names = dict.fromkeys(name for trial in measured.trials for name in trial.figures)
    total = sum(fmean(measured.values(name)) for name in names if name.endswith("_bytes_acked"))
    result = []
    for name in names:
        found = [run[name] for run in runs if name in run]
        aim = target(measured.setting, name)
        if found or aim is not None:
            whole = total if name.endswith("_bytes_acked") else None
            result.append(judge(name, measured.values(name), found, aim, whole=whole))
    return result


def judge(
    figure: str,
    kernel: Sequence[float],
    simulator: Sequence[float],
    target: Target | None,
    *,
    whole: float | None = None,
) -> Comparison:
    """Return one figure's comparison.

    Parameters
    ----------
    figure
        Its name.
    kernel, simulator
        Its values, one a run; the simulator may have none.
    target
        The tolerance of the means; None to report and not to judge.
    whole
        The value that the target is a share of; None for the kernel's mean.
    """
    mean, found = fmean(kernel), fmean(simulator) if simulator else None
    verdict: Verdict = "not judged"
    why, allowed, modes = "no target", None, None
    if target is not None:
        room = allowance(kernel, target, whole)
        allowed, why = room.allowed, room.why
        if simulator:
            modes = two_modes(kernel, simulator, target, whole)
        if modes is not None:
            allowed, why = None, "two modes: the share and the place of each"
        if found is None:
            verdict, why = "miss", "the simulator has none"
        elif not (modes.hold if modes is not None else abs(found - mean) <= room.allowed):
            verdict = "miss"
        elif outside(kernel, found) > room.target:
            verdict, why = "miss", "outside every trial by more than the target"
        else:
            verdict = "ok"
    return Comparison(
        figure=figure,
        trials=len(kernel),
        runs=len(simulator),
        kernel=mean,
        simulator=found,
        half_width=half_width(kernel),
        allowed=allowed,
        modes=modes,
        verdict=verdict,
        why=why,
    )


def outside(kernel: Sequence[float], found: float) -> float:
    """Return how far a mean is outside the range of all trials; negative inside."""
    return max(min(kernel) - found, found - max(kernel))


def allowance(kernel: Sequence[float], target: Target, whole: float | None) -> Allowance:
    """Return how far from these trials' mean a simulator's mean may be.

    Parameters
    ----------
    kernel
        The trials.
    target
        The target.
    whole
        The value that the target is a share of; None for the trials' mean.
    """
    aim = target.amount(fmean(kernel) if whole is None else whole)
    half = half_width(kernel)
    if half is None or half <= aim:
        return Allowance(target=aim, allowed=aim, why="")
    if len(kernel) < TRIALS_FOR_INTERVAL and half > INTERVAL_MOST * aim:
        few = f"{len(kernel)} trials: {INTERVAL_MOST:g} times the target"
        return Allowance(target=aim, allowed=INTERVAL_MOST * aim, why=few)
    return Allowance(target=aim, allowed=half, why="interval of the kernel's mean")


def two_modes(
    kernel: Sequence[float], simulator: Sequence[float], target: Target, whole: float | None = None
) -> Modes | None:
    """Return both modes on both sides, or None when the kernel's trials have one or are too few.

    Modes no further apart than the target do not matter: the mean of both is better evidence than their
    shares.
    """
    if len(kernel) < TRIALS_FOR_INTERVAL:
        return None
    split = statistics.two_modes(kernel)
    if split is None or split.apart <= target.amount(fmean(kernel) if whole is None else whole):
        return None
    sides = [[value < split.value for value in values] for values in (kernel, simulator)]
    low, high = statistics.share_interval(sum(sides[0]), len(kernel))

    def mode(*, below: bool) -> Mode:
        trials, runs = (
            [value for value, side in zip(values, found, strict=True) if side == below]
            for values, found in zip((kernel, simulator), sides, strict=True)
        )
        return _mode(trials, runs, target, whole)

    return Modes(
        split=split.value,
        kernel=sum(sides[0]) / len(kernel),
        simulator=sum(sides[1]) / len(simulator),
        low=low,
        high=high,
        lower=mode(below=True),
        upper=mode(below=False),
    )


def _mode(kernel: Sequence[float], simulator: Sequence[float], target: Target, whole: float | None) -> Mode:
    """Return one mode of a kernel's trials and a simulator's runs."""
    mean, room = fmean(kernel), allowance(kernel, target, whole)
    found = fmean(simulator) if simulator else None
    # A mode that no run has is judged by its share.
    holds = found is None or (abs(found - mean) <= room.allowed and outside(kernel, found) <= room.target)
    return Mode(kernel=mean, simulator=found, allowed=room.allowed, holds=holds)

"""Comparison of kernel and simulator, value by value.

A value with a target must pass each of these rules:

- **Outside.** If the simulator's mean is outside the range of all trials by more than the target, it is a
  miss.
- **Interval.** The kernel's mean is known only within its 95 % t-interval. If the interval is wider than the
  target, it replaces the target. With fewer than `TRIALS_FOR_INTERVAL` trials, this is limited to
  `INTERVAL_MOST` times the target.
- **Modes.** With at least as many trials, a value with two modes is compared mode by mode. The share of runs
  in the lower mode must be within the exact interval of the kernel's share. In each mode, the mean of the
  simulator's runs must satisfy the two rules above. A mode without any run is judged by its share only.
- **Missing.** A value that the simulator does not have is a miss.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from anabranch._intervals import half_width, of_share
from anabranch.calibrate import statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate.measure import Figures
    from anabranch.calibrate.model import Measured, Setting

Verdict = Literal["ok", "miss", "not judged"]

#: With this number of trials or more, the interval of the kernel's mean may replace any narrower target, and
#: two modes are distinguished.
TRIALS_FOR_INTERVAL = 12
#: With fewer trials, the interval is limited to this multiple of the target.
INTERVAL_MOST = 2.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """The permitted distance of the simulator's mean from the kernel's. The wider of the two limits applies.

    Attributes
    ----------
    relative
        As a share of the kernel's value. For the bytes of a subflow, it is a share of all subflows' bytes.
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
    """The permitted distance of a simulator's mean from the mean of some trials.

    Attributes
    ----------
    target
        The distance that the target permits.
    allowed
        The distance that applies: the target's or the interval's.
    why
        The reason why another limit replaces the target; empty if the target applies.
    """

    target: float
    allowed: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Mode:
    """One of the two modes of a value.

    Attributes
    ----------
    kernel, simulator
        The mean of the trials and of the runs in this mode; the latter is None if the mode has no run.
    allowed
        The permitted distance.
    holds
        Whether the means are within this distance.
    """

    kernel: float
    simulator: float | None
    allowed: float
    holds: bool


@dataclass(frozen=True, kw_only=True)
class Modes:
    """A value with two modes, compared by the share and the place of each mode.

    Attributes
    ----------
    split
        The value between the modes.
    kernel, simulator
        The share of runs below this value.
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
        """Whether share and places agree with the kernel's."""
        return self.low <= self.simulator <= self.high and self.lower.holds and self.upper.holds


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One figure of one setting.

    Attributes
    ----------
    figure
        The measurements' column.
    trials, runs
        The numbers of trials and runs in the means.
    kernel, simulator
        The means; the simulator's is None when it has none.
    half_width
        Half the width of the 95 % t-interval of the kernel's mean; None for one trial.
    allowed
        The permitted distance of the means; None without a target or with two modes.
    modes
        The modes, where there are two.
    verdict
        The verdict. Every value with a target has one.
    why
        Why there is no verdict, or the rule that was used in place of the target.
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
        """The simulator's mean minus the kernel's."""
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
    """Return the target of a value; None if the value is only reported."""
    name = figure.split("_", 1)[1] if figure.startswith("sf") else figure
    if name == "bytes_acked" and (setting.kind == "paced" or setting.pace_bps):
        # For a paced application, only the split between paths is judged.
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
    """Return every value of a setting that both sides have, and every value of the kernel with a target.

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
        The target of the means; None to report without a verdict.
    whole
        The value to which a relative target refers; None for the kernel's mean.
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
    """Return the permitted distance of a simulator's mean from these trials' mean.

    Parameters
    ----------
    kernel
        The trials.
    target
        The target.
    whole
        The value to which a relative target refers; None for the trials' mean.
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
    """Return both modes of both sides, or None if the kernel's trials have one mode or are too few.

    Modes whose distance is at most the target do not matter: the overall mean is then better evidence than
    the shares.
    """
    if len(kernel) < TRIALS_FOR_INTERVAL:
        return None
    split = statistics.two_modes(kernel)
    if split is None or split.apart <= target.amount(fmean(kernel) if whole is None else whole):
        return None
    sides = [[value < split.value for value in values] for values in (kernel, simulator)]
    low, high = of_share(sum(sides[0]), len(kernel))

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
    # A mode without any run is judged by its share.
    holds = found is None or (abs(found - mean) <= room.allowed and outside(kernel, found) <= room.target)
    return Mode(kernel=mean, simulator=found, allowed=room.allowed, holds=holds)

"""Kernel beside simulator, figure by figure, and whether they agree."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from anabranch.calibrate import statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate.measure import Figures
    from anabranch.calibrate.model import Measured, Setting

Verdict = Literal["ok", "miss", "not judged"]

#: From so many trials on, the interval of the kernel's mean may stand in for a narrower target.
TRIALS_FOR_INTERVAL = 12
#: Fewer trials than that whose largest and smallest are further apart than this share of their mean judge
#: nothing.
SPREAD = 0.25


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


@dataclass(frozen=True, kw_only=True)
class Modes:
    """A figure with two modes, compared by how often the lower one came.

    Attributes
    ----------
    split
        The value between the modes.
    kernel, simulator
        Share of runs below it.
    low, high
        95 % interval of the kernel's share.
    """

    split: float
    kernel: float
    simulator: float
    low: float
    high: float


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
        The means.
    half_width
        Of the 95 % t-interval of the kernel's mean; None for one trial.
    allowed
        How far apart the means may be; None without a target.
    modes
        The shares, where there are two modes.
    verdict
        What comes of it.
    why
        Why nothing was judged, or what was judged in place of the target.
    """

    figure: str
    trials: int
    runs: int
    kernel: float
    simulator: float
    half_width: float | None
    allowed: float | None
    modes: Modes | None
    verdict: Verdict
    why: str

    @property
    def error(self) -> float:
        """Simulator less kernel."""
        return self.simulator - self.kernel

    def to_json(self) -> dict[str, Any]:
        """Return the object of `anabranch calibrate --json`."""
        return {
            "figure": self.figure,
            "kernel": {"mean": self.kernel, "trials": self.trials, "t95_half_width": self.half_width},
            "simulator": {"mean": self.simulator, "runs": self.runs},
            "error": self.error,
            "error_percent": 100 * self.error / self.kernel if self.kernel else None,
            "allowed": self.allowed,
            "modes": None if self.modes is None else vars(self.modes),
            "verdict": self.verdict,
            "why": self.why,
        }


def target(setting: Setting, figure: str) -> Target | None:
    """Return how close a figure has to be; None when it is only told."""
    name = figure.split("_", 1)[1] if figure.startswith("sf") else figure
    if name == "bytes_acked" and setting.kind != "bulk":
        # Of a paced application the split is judged.
        return None
    return {
        "goodput_mbps": Target(relative=0.03 if setting.congestion == "bbr" else 0.02),
        "bytes_acked": Target(relative=0.05),
        "retrans_segs": Target(relative=0.15, absolute=10),
        "cwnd_mean": Target(relative=0.10),
        "srtt_mean_ms": Target(relative=0.10),
        "split_1_percent": Target(absolute=8),
        "resume_after_cut_s": Target(relative=0.15, absolute=0.1),
        "startup_s": Target(absolute=0.3),
        "rebuffer_count": Target(absolute=2),
        "rebuffer_s": Target(relative=0.20),
        "lost_pictures": Target(relative=0.25),
    }.get(name)


def compare(measured: Measured, runs: Sequence[Figures]) -> list[Comparison]:
    """Return every figure of a setting that both sides have.

    Parameters
    ----------
    measured
        The kernel's trials.
    runs
        The simulator's figures, run by run.
    """
    names = [name for name in measured.trials[0].figures if any(name in run for run in runs)]
    total = sum(fmean(measured.values(name)) for name in names if name.endswith("_bytes_acked"))
    return [
        judge(
            name,
            measured.values(name),
            [run[name] for run in runs if name in run],
            target(measured.setting, name),
            whole=total if name.endswith("_bytes_acked") else None,
        )
        for name in names
    ]


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
        Its values, one a run.
    target
        How close the means have to be; None to tell and not to judge.
    whole
        What the target's share is of; None for the kernel's mean.
    """
    mean, found = fmean(kernel), fmean(simulator)
    half_width = statistics.half_width(kernel)
    many = len(kernel) >= TRIALS_FOR_INTERVAL
    allowed = modes = None
    verdict: Verdict = "not judged"
    why = "no target"
    if target is not None:
        allowed = max(target.relative * (mean if whole is None else whole), target.absolute)
        modes = shares(kernel, simulator, least_apart=allowed) if many else None
        spread = (max(kernel) - min(kernel)) / mean if mean else 0.0
        if modes is not None:
            allowed, why = None, "two modes: the share of each"
            verdict = "ok" if modes.low <= modes.simulator <= modes.high else "miss"
        elif not many and spread > SPREAD:
            allowed, why = None, f"{len(kernel)} trials {spread:.0%} apart"
        else:
            wider = many and half_width is not None and half_width > allowed
            allowed, why = (half_width, "interval of the kernel's mean") if wider else (allowed, "")
            verdict = "ok" if abs(found - mean) <= (allowed or 0.0) else "miss"
    return Comparison(
        figure=figure,
        trials=len(kernel),
        runs=len(simulator),
        kernel=mean,
        simulator=found,
        half_width=half_width,
        allowed=allowed,
        modes=modes,
        verdict=verdict,
        why=why,
    )


def shares(kernel: Sequence[float], simulator: Sequence[float], *, least_apart: float) -> Modes | None:
    """Return the share of each mode on both sides, or None when the kernel's trials have one mode.

    Parameters
    ----------
    kernel, simulator
        The values, one a run.
    least_apart
        Modes closer than this are no matter: the mean of both tells more than their shares.
    """
    split = statistics.two_modes(kernel)
    if split is None or split.apart <= least_apart:
        return None
    below = sum(value < split.value for value in kernel)
    low, high = statistics.share_interval(below, len(kernel))
    return Modes(
        split=split.value,
        kernel=below / len(kernel),
        simulator=sum(value < split.value for value in simulator) / len(simulator),
        low=low,
        high=high,
    )

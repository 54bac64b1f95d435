"""What a kernel was measured on, and what was measured: settings and trials, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anabranch.media.films import Film

Kind = Literal["bulk", "paced", "handoff", "vlc"]


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One path of the laboratory's emulator.

    Attributes
    ----------
    rtt_ms
        Round-trip propagation delay, half of it each way.
    rate_mbps
        Rate of each direction, counting IP bytes.
    loss
        Share of packets lost at random from server to client, behind the queue.
    """

    rtt_ms: float
    rate_mbps: float
    loss: float


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One thing that was measured: who sends what how over which paths.

    Attributes
    ----------
    kind
        `bulk`, `paced`, `handoff` or `vlc`.
    case
        The laboratory's name of the paths.
    congestion
        Name of the congestion control.
    multipath
        Whether the transport is MPTCP.
    legs
        The paths; the first carries the initial subflow.
    duration_s
        How long the session lasts from the client's connect.
    pace_bps
        Rate of the sending application; 0 is as fast as possible.
    how
        What became of path 1 at a hand-over: `blackhole`, `linkdown` or `linkdown+epdel`.
    film
        File that a player streamed.
    """

    kind: Kind
    case: str
    congestion: str
    multipath: bool
    legs: tuple[Leg, ...]
    duration_s: float
    pace_bps: float = 0.0
    how: str = ""
    film: str = ""

    @property
    def name(self) -> str:
        """The setting's name, of which `--only` takes any part: `bulk/P1/cubic`."""
        paced = "paced" if self.kind == "handoff" and self.pace_bps else ""
        parts = (self.kind, self.case, self.congestion, self.how, paced, self.film)
        return "/".join(part for part in parts if part)

    @property
    def lossy(self) -> bool:
        """Whether packets are lost at random, so that only means can be compared."""
        return any(leg.loss > 0 for leg in self.legs)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of the kernel.

    Attributes
    ----------
    run
        The row's name, and that of its time series.
    number
        The trial, from 1.
    figures
        What was measured, by column.
    cut_at_s
        When path 1 was lost, from the client's connect.
    """

    run: str
    number: int
    figures: Mapping[str, float]
    cut_at_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A setting with all its trials, pooled over the tables."""

    setting: Setting
    trials: tuple[Trial, ...]

    def values(self, figure: str) -> list[float]:
        """Return a figure of every trial that has it."""
        return [trial.figures[figure] for trial in self.trials if figure in trial.figures]


@dataclass(frozen=True, kw_only=True)
class GroundTruth:
    """A folder of measurements, read and checked.

    Attributes
    ----------
    folder
        Where it is.
    measured
        Every setting, in the order of the tables.
    films
        What the players streamed, by file name.
    """

    folder: Path
    measured: tuple[Measured, ...]
    films: Mapping[str, Film] = field(repr=False)

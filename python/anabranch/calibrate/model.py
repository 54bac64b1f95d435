"""Data classes for measured settings and their trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anabranch.errors import Fault
    from anabranch.media.films import Film

Kind = Literal["bulk", "paced", "film", "handoff", "vlc"]

#: The emulator's queue if a table has no other.
QUEUE_PACKETS = 100


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One path of the emulator.

    Attributes
    ----------
    rtt_ms
        Round-trip propagation delay, half of it each way.
    rate_mbps
        Rate of each direction, counting IP bytes.
    loss
        Share of packets lost at random after the queue, from server to client.
    loss_up
        The same share from client to server.
    queue_packets
        Length of the drop-tail queue each way, the packet in service included.
    """

    rtt_ms: float
    rate_mbps: float
    loss: float
    loss_up: float = 0.0
    queue_packets: int = QUEUE_PACKETS


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of a path at a time, in both directions.

    Attributes
    ----------
    at_s
        When, from the client's connect.
    path
        Number of the path, from 1.
    rate_mbps
        Its new rate; None if the path goes down or up.
    state
        `down` or `up`; empty if the rate changes.
    """

    at_s: float
    path: int
    rate_mbps: float | None = None
    state: Literal["", "down", "up"] = ""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One measured setting: application, transport and paths.

    Attributes
    ----------
    kind
        `bulk`, `paced`, `film` (bulk, from which a player's stalls are computed), `handoff` or `vlc`.
    case
        The laboratory's name of the paths.
    congestion
        Name of the congestion control.
    multipath
        Whether the transport is MPTCP.
    legs
        The paths; the first carries the initial subflow.
    duration_s
        The duration of the session from the client's connect.
    pace_bps
        Rate of the sending application; 0 is as fast as possible.
    how
        The kind of handover of path 1: `blackhole`, `linkdown` or `linkdown+epdel`.
    film
        File that a player streamed.
    changes
        Changes of the paths during the run, except the cut of a handover.
    receive_buffer_bytes
        The client's largest receive buffer; None is the laboratory's.
    scheduler
        The kernel's name of its scheduler.
    kernel
        The measured kernel: a name in `kernels`.
    folder
        The name of the sub-folder of measurements; empty for the folder itself.
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
    changes: tuple[Change, ...] = ()
    receive_buffer_bytes: int | None = None
    scheduler: str = "default"
    kernel: str = "linux-6.18"
    folder: str = ""

    @property
    def name(self) -> str:
        """The setting's name, such as `bulk/P1/cubic`. `--only` accepts any part of it."""
        return self._called(self.congestion)

    @property
    def group(self) -> str:
        """The name of a group of settings that differ only in the congestion control."""
        return self._called("")

    def _called(self, congestion: str) -> str:
        """Return the name with another congestion control."""
        paced = "paced" if self.kind == "handoff" and self.pace_bps else ""
        other = self.scheduler if self.scheduler != "default" else ""
        parts = (self.folder, self.kind, self.case, congestion, other, self.how, paced, self.film)
        return "/".join(part for part in parts if part)

    @property
    def lossy(self) -> bool:
        """Whether packets are lost at random, so that only means can be compared."""
        return any(leg.loss > 0 or leg.loss_up > 0 for leg in self.legs)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of the kernel.

    Attributes
    ----------
    run
        The name of the row and of its time series.
    number
        The trial, from 1.
    figures
        The measured values, by column.
    cut_at_s
        When path 1 was lost, from the client's connect.
    seed
        The seed of the emulator's losses. None if the table has no seed, or if a path's `emulator_seed`
        cannot reproduce the losses.
    lateness_us
        The emulator's average lateness in microseconds for each path; empty if the table does not have it.
    """

    run: str
    number: int
    figures: Mapping[str, float]
    cut_at_s: float | None = None
    seed: int | None = None
    lateness_us: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A setting with all its trials from all tables.

    Attributes
    ----------
    setting, trials
        The setting, and the results of each trial.
    folder
        The folder of the tables, with the time series in `ts`.
    """

    setting: Setting
    trials: tuple[Trial, ...]
    folder: Path | None = None

    def values(self, figure: str) -> list[float]:
        """Return a figure of every trial that has it."""
        return [trial.figures[figure] for trial in self.trials if figure in trial.figures]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the trials' losses; empty unless every trial has one."""
        told = tuple(trial.seed for trial in self.trials if trial.seed is not None)
        return told if len(told) == len(self.trials) else ()

    @property
    def lateness_us(self) -> tuple[float, ...]:
        """The emulator's mean lateness over all trials for each path; empty unless every trial has it."""
        if not all(trial.lateness_us for trial in self.trials):
            return ()
        return tuple(fmean(path) for path in zip(*(trial.lateness_us for trial in self.trials), strict=True))


@dataclass(frozen=True, kw_only=True)
class GroundTruth:
    """Folders of measurements, read and checked.

    Attributes
    ----------
    measured
        Every setting, in the order of the tables.
    films
        The films of the players, by file name.
    refused
        Parts of the folders that were not understood and are left out.
    """

    measured: tuple[Measured, ...]
    films: Mapping[str, Film] = field(repr=False)
    refused: tuple[Fault, ...] = ()

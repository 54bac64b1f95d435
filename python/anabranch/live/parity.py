"""Compares a scenario in the simulator, over real packets, and with the kernel as the server."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch._intervals import half_width

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch._run import Run
    from anabranch.scenario.load import Loaded

#: The server in each of the three worlds, in the order of the table.
WORLDS = ("simulator", "gateway", "kernel")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value of a scenario in each world.

    Attributes
    ----------
    name
        Its name with its unit.
    values
        Its value in each trial, by world.
    """

    name: str
    values: Mapping[str, Sequence[float]]

    def mean(self, world: str) -> float | None:
        """Return its mean over the trials of a world; None without a trial."""
        known = self.values[world]
        return statistics.fmean(known) if known else None

    def half_width(self, world: str) -> float | None:
        """Return half the 95 % interval of the mean (Student's t); None of fewer than two trials."""
        return half_width(self.values[world])

    def apart(self, world: str, other: str) -> float | None:
        """Return the relative difference between the means of two worlds."""
        mean, reference = self.mean(world), self.mean(other)
        return None if mean is None or not reference else mean / reference - 1


def _goodput(run: Run) -> float | None:
    found: float | None = run.qos["goodput_mbps"]
    return found


def _dropped(run: Run) -> float:
    return float(sum(row["dropped_queue"] for row in run.rows("links")))


def _share(run: Run) -> float | None:
    """Return the first path's share of the bytes received by the client, in percent."""
    down = {row["link"]: row["bytes_delivered"] for row in run.rows("links")}
    first = run.plan["paths"][0]["down"][-1]
    last = {path["down"][-1] for path in run.plan["paths"]}
    whole = sum(count for link, count in down.items() if link in last)
    return 100 * down[first] / whole if whole else None


def _retransmissions(run: Run) -> float | None:
    rows = run.rows("subflows")
    return float(sum(row["retransmissions"] for row in rows)) if rows else None


def _underflows(run: Run) -> float | None:
    return None if run.qoe is None else run.qoe.get("buffer_underflows")


def _startup(run: Run) -> float | None:
    return None if run.qoe is None else run.qoe.get("startup_delay_s")


#: The figures by name. Values that a kernel server does not report are left out.
_FIGURES: Mapping[str, Callable[[Run], float | None]] = {
    "goodput, Mb/s": _goodput,
    "duration, s": lambda run: run.duration_s,
    "packets dropped by queues": _dropped,
    "first path's share of the bytes, %": _share,
    "retransmissions": _retransmissions,
    "startup delay, s": _startup,
    "buffer underflows": _underflows,
}


def parity(
    loaded: Loaded, *, trials: int = 5, heard: Callable[[str, int], None] | None = None
) -> list[Figure]:
    """Run a scenario in all three worlds and return its figures.

    Trial n is run n of the scenario, so that losses differ between trials and are the same in all three
    worlds.

    Parameters
    ----------
    loaded
        The scenario.
    trials
        How often it runs in each world; two of the worlds are in real time.
    heard
        Function that is called with the world and the trial that begins.

    Raises
    ------
    InputError
        When the scenario has something that real packets are not given.
    MissingError
        When this host lacks something.
    """
    from anabranch._run import run_loaded
    from anabranch.live import unsupported
    from anabranch.live.run import run_live
    from anabranch.live.testbed import needed
    from anabranch.scenario.streamed import film_of

    unsupported.check(loaded, kernel_client=True)
    needed()
    film = film_of(loaded)
    values: dict[str, dict[str, list[float]]] = {name: {world: [] for world in WORLDS} for name in _FIGURES}
    for trial in range(trials):
        for world in WORLDS:
            if heard is not None:
                heard(world, trial)
            if world == "simulator":
                run = run_loaded(loaded, run=trial, film=film)
            else:
                run = run_live(
                    loaded, server="gateway" if world == "gateway" else "kernel", run=trial, film=film
                )
            for name, figure in _FIGURES.items():
                value = figure(run)
                if value is not None:
                    values[name][world].append(float(value))
    figures = [Figure(name=name, values=found) for name, found in values.items()]
    return [figure for figure in figures if any(figure.values.values())]

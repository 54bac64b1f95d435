"""Time series of one trial and of one simulated run in the same form, so that they can be drawn together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anabranch.calibrate import _cells, measure
from anabranch.calibrate.settings import path_name
from anabranch.figures.calibration import Points, Series
from anabranch.scenario.shipped import display

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.calibrate.model import Setting
    from anabranch.errors import Fault
    from anabranch.metrics._rows import Tables

_SENDER = ("t", "remote", "cwnd", "rtt_us", "bytes_acked")
_RECEIVER = ("t", "bytes")
# The laboratory's client has the address 10.N.0.1 on path N.
_ADDRESS = re.compile(r"10\.([1-8])\.\d+\.\d+(?::\d+)?$")
# The length of the steps for which rates are computed. Shorter steps would show the sampling instead of the
# network.
_RATE_STEP_S = 1.0


def kept(folder: Path, run: str) -> bool:
    """Return whether any series of a trial was kept."""
    return any(path.exists() for path in _files(folder, run))


def _files(folder: Path, run: str) -> tuple[Path, Path]:
    """Return the files with the series of a trial's sender and receiver."""
    return folder / "ts" / f"{run}.csv.gz", folder / "ts" / f"{run}.rx.csv.gz"


def of_kernel(folder: Path, run: str, faults: list[Fault]) -> Series | None:
    """Return a trial's series, or None and the faults.

    Parameters
    ----------
    folder
        The measurements; the series are in its folder `ts`.
    run
        The row's name.
    faults
        Receives the faults.
    """
    before = len(faults)
    cwnd: dict[int, Points] = {}
    srtt: dict[int, Points] = {}
    acked: dict[int, Points] = {}
    sender, receiver = _files(folder, run)
    for row in _cells.rows(sender, display(sender), _SENDER, faults):
        address = _ADDRESS.match(row.text("remote"))
        if address is None:
            row.fault("remote", f"no address of a path: `{row.text('remote')}`", "path N has 10.N.x.x")
            continue
        time, path = row.number("t"), int(address.group(1))
        values = ((cwnd, "cwnd", 1.0), (srtt, "rtt_us", 1e-3), (acked, "bytes_acked", 1.0))
        for points, column, scale in values:
            value = row.number(column)
            if time is not None and value is not None:
                points.setdefault(path, []).append((time, value * scale))
    read: Points = []
    for row in _cells.rows(receiver, display(receiver), _RECEIVER, faults):
        time, count = row.number("t"), row.number("bytes")
        if time is not None and count is not None:
            read.append((time, count))
    if len(faults) > before:
        return None
    rates = {path: rate(points) for path, points in acked.items()}
    return Series(cwnd=cwnd, srtt=srtt, acked=rates, goodput=rate(read))


def of_simulator(setting: Setting, tables: Tables) -> Series:
    """Return a simulated run's series."""
    sampled = measure.samples(setting, tables)
    by_path = {
        number: sampled[path_name(number)]
        for number in range(1, len(setting.legs) + 1)
        if path_name(number) in sampled
    }
    player = tables["player"]
    read = [(time, float(count)) for time, count in zip(player["t_s"], player["bytes_read"], strict=True)]

    def points(name: str) -> dict[int, Points]:
        return {path: [(row["t_s"], float(row[name])) for row in rows] for path, rows in by_path.items()}

    return Series(
        cwnd=points("cwnd_segments"),
        srtt=points("srtt_ms"),
        acked={path: rate(counts) for path, counts in points("bytes_acked").items()},
        goodput=rate(read),
    )


def rate(counts: Sequence[tuple[float, float]]) -> Points:
    """Return the rate in Mb/s of a count of bytes for each whole second, placed at the end of the second."""
    result: Points = []
    last = counts[0] if counts else (0.0, 0.0)
    for time, count in counts:
        if time - last[0] >= _RATE_STEP_S - 1e-9:
            result.append((time, (count - last[1]) * 8e-6 / (time - last[0])))
            last = time, count
    return result

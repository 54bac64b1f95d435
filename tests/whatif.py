"""Capture simulated sessions, turn them into scenarios, and run those: `python tests/whatif.py`.

The first table compares each session with its scenario: the bounds are 5 % of goodput and 2 stalls. The
second one changes the scheduler, in the original scenario (the truth) and in that of the capture.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import anabranch
from anabranch import Run, capture, logs
from anabranch.metrics import cmcd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Trials of each scenario with another scheduler.
TRIALS = 5
#: The quantile of Student's t for a two-sided 95 % interval with 4 degrees of freedom.
T_4 = 2.776
SCHEDULERS = ("round-robin", "redundant")


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session: a shipped scenario, its keys, and what is known of its film.

    Attributes
    ----------
    base, keys
        The scenario and its keys.
    log
        Whether the log of the player is there.
    ladder
        The ladder, if the user knows it.
    """

    base: str
    keys: Mapping[str, Any]
    log: bool = False
    ladder: str | None = None

    @property
    def words(self) -> str:
        """The name in a table."""
        known = [f"`--ladder {self.ladder}`"] if self.ladder else ["`--log`"] if self.log else []
        keys = [
            "WiFi fades" if key == "events" else f"{key.rpartition('.')[2]} {value}"
            for key, value in self.keys.items()
        ]
        return ", ".join([self.base, *keys, *known])


def _bulk(**keys: str) -> Session:
    """Return a transfer over two paths."""
    given = {key.replace("__", "."): value for key, value in keys.items()}
    return Session(base="bulk-two-paths", keys=given)


TRANSFERS = (
    _bulk(application__bytes="8 MB"),
    _bulk(application__bytes="8 MB", paths__wifi__loss="0 %", paths__lte__rate="12 Mbit/s"),
    _bulk(application__bytes="6 MB", paths__wifi__loss="2 %"),
    _bulk(application__bytes="6 MB", paths__lte__rtt="300 ms", paths__lte__queue="30 packets"),
    _bulk(application__bytes="8 MB", paths__wifi__rate="2 Mbit/s"),
    _bulk(application__bytes="8 MB", paths__wifi__rtt="20 ms"),
    _bulk(application__bytes="8 MB", transport__scheduler="round-robin"),
    Session(base="recorded-lte", keys={"application.kind": "bulk", "application.bytes": "10 MB"}),
    Session(base="wifi-lte", keys={"application.kind": "bulk", "application.bytes": "20 MB"}),
)
#: Adaptive sessions: the shipped one, slow, fast, lossy, long, and slow while WiFi fades.
FILMS: tuple[Mapping[str, Any], ...] = (
    {"application.duration": "60 s"},
    {"application.duration": "60 s", "paths.wifi.rate": "1 Mbit/s", "paths.lte.rate": "400 kbit/s"},
    {"application.duration": "60 s", "paths.wifi.rate": "8 Mbit/s"},
    {"application.duration": "60 s", "paths.wifi.loss": "1 %"},
    {"application.duration": "300 s"},
    {
        "application.duration": "240 s",
        "paths.lte.rate": "200 kbit/s",
        "events": [
            {"at": "60 s", "path": "wifi", "rate": "50 kbit/s"},
            {"at": "180 s", "path": "wifi", "rate": "3 Mbit/s"},
        ],
    },
)
ADAPTIVE = tuple(
    Session(base="adaptive-two-paths", keys=keys, log=log, ladder=ladder)
    for log, ladder in ((True, None), (False, "uq18-jp"))
    for keys in FILMS
)


def main() -> None:
    """Run the sessions and print both tables."""
    sessions = [*TRANSFERS, *ADAPTIVE]
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made) / str(number) / "again.toml" for number in range(len(sessions))]
        _print("session", "goodput Mb/s", "again", "difference", "stalls", "again", "within")
        _print("---", *["--:"] * 5, "---")
        fits = [_again(session, file) for session, file in zip(sessions, files, strict=True)]
        sys.stdout.write(f"\n{sum(fits)} of {len(fits)} within the bounds\n\n")
        _print(
            "session",
            "scheduler",
            "true Mb/s",
            "what-if",
            "true change",
            "what-if",
            "stalls",
            "what-if",
            "in",
        )
        _print("---", "---", *["--:"] * 6, "---")
        found = [
            _changed(session, file, scheduler)
            for session, file in zip(sessions, files, strict=True)
            for scheduler in SCHEDULERS
        ]
        sys.stdout.write(f"\n{sum(found)} of {len(found)} true runs in the interval of the what-if\n")


def _again(session: Session, file: Path) -> bool:
    """Run a session, write its scenario, run that, and print a row. Return whether both agree."""
    file.parent.mkdir()
    first = anabranch.run(session.base, set=session.keys, pcapng=file.with_name("one.pcapng"))
    read = capture.read(file.with_name("one.pcapng"), progress=False)
    traced = capture.traced(read)
    if session.log:
        text = cmcd.text(cmcd.reports(first.tables, session="a", version=1), "json")
        file.with_name("cmcd.json").write_text(text)
        traced = logs.merge(traced, logs.read(file.with_name("cmcd.json")))
    capture.write_scenario(file, read, traced, traced.run(), ladder=session.ladder)
    again = anabranch.run(file)
    one, other = _goodput(first), _goodput(again)
    fits = abs(other / one - 1) <= 0.05 and abs(_stalls(first) - _stalls(again)) <= 2
    _print(
        *(session.words, f"{one:.2f}", f"{other:.2f}", f"{100 * (other / one - 1):+.1f} %"),
        *(f"{_stalls(first)}", f"{_stalls(again)}", "yes" if fits else "no"),
    )
    return fits


def _changed(session: Session, file: Path, scheduler: str) -> bool:
    """Change the scheduler of both scenarios and print a row. Return whether the truth is in the interval."""
    keys = {key: value for key, value in session.keys.items() if key != "transport.scheduler"}
    # The run that was captured has the number 0, so this one has the same draws of the network.
    truth = anabranch.run(session.base, set=keys, scheduler=scheduler)
    found = [anabranch.run(file, scheduler=scheduler, run=number) for number in range(TRIALS)]
    before = _goodput(anabranch.run(session.base, set=session.keys)), _goodput(anabranch.run(file))
    goodputs, stalls = [_goodput(run) for run in found], [_stalls(run) for run in found]
    inside = _in(_goodput(truth), goodputs, 0.05 * fmean(goodputs)) and _in(_stalls(truth), stalls, 2.0)
    changes = _goodput(truth) / before[0] - 1, fmean(goodputs) / before[1] - 1
    _print(
        *(session.words, scheduler, f"{_goodput(truth):.2f}", f"{fmean(goodputs):.2f}"),
        *(f"{100 * change:+.0f} %" for change in changes),
        *(f"{_stalls(truth)}", f"{fmean(stalls):g}", "yes" if inside else "no"),
    )
    return inside


def _in(value: float, trials: Sequence[float], least: float) -> bool:
    """Return whether a value is in the 95 % prediction interval of trials, of this half width at least."""
    half = T_4 * stdev(trials) * sqrt(1 + 1 / len(trials))
    return abs(value - fmean(trials)) <= max(half, least)


def _goodput(run: Run) -> float:
    """Return the goodput of a run, in Mb/s."""
    return float(run.qos["goodput_mbps"])


def _stalls(run: Run) -> int:
    """Return the number of stalls; 0 without a player."""
    return int((run.qoe or {}).get("buffer_underflows", 0))


def _print(*cells: str) -> None:
    """Print a row of a table."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()

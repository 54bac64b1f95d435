"""From a folder of measurements to settings and trials, every fault at once.

The layout is the one that the laboratory writes (groundtruth/README.md): `handoff.csv`, `vlc.csv`, and
any other table is one of runs, bulk or paced by its column `pace`. Rows tell their own paths; what has no
such columns is looked up by its case, in `cases.csv` first and then among the other tables' rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import _files
from anabranch.calibrate import _cells, films
from anabranch.calibrate.model import GroundTruth, Leg, Measured, Setting, Trial
from anabranch.calibrate.vlc import LAUNCH_S
from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.plugins import catalogue
from anabranch.scenario.shipped import display

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate._cells import Row
    from anabranch.media.films import Film

#: The measurements of the installed program (in a checkout, a link to its `groundtruth` folder).
SHIPPED = Path(__file__).resolve().parent.parent / "_groundtruth"

_LEG = ("rtt{}_ms", "bw{}_mbps", "loss{}")
_SUBFLOW = (
    "sf{}_bytes_acked",
    "sf{}_retrans_segs",
    "sf{}_cwnd_mean",
    "sf{}_cwnd_median",
    "sf{}_srtt_mean_ms",
)
_LEGS_MOST = 8
_RUN = ("run", "case", "proto", "cc", "trial", "pace", "dur", "goodput_mbps", "max_read_gap_s")
_HANDOFF = (
    "run", "how", "mode", "cc", "trial", "cut_at_s", "resume_after_cut_s", "goodput_mbps",
    "sf1_retrans_segs", "sf2_retrans_segs",
)  # fmt: skip
_VLC = (
    "run", "case", "proto", "cc", "trial", "file", "startup_s", "rebuffer_count", "rebuffer_s",
    "lost_pictures", "displayed_pictures",
)  # fmt: skip
HOWS = ("blackhole", "linkdown", "linkdown+epdel")

# How long the laboratory's sessions last, and its pace, where a table has no `dur` or `pace`: its script
# says so for hand-overs, its README for players.
_HANDOFF_S = 45.0
# A session was ended so long after its process had begun; the request goes out a little later.
_VLC_S = 105.0 - LAUNCH_S
_PACE_BPS = 5.24e6


def read(folder: Path) -> GroundTruth:
    """Read a folder of measurements.

    Raises
    ------
    InputError
        With every fault found.
    """
    if not _files.is_folder(folder):
        hint = "a folder with bulk.csv, lossy.csv, paced.csv, handoff.csv or vlc.csv"
        raise InputError([Fault(message=f"no such folder: `{folder}`", where="--against", hint=hint)])
    paths = sorted(path for path in folder.glob("*.csv") if not path.name.startswith("summary_"))
    reader = _Reader(folder)
    by_name = {path.name: path for path in paths}
    if "cases.csv" in by_name:
        reader.cases_table(by_name["cases.csv"])
    tables = [path for path in paths if path.name != "cases.csv"]
    if not tables:
        hint = "bulk.csv, lossy.csv, paced.csv, handoff.csv and vlc.csv are looked for"
        raise InputError([Fault(message=f"no measurements in `{display(folder)}`", hint=hint)])
    for path in tables:
        if path.name not in ("handoff.csv", "vlc.csv"):
            reader.runs(path)
    if "handoff.csv" in by_name:
        reader.handoff(by_name["handoff.csv"])
    if "vlc.csv" in by_name:
        reader.vlc(by_name["vlc.csv"])
    streamed = reader.films()
    if reader.faults:
        raise InputError(reader.faults)
    measured = tuple(
        Measured(setting=setting, trials=tuple(sorted(trials, key=lambda trial: trial.number)))
        for setting, trials in reader.trials.items()
    )
    return GroundTruth(folder=folder, measured=measured, films=streamed)


class _Reader:
    """What has been read so far, and what was wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[Fault] = []
        self.trials: dict[Setting, list[Trial]] = {}
        self._cases: dict[str, tuple[tuple[Leg, ...], str]] = {}
        self._named: dict[str, tuple[Setting, str]] = {}
        self._bytes_read: dict[str, int] = {}

    def cases_table(self, path: Path) -> None:
        """Read the paths of cases that other tables only name."""
        for row in self._rows(path, ("case", *(name.format(1) for name in _LEG))):
            self._legs(row)

    def runs(self, path: Path) -> None:
        """Read a table of bulk or paced runs."""
        first = tuple(name.format(1) for name in (*_LEG, *_SUBFLOW))
        for row in self._rows(path, (*_RUN, *first)):
            legs = self._legs(row)
            proto, congestion = self._names(row)
            duration, pace = row.number("dur", least=0.1), row.number("pace")
            names = ["goodput_mbps", "max_read_gap_s"]
            names += [name.format(leg + 1) for leg in range(len(legs or ())) for name in _SUBFLOW]
            figures = self._figures(row, names)
            trial = row.number("trial", least=1)
            if legs is None or proto is None or congestion is None or duration is None or pace is None:
                continue
            if figures is None or trial is None:
                continue
            if pace and len(legs) > 1:
                total = sum(figures[f"sf{leg + 1}_bytes_acked"] for leg in range(len(legs)))
                figures["split_1_percent"] = 100 * figures["sf1_bytes_acked"] / total if total else 0.0
            setting = Setting(
                kind="paced" if pace else "bulk",
                case=row.text("case"),
                congestion=congestion,
                multipath=proto == "mptcp",
                legs=legs,
                duration_s=duration,
                pace_bps=pace,
            )
            self._keep(row, setting, Trial(run=row.text("run"), number=int(trial), figures=figures))

    def handoff(self, path: Path) -> None:
        """Read the hand-overs; without a column `case`, a row's name tells it: `handoff_P4_...`."""
        for row in self._rows(path, _HANDOFF):
            words = row.text("run").split("_")
            case = row.text("case") or (words[1] if len(words) > 1 else "")
            legs = self._case(row, case, "case" if row.text("case") else "run")
            congestion = row.word("cc", catalogue().congestion, "congestion control")
            how = row.word("how", HOWS, "kind of hand-over")
            mode = row.word("mode", ("bulk", "paced"), "mode")
            cut, trial = row.number("cut_at_s"), row.number("trial", least=1)
            duration = row.number("dur", least=0.1) if row.text("dur") else _HANDOFF_S
            pace = row.number("pace") if row.text("pace") else _PACE_BPS
            figures = self._figures(
                row, ("resume_after_cut_s", "goodput_mbps", "sf1_retrans_segs", "sf2_retrans_segs")
            )
            if legs is None or congestion is None or how is None or mode is None or cut is None:
                continue
            if figures is None or trial is None or duration is None or pace is None:
                continue
            setting = Setting(
                kind="handoff",
                case=case,
                congestion=congestion,
                multipath=True,
                legs=legs,
                duration_s=duration,
                pace_bps=pace if mode == "paced" else 0.0,
                how=how,
            )
            kept = Trial(run=row.text("run"), number=int(trial), figures=figures, cut_at_s=cut)
            self._keep(row, setting, kept)

    def vlc(self, path: Path) -> None:
        """Read what VLC showed."""
        for row in self._rows(path, _VLC):
            legs = self._case(row, row.text("case"), "case")
            proto, congestion = self._names(row)
            duration = row.number("dur", least=0.1) if row.text("dur") else _VLC_S
            trial, film = row.number("trial", least=1), row.text("file")
            names = ("startup_s", "rebuffer_count", "rebuffer_s", "lost_pictures", "displayed_pictures")
            figures = self._figures(row, names)
            taken = row.number("read_bytes") if row.text("read_bytes") else 0.0
            self._bytes_read[film] = max(self._bytes_read.get(film, 0), int(taken or 0))
            if legs is None or proto is None or congestion is None or duration is None:
                continue
            if figures is None or trial is None:
                continue
            setting = Setting(
                kind="vlc",
                case=row.text("case"),
                congestion=congestion,
                multipath=proto == "mptcp",
                legs=legs,
                duration_s=duration,
                film=film,
            )
            self._keep(row, setting, Trial(run=row.text("run"), number=int(trial), figures=figures))

    def films(self) -> dict[str, Film]:
        """Return the films that the players streamed."""
        found = {}
        for name, taken in self._bytes_read.items():
            path = self.folder / f"{name}.frames.csv.gz"
            film = films.read(path, display(path), name, bytes_read=taken, faults=self.faults)
            if film is not None:
                found[name] = film
        return found

    def _rows(self, path: Path, required: Sequence[str]) -> list[Row]:
        """Return the rows of one table."""
        return list(_cells.rows(path, display(path), required, self.faults))

    def _names(self, row: Row) -> tuple[str | None, str | None]:
        """Return a row's protocol and congestion control."""
        proto = row.word("proto", ("mptcp", "tcp"), "protocol")
        return proto, row.word("cc", catalogue().congestion, "congestion control")

    def _figures(self, row: Row, names: Sequence[str]) -> dict[str, float] | None:
        """Return figures by name, or None when one of them is no number."""
        values = {name: row.number(name) for name in names}
        found = {name: value for name, value in values.items() if value is not None}
        return found if len(found) == len(values) else None

    def _legs(self, row: Row) -> tuple[Leg, ...] | None:
        """Return a row's paths; a case is described once, or always the same."""
        legs: list[Leg] = []
        sound = True
        for number in range(1, _LEGS_MOST + 1):
            rtt, rate, loss = (name.format(number) for name in _LEG)
            if number > 1 and not any(row.text(name) for name in (rtt, rate, loss)):
                break
            values = row.number(rtt), row.number(rate, least=1e-3), row.number(loss, below=1.0)
            if values[0] is None or values[1] is None or values[2] is None:
                sound = False
                continue
            legs.append(Leg(rtt_ms=values[0], rate_mbps=values[1], loss=values[2]))
        if not sound:
            return None
        known, where = self._cases.setdefault(
            row.text("case"), (tuple(legs), f"{row.where}, line {row.line}")
        )
        if known != tuple(legs):
            row.fault("case", f"case with other paths than before: `{row.text('case')}`", f"see {where}")
            return None
        return known

    def _case(self, row: Row, case: str, column: str) -> tuple[Leg, ...] | None:
        """Return the paths of a case that the row only names."""
        if case in self._cases:
            return self._cases[case][0]
        hint = f"{did_you_mean(case, self._cases)}; " if self._cases else ""
        row.fault(column, f"unknown case: `{case}`", f"{hint}cases.csv describes those of no other table")
        return None

    def _keep(self, row: Row, setting: Setting, trial: Trial) -> None:
        """Add a trial to its setting; settings of one name must agree."""
        known, where = self._named.setdefault(setting.name, (setting, f"{row.where}, line {row.line}"))
        if known != setting:
            hint = f"another duration, pace or protocol than in {where}"
            row.fault("run", f"setting described twice: `{setting.name}`", hint)
            return
        self.trials.setdefault(setting, []).append(trial)

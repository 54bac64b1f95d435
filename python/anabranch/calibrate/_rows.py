"""Conversion of the rows of the laboratory's tables to settings and trials."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal

from anabranch.calibrate import _columns, kernels
from anabranch.calibrate.model import QUEUE_PACKETS, Change, Leg, Setting, Trial
from anabranch.calibrate.vlc import LAUNCH_S
from anabranch.errors import did_you_mean
from anabranch.plugins import catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate._cells import Row

_LEGS_MOST = 8
HOWS = ("blackhole", "linkdown", "linkdown+epdel")

# The length and the pace of the laboratory's sessions, for tables without the columns `dur` or `pace`. The
# values are from its script for handovers and its README for players.
_HANDOFF_S = 45.0
# The length of a session, counted from its request. The process was ended 105 s after its start.
_VLC_S = 105.0 - LAUNCH_S
_PACE_BPS = 5.24e6
# An event in the notation of the emulator, `t:k:what`: the time in seconds, the path from 0, and the change.
_EVENT = re.compile(r"(\d+(?:\.\d+)?):([0-7]):(?:rate=(\d+(?:\.\d+)?)([kMG]?)|(down|up))")
_STATES: dict[str, Literal["", "down", "up"]] = {"": "", "down": "down", "up": "up"}
_MEGA = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}


class Reader:
    """The settings and trials read so far.

    Parameters
    ----------
    folder
        The prefix of the settings' names.
    kernel
        Which kernel was measured.
    """

    def __init__(self, folder: str = "", kernel: str = kernels.DEFAULT) -> None:
        self.trials: dict[Setting, list[Trial]] = {}
        #: For each film, the largest number of bytes that a player read.
        self.bytes_read: dict[str, int] = {}
        self._folder, self._kernel = folder, kernel
        self._cases: dict[str, tuple[tuple[Leg, ...], str]] = {}
        self._named: dict[str, tuple[Setting, str]] = {}

    def case(self, row: Row) -> None:
        """Read the paths of a case that other tables only name."""
        self._legs(row, row.text("case"))

    def run(self, row: Row, *, film: bool = False) -> None:
        """Read a row of a bulk or paced run, of a run with a cut path, or of a `film` run."""
        # The case of a film may have other queues than the case with the same name in other tables.
        legs = self._legs(row, f"film {row.text('case')}" if film else row.text("case"))
        if row.has("how"):
            self._cut(row, legs)
            return
        proto, congestion = _names(row)
        duration, pace = row.number("dur", least=0.1), row.number("pace")
        names = ("goodput_mbps", "max_read_gap_s", *(name for name in _columns.FILM if row.has(name)))
        figures = _figures(row, names)
        scheduler = self._scheduler(row)
        subflows = _subflows(row, len(legs or ()))
        lateness = _lateness(row, len(legs or ()))
        trial = row.number("trial", least=1)
        changes, buffer = _changes(row, len(legs or ())), row.number_or("tcp_rmem_max", 0.0)
        if legs is None or proto is None or congestion is None or duration is None or pace is None:
            return
        if figures is None or subflows is None or trial is None or changes is None or buffer is None:
            return
        sound, seed = self._seed(row)
        if scheduler is None or lateness is None or not sound:
            return
        figures |= subflows
        if pace and len(legs) > 1:
            total = sum(figures[f"sf{leg + 1}_bytes_acked"] for leg in range(len(legs)))
            figures["split_1_percent"] = 100 * figures["sf1_bytes_acked"] / total if total else 0.0
        setting = Setting(
            kind="film" if film else "paced" if pace else "bulk",
            case=row.text("case"),
            congestion=congestion,
            multipath=proto == "mptcp",
            legs=legs,
            duration_s=duration,
            pace_bps=pace,
            changes=changes,
            receive_buffer_bytes=int(buffer) or None,
            scheduler=scheduler,
            kernel=self._kernel,
            folder=self._folder,
        )
        name = row.text("run")
        kept = Trial(run=name, number=int(trial), figures=figures, seed=seed, lateness_us=lateness)
        self._keep(row, setting, kept)

    def handoff(self, row: Row) -> None:
        """Read a handover.

        Without a column `case`, the case is taken from the row's name: `handoff_P4_...`.
        """
        words = row.text("run").split("_")
        case = row.text("case") or (words[1] if len(words) > 1 else "")
        self._cut(row, self._case(row, case, "case" if row.text("case") else "run"), case=case)

    def vlc(self, row: Row) -> None:
        """Read what VLC showed."""
        legs = self._case(row, row.text("case"), "case")
        proto, congestion = _names(row)
        duration = row.number_or("dur", _VLC_S, least=0.1)
        trial, film = row.number("trial", least=1), row.text("file")
        figures = _figures(row, _columns.PLAYED)
        taken = row.number_or("read_bytes", 0.0)
        if legs is None or proto is None or congestion is None or duration is None:
            return
        if figures is None or trial is None or taken is None:
            return
        self.bytes_read[film] = max(self.bytes_read.get(film, 0), int(taken))
        setting = Setting(
            kind="vlc",
            case=row.text("case"),
            congestion=congestion,
            multipath=proto == "mptcp",
            legs=legs,
            duration_s=duration,
            film=film,
            kernel=self._kernel,
            folder=self._folder,
        )
        self._keep(row, setting, Trial(run=row.text("run"), number=int(trial), figures=figures))

    def _cut(self, row: Row, legs: tuple[Leg, ...] | None, *, case: str = "") -> None:
        """Read a row of a handover; its table may or may not have values of subflows."""
        congestion = row.word("cc", catalogue().congestion, "congestion control")
        how = row.word("how", HOWS, "kind of hand-over")
        mode = row.word("mode", ("bulk", "paced"), "mode")
        cut, trial = row.number("cut_at_s"), row.number("trial", least=1)
        duration = row.number_or("dur", _HANDOFF_S, least=0.1)
        pace = row.number_or("pace", _PACE_BPS)
        figures = _figures(row, ("resume_after_cut_s", "goodput_mbps"))
        subflows = _subflows(row, len(legs or ()), any_of_them=True)
        more = _figures(row, [name for name in ("max_read_gap_s",) if row.has(name)])
        changes = _changes(row, len(legs or ()))
        if legs is None or congestion is None or how is None or mode is None or cut is None:
            return
        if figures is None or subflows is None or more is None or changes is None:
            return
        if trial is None or duration is None or pace is None:
            return
        setting = Setting(
            kind="handoff",
            case=case or row.text("case"),
            congestion=congestion,
            multipath=True,
            legs=legs,
            duration_s=duration,
            pace_bps=pace if mode == "paced" else 0.0,
            how=how,
            # The cut is also in the list of the run's events.
            changes=tuple(one for one in changes if (one.at_s, one.path, one.state) != (cut, 1, "down")),
            kernel=self._kernel,
            folder=self._folder,
        )
        figures |= subflows | more
        self._keep(row, setting, Trial(run=row.text("run"), number=int(trial), figures=figures, cut_at_s=cut))

    def _seed(self, row: Row) -> tuple[bool, int | None]:
        """Return whether a row's seed is valid, and the seed if the emulator's losses were drawn from it."""
        if not kernels.KERNELS[self._kernel].seeded or not row.has("seed"):
            return True, None
        seed = row.number("seed")
        return seed is not None, None if seed is None else int(seed)

    def _scheduler(self, row: Row) -> str | None:
        """Return the kernel's name of a row's scheduler."""
        known = kernels.KERNELS[self._kernel].schedulers
        return row.word("sched", known, "scheduler") if row.has("sched") else "default"

    def _legs(self, row: Row, case: str) -> tuple[Leg, ...] | None:
        """Return a row's paths. Two rows that describe the same case must agree."""
        legs: list[Leg] = []
        sound = True
        for number in range(1, _LEGS_MOST + 1):
            columns = _columns.numbered((*_columns.LEG, *_columns.LEG_MORE), number)
            if number > 1 and not any(row.has(name) for name in columns):
                break
            leg = _leg(row, columns)
            sound = sound and leg is not None
            if leg is not None:
                legs.append(leg)
        if not sound:
            return None
        known, where = self._cases.setdefault(case, (tuple(legs), f"{row.where}, line {row.line}"))
        if known != tuple(legs):
            row.fault("case", f"case with other paths than before: `{row.text('case')}`", f"see {where}")
            return None
        return known

    def _case(self, row: Row, case: str, column: str) -> tuple[Leg, ...] | None:
        """Return the paths of a case that the row names but does not describe."""
        if case in self._cases:
            return self._cases[case][0]
        hint = f"{did_you_mean(case, self._cases)}; " if self._cases else ""
        row.fault(column, f"unknown case: `{case}`", f"{hint}cases.csv describes the cases of other tables")
        return None

    def _keep(self, row: Row, setting: Setting, trial: Trial) -> None:
        """Add a trial to its setting. Settings with the same name must agree."""
        known, where = self._named.setdefault(setting.name, (setting, f"{row.where}, line {row.line}"))
        if known != setting:
            hint = f"another duration, pace, protocol, buffer or event than in {where}"
            row.fault("run", f"setting described twice: `{setting.name}`", hint)
            return
        self.trials.setdefault(setting, []).append(trial)


def _leg(row: Row, columns: Sequence[str]) -> Leg | None:
    """Return one path, or None when one of its cells is no number."""
    rtt, rate, loss, loss_up, queue = columns
    values = (
        row.number(rtt),
        row.number(rate, least=1e-3),
        row.number(loss, below=1.0),
        row.number_or(loss_up, 0.0, below=1.0),
        row.number_or(queue if row.has(queue) else "queue_p", QUEUE_PACKETS, least=1),
    )
    if any(value is None for value in values):
        return None
    found = [value for value in values if value is not None]
    return Leg(
        rtt_ms=found[0], rate_mbps=found[1], loss=found[2], loss_up=found[3], queue_packets=int(found[4])
    )


def _names(row: Row) -> tuple[str | None, str | None]:
    """Return a row's protocol and congestion control."""
    proto = row.word("proto", ("mptcp", "tcp"), "protocol")
    return proto, row.word("cc", catalogue().congestion, "congestion control")


def _figures(row: Row, names: Sequence[str]) -> dict[str, float] | None:
    """Return values by name, or None if one of them is not a number."""
    values = {name: row.number(name) for name in names}
    found = {name: value for name, value in values.items() if value is not None}
    return found if len(found) == len(values) else None


def _subflows(row: Row, legs: int, *, any_of_them: bool = False) -> dict[str, float] | None:
    """Return the values of every subflow, or None if one of them is not a number.

    Parameters
    ----------
    row
        The run.
    legs
        How many paths it has.
    any_of_them
        Whether the table may have only some of the values and cannot mark missing ones. Otherwise a subflow
        without any value did not exist and carried nothing.
    """
    result: dict[str, float] = {}
    sound = True
    for number in range(1, legs + 1):
        names = _columns.numbered(_columns.SUBFLOW, number)
        filled = [name for name in names if row.has(name)]
        if any_of_them:
            names = tuple(filled)
        elif not filled and number > 1 and all(name in row.cells for name in names):
            result |= {f"sf{number}_bytes_acked": 0.0, f"sf{number}_retrans_segs": 0.0}
            continue
        found = _figures(row, names)
        sound = sound and found is not None
        result |= found or {}
    return result if sound else None


def _lateness(row: Row, legs: int) -> tuple[float, ...] | None:
    """Return the emulator's mean lateness on every path; empty unless the row has it for each.

    None is returned when one of them is no number.
    """
    names = [_columns.numbered((_columns.LATENESS,), number)[0] for number in range(1, legs + 1)]
    if not all(row.has(name) for name in names):
        return ()
    found = _figures(row, names)
    return None if found is None else tuple(found.values())


def _changes(row: Row, legs: int) -> tuple[Change, ...] | None:
    """Return the changes of the paths during the run, or None if they are not understood.

    The column holds the events as text with spaces between, or as a JSON array.
    """
    text = row.text("events").strip()
    try:
        told = json.loads(text) if text.startswith("[") else text.split()
    except ValueError:
        told = [text]
    result: list[Change] = []
    for one in map(str, told):
        found = _EVENT.fullmatch(one)
        if found is None or int(found.group(2)) >= legs:
            hint = "`20:0:rate=2M`, `20:0:down` or `20:0:up`: seconds, a path from 0, what becomes of it"
            row.fault("events", f"unknown event: `{one}`", hint)
            return None
        at, path, rate, unit, state = found.groups()
        result.append(
            Change(
                at_s=float(at),
                path=int(path) + 1,
                rate_mbps=None if rate is None else float(rate) * _MEGA[unit],
                state=_STATES[state or ""],
            )
        )
    return tuple(result)

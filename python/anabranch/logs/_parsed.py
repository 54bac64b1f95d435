"""The contents of a player's log, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The largest number that a log may have.
MOST = 2**53
#: The largest number of a rendition, and of pictures that were dropped at once.
MOST_COUNTED = 10_000
#: The columns of each table that are times.
TIMES: Mapping[str, tuple[str, ...]] = {
    "requests": ("t_s", "first_byte_s", "done_s"),
    "chunks": ("t_s", "first_byte_s", "done_s"),
    "playback": ("t_s",),
    "frames": ("due_s", "shown_s"),
    "player": ("t_s",),
}
#: The tables that logs fill.
TABLES = (*TIMES, "renditions")


def path_of(address: str) -> str:
    """Return the path of an address, as `requests` has it; the address itself if it is not a valid one."""
    try:
        return urlsplit(address).path.removeprefix("/")
    except ValueError:
        return address


@dataclass(frozen=True, kw_only=True)
class BadLine:
    """A line that could not be read: its number from 1, and the reason."""

    number: int
    why: str


@dataclass(frozen=True, kw_only=True)
class PlayerLog:
    """A player's log: rows of a trace's tables, and counts.

    Attributes
    ----------
    file
        The name of the file.
    kind
        The kind of the log: `CMCD`, `VLC`, `hls.js` or `dash.js`.
    clock
        `wall` if the lines have the time of day, `own` if they have another time, `none` without times.
    zero_unix_s
        The time 0 of the tables in seconds since 1970; None without a wall clock.
    tables
        Rows by table.
    counts
        Counts of messages by name.
    unseen
        Values that the log cannot show, each with its reason.
    notes
        How uncertain values were found.
    bad
        Lines that could not be read.
    session
        The name of the session, and empty if the log has no names.
    others
        The names of other sessions in the log.
    starts_by
        Whether playback may have begun before the event `start`, which is then the latest time.
    """

    file: str
    kind: str
    clock: str
    zero_unix_s: float | None = None
    tables: dict[str, list[dict[str, Any]]] = field(repr=False)
    counts: Mapping[str, int | float] = field(default_factory=dict)
    unseen: Sequence[str] = ()
    notes: Sequence[str] = ()
    bad: Sequence[BadLine] = ()
    session: str = ""
    others: Sequence[str] = ()
    starts_by: bool = False

    @property
    def last_s(self) -> float:
        """The time of the last event; 0 without times."""
        found = [
            row[name]
            for table, names in TIMES.items()
            for row in self.tables.get(table, ())
            for name in names
            if row.get(name) is not None
        ]
        return max(found, default=0.0)

    def shifted(self, by_s: float) -> dict[str, list[dict[str, Any]]]:
        """Return the tables with all times later by `by_s`."""
        return {
            table: [
                {
                    name: value + by_s if name in TIMES.get(table, ()) and value is not None else value
                    for name, value in row.items()
                }
                for row in rows
            ]
            for table, rows in self.tables.items()
        }


@dataclass(kw_only=True)
class Found:
    """Rows that a reader of a log collects. Times are absolute until `log` is called."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    chunks: list[dict[str, Any]] = field(default_factory=list)
    playback: list[dict[str, Any]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    player: list[dict[str, Any]] = field(default_factory=list)
    renditions: list[dict[str, Any]] = field(default_factory=list)

    def happened(self, at_s: float | None, event: str, *, pts_s: float | None = None) -> None:
        """Add a row of `playback`."""
        self.playback.append({"client": 0, "t_s": at_s, "event": event, "pts_s": pts_s})

    def buffer(self, at_s: float | None, held_s: float | None) -> None:
        """Add a row of `player`, if both values are known."""
        if at_s is not None and held_s is not None:
            self.player.append({"client": 0, "t_s": at_s, "buffer_s": held_s})

    def tables(self, zero_s: float) -> dict[str, list[dict[str, Any]]]:
        """Return the tables with times since `zero_s`, each in the order of time."""
        raw = PlayerLog(file="", kind="", clock="", tables={name: getattr(self, name) for name in TABLES})
        made = raw.shifted(-zero_s)
        for number, row in enumerate(made["requests"]):
            row["id"] = number
        for name in ("playback", "player"):
            made[name].sort(key=lambda row: (row["t_s"] is None, row["t_s"] or 0.0))
        return made


def ladder(
    rates: Sequence[tuple[float | None, int | None, str]], track: str = "video"
) -> list[dict[str, Any]]:
    """Return the rows of `renditions` from rates in bit/s, heights and names, the lowest first."""
    return [
        {
            "track": track,
            "rendition": number,
            "name": name,
            "bandwidth_bps": None if bps is None else round(bps),
            "height": height,
        }
        for number, (bps, height, name) in enumerate(rates)
    ]

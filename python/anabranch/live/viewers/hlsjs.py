"""hls.js in Chromium over real packets: its start, and its reports translated to the trace's tables."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _cache, _pieces
from anabranch.live.viewers import tables
from anabranch.live.viewers.session import Underflows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.live.viewers.session import Told, ViewerOrder
    from anabranch.media.films import Film
    from anabranch.metrics._rows import Table

#: The names under which Chromium and Chrome are installed.
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Where npm puts it, below the folder that it is given.
_LIBRARY = Path("node_modules", "hls.js", "dist", "hls.min.js")
#: The page that plays, and its script.
_PAGE, _SCRIPT = "hlsjs.html", "hlsjs.js"
#: The package of npm, and its major version.
_PACKAGE = "hls.js@1"


def browser() -> str | None:
    """Return the browser's program; None if it is not installed."""
    return next(filter(None, map(shutil.which, _BROWSERS)), None)


def library() -> Path:
    """Return where hls.js is, or would be: in the cache's folder `viewers`."""
    return _cache.place() / "viewers" / _LIBRARY


def lacks() -> str | None:
    """Return what this host lacks for it, in a sentence; None when it has all."""
    program = browser()
    if program is None:
        return "Chromium is not installed: apt install chromium"
    failure = _pieces.fails([program, "--version"])
    if failure is not None:
        return f"Chromium does not run ({failure}): apt install --reinstall chromium"
    try:
        size = library().stat().st_size
    except OSError:
        return f"hls.js is not installed: {_install_library()}"
    return None if size else f"hls.js is an empty file: {_install_library()}"


def install() -> list[str]:
    """Return the commands that install what is missing of it."""
    first = [] if browser() else ["apt-get install chromium"]
    first += [] if shutil.which("npm") else ["apt-get install npm"]
    return [*first, _install_library()]


def _install_library() -> str:
    """Return the command that installs hls.js where it is looked for."""
    return shlex.join(["npm", "install", "--prefix", str(_cache.place() / "viewers"), _PACKAGE])


def page(folder: Path) -> Path:
    """Copy the page that plays into a folder, and return its path.

    The browser reads it from there and not over the paths.
    """
    here = Path(__file__).parent
    shutil.copyfile(here / _PAGE, folder / _PAGE)
    shutil.copyfile(here / _SCRIPT, folder / "page.js")
    shutil.copyfile(library(), folder / "hls.js")
    return folder / _PAGE


def command(order: ViewerOrder) -> list[str]:
    """Return the program and its arguments; its page is put into its folder."""
    program = [sys.executable, "-m", "anabranch.live.viewers.hlsjs_program", browser() or _BROWSERS[0]]
    return [*program, str(page(order.folder)), order.url, f"{order.seconds:g}", order.user]


def read(told: Told, _film: Film, begin_s: float, sent: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables of hls.js' reports.

    Parameters
    ----------
    told
        Its lines.
    begin_s
        When the run began, by the clock of its lines.
    sent
        The row of `connections` as far as the sender knows it.
    """
    lines = [{**line, "t_s": line["t"] - begin_s} for line in told]
    over = next((line["t_s"] for line in lines if line["what"] in ("ended", "stop")), None)
    until_s = sent["duration_s"] if over is None else over
    loads = [line for line in lines if line["what"] in ("playlist", "chunk", "abandoned")]
    requests = [
        {
            "id": number,
            "t_s": line["asked"] - begin_s,
            "resource": line["url"],
            "first_byte_s": _since(line["first"], begin_s),
            "done_s": None if line["what"] == "abandoned" else _since(line["done"], begin_s),
            "bytes": line["bytes"],
        }
        for number, line in enumerate(loads)
    ]
    arrived = _Arrived(requests)
    silences = tables.gaps(arrived.busy)
    return {
        "connections": tables.connection(
            sent,
            silences,
            duration_s=until_s,
            bytes_read=arrived.bytes_at(until_s),
            finished=over is not None,
        ),
        "playback": tables.table("playback", playback(lines)),
        "requests": tables.table("requests", requests),
        "chunks": tables.table("chunks", _chunks(lines, begin_s)),
        "player": tables.table("player", _player(lines, arrived, until_s)),
        "gaps": tables.table("gaps", silences),
    }


def _since(time: float | None, begin_s: float) -> float | None:
    """Return a time from the beginning of the run; None for a missing time."""
    return None if time is None else time - begin_s


def version(ready: Mapping[str, Any]) -> str:
    """Return its name and version, and the browser's, by its report `ready`."""
    return f"hls.js {ready['library']} in {ready['version']}"


def position(counters: Mapping[str, Any]) -> float:
    """Return the position in the film by a report `counters`, in seconds."""
    return float(counters["position_s"])


def dropped(counters: Mapping[str, Any]) -> int:
    """Return the pictures that the browser dropped, by a report `counters`."""
    return int(counters["dropped"])


def playback(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the player did, by the events of its video element."""
    found: list[dict[str, Any]] = []
    plays, began = False, False
    dropped, position_s = 0, 0.0
    for line in lines:
        position_s = line.get("position_s", position_s)
        at = {"t_s": line["t_s"], "pts_s": position_s}
        if line["what"] == "playing" and not plays:
            found.append({**at, "event": "resume" if began else "start"})
            plays = began = True
        elif line["what"] == "waiting" and plays:
            found.append({**at, "event": "underflow"})
            plays = False
        elif line["what"] == "ended":
            found.append({**at, "event": "end"})
        elif line["what"] == "stop" and plays:
            # The film time of the stop is recorded, because a stalled video element need not fire `waiting`.
            found.append({**at, "event": "stop"})
        elif line["what"] == "counters":
            found += [{**at, "event": "drop"}] * (line["dropped"] - dropped)
            dropped = max(line["dropped"], dropped)
    return found


def _chunks(lines: Sequence[Mapping[str, Any]], begin_s: float) -> list[dict[str, Any]]:
    """Return the chunks in the order in which they came."""
    before: dict[tuple[str, int], float] = {}
    found = []
    for line in lines:
        if line["what"] == "asked":
            before[line["track"], line["index"]] = line["buffer_s"]
        elif line["what"] in ("chunk", "abandoned"):
            whole = line["what"] == "chunk" and line["done"] is not None
            taken = line["done"] - line["asked"] if whole else 0.0
            found.append(
                {
                    # A chunk of pictures and sound together is `main`.
                    "track": "audio" if line["track"] == "audio" else "video",
                    "index": line["index"],
                    "rendition": line["level"],
                    "duration_s": line["duration_s"],
                    "bytes": line["bytes"],
                    "t_s": line["asked"] - begin_s,
                    "first_byte_s": _since(line["first"], begin_s),
                    "done_s": line["done"] - begin_s if whole else None,
                    "throughput_mbps": line["bytes"] * 8e-6 / taken if taken > 0 else None,
                    "buffer_before_s": before.get((line["track"], line["index"])),
                    "buffer_after_s": line["buffer_s"],
                    "abandoned": line["what"] == "abandoned",
                }
            )
    return found


class _Arrived:
    """The received resources: only the first and the last byte of each is known."""

    def __init__(self, requests: Sequence[Mapping[str, Any]]) -> None:
        whole = [row for row in requests if row["done_s"] is not None and row["first_byte_s"] is not None]
        self._whole = sorted((row["first_byte_s"], row["done_s"], row["bytes"]) for row in whole)
        self.busy = [(first, done) for first, done, _ in self._whole]

    def bytes_at(self, t_s: float) -> int:
        """Return the bytes received by a time, assuming that each resource arrived at a constant rate."""
        found = 0.0
        for first, done, size in self._whole:
            if t_s >= done:
                found += size
            elif t_s > first:
                found += size * (t_s - first) / (done - first)
        return int(found)


def _player(lines: Sequence[Mapping[str, Any]], arrived: _Arrived, until_s: float) -> list[dict[str, Any]]:
    """Return the length of its buffer, and the bytes read."""
    counted = [line for line in lines if line["what"] == "counters"]
    held = tables.Steps([(line["t_s"], line["buffer_s"]) for line in counted], 0.0)
    return [
        {"t_s": t_s, "bytes_read": arrived.bytes_at(t_s), "buffer_s": held.at(t_s), "buffer_bytes": 0}
        for t_s in tables.grid(until_s)
    ]


class Now:
    """The state of hls.js while it plays: its video element, and the pictures that the browser dropped."""

    def __init__(self, _film: Film) -> None:
        self._line: Mapping[str, Any] = {"buffer_s": 0.0, "position_s": 0.0, "dropped": 0}
        self._underflows = Underflows()

    def hear(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Read the reports since the last call."""
        for line in told:
            if line["what"] == "counters":
                self._line = line
            elif line["what"] in ("playing", "waiting"):
                self._underflows.plays(line["what"] == "playing")

    def player(self) -> dict[str, float | int | None]:
        """Return `buffer_s`, `position_s`, `discards` (dropped by the browser) and `underflows`."""
        return {
            "buffer_s": self._line["buffer_s"],
            "position_s": self._line["position_s"],
            "discards": self._line["dropped"],
            "underflows": self._underflows.count,
        }


def notes(told: Told) -> list[str]:
    """Return notes about it besides its tables."""
    counted = [line for line in told if line["what"] == "counters"]
    ready = next((line for line in told if line["what"] == "ready"), None)
    found = []
    if ready is not None and counted:
        dropped = f"{counted[-1]['dropped']} of {counted[-1]['pictures']} pictures"
        found.append(f"hls.js {ready['library']} played in {ready['version']}, which dropped {dropped}.")
    faults = [line["details"] for line in told if line["what"] == "fault"]
    found += [f"hls.js: {faults.count(name)} times {name}." for name in dict.fromkeys(faults)]
    return found

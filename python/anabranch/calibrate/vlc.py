"""VLC's counters from a trace, and the rows of `vlc.csv` run again.

What the columns count (`vlc_play.py` of the laboratory, VLC 3.0's source):

`startup_s`
    From the start of the Python process to the first `MediaPlayerBuffering` of 100 %. VLC's request goes
    out `LAUNCH_S` after the process began. 100 % is told when the film read *reaches* the network delay
    (`es_out.c`, `EsOutDecodersStopBuffering`), one clock report before playing begins: the trace's `full`.
`rebuffer_count`, `rebuffer_s`
    From `MediaPlayerBuffering` of 0 % (`EsOutChangePosition`: the trace's `underflow`) to the next 100 %
    (`full`). One that has not ended when the session is cut off does not count.
`lost_pictures`
    Pictures that came too late to the display (`video_output.c`): discarded, `late`. What the decoder
    drops in its haste and what a flush throws away, nobody counts.
`displayed_pictures`
    Pictures put on the screen, and the last one again every 80 ms while nothing new comes
    (`video_output.c`, `VOUT_REDISPLAY_DELAY`; `ThreadDisplayRenderPicture` counts both).
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from anabranch.media.films import Film

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch.metrics._rows import Tables

Figures = dict[str, float]

#: The figures, under the names of the measurements' columns.
FIGURES = ("startup_s", "rebuffer_count", "rebuffer_s", "lost_pictures", "displayed_pictures")
#: From the start of the process to VLC's request: 0.061 to 0.097 s by the logs of four sessions on an
#: idle machine.
LAUNCH_S = 0.07
#: The laboratory ended a session so long after its process had begun.
SESSION_S = 105.0

# The picture on the screen is put there again after this long, less the time that the display takes to
# wake (`VOUT_MWAIT_TOLERANCE`).
_REDISPLAY_S = 0.080 - 0.004
# Rows name a case only: round-trip time in ms, rate in Mb/s and loss of each path (README of the table).
_CASES = {
    "S1": ((50.0, 5.0, 0.005),),
    "S2": ((100.0, 5.0, 0.0),),
    "H1": ((50.0, 3.0, 0.005), (100.0, 3.0, 0.0)),
}
_FRAMES = {"v524.ts": "v524.ts.frames.csv.gz", "v524.mp4": "v524.mp4.frames.csv.gz"}
_NS = 1e9


@dataclass(frozen=True, kw_only=True)
class VlcSetting:
    """The rows of `vlc.csv` that repeat one setting.

    Attributes
    ----------
    case, congestion, file
        As the table has them.
    film
        The film that was streamed.
    legs
        Round-trip time in ms, rate in Mb/s and loss of each path.
    trials
        What VLC counted, one row each.
    """

    case: str
    congestion: str
    file: str
    film: Film
    legs: tuple[tuple[float, float, float], ...]
    trials: tuple[Figures, ...]

    @property
    def name(self) -> str:
        """A name for people: `S1 cubic v524.mp4`."""
        return f"{self.case} {self.congestion} {self.file}"

    @property
    def lossy(self) -> bool:
        """Whether packets are lost at random."""
        return any(loss > 0 for _, _, loss in self.legs)

    def mean(self, figure: str) -> float:
        """Return a figure's mean over the trials."""
        return sum(trial[figure] for trial in self.trials) / len(self.trials)


def vlc_rows(directory: Path) -> list[VlcSetting]:
    """Return the settings of a folder's `vlc.csv`, with the films of its packet tables.

    Raises
    ------
    KeyError
        When a row names a case or a film that the laboratory did not have.
    OSError
        When a table is missing.
    """
    with (directory / "vlc.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    films = {
        name: recorded_film(
            directory / _FRAMES[name],
            name,
            size_bytes=max(int(row["read_bytes"]) for row in rows if row["file"] == name),
        )
        for name in sorted({row["file"] for row in rows})
    }
    groups: dict[tuple[str, str, str], list[Figures]] = {}
    for row in rows:
        key = (row["file"], row["case"], row["cc"])
        groups.setdefault(key, []).append({name: float(row[name]) for name in FIGURES})
    return [
        VlcSetting(
            case=case,
            congestion=congestion,
            file=file,
            film=films[file],
            legs=_CASES[case],
            trials=tuple(trials),
        )
        for (file, case, congestion), trials in groups.items()
    ]


def simulate_vlc(setting: VlcSetting, runs: Sequence[int]) -> list[Figures]:
    """Return VLC's figures of each run of a setting: network, HTTP and player simulated."""
    from anabranch._run import run_loaded
    from anabranch.scenario.load import load

    loaded = load(scenario(setting))
    return [figures(run_loaded(loaded, run=run, film=setting.film).tables) for run in runs]


def scenario(setting: VlcSetting, *, session_s: float = SESSION_S - LAUNCH_S) -> dict[str, Any]:
    """Return the tables of the scenario that repeats a setting; its film is given with the run."""
    return {
        "name": "-".join(("vlc", setting.case, setting.congestion)).lower(),
        "application": {
            "kind": "progressive",
            "film": "papers-film",
            "duration": f"{session_s:.3f} s",
        },
        "transport": {
            "scheduler": "linux",
            "congestion": setting.congestion,
            "multipath": len(setting.legs) > 1,
            "receive_buffer": "32 MiB",
            "send_buffer": "4 MiB",
        },
        "paths": [
            {
                "name": f"path{number}",
                "rtt": f"{rtt_ms:g} ms",
                "rate": f"{rate_mbps:g} Mbit/s",
                "loss": f"{loss * 100:g} %",
                "queue": "100 packets",
            }
            for number, (rtt_ms, rate_mbps, loss) in enumerate(setting.legs, start=1)
        ],
    }


def figures(tables: Tables) -> Figures:
    """Return what VLC would have counted in the one session of a trace."""
    playback = tables["playback"]
    events = sorted(zip(playback["t_s"], playback["event"], strict=True), key=lambda event: event[0])
    started = next((time for time, event in events if event == "full"), None)
    stalls = _stalls(events)
    why = tables["frames"]["why"]
    until = float(tables["connections"]["duration_s"][0])
    result = {
        "rebuffer_count": float(len(stalls)),
        "rebuffer_s": sum(end - begin for begin, end in stalls),
        "lost_pictures": float(sum(cause == "late" for cause in why)),
        "displayed_pictures": float(displayed(tables["frames"], events, until)),
    }
    return result if started is None else {"startup_s": started + LAUNCH_S, **result}


def _stalls(events: Sequence[tuple[float, str]]) -> list[tuple[float, float]]:
    """Return each underflow's beginning and the 100 % that ended it."""
    stalls = []
    began: float | None = None
    for time, event in events:
        if event == "underflow":
            began = time
        elif began is not None and event in ("full", "resume"):
            stalls.append((began, time))
            began = None
    return stalls


def displayed(
    frames: Mapping[str, Sequence[Any]], events: Sequence[tuple[float, str]], until_s: float
) -> int:
    """Return how often a picture was put on the screen until the session ended.

    Parameters
    ----------
    frames
        The trace's pictures.
    events
        Times and names of playback events, in order.
    until_s
        The end of the session.
    """
    shown = sorted(time for time in frames["shown_s"] if time is not None and time <= until_s)
    # An underflow flushes the display: there is no last picture until the next one comes (`ThreadFlush`).
    flushes = [time for time, event in events if event == "underflow"]
    count = len(shown)
    for here, there in pairwise(shown):
        end = min([there, *(flush for flush in flushes if here <= flush < there)])
        # One that falls due with the next picture is not needed.
        count += max(ceil((end - here) / _REDISPLAY_S) - 1, 0)
    return count


def recorded_film(path: Path, name: str, *, size_bytes: int) -> Film:
    """Return a film of a table of its packets.

    Parameters
    ----------
    path
        The table: `stream,pos,size,pts_s,dts_s,key` in the order of the file, compressed.
    name
        The file that it describes; its ending tells the container.
    size_bytes
        The whole file.
    """
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    video = [row for row in rows if row["stream"] == "video"]
    first = min(float(row["pts_s"]) for row in video)
    last = max(float(row["pts_s"]) for row in video)
    step = (last - first) / (len(video) - 1)
    kinds = ["A" if row["stream"] == "audio" else "I" if row["key"] == "1" else "P" for row in rows]
    duration = round((last - first + step) * _NS)
    recorded = {
        "name": name,
        "container": "mpegts" if name.endswith(".ts") else "mp4",
        "size_bytes": size_bytes,
        "duration_ns": duration,
        "frame_rate": round(1 / step, 3),
        # The table does not tell; the player does not ask.
        "width": 0,
        "height": 0,
        "packets": {
            "stream": [row["stream"] for row in rows],
            "position": [None if row["pos"] == "N/A" else int(row["pos"]) for row in rows],
            "size": [int(row["size"]) for row in rows],
            "pts_ns": [round((float(row["pts_s"]) - first) * _NS) for row in rows],
            "dts_ns": [round((float(row["dts_s"]) - first) * _NS) for row in rows],
            "kind": kinds,
            # Without B pictures each is referred to by the next.
            "reference": [kind != "A" for kind in kinds],
        },
    }
    return Film(name=name, size_bytes=size_bytes, duration_ns=duration, plan={"recorded": recorded})

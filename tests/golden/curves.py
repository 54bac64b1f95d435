"""The congestion windows of every controller over time, as text that reads well as a diff.

`make golden` writes them again and draws them; `tests/python/test_golden.py` compares.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anabranch
from anabranch.plugins import catalogue, label

FOLDER = Path(__file__).parent / "cwnd"
SECONDS = 30
#: A row of text each half second; samples are 100 ms apart.
STRIDE = 5
#: The number of segments that a mark of the bar chart stands for.
SEGMENTS = 10

#: These read their siblings: they are shown over two paths, where they are not Reno.
COUPLED = ("lia", "olia", "balia", "wvegas")
#: Forms of a controller that are shown beside its default one.
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "compound": ({"gamma": "auto"}, {"form": "printed"}),
    "cubic": ({"form": "printed"},),
    "lia": ({"form": "printed"},),
    "olia": ({"form": "printed"},),
}

#: The events on the path. Losses are rare enough for windows far above 41 segments, from which
#: on Compound is not Reno, and for queues, by which its gamma is tuned. The limited application meets a
#: burst of losses: before it every loss-based window is that of slow start, after it each has its own.
SETTINGS: dict[str, dict[str, Any]] = {
    "lossless": {},
    "loss": {"paths.a.loss": "0.02 %"},
    "app-limited": {
        "application.kind": "paced",
        "application.rate": "12 Mbit/s",
        "events": [{"at": "6 s", "path": "a", "loss": "2 %"}, {"at": "8 s", "path": "a", "loss": "0 %"}],
    },
}

#: Curves that are the same by design, and why; a test lets no others be.
SAME: dict[frozenset[str], str] = {
    frozenset({"reno", "compound(form=printed)"}): (
        "as printed, the delay window grows by less than nothing from zero, and stays there"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The windows of one run.

    Attributes
    ----------
    plugin
        The controller in short form.
    setting
        Which of `SETTINGS`.
    windows
        For each subflow, in order, a sample each 100 ms: cwnd and ssthresh in segments (None before the
        first loss), and the congestion state.
    """

    plugin: str
    setting: str
    windows: list[list[tuple[int, int | None, str]]]

    @property
    def file(self) -> Path:
        """Where it is kept."""
        name = re.sub(r"[^\w.]+", "-", self.plugin).strip("-")
        return FOLDER / f"{name}.{self.setting}.txt"

    def text(self) -> str:
        """Return the curve as a page: a row each half second, a bar for the first subflow."""
        title = f"{self.plugin}, {self.setting}: {_told(self.plugin, self.setting)}"
        columns = [f"{'cwnd':>6}{'ssthresh':>10} {'state':<9}" for _ in self.windows]
        lines = [title, "", f"{'t_s':>5}" + "".join(columns) + f"each # is {SEGMENTS} segments of path a"]
        for row in range(STRIDE - 1, min(map(len, self.windows)), STRIDE):
            cells = [self._cell(subflow[row]) for subflow in self.windows]
            bar = "#" * round(self.windows[0][row][0] / SEGMENTS)
            lines.append(f"{(row + 1) / 10:5.1f}" + "".join(cells) + bar)
        return "\n".join(line.rstrip() for line in lines) + "\n"

    @staticmethod
    def _cell(window: tuple[int, int | None, str]) -> str:
        """Return one subflow's cell."""
        cwnd, ssthresh, state = window
        return f"{cwnd:6}{ssthresh if ssthresh is not None else '-':>10} {state:<9}"


def plugins() -> list[dict[str, Any]]:
    """Return every controller there is, and the forms of it that are shown."""
    return [
        {"name": name, **parameters}
        for name in catalogue().congestion
        for parameters in ({}, *VARIANTS.get(name, ()))
    ]


def scenario(plugin: dict[str, Any], setting: str) -> dict[str, Any]:
    """Return what is run: a path of 40 Mbit/s, 100 ms and 60 packets, or two such, the other of 150 ms."""
    path = {"rate": "40 Mbit/s", "queue": "60 packets"}
    paths = [{"name": "a", "rtt": "100 ms", **path}, {"name": "b", "rtt": "150 ms", **path}]
    return {
        "name": f"golden-{setting}",
        "application": {"kind": "bulk", "duration": f"{SECONDS} s"},
        "transport": {"congestion": plugin, "scheduler": "min-rtt"},
        "paths": paths if plugin["name"] in COUPLED else paths[:1],
    }


def curve(plugin: dict[str, Any], setting: str) -> Curve:
    """Run a controller in a setting."""
    run = anabranch.run(scenario(plugin, setting), set=SETTINGS[setting])
    samples = run.rows("samples")
    subflows = sorted({row["subflow"] for row in samples})
    windows = [
        [
            (row["cwnd_segments"], _whole(row["ssthresh_segments"]), row["state"])
            for row in samples
            if row["subflow"] == subflow
        ]
        for subflow in subflows
    ]
    return Curve(plugin=label(plugin), setting=setting, windows=windows)


def _whole(value: float | None) -> int | None:
    """Return a count that a table with gaps holds as a float."""
    return None if value is None else int(value)


def _told(plugin: str, setting: str) -> str:
    """Return the setting in words."""
    told = {
        "lossless": "no random loss",
        "loss": "0.02 % random loss on path a",
        "app-limited": "12 Mbit/s from the application, 2 % loss on path a from 6 to 8 s",
    }[setting]
    coupled = plugin.split("(")[0] in COUPLED
    return f"40 Mbit/s, {'100 and 150' if coupled else '100'} ms, 60 packets, {told}"

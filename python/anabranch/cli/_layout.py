"""`anabranch media check`: how much a film's layout delays the start."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from anabranch.cli import _console
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.media.layout import Layout

#: Sound and pictures that are further apart than this get a hint, seconds: VLC reads 0.25 s at a time.
_FAR_S = 0.5
_PLACES = {
    "front": "in front of the media data",
    "end": "behind the media data",
    "fragments": "in fragments",
    "none": "not needed to play",
}


def check(file: Path, *, rtt: str, rate: str, as_json: bool) -> None:
    """Print a film's layout and its start-up costs over a path."""
    from anabranch.media import layout
    from anabranch.scenario import units

    faults = []
    numbers = {}
    for option, text, parse in (("--rtt", rtt, units.time_ns), ("--rate", rate, units.limited_rate_bps)):
        try:
            numbers[option] = parse(text)
        except units.UnitError as error:
            faults.append(Fault(message=str(error), where=f"{option} {text}", hint=error.hint))
    if faults:
        raise InputError(faults)
    found = layout.check(file)

    def start_s(connections: int, size_bytes: int) -> float:
        return layout.start_s(
            connections, size_bytes, rtt_s=numbers["--rtt"] / 1e9, rate_bps=numbers["--rate"]
        )

    costs = {
        "start_s": start_s(found.connections, found.first_bytes),
        "one_connection_start_s": start_s(1, found.needed_bytes),
    }
    if as_json:
        _console.out(json.dumps({**asdict(found), **costs}, indent=2))
        return
    index = _PLACES[found.index] + (f", {found.index_bytes:,} B" if found.index_bytes else "")
    _console.table(
        ("", ""),
        [
            ("container", found.container),
            ("index", index),
            ("connections before playing, VLC 3", f"{found.connections}"),
            ("connections before playing, at least", f"{found.least_connections}"),
            ("bytes before playing", f"{found.first_bytes:,} B"),
            ("bytes before playing, if interleaved", f"{found.needed_bytes:,} B"),
            ("sound and pictures apart, at most", f"{found.apart_s:.2f} s"),
            (f"start at {rtt} and {rate}, at least", f"{costs['start_s']:.2f} s"),
            ("the same over one connection, interleaved", f"{costs['one_connection_start_s']:.2f} s"),
        ],
    )
    for hint in _hints(file, found):
        _console.note(f"hint: {hint}")


def _hints(file: Path, found: Layout) -> list[str]:
    """Return what would lower the cost."""
    name = shlex.quote(str(file))
    hints = []
    if found.index == "end":
        hints.append(
            f"put the index in front: ffmpeg -i {name} -c copy -movflags +faststart OUT.mp4 "
            "(`anabranch media make` does so)"
        )
    if found.apart_s > _FAR_S:
        hints.append(
            "interleave sound and pictures: "
            f"ffmpeg -i {name} -c copy -max_interleave_delta 250000 -movflags +faststart OUT.mp4"
        )
    if found.connections > 1:
        hints.append(
            "VLC usually opens an MP4 over three connections, whatever its layout: it looks for boxes "
            "behind the media data; an MPEG-TS takes one"
        )
    return hints

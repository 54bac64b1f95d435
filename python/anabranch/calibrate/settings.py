"""From a measured setting to the scenario that repeats it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.calibrate.model import Leg, Setting

# What the laboratory's hosts and emulator are, whatever the setting (groundtruth/README.md): tcp_rmem max
# 32 MB, tcp_wmem max 4 MB, drop-tail queues of 100 packets both ways, random loss only from server to
# client and behind the queue, the upstream scheduler.
_RECEIVE_BUFFER = "32 MiB"
_SEND_BUFFER = "4 MiB"
_QUEUE = "100 packets"
# The emulator delivers late by 0.12 ms on average and by less than 0.3 ms in 99 of 100 cases: drawn evenly,
# a packet is up to twice the mean late. Without it acknowledgements keep a beat that real ones never do.
_JITTER = "0.24 ms"
_SCHEDULER = "linux"

#: A hand-over of the laboratory, and the event that it is.
STATES = {"blackhole": "down", "linkdown": "link-down", "linkdown+epdel": "removed"}


def path_name(number: int) -> str:
    """Return the name of a path by its number from 1."""
    return f"path{number}"


def scenario(setting: Setting, *, cut_at_s: float | None = None) -> dict[str, Any]:
    """Return a setting as a scenario's tables.

    Parameters
    ----------
    setting
        What was measured.
    cut_at_s
        When path 1 is lost; None is never.
    """
    result: dict[str, Any] = {
        "name": setting.name,
        "application": _application(setting),
        "transport": {
            "scheduler": _SCHEDULER,
            "congestion": setting.congestion,
            "multipath": setting.multipath,
            "receive_buffer": _RECEIVE_BUFFER,
            "send_buffer": _SEND_BUFFER,
        },
        "paths": [_path(number, leg) for number, leg in enumerate(setting.legs, start=1)],
    }
    if cut_at_s is not None:
        state = STATES[setting.how]
        result["events"] = [{"at": _seconds(cut_at_s), "path": path_name(1), "state": state}]
    return result


def _application(setting: Setting) -> dict[str, Any]:
    """Return what the client asks for; a player's film is handed to the run beside the scenario."""
    duration = _seconds(setting.duration_s)
    if setting.kind == "vlc":
        # The name only makes the scenario whole: the recorded film is given with the run.
        return {"kind": "progressive", "film": "papers-film", "duration": duration}
    if setting.pace_bps:
        return {"kind": "paced", "rate": f"{setting.pace_bps:.0f} bit/s", "duration": duration}
    return {"kind": "bulk", "duration": duration}


def _path(number: int, leg: Leg) -> dict[str, Any]:
    """Return one path."""
    return {
        "name": path_name(number),
        "rtt": f"{leg.rtt_ms:.6f} ms",
        "rate": f"{leg.rate_mbps * 1e6:.0f} bit/s",
        "jitter": _JITTER,
        "loss": f"{leg.loss * 100:.9g} %",
        "queue": _QUEUE,
    }


def _seconds(value: float) -> str:
    """Return seconds as a scenario writes them."""
    return f"{value:.6f} s"

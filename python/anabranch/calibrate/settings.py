"""Conversion of a measured setting to the scenario that repeats it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.calibrate.kernels import KERNELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate.model import Change, Leg, Setting

# The largest tcp_wmem of every laboratory so far.
_SEND_BUFFER = "4 MiB"
#: The state of an event for each kind of handover of the laboratory.
STATES = {"blackhole": "down", "linkdown": "link-down", "linkdown+epdel": "removed"}


def path_name(number: int) -> str:
    """Return the name of a path by its number from 1."""
    return f"path{number}"


def scenario(
    setting: Setting,
    *,
    lateness_us: Sequence[float] = (),
    cut_at_s: float | None = None,
    seed: int | None = None,
    one_processor: bool = False,
) -> dict[str, Any]:
    """Return a setting as a scenario's tables.

    Parameters
    ----------
    setting
        The measured setting.
    lateness_us
        The emulator's mean lateness in microseconds, path by path; empty takes the usual one of
        that laboratory.
    cut_at_s
        When path 1 is lost; None if it is not.
    seed
        The seed from which the laboratory's emulator drew the losses. The simulator then uses the same
        losses; None draws its own.
    one_processor
        Whether the laboratory's hosts share one processor.
    """
    kernel = KERNELS[setting.kernel]
    most = setting.receive_buffer_bytes
    first = kernel.receive_buffer_initial
    own = kernel.congestion.get(setting.congestion)
    # With a uniform draw, a packet is late by up to twice the mean.
    jitters = [f"{2 * mean:.3f} us" for mean in lateness_us] or [kernel.jitter] * len(setting.legs)
    result: dict[str, Any] = {
        "name": setting.name,
        "application": _application(setting),
        "transport": {
            **kernel.profile,
            "scheduler": kernel.schedulers[setting.scheduler],
            "congestion": setting.congestion if own is None else {"name": setting.congestion, **own},
            "multipath": setting.multipath,
            "receive_buffer": kernel.receive_buffer if most is None else f"{most} B",
            **({} if first is None else {"receive_buffer_initial": first}),
            "send_buffer": _SEND_BUFFER,
        },
        "paths": [
            _path(number, leg, jitter, seed)
            for number, (leg, jitter) in enumerate(zip(setting.legs, jitters, strict=True), start=1)
        ],
    }
    if one_processor:
        result["host"] = {"one_processor": True}
    events = [_event(change) for change in setting.changes]
    if cut_at_s is not None:
        state = STATES[setting.how]
        events.append({"at": _seconds(cut_at_s), "path": path_name(1), "state": state})
    if events:
        result["events"] = events
    return result


def _application(setting: Setting) -> dict[str, Any]:
    """Return the client's application; a player's film is passed to the run separately."""
    duration = _seconds(setting.duration_s)
    if setting.kind == "vlc":
        # The name only makes the scenario valid. The recorded film is passed to the run.
        return {"kind": "progressive", "film": "papers-film", "duration": duration}
    if setting.pace_bps:
        return {"kind": "paced", "rate": f"{setting.pace_bps:.0f} bit/s", "duration": duration}
    return {"kind": "bulk", "duration": duration}


def _path(number: int, leg: Leg, jitter: str, seed: int | None) -> dict[str, Any]:
    """Return one path."""
    result: dict[str, Any] = {
        "name": path_name(number),
        "rtt": f"{leg.rtt_ms:.6f} ms",
        "rate": _rate(leg.rate_mbps),
        "jitter": jitter,
        "loss": _percent(leg.loss),
        "queue": f"{leg.queue_packets} packets",
    }
    if seed is not None:
        # The laboratory's programs use the sum of the run's seed and the path's number for each path.
        result["emulator_seed"] = seed + number
    return result | ({"up": {"loss": _percent(leg.loss_up)}} if leg.loss_up else {})


def _event(change: Change) -> dict[str, Any]:
    """Return a change as an event of a scenario."""
    here = {"at": _seconds(change.at_s), "path": path_name(change.path)}
    if change.rate_mbps is None:
        return {**here, "state": change.state}
    return {**here, "rate": _rate(change.rate_mbps), "direction": "both"}


def _rate(mbps: float) -> str:
    """Return a rate in a scenario's notation."""
    return f"{mbps * 1e6:.0f} bit/s"


def _percent(share: float) -> str:
    """Return a share in a scenario's notation."""
    return f"{share * 100:.9g} %"


def _seconds(value: float) -> str:
    """Return seconds in a scenario's notation."""
    return f"{value:.6f} s"

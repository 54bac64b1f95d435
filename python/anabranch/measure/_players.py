"""A session that VLC or hls.js plays, through the relay."""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, MissingError
from anabranch.live import programs, viewers
from anabranch.measure._playback import Playback
from anabranch.measure._relay import Relay
from anabranch.measure._session import Session, reason
from anabranch.measure._sockets import Watch

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from urllib.parse import SplitResult

    from anabranch.live.viewers import Viewer
    from anabranch.measure._session import Order

#: The model of a player, and the programs.
MODEL = "model"
PLAYERS = (MODEL, *viewers.VIEWERS)
#: VLC's default network cache, ms.
_CACHE_MS = 1000
#: A program may take this many times the film, and so many seconds more: stalls included.
_FACTOR, _MORE_S = 4.0, 30.0
_STEP_S = 0.05


def check(name: str, url: SplitResult) -> None:
    """Make sure that this host has a player, and that it plays an address.

    Raises
    ------
    InputError
        If there is no such player, or it does not play the address.
    MissingError
        If the program is not installed.
    """
    from anabranch.errors import did_you_mean

    if name not in PLAYERS:
        fault = Fault(message=f"no such player: {name}", where="--player", hint=did_you_mean(name, PLAYERS))
        raise InputError([fault])
    if name == MODEL:
        return
    viewer = viewers.VIEWERS[name]
    suffix = PurePosixPath(url.path).suffix.lower()
    if viewer.kind == "adaptive" and suffix not in (".m3u8", ".m3u"):
        message = f"{viewer.title} plays HLS playlists (.m3u8)"
        raise InputError([Fault(message=message, where=url.geturl())])
    lacks = viewer.lacks()
    if lacks is not None:
        raise MissingError(lacks, hint="`--player model` needs no player")


def play(name: str, order: Order) -> Session:
    """Play an address by a program, and return what was measured."""
    viewer = viewers.VIEWERS[name]
    session = Session(arm=order.arm, trial=order.trial)
    longest_s = _FACTOR * order.limit_s + _MORE_S
    with (
        Watch(multipath=order.multipath) as watch,
        Relay(order, session, watch) as relay,
        viewers.ordered(relay.address, longest_s, _CACHE_MS) as asked,
        viewers.session.running(viewer.title, lambda pipes: _start(viewer.command(asked), pipes)) as program,
    ):
        program.go()
        while not program.is_over() and relay.fault is None:
            if _position(viewer, program.told) >= order.limit_s:
                break
            time.sleep(_STEP_S)
        session.duration_s = relay.now()
        program.finish()
        session.error = " ".join(program.faults(viewer.title))
        _fill(session, viewer, program.told, relay)
        if isinstance(relay.fault, InputError):
            raise relay.fault
        if relay.fault is not None:
            session.error = reason(relay.fault)
        elif relay.refused:
            session.error = "; ".join(relay.refused.values())
    session.add_counters(watch)
    return session


def _start(command: Sequence[str], pipes: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start a program as the user who called sudo."""
    return programs.begin(command, programs.caller(), **pipes)


def _position(viewer: Viewer, told: Sequence[Mapping[str, Any]]) -> float:
    """Return the furthest position in the film among the latest reports, in seconds."""
    return max((viewer.position(line) for line in told[-20:] if line["what"] == "counters"), default=0.0)


def _fill(session: Session, viewer: Viewer, told: Sequence[Mapping[str, Any]], relay: Relay) -> None:
    """Fill in the player's part of a session from its reports."""
    ready = next((line for line in told if line["what"] == "ready"), {})
    session.player = viewer.version(ready)
    if relay.began_s is None:
        session.error = session.error or f"{viewer.title} requested nothing"
        return
    lines = [{**line, "t_s": line["t"] - relay.began_s} for line in told]
    viewed = session.playback = Playback.of_events(viewer.playback(lines), session.duration_s)
    counted = [line for line in lines if line["what"] == "counters"]
    position_s = max((viewer.position(line) for line in counted), default=0.0)
    viewed.played_s = viewed.media_s = position_s
    session.dropped = viewer.dropped(counted[-1]) if counted else None
    over = next((line["t_s"] for line in lines if line["what"] in ("end", "ended")), None)
    if over is None:
        session.ended_s, session.film_s = session.duration_s, position_s
    else:
        # VLC's last position may be a second before the end.
        session.ended_s, session.film_s = over, relay.film_s
    fault = next((line for line in lines if line["what"] == "error" or line.get("fatal")), None)
    if fault is not None:
        session.error = f"{viewer.title} could not play it: {fault.get('details') or 'it reports no reason'}"
    elif viewed.started_s is None:
        session.error = session.error or f"{viewer.title} showed no picture"

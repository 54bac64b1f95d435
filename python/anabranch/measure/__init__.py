"""Measurements over this host's own interfaces, with its kernel's MPTCP.

Each trial plays a stream, or downloads a file, over all paths together (MPTCP), and over each path alone
(TCP). The sessions of a trial take turns, and their order changes from trial to trial, so that a busy minute
affects all of them. Nothing on the host is changed. The data comes from the sockets and from the kernel's
counters (`tcp_info`, `mptcp_info`). With the capability `CAP_NET_RAW`, the headers of each session's packets
are captured too, and UQ18's figures come from them.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from anabranch.errors import AnabranchError, Fault, InputError
from anabranch.measure import _headers, _players
from anabranch.measure._captured import read_capture
from anabranch.measure._figures import ALL, Arm, Difference, arms, differences, of_session, sentence
from anabranch.measure._headers import permitted as may_capture
from anabranch.measure._paths import Host, Path, find
from anabranch.measure._session import Order, Session, play, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "ALL",
    "Arm",
    "Difference",
    "Host",
    "Measured",
    "Path",
    "Plan",
    "Session",
    "may_capture",
    "measure",
    "planned",
    "sentence",
]

_PORTS = {"http": 80, "https": 443}
#: The pause between two sessions, in which the queues of the paths become empty, s.
_PAUSE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A measurement before it begins.

    Attributes
    ----------
    url, host
        The address, and what this host has.
    trials
        The number of trials.
    limit_s
        The seconds of film that each session plays, or of a download.
    notes
        The things that this host lacks, each with the way to change it.
    is_captured
        Whether the headers of the sessions' packets are captured.
    player
        The name of the player.
    """

    url: SplitResult
    host: Host
    trials: int
    limit_s: float
    notes: tuple[str, ...]
    is_captured: bool = False
    player: str = _players.MODEL

    @property
    def arms(self) -> list[tuple[str, Path | None]]:
        """The arms: their names, and their only path, or None for all."""
        alone: list[tuple[str, Path | None]] = [(f"TCP over {path.name}", path) for path in self.host.paths]
        return [(ALL, None), *alone] if self.host.multipath else alone


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measurement.

    Attributes
    ----------
    plan
        The measurement as it was planned.
    sessions
        The sessions, in their order in time.
    """

    plan: Plan
    sessions: Sequence[Session]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The figures of each session."""
        return [of_session(session, self.plan.host.paths) for session in self.sessions]

    @property
    def arms(self) -> list[Arm]:
        """The means of each arm."""
        order = [name for name, _ in self.plan.arms]
        return sorted(arms(self.rows), key=lambda arm: order.index(arm.name))

    @property
    def differences(self) -> list[Difference]:
        """The differences between all paths together and the best path alone."""
        return differences(self.rows) if len(self.plan.host.paths) > 1 else []

    @property
    def players(self) -> list[str]:
        """The names and versions of the players, each once."""
        return list(dict.fromkeys(session.player for session in self.sessions if session.player))

    @property
    def notes(self) -> list[str]:
        """Warnings about the sessions."""
        fell = sum(session.fell_back for session in self.sessions)
        found = list(self.plan.notes)
        if fell:
            whole = sum(session.arm == ALL for session in self.sessions)
            found.append(
                f"{fell} of {whole} MPTCP sessions fell back to TCP: "
                "the server or a middlebox does not speak MPTCP"
            )
        return [*found, *self._gaps]

    @property
    def _gaps(self) -> Iterator[str]:
        """Notes about captures that lack packets."""
        seen = [session.captured for session in self.sessions if session.captured is not None]
        lossy = [one.drops for one in seen if one.drops]
        if lossy:
            yield (
                f"the captures of {len(lossy)} of {len(seen)} sessions lack {sum(lossy):,} packets, which "
                "the kernel dropped because this host was busy: their figures come from tcp_info"
            )
        empty = sum(not one.paths for one in seen)
        if empty:
            yield (
                f"the captures of {empty} of {len(seen)} sessions show no packet of them: their figures come "
                "from tcp_info"
            )


def planned(
    url: str,
    *,
    paths: Sequence[str] = (),
    trials: int = 5,
    limit_s: float = 60.0,
    capture: bool = True,
    player: str = _players.MODEL,
) -> Plan:
    """Return the plan of a measurement, without any traffic to the server.

    Parameters
    ----------
    url
        An http or https address of a file, or of an HLS playlist (`.m3u8`).
    paths
        The names of interfaces; empty for all with a route to the server.
    trials
        The number of trials.
    limit_s
        The seconds of film that each session plays, or of a download.
    capture
        Whether to capture headers, if this process may.
    player
        The player of a stream: `model`, `vlc` or `hlsjs`.

    Raises
    ------
    InputError
        If the address or an interface is wrong.
    MissingError
        If this host lacks the program `ip`, or the player.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InputError([Fault(message="not an http or https address", where=url)])
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise InputError([Fault(message=str(error), where=url)]) from None
    _players.check(player, parts)
    host = find(parts.hostname, port, paths)
    return Plan(
        url=parts,
        host=host,
        trials=trials,
        limit_s=limit_s,
        notes=tuple(_notes(host)),
        is_captured=capture and may_capture(),
        player=player,
    )


def _notes(host: Host) -> Iterator[str]:
    """Yield what this host lacks for a measurement over all paths."""
    if not host.multipath:
        yield "this kernel opens no MPTCP connections: sysctl -w net.mptcp.enabled=1"
    if len(host.paths) < 2:
        yield "one interface has a route to the server, so there is nothing to compare it with"
    elif host.multipath:
        named = {path.name: path.address for path in host.paths}
        for name in host.lacking:
            command = f"ip mptcp endpoint add {named[name]} dev {name} subflow"
            yield f"MPTCP does not use {name} unless the server announces an address for it: sudo {command}"


def measure(
    plan: Plan,
    *,
    captures_folder: File | None = None,
    progress: Callable[[int, int], None] = lambda _done, _whole: None,
) -> Measured:
    """Run a planned measurement. An interruption (`KeyboardInterrupt`) keeps the sessions that have ended.

    A failure of the first session ends the measurement. A later session that fails has it as its error.

    Parameters
    ----------
    plan
        The plan, from `planned`.
    captures_folder
        A folder for the captures of the sessions, which is made; None keeps none of them.
    progress
        Called with the number of ended sessions, and of all.
    """
    sessions: list[Session] = []
    orders = list(_orders(plan))
    if captures_folder is not None:
        captures_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="anabranch-measure-") as temporary:
        folder, kept = captures_folder or File(temporary), captures_folder is not None
        try:
            for order in orders:
                progress(len(sessions), len(orders))
                if sessions:
                    time.sleep(_PAUSE_S)
                try:
                    if plan.is_captured:
                        sessions.append(_recorded(plan, order, folder, kept=kept))
                    else:
                        sessions.append(_played(plan, order))
                except (AnabranchError, OSError) as error:
                    if not sessions:
                        raise
                    sessions.append(Session(arm=order.arm, trial=order.trial, error=reason(error)))
            progress(len(orders), len(orders))
        except KeyboardInterrupt:
            if not sessions:
                raise
    return Measured(plan=plan, sessions=sessions)


def _orders(plan: Plan) -> Iterator[Order]:
    """Yield the sessions in their order in time: each trial begins with another arm."""
    arms = plan.arms
    for trial in range(plan.trials):
        turn = trial % len(arms)
        for name, path in [*arms[turn:], *arms[:turn]]:
            yield Order(host=plan.host, url=plan.url, arm=name, trial=trial, path=path, limit_s=plan.limit_s)


def _played(plan: Plan, order: Order) -> Session:
    """Play a session by the planned player."""
    return play(order) if plan.player == _players.MODEL else _players.play(plan.player, order)


def _recorded(plan: Plan, order: Order, folder: File, *, kept: bool) -> Session:
    """Play a session, and capture its headers into a file of a folder."""
    file = folder / f"trial-{order.trial + 1}-{order.arm.lower().replace(' ', '-')}.pcapng"
    with _headers.Recorder(file, order.host) as recorder:
        session = _played(plan, order)
    session.captured = read_capture(
        file, kept=kept, drops=recorder.drops, ends=session.ends, paths=order.host.paths
    )
    if not kept:
        file.unlink()
    return session

"""A program of one's own behind the paths of a scenario."""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.errors import MissingError
from anabranch.live import rootless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.live.testbed import Bed
    from anabranch.scenario.load import Loaded

#: How long a program that was told to end is waited for.
_GRACE_S = 5.0
#: `PR_SET_TIMERSLACK` and `PR_GET_TIMERSLACK`.
_SET_SLACK, _GET_SLACK = 29, 30


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """What came of an emulation.

    Attributes
    ----------
    status
        The program's exit code; 128 and the signal's number where a signal ended it.
    summary
        `duration_s`, `lateness` and `refused_packets` of the network.
    links
        The totals of each link, a dict a row of the trace's table `links`.
    """

    status: int
    summary: dict[str, Any]
    links: list[dict[str, Any]]


def emulate(
    loaded: Loaded,
    command: Sequence[str],
    *,
    serve: Sequence[str] | None = None,
    pcapng: str | Path | None = None,
) -> Emulated:
    """Run a program in the client's namespace, behind the paths of a scenario, until it ends.

    Parameters
    ----------
    loaded
        The scenario: its paths, links and events; its application is not run.
    command
        The program and its arguments. It runs as the user who called sudo, and reaches the server's namespace
        and nothing else.
    serve
        A program to run in the server's namespace meanwhile.
    pcapng
        File to write a capture to.

    Raises
    ------
    MissingError
        When this host lacks something, the program among it.
    """
    from anabranch.live import _world
    from anabranch.live.testbed import needed, open_bed
    from anabranch.metrics._rows import rows
    from anabranch.scenario import plan as plans

    needed()
    plan = plans.build(loaded.scenario, None)
    multipath = plan["transport"]["multipath"]
    # The program says when it is over.
    plan["time_limit_ns"] = 2**62
    plan["application"] = {**plan["application"], "kind": "bulk", "duration_ns": None}
    written = nullcontext() if pcapng is None else _files.whole(Path(pcapng), "the capture")
    with written as capture, open_bed(plan) as bed:
        programs: list[subprocess.Popen[bytes]] = []
        slack = _Slack()

        def begun() -> None:
            if serve:
                programs.append(_start(bed, "server", serve, slack))
            programs.append(_start(bed, "client", command, slack))

        try:
            trace = _world.go(
                loaded,
                plan,
                client=_world.end(bed, "client", multipath=multipath),
                server=_world.end(bed, "server", multipath=multipath),
                application=False,
                progress=lambda _done, _total: programs[-1].poll() is None,
                bed=bed,
                begun=begun,
                pcapng=capture,
            )
        finally:
            for program in programs:
                _end(program)
    status = programs[-1].returncode
    return Emulated(
        status=status if status >= 0 else 128 - status,
        summary=dict(trace["summary"]),
        links=list(rows(trace["tables"]["links"])),
    )


class _Slack:
    """How late the kernel may wake this thread to save power, for programs that it starts later."""

    def __init__(self) -> None:
        self._call = ctypes.CDLL(None).prctl
        self._ns = self._call(_GET_SLACK)

    def give(self) -> None:
        """Let the calling thread have it."""
        self._call(_SET_SLACK, ctypes.c_ulong(self._ns))


def _start(bed: Bed, end: str, command: Sequence[str], slack: _Slack) -> subprocess.Popen[bytes]:
    """Start a program in a namespace, as the user who called sudo."""
    from anabranch.live.testbed import inside

    names = {
        f"ANABRANCH_{which.upper()}_{lane.device.upper().replace('-', '_')}": getattr(lane, which)
        for lane in bed.lanes
        for which in ("client", "server")
    }
    names["ANABRANCH_SERVER"], names["ANABRANCH_CLIENT"] = bed.lanes[0].server, bed.lanes[0].client
    user = _caller()
    try:
        with inside(getattr(bed, end)):
            return subprocess.Popen(
                list(command),
                env={**os.environ, **names, **user.environment},
                user=user.number,
                group=user.group,
                extra_groups=user.groups,
                # What carries packets has precise timers, which what it starts would inherit.
                preexec_fn=slack.give,
            )
    except OSError as error:
        message = f"{error.filename or command[0]} cannot be run: {error.strerror}"
        raise MissingError(message) from None


@dataclass(frozen=True)
class _User:
    """Whom a program runs as; None is whoever runs this one."""

    number: int | None = None
    group: int | None = None
    groups: list[int] | None = None
    environment: dict[str, str] | None = None


def _caller() -> Any:  # noqa: ANN401
    """Return the user who called sudo, where one did."""
    number = os.environ.get("SUDO_UID", "")
    # In a user namespace of its own the program is the caller already.
    if os.geteuid() != 0 or not number.isdigit() or int(number) == 0 or rootless.entered():
        return _User(environment={})
    try:
        found = pwd.getpwuid(int(number))
    except KeyError:
        message = f"there is no user {number}, who called sudo"
        raise MissingError(message) from None
    return _User(
        found.pw_uid,
        found.pw_gid,
        os.getgrouplist(found.pw_name, found.pw_gid),
        {"HOME": found.pw_dir, "USER": found.pw_name, "LOGNAME": found.pw_name},
    )


def _end(program: subprocess.Popen[bytes]) -> None:
    """End a program that has not ended by itself."""
    if program.poll() is not None:
        return
    program.terminate()
    try:
        program.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()

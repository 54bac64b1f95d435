"""External programs in the namespaces of a testbed."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.errors import MissingError
from anabranch.live import rootless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.live.testbed import Bed

#: The time that a program has to end after SIGTERM.
_GRACE_S = 5.0
#: `PR_SET_TIMERSLACK` and `PR_GET_TIMERSLACK`.
_SET_SLACK, _GET_SLACK = 29, 30
#: `PR_SET_PDEATHSIG`.
_SET_DEATH_SIGNAL = 1


class Slack:
    """The timer slack: how late the kernel may wake a thread to save power.

    It is used for programs that are started later.
    """

    def __init__(self) -> None:
        self._call = ctypes.CDLL(None).prctl
        self._ns = self._call(_GET_SLACK)

    def give(self) -> None:
        """Set this slack for the calling thread."""
        self._call(_SET_SLACK, ctypes.c_ulong(self._ns))


@dataclass(frozen=True)
class User:
    """The user that a program runs as; None is the current user."""

    number: int | None = None
    group: int | None = None
    groups: list[int] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def caller() -> User:
    """Return the user who called sudo, or the current user.

    Raises
    ------
    MissingError
        When there is no such user any more.
    """
    number = os.environ.get("SUDO_UID", "")
    # In a user namespace, the program already runs as the caller.
    if os.geteuid() != 0 or not number.isdigit() or int(number) == 0 or rootless.entered():
        return User()
    try:
        found = pwd.getpwuid(int(number))
    except KeyError:
        message = f"there is no user {number}, who called sudo"
        raise MissingError(message) from None
    return User(
        found.pw_uid,
        found.pw_gid,
        os.getgrouplist(found.pw_name, found.pw_gid),
        {"HOME": found.pw_dir, "USER": found.pw_name, "LOGNAME": found.pw_name},
    )


def start(
    bed: Bed,
    end: str,
    command: Sequence[str],
    slack: Slack,
    *,
    user: User | None = None,
    ends_with_us: bool = False,
    **given: Any,  # noqa: ANN401
) -> subprocess.Popen[bytes]:
    """Start a program in a namespace. Its environment contains every path's addresses.

    Parameters
    ----------
    bed, end
        The testbed, and which end of it.
    command
        The program and its arguments.
    slack
        How late its timers may be.
    user
        Whom it runs as; None is the user who called sudo.
    ends_with_us
        Whether it gets SIGTERM when the thread that started it ends, even if that thread is killed. Only for
        a program that does not become another user.
    given
        Further arguments of `subprocess.Popen`.

    Raises
    ------
    MissingError
        When it cannot be run.
    """
    from anabranch.live.testbed import inside

    names = {
        f"ANABRANCH_{which.upper()}_{lane.device.upper().replace('-', '_')}": getattr(lane, which)
        for lane in bed.lanes
        for which in ("client", "server")
    }
    names["ANABRANCH_SERVER"], names["ANABRANCH_CLIENT"] = bed.lanes[0].server, bed.lanes[0].client
    user = caller() if user is None else user

    def prepare() -> None:
        # The thread that carries packets has precise timers, which its child processes would inherit.
        slack.give()
        if ends_with_us:
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGTERM))

    with inside(getattr(bed, end)):
        return begin(command, user, environment=names, preexec_fn=prepare, **given)


def begin(
    command: Sequence[str],
    user: User,
    *,
    environment: Mapping[str, str] | None = None,
    **given: Any,  # noqa: ANN401
) -> subprocess.Popen[bytes]:
    """Start a program in this process's namespace.

    Parameters
    ----------
    command, user
        The program and its arguments, and whom it runs as.
    environment
        Further variables of its environment.
    given
        Further arguments of `subprocess.Popen`.

    Raises
    ------
    MissingError
        When it cannot be run.
    """
    try:
        return subprocess.Popen(
            list(command),
            env={**os.environ, **(environment or {}), **user.environment},
            user=user.number,
            group=user.group,
            extra_groups=user.groups,
            **given,
        )
    except OSError as error:
        message = f"{error.filename or command[0]} cannot be run: {error.strerror}"
        raise MissingError(message) from None


def stop(program: subprocess.Popen[bytes]) -> None:
    """End a program that still runs."""
    if program.poll() is not None:
        return
    program.terminate()
    try:
        program.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()

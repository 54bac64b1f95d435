"""Runs a user's program over the emulated paths of a scenario."""

from __future__ import annotations

import shlex
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from anabranch import _files
from anabranch.errors import MissingError
from anabranch.live import programs, unsupported

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.live.page import Page
    from anabranch.live.testbed import Bed
    from anabranch.scenario.load import Loaded

#: The longest time that the program waits for the server's program to listen, in seconds.
LISTENS_WITHIN_S = 5.0
#: The kernel's state of a listening TCP socket, in /proc/net/tcp.
_LISTEN = "0A"


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """The result of an emulation.

    Attributes
    ----------
    status
        The program's exit code; 128 plus the signal's number if a signal ended it.
    summary
        `duration_s`, `lateness` and `refused_packets` of the network.
    links
        The totals of each link, as rows of the trace's table `links`.
    served
        The exit code of the server's program, as `status`; None if it was still running.
    mptcp
        Counts of both kernels: `tcp` (opened TCP connections, including subflows), `connections` (over
        MPTCP), `joined` (further subflows) and `fallbacks` (answers without MPTCP).
    notes
        Warnings about the run.
    """

    status: int
    summary: dict[str, Any]
    links: list[dict[str, Any]]
    served: int | None = None
    mptcp: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def emulate(
    loaded: Loaded,
    command: Sequence[str],
    *,
    serve: Sequence[str] | None = None,
    pcapng: str | Path | None = None,
    watch: Page | None = None,
    opened: Callable[[Bed], None] = lambda _bed: None,
    environment: Mapping[str, str] | None = None,
) -> Emulated:
    """Run a program in the client's namespace, over the paths of a scenario, until the program ends.

    Parameters
    ----------
    loaded, command
        The scenario, without its application, and the program, which runs as the user who called sudo.
    serve
        A program to run in the server's namespace meanwhile. The first program starts when it listens.
    pcapng
        File to write a capture to.
    watch
        The page that shows the run.
    opened
        Called with the testbed before the programs start.
    environment
        Further variables of the programs' environment.

    Raises
    ------
    ScenarioError
        If the scenario has something that [real packets do not support][anabranch.live.unsupported].
    MissingError
        If this host lacks something, or the server's program fails before it listens.
    """
    from anabranch.live import _world
    from anabranch.live.testbed import needed, open_bed
    from anabranch.metrics._rows import rows

    unsupported.check(loaded)
    needed()
    plan = _plan(loaded)
    multipath = plan["transport"]["multipath"]
    written = nullcontext() if pcapng is None else _files.whole(Path(pcapng), "the capture")
    with ExitStack() as stack:
        capture = stack.enter_context(written)
        bed = stack.enter_context(open_bed(plan))
        opened(bed)
        show = _watched(stack, loaded, bed, command, watch)
        both = stack.enter_context(_Both(bed, command, serve, environment or {}))
        trace = _world.go(
            loaded,
            plan,
            client=_world.end(bed, "client", multipath=multipath),
            server=_world.end(bed, "server", multipath=multipath),
            application=False,
            progress=lambda _done, _total: both.goes_on(),
            bed=bed,
            begun=both.begin,
            pcapng=capture,
            watch=show,
        )
        counted = _counted(bed)
    return Emulated(
        status=both.status(),
        summary=dict(trace["summary"]),
        links=list(rows(trace["tables"]["links"])),
        served=both.served(),
        mptcp=counted,
        notes=(*both.notes, *_notes(counted, several=multipath and len(loaded.scenario.paths) > 1)),
    )


def _plan(loaded: Loaded) -> dict[str, Any]:
    """Return a plan whose session lasts until the programs end."""
    from anabranch.scenario import plan as plans

    plan = plans.build(loaded.scenario, None)
    plan["time_limit_ns"] = 2**62
    plan["application"] = {**plan["application"], "kind": "bulk", "duration_ns": None}
    return plan


def _watched(
    stack: ExitStack, loaded: Loaded, bed: Bed, command: Sequence[str], watch: Page | None
) -> Callable[[Mapping[str, Any]], None] | None:
    """Show the run on a page until the stack closes; return the function that receives the run's state."""
    from anabranch.live.watch import streaming

    if watch is None:
        return None
    what = {"server": "kernel", "client": "kernel", "application": _program(command)}
    show = stack.enter_context(watch.following(loaded, **what))
    return stack.enter_context(streaming(bed, show))


class _Both:
    """The two programs of an emulation: the server's starts first, the other one when the server listens."""

    def __init__(
        self,
        bed: Bed,
        command: Sequence[str],
        serve: Sequence[str] | None,
        environment: Mapping[str, str],
    ) -> None:
        self.notes: list[str] = []
        self._bed, self._command, self._serve = bed, command, serve or ()
        self._slack = programs.Slack()
        caller = programs.caller()
        self._user = replace(caller, environment={**caller.environment, **environment})
        self._server: subprocess.Popen[bytes] | None = None
        self._client: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0
        self._served: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._served = None if self._server is None else self._server.poll()
        for program in (self._client, self._server):
            if program is not None:
                programs.stop(program)

    def begin(self) -> None:
        """Start the server's program, or the only program."""
        self._began_s = time.monotonic()
        if self._serve:
            self._server = self._start("server", self._serve)
        else:
            self._client = self._start("client", self._command)

    def goes_on(self) -> bool:
        """Return whether the network is still needed. Starts the program as soon as the server listens.

        Raises
        ------
        MissingError
            If the server's program fails before it listens.
        """
        if self._client is not None:
            return self._client.poll() is None
        assert self._server is not None
        code = self._server.poll()
        if code:
            message = f"--serve: the program ended with exit code {_code(code)}: `{shlex.join(self._serve)}`"
            raise MissingError(message, hint="its own messages are above; does it run in a shell?")
        if not _listens(self._bed):
            if time.monotonic() - self._began_s < LISTENS_WITHIN_S:
                return True
            self.notes.append(f"the program of --serve did not listen within {LISTENS_WITHIN_S:.0f} s")
        self._client = self._start("client", self._command)
        return True

    def status(self) -> int:
        """Return the exit code of the program."""
        assert self._client is not None
        return _code(self._client.returncode)

    def served(self) -> int | None:
        """Return the exit code of the server's program; None if it was still running."""
        return None if self._served is None else _code(self._served)

    def _start(self, end: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return programs.start(self._bed, end, command, self._slack, user=self._user)


def _program(command: Sequence[str]) -> str:
    """Return the name of a program, without `mptcpize run` before it."""
    named = command[2:] if list(command[:2]) == ["mptcpize", "run"] else command
    return Path((named or command)[0]).name


def _code(status: int) -> int:
    """Return an exit code as a shell reports it."""
    return status if status >= 0 else 128 - status


def _listens(bed: Bed) -> bool:
    """Return whether a socket at the server's end accepts connections, or receives datagrams."""
    from anabranch.live.testbed import inside

    with inside(bed.server):
        net = Path("/proc/thread-self/net")
        sockets = {
            name: net.joinpath(name).read_text(encoding="ascii").splitlines()[1:]
            for name in ("tcp", "tcp6", "udp", "udp6")
            if net.joinpath(name).exists()
        }
    accepts = any(line.split()[3] == _LISTEN for name in ("tcp", "tcp6") for line in sockets.get(name, ()))
    return accepts or any(sockets.get(name) for name in ("udp", "udp6"))


def _counted(bed: Bed) -> dict[str, int]:
    """Return both kernels' counts of connections. The client of a connection may be at either end."""
    ends = [bed.counters(end) for end in ("client", "server")]
    total = {name: sum(end.get(name, 0) for end in ends) for name in ends[0]}
    return {
        "tcp": sum(_opened(bed, end) for end in ("client", "server")),
        "connections": total.get("MPCapableSYNACKRX", 0),
        "joined": total.get("MPJoinSynAckRx", 0),
        "fallbacks": total.get("MPCapableFallbackSYNACK", 0),
    }


def _opened(bed: Bed, end: str) -> int:
    """Return how many TCP connections were opened from an end (`ActiveOpens` of /proc/net/snmp)."""
    from anabranch.live.testbed import inside

    with inside(getattr(bed, end)):
        lines = Path("/proc/thread-self/net/snmp").read_text(encoding="ascii").splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["ActiveOpens"])


def _notes(counted: Mapping[str, int], *, several: bool) -> list[str]:
    """Return a warning if TCP used one path although the scenario has several."""
    if not several or not counted["tcp"]:
        return []
    if counted["connections"]:
        if counted["joined"]:
            return []
        return ["MPTCP used one path only: no further subflow was established"]
    what, start = "the program used plain TCP", "start both programs with `mptcpize run`"
    if counted["fallbacks"]:
        what, start = "the server's program answered with plain TCP", "start it with `mptcpize run` too"
    return [f"no MPTCP was spoken: {what}, over one path; {start}"]

"""A scenario over real packets: our endpoint against a kernel, in real time."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch import _files
from anabranch.errors import Fault, InputError, MissingError
from anabranch.live import unsupported, viewers
from anabranch.live.viewers import origin

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Mapping

    from anabranch._run import Run
    from anabranch.live.page import Page
    from anabranch.live.testbed import Bed
    from anabranch.live.viewers.session import Session
    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded

if TYPE_CHECKING:
    #: Receives the state of a run.
    Watch = Callable[[Mapping[str, Any]], None]

#: The server: our endpoint, or the kernel.
Server = Literal["gateway", "kernel"]
#: The client: the kernel, or our endpoint.
Client = Literal["kernel", "anabranch"]


def run_live(
    loaded: Loaded,
    *,
    server: Server = "gateway",
    client: Client = "kernel",
    announced: Collection[str] = (),
    run: int = 0,
    pcapng: str | Path | None = None,
    progress: Callable[[float, float], None] | None = None,
    film: Film | None = None,
    viewer: str | None = None,
    watch: Page | None = None,
    stock_client: bool = False,
    tcp_nopush: bool = False,
) -> Run:
    """Run a validated scenario over real packets, in real time.

    Parameters
    ----------
    loaded
        The scenario.
    server, client
        Whether our endpoint or a kernel is at this end. At least one is a kernel.
    announced
        Paths, except the first, whose address the server announces (`ADD_ADDR`). A kernel opens subflows only
        from addresses with a route, our endpoint from all its addresses.
    run
        The number of the run. Each has its own random draws from the seed.
    pcapng
        File for a capture of all packets at the client, with one interface for each path.
    progress
        Called with the seconds done so far and the seconds expected.
    film
        The film, if it is already open.
    viewer
        `vlc` plays a film from nginx, `hlsjs` in Chromium a ladder; None is our player.
    watch
        A page that shows the run, as returned by [`page.served`][anabranch.live.page.served].
    stock_client, tcp_nopush
        Whether a kernel client keeps its own timeouts and retries, and whether nginx sets `TCP_CORK`.

    Returns
    -------
    Run
        Trace and metrics, as of a simulated run; `summary["world"]` is `live`. If a kernel serves, its
        `tcp_info` fills `samples` and `subflows`, and timeouts, undos and penalties are None.

    Raises
    ------
    InputError
        If [real packets do not support][anabranch.live.unsupported] the scenario, or an argument is wrong.
    MissingError
        If this host lacks something, or a viewer did not use MPTCP.
    """
    from anabranch._run import finished
    from anabranch.live.testbed import open_bed
    from anabranch.scenario import plan as plans
    from anabranch.scenario.streamed import film_of

    possible(loaded, server, client, announced, viewer)
    film = film or film_of(loaded, played=viewer is not None)
    plan = plans.build(loaded.scenario, film, run=run)
    expected_s = plans.expected_duration_s(plan, film)
    played = None if viewer is None or film is None else viewers.played(viewer, loaded, film)
    written = nullcontext() if pcapng is None else _files.whole(Path(pcapng), "the capture")
    live = _LiveRun(loaded, plan, server, client, played, tcp_nopush)
    bed = open_bed(plan, announced=announced, stock_client=stock_client)
    with written as file, _shown(watch, loaded, server=server, client=client, expected_s=expected_s) as show:
        trace = live.trace(bed, file, _follower(progress, expected_s), show)
    return finished(loaded, film, plan, _noted(plan, trace), run=run)


def possible(
    loaded: Loaded, server: Server, client: Client, announced: Collection[str], viewer: str | None
) -> None:
    """Check that the ends and paths exist, and that this host has everything that they and a viewer need."""
    from anabranch.live.testbed import needed

    if server == "gateway" and client == "anabranch":
        hint = "the simulator runs our endpoint against itself"
        raise InputError([Fault(message="one end at least is a kernel", where="--client", hint=hint)])
    _joinable(loaded, announced)
    unsupported.check(loaded, kernel_client=client == "kernel")
    needed()
    if server == "kernel":
        _known(loaded.scenario.transport.congestion.name)
    if viewer is not None:
        viewers.check(viewer, loaded)


def _follower(
    progress: Callable[[float, float], None] | None, expected_s: float
) -> Callable[[float, float], bool]:
    """Return a function for the run's progress that never ends the run."""

    def heard(done_s: float, _limit_s: float) -> bool:
        if progress is not None:
            progress(done_s, max(expected_s, done_s))
        return True

    return heard


def _shown(watch: Page | None, loaded: Loaded, **more: Any) -> AbstractContextManager[Watch | None]:  # noqa: ANN401
    """Return the function that receives the run's state, if a page shows the run."""
    return nullcontext() if watch is None else watch.following(loaded, **more)


def _noted(plan: dict[str, Any], trace: dict[str, Any]) -> dict[str, Any]:
    """Return a trace with a note that the plan's requested records were not made."""
    if plan.get("record"):
        note = "Nothing was recorded: when segments left and came is known of a simulated run alone."
        trace["summary"]["notes"] = [*trace["summary"].get("notes", ()), note]
    return trace


def _joinable(loaded: Loaded, announced: Collection[str]) -> None:
    """Check that the paths exist and are not the first."""
    others = [path.name for path in loaded.scenario.paths[1:]]
    hint = f"paths behind the first: {', '.join(others)}"
    unknown = [name for name in announced if name not in others]
    if unknown:
        messages = [f"cannot announce `{name}`" for name in unknown]
        raise InputError([Fault(message=each, where="announced", hint=hint) for each in messages])


def _known(congestion: str) -> None:
    """Check that the kernel has a congestion control; MPTCP sockets do not report a missing one."""
    names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii").split()
    if congestion not in names:
        message = f"this kernel has no congestion control {congestion}; it has {', '.join(names)}"
        raise MissingError(message, hint="choose one with --congestion")


@dataclass(frozen=True)
class _LiveRun:
    """A plan to be run over real packets.

    Attributes
    ----------
    loaded, plan
        The scenario, and its plan.
    server, client
        The software at each end.
    played
        The film or ladder that a program plays; None if the plan's own application runs.
    tcp_nopush
        Whether nginx sets `TCP_CORK`.
    """

    loaded: Loaded
    plan: dict[str, Any]
    server: Server
    client: Client
    played: viewers.Played | None
    tcp_nopush: bool

    def trace(
        self,
        opening: AbstractContextManager[Bed],
        capture: Path | None,
        heard: Callable[[float, float], bool],
        show: Watch | None,
    ) -> dict[str, Any]:
        """Return the trace."""
        from anabranch.live import _world
        from anabranch.live.watch import Look, streaming, tables, watching

        multipath = self.plan["transport"]["multipath"]
        with ExitStack() as stack:
            bed = stack.enter_context(opening)
            asks, serves = None, None
            if self.client == "kernel":
                asks = _world.end(bed, "client", multipath=multipath)
            if self.server == "kernel":
                congestion = self.loaded.scenario.transport.congestion.name
                serves = _world.end(bed, "server", multipath=multipath, congestion=congestion)
            listens = self._listens(stack, bed)
            session = None
            if self.played is not None:
                session = stack.enter_context(
                    viewers.playing(bed, self.plan, self.played, listens, tcp_nopush=self.tcp_nopush)
                )
                if show is not None:
                    show = session.shown(self.played.viewer.now(self.played.film), show)
            begin_s = 0.0

            def begun() -> None:
                nonlocal begin_s
                begin_s = time.monotonic()
                if session is not None:
                    session.go()

            watched: AbstractContextManager[list[Look]] = nullcontext([])
            if serves is not None:
                watched = watching(bed)
                if show is not None:
                    show = stack.enter_context(streaming(bed, show))
            with watched as looks:
                trace = _world.go(
                    self.loaded,
                    self._plan(),
                    client=asks,
                    server=serves,
                    application=session is None,
                    progress=heard if session is None else session.during(heard),
                    bed=bed,
                    begun=begun,
                    pcapng=capture,
                    origin=self._origin(bed),
                    watch=show,
                )
            if serves is not None:
                trace["tables"] = {**trace["tables"], **tables(looks, bed, begin_s)}
            if session is not None:
                session.finish()
                self._see(session, trace, bed, begin_s, listens)
            ends = {"client": asks, "server": serves}
            kernels = {which: bed.counters(which) for which, end in ends.items() if end is not None}
        summary = trace["summary"]
        summary["kernels"] = kernels
        summary["ends"] = {"server": self.server, "client": self.client}
        summary["notes"] = [*summary["notes"], *_notes(summary, self.server, self.plan)]
        return trace

    def _listens(self, stack: ExitStack, bed: Bed) -> socket.socket | None:
        """Return the kernel's listening socket for films; None if our endpoint is the server."""
        if self.played is None or self.server != "kernel":
            return None
        congestion = self.loaded.scenario.transport.congestion.name
        multipath = self.plan["transport"]["multipath"]
        made = origin.listener(bed, viewers.PORT, multipath=multipath, congestion=congestion)
        return stack.enter_context(made)

    def _plan(self) -> dict[str, Any]:
        """Return the plan for the run. If a program plays, the plan has no time limit."""
        if self.played is None:
            return self.plan
        return {**self.plan, "application": {**self.plan["application"], "duration_ns": None}}

    def _origin(self, bed: Bed) -> tuple[str, str] | None:
        """Return the address of the origin of our endpoint; None if it relays nothing."""
        if self.played is None or self.server == "kernel":
            return None
        address, port = origin.BEHIND
        return bed.place("server"), f"{address}:{port}"

    def _see(
        self,
        session: Session,
        trace: dict[str, Any],
        bed: Bed,
        begin_s: float,
        listens: socket.socket | None,
    ) -> None:
        """Add a program's reports to the trace, once its connection is verified."""
        assert self.played is not None
        summary = trace["summary"]
        if listens is not None:
            summary["server_congestion"] = origin.congestion_of(listens)
        seen = viewers.seen(session, self.played, begin_s, trace)
        trace["tables"] = {**trace["tables"], **seen}
        proof = viewers.proved(self.played, self.plan, bed.counters("client"), trace["tables"])
        summary["notes"] = [*summary["notes"], *self.played.viewer.notes(session.told), *proof]
        summary["notes"] += session.faults(self.played.title)


def _notes(summary: dict[str, Any], server: Server, plan: Mapping[str, Any]) -> list[str]:
    """Return the notes for the results."""
    late = summary["lateness"]
    lateness = (
        f"Real packets: the network's own lateness was {late['median_ms']:.2f} ms in the median, "
        f"{late['p99_ms']:.2f} ms at the 99th percentile, {late['max_ms']:.2f} ms at most, over "
        f"{late['packets']:,} packets."
    )
    notes = [lateness]
    if server == "kernel":
        notes.append(f"The kernel served with congestion control {summary['server_congestion']}.")
        if "outage" in plan["transport"]:
            notes.append("The kernel judged what follows an outage by its own rules, not by stack.outage.")
    if summary["refused_packets"]:
        notes.append(f"A kernel did not take {summary['refused_packets']:,} packets that had arrived.")
    return notes

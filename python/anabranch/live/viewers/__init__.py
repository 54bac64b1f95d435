"""External players over real packets, with their reports converted to the trace's tables."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, MissingError, did_you_mean
from anabranch.live import leftovers, programs, rootless
from anabranch.live.viewers import hlsjs, origin, session, vlc

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.live.testbed import Bed
    from anabranch.live.viewers.session import Now, Session, Told, ViewerOrder
    from anabranch.media.films import Film
    from anabranch.metrics._rows import Table, Tables
    from anabranch.scenario.load import Loaded

#: The server's port, the same as for our own player.
PORT = 80
#: The longest duration of a session beyond the film, seconds. A session that stalls takes longer than the
#: film.
_LIMIT_S = 3600.0
#: The user ID of the players if sudo is not used.
_NOBODY = 65_534


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """An external player.

    Attributes
    ----------
    title
        Its name for people.
    kind
        The `application.kind` that it plays.
    lacks
        Returns a sentence that names what this host lacks for it; None if nothing is missing.
    install
        Returns the commands that install it.
    command
        Returns the program and its arguments for an order.
    read
        Returns the tables from its reports. Arguments: the film, the start of the run, and the row of
        `connections` with the sender's values.
    notes
        Returns notes about it besides its tables.
    now
        Makes the function that reports its state while it plays a film.
    version
        Returns its name and version from its report `ready`.
    playback
        Returns the playback events from its reports, which have times `t_s`.
    position
        Returns the position in the film from a report `counters`, in seconds.
    dropped
        Returns the number of pictures that were not shown, from a report `counters`.
    """

    title: str
    kind: str
    lacks: Callable[[], str | None]
    install: Callable[[], Sequence[str]]
    command: Callable[[ViewerOrder], list[str]]
    read: Callable[[Told, Film, float, Mapping[str, Any]], dict[str, Table]]
    notes: Callable[[Told], list[str]]
    now: Callable[[Film], Now]
    version: Callable[[Mapping[str, Any]], str]
    playback: Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
    position: Callable[[Mapping[str, Any]], float]
    dropped: Callable[[Mapping[str, Any]], int]


#: The programs, by name.
VIEWERS: Mapping[str, Viewer] = {
    "vlc": Viewer(
        title="VLC",
        kind="progressive",
        lacks=vlc.lacks,
        install=vlc.install,
        command=vlc.command,
        read=vlc.read,
        notes=vlc.notes,
        now=vlc.Now,
        version=vlc.version,
        playback=vlc.playback,
        position=vlc.position,
        dropped=vlc.dropped,
    ),
    "hlsjs": Viewer(
        title="hls.js",
        kind="adaptive",
        lacks=hlsjs.lacks,
        install=hlsjs.install,
        command=hlsjs.command,
        read=hlsjs.read,
        notes=hlsjs.notes,
        now=hlsjs.Now,
        version=hlsjs.version,
        playback=hlsjs.playback,
        position=hlsjs.position,
        dropped=hlsjs.dropped,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Played:
    """The film or ladder that a program plays.

    Attributes
    ----------
    viewer
        The program.
    file
        The file or folder that is served.
    name
        Under which name it is served.
    asked
        The path of the first request: the name, or a playlist below it.
    film
        Its description.
    """

    viewer: Viewer
    file: Path
    name: str
    asked: str
    film: Film

    @property
    def title(self) -> str:
        """The program's name for people."""
        return self.viewer.title


def check(name: str, loaded: Loaded) -> None:
    """Make sure that this host has a program and that it plays what a scenario streams.

    Raises
    ------
    InputError
        If there is no such program, or it plays another kind of film.
    MissingError
        When this host lacks something of it.
    """
    viewer = VIEWERS.get(name)
    if viewer is None:
        fault = Fault(message=f"no such viewer: {name}", where="viewer", hint=did_you_mean(name, VIEWERS))
        raise InputError([fault])
    kind = loaded.scenario.application.kind
    if kind != viewer.kind:
        message = f'{viewer.title} plays application.kind = "{viewer.kind}", and the scenario has "{kind}"'
        raise InputError([Fault(message=message, where=f"--application {name}")])
    lacks = viewer.lacks() or origin.lacks()
    if lacks is None and loaded.scenario.transport.multipath:
        lacks = origin.lacks_mptcp()
    if lacks is not None:
        raise MissingError(lacks, hint="`anabranch doctor` lists what this host has")


def played(name: str, loaded: Loaded, film: Film) -> Played:
    """Return what a program is to play of a scenario.

    Raises
    ------
    MediaError
        When it has no file.
    """
    from anabranch.media import films, ladders

    viewer = VIEWERS[name]
    if viewer.kind == "adaptive":
        master = ladders.file_of(film.name, loaded.folders)
        asked = f"ladder/{master.name}"
        return Played(viewer=viewer, file=master.parent, name="ladder", asked=asked, film=film)
    file = films.file_of(film.name, loaded.folders)
    served = f"film{file.suffix.lower()}"
    return Played(viewer=viewer, file=file, name=served, asked=served, film=film)


@contextmanager
def playing(
    bed: Bed,
    plan: Mapping[str, Any],
    what: Played,
    at: socket.socket | None = None,
    *,
    tcp_nopush: bool = False,
) -> Iterator[Session]:
    """Serve the film, and start the program that plays it at the caller's signal.

    Parameters
    ----------
    bed
        The testbed.
    plan
        The plan.
    what
        The film or ladder.
    at
        A socket of the kernel that serves it; None is for our endpoint, at `origin.BEHIND`.
    tcp_nopush
        Whether nginx sets `TCP_CORK`.

    Raises
    ------
    MissingError
        When something does not start.
    """
    multipath = plan["transport"]["multipath"]
    host = bed.lanes[0].server
    url = f"http://{f'[{host}]' if ':' in host else host}/{what.asked}"
    cache_ms = plan["application"]["player"].get("network_cache_ns", 10**9) // 10**6
    with ordered(url, _seconds(plan, what.film), cache_ms) as order:
        command = what.viewer.command(order)
        if multipath:
            command = [*origin.wrapped(), *command]
        with (
            origin.serving(bed, {what.name: what.file}, at, tcp_nopush=tcp_nopush) as serves,
            session.opened(bed, what.title, command) as opened,
        ):
            opened.origin = serves
            yield opened


@contextmanager
def ordered(url: str, seconds: float, cache_ms: int) -> Iterator[ViewerOrder]:
    """Make the order for a program, with a folder for its files that exists until the block ends.

    Parameters
    ----------
    url
        The address that it plays.
    seconds
        The latest time of its end.
    cache_ms
        VLC's network cache, milliseconds.
    """
    # Neither VLC nor a browser runs as root; with sudo or in a user namespace, the caller is another user.
    user = programs.caller()
    drops = os.geteuid() == 0 and user.number is None and not rootless.entered()
    with leftovers.folder("viewer") as folder:
        # The player reads its page here; the browser's own folder is here too.
        folder.chmod(0o755)
        if user.number is not None:
            os.chown(folder, user.number, -1)
        yield session.ViewerOrder(
            url=url, seconds=seconds, cache_ms=cache_ms, user=str(_NOBODY) if drops else "", folder=folder
        )


def _seconds(plan: Mapping[str, Any], film: Film) -> float:
    """Return how long a program may play: the session's length, or as long as the film could take."""
    limit_ns = min(plan["time_limit_ns"], film.duration_ns + int(_LIMIT_S * 1e9))
    duration_ns = plan["application"]["duration_ns"]
    return float(limit_ns if duration_ns is None else min(limit_ns, duration_ns)) / 1e9


def seen(opened: Session, what: Played, begin_s: float, trace: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables from a program's reports, which replace those of a trace.

    Raises
    ------
    MissingError
        If it played nothing.
    """
    from anabranch.metrics._rows import rows

    if not any(told["what"] == "counters" for told in opened.told):
        message = f"{what.title} played nothing: {opened.last_words() or 'no output'}"
        raise MissingError(message)
    sent = {"reinjected_bytes": 0, "refused_packets": 0, "fallback": False, **trace["summary"]}
    sent.update(next(rows(trace["tables"]["connections"]), {}))
    return what.viewer.read(opened.told, what.film, begin_s, sent)


def proved(what: Played, plan: Mapping[str, Any], counters: Mapping[str, int], tables: Tables) -> list[str]:
    """Check with the client kernel's counters that a program used MPTCP, and return notes.

    Raises
    ------
    MissingError
        If it used plain TCP although the scenario has MPTCP.
    """
    if not plan["transport"]["multipath"]:
        return []
    connections, joined = (counters.get(name, 0) for name in ("MPCapableSYNACKRX", "MPJoinSynAckRx"))
    if not connections and not any(
        path.get("strips_mptcp") or path.get("drops_mptcp") for path in plan["paths"]
    ):
        message = f"{what.title} spoke plain TCP: the client's kernel counted no MPTCP connection of it"
        raise MissingError(message, hint="mptcpize has to be able to preload its library into it")
    carried: dict[str, int] = {}
    for path, count in zip(tables["subflows"]["path"], tables["subflows"]["bytes"], strict=True):
        carried[path] = carried.get(path, 0) + count
    share = ", ".join(f"{count:,} B over {path}" for path, count in carried.items())
    counted = f"its kernel counted {connections} connections and {joined} joined subflows"
    return [f"{what.title} spoke MPTCP: {counted}; {share or 'no bytes'} were acknowledged."]

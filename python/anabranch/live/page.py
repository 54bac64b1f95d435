"""A page that shows a run over real packets while it runs, served on loopback.

It is served by a separate process (`_page_server.py`): the thread that carries packets never waits,
and messages that the process does not receive in time are dropped.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, MissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anabranch.scenario.load import Loaded

#: The default address of pages, with a free port.
ANYWHERE = ("127.0.0.1", 0)
#: The time that the page's process has to receive important messages, and to end, in seconds.
_PATIENCE_S = 3.0


class Page:
    """A page that is served.

    Attributes
    ----------
    url
        The page's address for a browser on this host.
    """

    def __init__(self, url: str, told: socket.socket) -> None:
        self.url = url
        self._told = told

    def begin(self, run: Mapping[str, Any]) -> None:
        """Report the start of a run: `scenario`, `paths`, `server`, `client`, `application`, `expected_s`."""
        self._tell({"run": run}, patience_s=_PATIENCE_S)

    def show(self, moment: Mapping[str, Any]) -> None:
        """Send the state of the run, as the Rust world reports it."""
        self._tell({"moment": moment})

    def over(self, how: str) -> None:
        """Report the end of the run: `done` or `failed`."""
        self._tell({"over": how}, patience_s=_PATIENCE_S)

    def _tell(self, message: Mapping[str, Any], *, patience_s: float = 0.0) -> None:
        """Send a message; it is lost if the process has ended or is slow."""
        with suppress(OSError):
            self._told.settimeout(patience_s)
            self._told.send(json.dumps(message).encode())

    @contextmanager
    def following(self, loaded: Loaded, **more: Any) -> Iterator[Callable[[Mapping[str, Any]], None]]:  # noqa: ANN401
        """Show the run of a scenario inside the block, and yield the function that receives its state.

        Parameters
        ----------
        loaded
            The scenario.
        more
            Other facts about the run: `server`, `client`, `expected_s`.
        """
        scenario = loaded.scenario
        paths = [path.name for path in scenario.paths]
        what = {"scenario": scenario.name, "paths": paths, "application": scenario.application.kind}
        self.begin({**what, **more})
        try:
            yield self.show
        except BaseException:
            self.over("failed")
            raise
        self.over("done")


def chosen(at: str | None, *, free: bool) -> tuple[str, int] | Fault | None:
    """Return the place of the page that options request: an address, a free port, or None."""
    return place(at) if at is not None else ANYWHERE if free else None


def place(text: str, option: str = "--watch-at") -> tuple[str, int] | Fault:
    """Return the address and port of `ADDRESS:PORT`, which must be on loopback."""
    from anabranch.live.gateway import split

    found = split(text, option)
    if isinstance(found, Fault) or ipaddress.ip_address(found[0]).is_loopback:
        return found
    hint = (
        "127.0.0.1 or [::1]; from another machine, ssh -L 8000:127.0.0.1:8000 with the same port at both ends"
    )
    return Fault(message=f"not an address on loopback: {found[0]}", where=option, hint=hint)


def listening(where: tuple[str, int] = ANYWHERE) -> socket.socket:
    """Return a socket that listens at an address on loopback.

    Raises
    ------
    MissingError
        When the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    try:
        return socket.create_server(where, family=family, backlog=16)
    except OSError as error:
        message = f"the page cannot be served at {where[0]} port {where[1]}: {error.strerror or error}"
        raise MissingError(message, hint="choose another with --watch-at ADDRESS:PORT") from None


@contextmanager
def served(where: tuple[str, int] = ANYWHERE) -> Iterator[Page]:
    """Serve a page inside the block. After a run, the page shows how the run ended.

    Parameters
    ----------
    where
        An address on loopback, and a port; 0 is a free one.

    Raises
    ------
    MissingError
        If the address cannot be used.
    """
    with listening(where) as listener:
        address, port = listener.getsockname()[:2]
        told, heard = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with told:
            with heard:
                numbers = (listener.fileno(), heard.fileno())
                # The process has a separate session, so Ctrl-C ends only the run, and the page shows this
                # end.
                process = subprocess.Popen(
                    [sys.executable, "-m", "anabranch.live._page_server", *map(str, numbers)],
                    pass_fds=numbers,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
            host = f"[{address}]" if ":" in address else address
            try:
                yield Page(f"http://{host}:{port}/", told)
            finally:
                told.close()
                try:
                    process.wait(_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

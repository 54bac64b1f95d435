"""The process that serves the page of a run: it receives the run's state and sends it to browsers.

It answers only GET and HEAD. A request whose `Host` is not loopback is refused. A page from another site
whose name resolves to this address therefore learns nothing (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from base64 import b64encode
from collections import deque
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: The number of stored states: five minutes of a run.
KEPT = 3000
#: The time over which throughput and shares are computed, in seconds, with some tolerance for late samples.
_WINDOW_S = 1.05
#: The shortest and the longest time between two events of a stream, in seconds.
_LEAST_S, _MOST_S = 0.2, 5.0
#: The largest number of streams that are served at once.
_STREAMS = 16
#: The time that a browser has for a request, and the time that browsers have to receive the end of the run,
#: in seconds.
_PATIENCE_S, _FAREWELL_S = 30.0, 1.0
#: The largest size of a message, bytes.
_MESSAGE = 1 << 18
_POLICY = (
    "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

Moment = dict[str, Any]


class State:
    """The state of the run, shared by all requests."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.ended = False
        self._run: dict[str, Any] | None = None
        self._over: str | None = None
        self._moments: deque[Moment] = deque(maxlen=KEPT)
        self._number = 0
        self._version = 0

    def take(self, message: dict[str, Any]) -> None:
        """Process a message about the run: its start, its state, or its end."""
        with self.news:
            if "run" in message:
                self._run, self._over = {**message["run"], "number": self._number}, None
                self._moments.clear()
            if "moment" in message:
                self._number += 1
                self._moments.append(rated(message["moment"], self._moments, self._number))
            self._over = message.get("over", self._over)
            self._changed()

    def end(self) -> None:
        """Record that the program ends."""
        with self.news:
            self.ended = True
            self._changed()

    def _changed(self) -> None:
        self._version += 1
        self.news.notify_all()

    def wait(self, version: int, timeout_s: float) -> None:
        """Wait until the state is newer than a version, or the time is up."""
        with self.news:
            self.news.wait_for(lambda: self._version != version, timeout_s)

    def told(self, since: int | None = None) -> tuple[int, dict[str, Any]]:
        """Return the version and the stored states: those after number `since`, or the last one."""
        with self.news:
            after = self._number - 1 if since is None else since
            moments = []
            for moment in reversed(self._moments):
                if moment["number"] <= after:
                    break
                moments.append(moment)
            told = {"run": self._run, "over": self._over, "ended": self.ended, "moments": moments[::-1]}
            return self._version, told


def rated(moment: Moment, before: deque[Moment], number: int) -> Moment:
    """Return a state with the values that need earlier states: throughput and shares of each path."""
    least = moment["t_s"] - _WINDOW_S
    then = None
    for other in reversed(before):
        if other["t_s"] < least:
            break
        then = other
    paths = [dict(path) for path in moment["paths"]]
    span = moment["t_s"] - then["t_s"] if then else 0.0
    came = (
        [path["bytes"] - old["bytes"] for path, old in zip(paths, then["paths"], strict=True)] if then else []
    )
    whole = sum(path["bytes"] for path in paths)
    for place, path in enumerate(paths):
        path["throughput_mbps"] = came[place] * 8e-6 / span if span > 0 else None
        path["share"] = came[place] / sum(came) if sum(came) else None
        path["share_so_far"] = path["bytes"] / whole if whole else None
    return {**moment, "number": number, "paths": paths}


@cache
def page() -> tuple[bytes, str]:
    """Return the page and its policy: nothing from outside, and no script but its own."""
    room = files("anabranch")
    texts = [
        room.joinpath(name).read_text(encoding="utf-8")
        for name in ("live/page.html", "live/page.js", "report/style.css", "live/page.css")
    ]
    whole, script, style = texts[0], texts[1], texts[2] + texts[3]
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in (script, style))
    filled = whole.replace("{{ style }}", style).replace("{{ script }}", script)
    return filled.encode(), _POLICY.format(*hashes)


def is_here(host: str, port: int) -> bool:
    """Return whether the `Host` of a request is a name or an address of loopback, with this port."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[0-9a-z.-]+)(?::(\d{1,5}))?", host.strip().lower())
    if found is None or int(found[2] or 80) != port:
        return False
    name = found[1]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


class Server(ThreadingHTTPServer):
    """Serves the state of a run over a listening socket."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, state: State) -> None:
        self.address_family = listener.family
        super().__init__(listener.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.state = state
        self.streams = threading.BoundedSemaphore(_STREAMS)

    def farewell(self) -> None:
        """Wait until all browsers have received the end, or would take too long."""
        until = time.monotonic() + _FAREWELL_S
        for _ in range(_STREAMS):
            if not self.streams.acquire(timeout=max(until - time.monotonic(), 0)):
                return

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        """Report an error, unless the browser has closed the connection."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one browser."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "anabranch", ""
    timeout = _PATIENCE_S

    def parse_request(self) -> bool:
        """Read a request. Return False if it was refused."""
        if not super().parse_request():
            return False
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not is_here(hosts[0], self.server.socket.getsockname()[1]):
            self._refuse(HTTPStatus.FORBIDDEN, "this page is for loopback: ask by its address\n")
            return False
        if self.command not in ("GET", "HEAD"):
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "nothing is changed here\n", Allow="GET, HEAD")
            return False
        return True

    def do_GET(self) -> None:
        """Answer."""
        try:
            address = urlsplit(self.path)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "that is no address\n")
            return
        since = parse_qs(address.query).get("since", [None])[-1]
        if since is not None and not re.fullmatch(r"-?\d{1,15}", since):
            self._refuse(HTTPStatus.BAD_REQUEST, "since: the number of a moment\n")
        elif address.path == "/":
            body, policy = page()
            self._answer(body, "text/html; charset=utf-8", Content_Security_Policy=policy)
        elif address.path == "/state":
            _, told = self.server.state.told(None if since is None else int(since))
            self._answer(json.dumps(told).encode(), "application/json")
        elif address.path == "/events":
            self._stream()
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is /, /state and /events\n")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _stream(self) -> None:
        """Send the current state and then every change, until the browser has gone or the run is over."""
        self.close_connection = True
        if not self.server.streams.acquire(blocking=False):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many watch\n")
            return
        try:
            self._head(HTTPStatus.OK, "text/event-stream", Connection="close")
            # A browser that reconnects sends the number of its last moment.
            last = self.headers.get("Last-Event-ID", "")
            since = int(last) if re.fullmatch(r"\d{1,15}", last) else -1
            while self.command == "GET":
                version, told = self.server.state.told(since)
                if told["moments"]:
                    since = told["moments"][-1]["number"]
                self.wfile.write(f"id: {since}\ndata: {json.dumps(told)}\n\n".encode())
                if told["ended"]:
                    break
                time.sleep(_LEAST_S)
                self.server.state.wait(version, _MOST_S)
        finally:
            self.server.streams.release()

    def _refuse(self, status: HTTPStatus, why: str, **headers: str) -> None:
        """Answer with a sentence and close the connection, without reading the rest of the request."""
        self.close_connection = True
        self._answer(why.encode(), "text/plain; charset=utf-8", status, Connection="close", **headers)

    def _answer(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> None:
        """Send an answer; for a HEAD request, only its head."""
        self._head(status, kind, Content_Length=str(len(body)), **headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, **headers: str) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        always = {
            "Content_Type": kind,
            "Cache_Control": "no-store",
            "Cross_Origin_Resource_Policy": "same-origin",
            "Referrer_Policy": "no-referrer",
            "X_Content_Type_Options": "nosniff",
        }
        for name, value in {**always, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *given: Any) -> None:  # noqa: A002, ANN401 - as the library has it
        """Log nothing, because stderr belongs to the run."""


def follow(heard: socket.socket, state: State) -> None:
    """Receive the run's messages until the connection ends."""
    while message := heard.recv(_MESSAGE):
        state.take(json.loads(message))
    state.end()


def main() -> None:
    """Serve until the run closes its connection.

    The arguments are the descriptors of a listening socket and of the run's socket.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The run has priority over this process.
    os.nice(5)
    listener, heard = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    state = State()
    server = Server(listener, state)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with heard:
        follow(heard, state)
    server.farewell()


if __name__ == "__main__":
    main()

"""The local server of the page: static files on loopback, and the native simulator if there is no wasm."""

from __future__ import annotations

import json
import mimetypes
import socket
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from anabranch import metrics, plugins
from anabranch.metrics._rows import of_each
from anabranch.metrics._still import strips
from anabranch.play import policy
from anabranch.plugins import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Loopback only: the server runs plans for whoever reaches it.
_HOST = "127.0.0.1"
#: The largest plan that is accepted, bytes: a film of hours is a tenth of it.
_LARGEST = 64 * 2**20
mimetypes.add_type("application/wasm", ".wasm")
mimetypes.add_type("text/javascript", ".js")


class _Server(ThreadingHTTPServer):
    """A server that is silent about browsers that close or reset a connection."""

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the library's
        """Print an error, unless the browser has left."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(folder: Path, *, port: int = 0) -> Iterator[str]:
    """Serve a built page inside the block; yield its address.

    Raises
    ------
    OSError
        When the port is taken.
    """
    server = _Server((_HOST, port), _handler(folder))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://{_HOST}:{server.server_port}/index.html"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class LeftError(Exception):
    """The page has closed the connection of a run, since it wants another one."""


def simulated(text: str, left: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Return the result of a plan as the page's engine has it, or its faults.

    Raises
    ------
    LeftError
        As soon as `left` returns true.
    """

    def progress(_done: float, _limit: float) -> None:
        if left():
            raise LeftError

    rust = module()
    try:
        trace = rust.simulate(text, None, progress, {})
    except rust.PlanError as error:
        return {"faults": [{"key": "", "message": str(error), "hint": ""}]}
    tables = trace["tables"]
    paths = [path["name"] for path in json.loads(text)["paths"]]
    clients = metrics.by_client(tables, paths=paths)
    found = {
        "qoe": metrics.qoe(tables, clients),
        "qos": metrics.qos(tables, clients, paths=paths),
        "duration_s": metrics.duration_s(tables),
        "strips": strips(tables),
        "renditions": [rust.renditions(own) for _, own in of_each(tables)],
    }
    columns = {name: {key: list(column) for key, column in table.items()} for name, table in tables.items()}
    summary = trace["summary"]
    return {"digest": summary["digest"], "summary": summary, "tables": columns, "metrics": found}


def _has_left(connection: socket.socket) -> bool:
    """Return whether the browser has closed a connection."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _handler(folder: Path) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers requests for a folder."""
    root = folder.resolve()

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *given: Any) -> None:  # noqa: A002, ANN401 - the library's
            """Print nothing."""

        def do_GET(self) -> None:
            """Send a file, or the name of the engine."""
            path = self.path.partition("?")[0].partition("#")[0]
            if not self._is_local():
                self._answer(403, b"only this host may ask", "text/plain")
            elif path == "/engine":
                self._answer(200, json.dumps({"build": build()}).encode(), "application/json")
            else:
                self._file(path)

        def do_POST(self) -> None:
            """Run a plan."""
            length = int(self.headers.get("Content-Length") or 0)
            told = self.headers.get("Content-Type") == "application/json"
            if not self._is_local() or not told or self.path != "/run" or not 0 < length <= _LARGEST:
                self.close_connection = True
                self._answer(400, b"not a plan", "text/plain")
                return
            try:
                answer = simulated(
                    self.rfile.read(length).decode("utf-8", "replace"), lambda: _has_left(self.connection)
                )
            except LeftError:
                self.close_connection = True
                return
            self._answer(200, json.dumps(answer, separators=(",", ":")).encode(), "application/json")

        def _is_local(self) -> bool:
            """Return whether the request names the page's own address and no other host."""
            name, _, _ = self.headers.get("Host", "").partition(":")
            origin = self.headers.get("Origin")
            own = f"http://{self.headers.get('Host')}"
            return name in (_HOST, "localhost") and origin in (None, own)

        def _file(self, path: str) -> None:
            wanted = (root / (path.lstrip("/") or "index.html")).resolve()
            if not wanted.is_relative_to(root) or not wanted.is_file():
                self._answer(404, b"no such file", "text/plain")
                return
            kind = mimetypes.guess_type(wanted.name)[0] or "application/octet-stream"
            self._answer(200, wanted.read_bytes(), kind, worker=wanted.name == "worker.js")

        def _answer(self, status: int, body: bytes, kind: str, *, worker: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Content-Security-Policy", policy.WORKER if worker else policy.PAGE)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def build() -> str:
    """Return the name of this build, as links have it."""
    return str(plugins.module().__version__)

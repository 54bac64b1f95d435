"""The origin: nginx in the server's namespace, which serves the viewers' files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import _pieces
from anabranch.errors import MissingError
from anabranch.live import leftovers, programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.live.testbed import Bed

#: Its address behind our endpoint, which other hosts cannot reach.
BEHIND = ("127.0.0.1", 8080)
#: MPTCP among the protocols of `socket(2)`; Python 3.11 has no name for it.
_IPPROTO_MPTCP = 262
#: Connections that wait to be accepted.
_BACKLOG = 128
#: How long it may take to come up.
_PATIENCE_S = 10.0

_CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush {nopush};
  default_type application/octet-stream;
  types {{
    video/mp4 mp4 m4v; video/mp2t ts; video/x-matroska mkv; video/webm webm;
    application/vnd.apple.mpegurl m3u8;
  }}
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    {listen}
    root {folder}/served;
    add_header Access-Control-Allow-Origin *;
  }}
}}
"""


def program() -> str | None:
    """Return nginx's program; None if it is not installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def lacks() -> str | None:
    """Return what this host lacks for it, in a sentence; None when it has all."""
    found = program()
    if found is None:
        return "nginx is not installed: apt install nginx-light"
    failure = _pieces.fails([found, "-v"])
    return None if failure is None else f"nginx does not run ({failure}): apt install --reinstall nginx-light"


def lacks_mptcp() -> str | None:
    """Return what this host lacks for MPTCP in external programs; None if nothing is missing."""
    found = shutil.which("mptcpize")
    if found is None:
        return "mptcpize is not installed: apt install mptcpize"
    failure = _pieces.fails([found, "run", "true"])
    return None if failure is None else f"mptcpize does not run ({failure}): apt install --reinstall mptcpize"


def listener(bed: Bed, port: int, *, multipath: bool, congestion: str) -> socket.socket:
    """Return a socket of the server's kernel that listens on every path.

    It is made here, because nginx's configuration supports neither MPTCP nor a congestion control.

    Parameters
    ----------
    bed
        The testbed.
    port
        Its port.
    multipath
        Whether it speaks MPTCP.
    congestion
        The congestion control of its connections, one that this kernel has.
    """
    from anabranch.live.testbed import inside

    is_ipv6 = bed.lanes[0].family == "ipv6"
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    protocol = _IPPROTO_MPTCP if multipath else socket.IPPROTO_TCP
    with inside(bed.server):
        made = socket.socket(family, socket.SOCK_STREAM, protocol)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("::" if is_ipv6 else "0.0.0.0", port))
        made.listen(_BACKLOG)
    return made


def congestion_of(made: socket.socket) -> str:
    """Return the congestion control that a socket really has."""
    return made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode("ascii")


@contextmanager
def serving(
    bed: Bed, files: Mapping[str, Path], at: socket.socket | None = None, *, tcp_nopush: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Serve files by nginx until the block ends.

    Parameters
    ----------
    bed
        The testbed.
    files
        Files and folders by the name in requests.
    at
        A socket that listens; None is for our endpoint alone, at `BEHIND`.
    tcp_nopush
        nginx's directive: whether it sets `TCP_CORK`. With Linux's MPTCP, a corked subflow keeps an
        incomplete last segment for a whole timeout, and the other subflows wait for it.

    Raises
    ------
    MissingError
        When nginx is not there, or does not start.
    """
    found = program()
    if found is None:
        raise MissingError(lacks() or "")
    with leftovers.folder("origin") as folder:
        folder.joinpath("served").mkdir()
        for served, file in files.items():
            folder.joinpath("served", served).symlink_to(file.resolve())
        address = BEHIND if at is None else ("127.0.0.1", at.getsockname()[1])
        configuration = folder / "nginx.conf"
        configuration.write_text(_text(folder, at, tcp_nopush=tcp_nopush), encoding="utf-8")
        # nginx inherits the descriptor, as it does when it replaces another nginx.
        inherited = {} if at is None else {"NGINX": f"{at.fileno()};"}
        with folder.joinpath("stderr").open("w+b") as said:
            process = programs.start(
                bed,
                "server",
                [found, "-c", str(configuration), "-p", str(folder), "-e", "stderr"],
                programs.Slack(),
                user=programs.User(environment=inherited),
                ends_with_us=True,
                # Otherwise nginx would keep this program's output open if this program is killed.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                pass_fds=() if at is None else (at.fileno(),),
            )
            try:
                _wait(bed, process, address, said.name)
                yield process
            finally:
                programs.stop(process)


def _text(folder: Path, at: socket.socket | None, *, tcp_nopush: bool) -> str:
    """Return nginx's configuration."""
    host, port = BEHIND if at is None else at.getsockname()[:2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    nopush = "on" if tcp_nopush else "off"
    text = _CONFIGURATION.format(folder=folder, listen=f"listen {place};", nopush=nopush)
    # It serves its files as the user that runs this program and owns them.
    return f"user root;\n{text}" if os.geteuid() == 0 else text


def wrapped() -> list[str]:
    """Return the beginning of a command whose stream sockets are to use MPTCP.

    Raises
    ------
    MissingError
        When it is not there.
    """
    found = shutil.which("mptcpize")
    if found is None:
        raise MissingError(lacks_mptcp() or "")
    return [found, "run"]


def _wait(bed: Bed, process: subprocess.Popen[bytes], address: tuple[str, int], said: str) -> None:
    """Wait until it answers."""
    from anabranch.live.testbed import inside

    until = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        with inside(bed.server):
            try:
                socket.create_connection(address, timeout=1.0).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
    lines = Path(said).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    message = f"nginx does not start: {lines[-1] if lines else 'no output'}"
    raise MissingError(message)

"""The origin: nginx in the server's namespace, with what viewers ask for."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import MissingError
from anabranch.live import programs

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from anabranch.live.testbed import Bed

#: Where it listens beside whatever a kernel that serves has: behind our endpoint nobody else reaches it.
BEHIND = ("127.0.0.1", 8080)
#: How long it may take to come up.
_PATIENCE_S = 10.0

_CONFIGURATION = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
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
    """Return nginx's program; None where there is none."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def lacks() -> str | None:
    """Return what this host lacks for it, in a sentence; None when it has all."""
    return None if program() else "nginx is not installed: apt install nginx-light"


def lacks_mptcp() -> str | None:
    """Return what this host lacks for programs of others to speak MPTCP; None when it has all."""
    return None if shutil.which("mptcpize") else "mptcpize is not installed: apt install mptcpize"


@contextmanager
def serving(bed: Bed, files: Mapping[str, Path], *, port: int | None, multipath: bool) -> Iterator[None]:
    """Serve files while the block lasts.

    Parameters
    ----------
    bed
        The testbed.
    files
        Files and folders by the name under which they are asked for.
    port
        The port at which a kernel serves them to everybody; None is for our endpoint alone, at `BEHIND`.
    multipath
        Whether that kernel's sockets are of MPTCP.

    Raises
    ------
    MissingError
        When nginx is not there, or does not come up.
    """
    found = program()
    if found is None:
        raise MissingError(lacks() or "")
    with tempfile.TemporaryDirectory(prefix="anabranch-origin-") as name:
        folder = Path(name)
        folder.joinpath("served").mkdir()
        for served, file in files.items():
            folder.joinpath("served", served).symlink_to(file.resolve())
        address, own = ("127.0.0.1", port) if port is not None else BEHIND
        listen = f"listen {port}; listen [::]:{port};" if port is not None else f"listen {address}:{own};"
        text = _CONFIGURATION.format(folder=folder, listen=listen)
        # It gives its files away as whoever runs this, who was given them.
        if os.geteuid() == 0:
            text = "user root;\n" + text
        configuration = folder / "nginx.conf"
        configuration.write_text(text, encoding="utf-8")
        command = [found, "-c", str(configuration), "-p", str(folder), "-e", "stderr"]
        if port is not None and multipath:
            command = [*wrapped(), *command]
        with folder.joinpath("stderr").open("w+b") as said:
            process = programs.start(
                bed, "server", command, programs.Slack(), user=programs.User(), stderr=said
            )
            try:
                _wait(bed, process, (address, own), said.name)
                yield
            finally:
                programs.stop(process)


def wrapped() -> list[str]:
    """Return what a command begins with for its stream sockets to be of MPTCP.

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
    message = f"nginx does not come up: {lines[-1] if lines else 'it says nothing'}"
    raise MissingError(message)

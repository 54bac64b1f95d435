"""Many viewers of one film through one gateway, compared with nginx over the kernel's MPTCP.

`make bench-viewers` runs it as root. Viewers in one network namespace, each with two uplinks (veth pairs
without a rate limit), request a film of 5.24 Mb/s from a server in another namespace. They read it like a
player: a viewer plays after it has buffered one second, buffers at most ten seconds, and freezes if its
buffer is empty. nginx serves first behind the gateway, and then alone over the kernel's MPTCP sockets.

For each way, it prints:

- the number of freezes, and the time at which the viewers started to play;
- the processor time in ms per second of a viewer's film: of the server that viewers connect to (gateway or
  nginx), of the nginx behind it, and of the whole machine, which is meaningful only if nothing else runs;
- the largest memory per viewer in KiB: of the server that viewers connect to, and of all TCP sockets of the
  kernel. These include the viewers' own sockets, which hold the data that a viewer has no room for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "live" / "gateway"))

import uplinks
from throughput import say

from anabranch.live.testbed import inside, missing
from anabranch.live.viewers import origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The film's rate in bytes per second, and a viewer's buffer: the start level and the maximum, seconds.
_RATE, _FIRST_S, _AHEAD_S = 5_240_000 // 8, 1.0, 10.0
#: The time between two reads of a viewer's socket, and between the starts of two viewers, seconds.
_LOOK_S, _APART_S = 0.05, 0.05
#: The most time that viewers may take, as a multiple of the film's length.
_PATIENCE = 2.0
_HZ = os.sysconf("SC_CLK_TCK")
_NGINX = """\
daemon off;
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen {place}; root {folder}; }}
}}
"""


class Viewer:
    """A viewer: its socket, and the state of its film."""

    def __init__(self, address: tuple[str, int], seconds: float, begins_s: float) -> None:
        self._address, self._bytes, self._begins_s = address, int(seconds * _RATE), begins_s
        self._socket: socket.socket | None = None
        self._head, self._got = b"", 0
        # The time since which the film plays, and the position in the film at that time.
        self._plays: tuple[float, float] | None = None
        self._stood_s = 0.0
        self.startup_s: float | None = None
        self.underflows, self.over = 0, False

    def _position(self, now: float) -> float:
        return self._stood_s if self._plays is None else self._plays[1] + now - self._plays[0]

    def look(self, now: float, room: memoryview) -> None:
        """Read as much as the buffer has room for, and play."""
        if self.over or now < self._begins_s:
            return
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, uplinks.MPTCP)
            self._socket.connect(self._address)
            self._socket.setblocking(False)
            self._socket.send(b"GET /film HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
            self._asked = now
        self._read(now, room)
        held = self._got / _RATE - self._position(now)
        if self._plays is not None and held < 0:
            if self._got >= self._bytes:
                self.over = True
                self._socket.close()
                return
            self.underflows += 1
            self._stood_s, self._plays = self._got / _RATE, None
        elif self._plays is None and (held >= _FIRST_S or self._got >= self._bytes):
            self.startup_s = now - self._asked if self.startup_s is None else self.startup_s
            self._plays = (now, self._stood_s)

    def _read(self, now: float, room: memoryview) -> None:
        most = int((self._position(now) + _AHEAD_S) * _RATE) - self._got
        while most > 0:
            try:
                count = self._socket.recv_into(room, min(most, len(room)))
            except BlockingIOError:
                return
            if not count:
                if self._got < self._bytes:
                    message = f"{self._got} of {self._bytes} bytes came"
                    raise ConnectionError(message)
                return
            if self._got == 0:
                self._head += room[:count].tobytes()
                _, found, body = self._head.partition(b"\r\n\r\n")
                self._got = len(body) if found else 0
            else:
                self._got += count
            most -= count


def watch(host: str, count: int, seconds: float) -> int:
    """Run `count` viewers, and print their results as JSON."""
    began = time.monotonic()
    every = [Viewer((host, uplinks.PORT), seconds, began + n * _APART_S) for n in range(count)]
    room = memoryview(bytearray(1 << 18))
    late = 0.0
    due = began
    while not all(viewer.over for viewer in every):
        due += _LOOK_S
        wait = due - time.monotonic()
        late = max(late, -wait)
        time.sleep(max(wait, 0.0))
        now = time.monotonic()
        for viewer in every:
            viewer.look(now, room)
        if now - began > seconds * _PATIENCE + count * _APART_S:
            break
    told = {
        "underflows": sum(viewer.underflows for viewer in every),
        "unfinished": sum(not viewer.over for viewer in every),
        "startups_s": [viewer.startup_s for viewer in every if viewer.startup_s is not None],
        "late_s": late,
    }
    sys.stdout.write(json.dumps(told))
    return 0


@contextmanager
def nginx(bench: uplinks.Lab, folder: Path, listener: socket.socket | None) -> Iterator[subprocess.Popen]:
    """Serve a folder with nginx, behind a gateway or on a listening socket."""
    place = "127.0.0.1:8080" if listener is None else f"{uplinks_host()}:{uplinks.PORT}"
    folder.joinpath("nginx.conf").write_text(_NGINX.format(folder=folder, place=place), encoding="ascii")
    more = {} if listener is None else {"NGINX": f"{listener.fileno()};"}
    with inside(bench.host.name):
        process = subprocess.Popen(
            [origin.program(), "-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", "stderr"],
            env={**os.environ, **more},
            pass_fds=() if listener is None else (listener.fileno(),),
        )
    try:
        time.sleep(0.5)
        yield process
    finally:
        process.terminate()
        process.wait()


def uplinks_host() -> str:
    """Return the host's address on the first uplink."""
    return "10.77.1.1"


def cpu_s(process: int) -> float:
    """Return the processor time of a process and of the processes that it started."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / _HZ
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    return own + sum(cpu_s(int(child)) for child in children)


def busy_s() -> float:
    """Return the time in which a processor of this machine was busy, for any process.

    Work of interrupts and timers on an idle processor is not counted for any process, unless the kernel has
    `CONFIG_IRQ_TIME_ACCOUNTING`. A server whose processor is sometimes idle therefore seems to cost less.
    """
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
    idle, waits = int(first[4]), int(first[5])
    return os.cpu_count() * time.monotonic() - (idle + waits) / _HZ


def private_kib(process: int) -> int:
    """Return the private memory of a process and of the processes that it started, KiB."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    own = sum(map(int, re.findall(r"^Private_\w+:\s+(\d+)", text, re.MULTILINE)))
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    return own + sum(private_kib(int(child)) for child in children)


def sockets_kib(bench: uplinks.Lab) -> int:
    """Return the memory of all TCP sockets of the kernel, including the viewers' sockets, KiB."""
    with inside(bench.host.name):
        text = Path("/proc/thread-self/net/sockstat").read_text(encoding="ascii")
    return 4 * int(re.search(r"^TCP: .* mem (\d+)", text, re.MULTILINE)[1])


@dataclass(frozen=True)
class Look:
    """The state at one time: processor time so far, in seconds, and memory in KiB."""

    servers_s: tuple[float, ...]
    machine_s: float
    server_kib: int
    sockets_kib: int


def look(bench: uplinks.Lab, servers: Sequence[int]) -> Look:
    """Sample the server's processes and the kernel. Viewers connect to the first process."""
    return Look(
        servers_s=tuple(cpu_s(one) for one in servers),
        machine_s=busy_s(),
        server_kib=private_kib(servers[0]),
        sockets_kib=sockets_kib(bench),
    )


def measure(bench: uplinks.Lab, way: str, servers: Sequence[int], count: int, seconds: float) -> bool:
    """Run `count` viewers, and print a line. Return whether none of them froze."""
    host = uplinks.V4 if way == "gateway" else uplinks_host()
    joined = bench.client.counters()["MPTcpExtMPJoinSynAckRx"]
    looks = [look(bench, servers)]
    with inside(bench.client.name):
        viewers = subprocess.Popen(
            [sys.executable, __file__, "--watch", host, str(count), str(seconds)], stdout=subprocess.PIPE
        )
    while viewers.poll() is None:
        time.sleep(0.5)
        looks.append(look(bench, servers))
    told = json.loads(viewers.stdout.read())
    joined = bench.client.counters()["MPTcpExtMPJoinSynAckRx"] - joined
    watched_s = count * seconds
    spent = [
        1e3 * (after - before) / watched_s
        for before, after in zip(looks[0].servers_s, looks[-1].servers_s, strict=True)
    ]
    whole = 1e3 * (looks[-1].machine_s - looks[0].machine_s) / watched_s
    kib = (max(one.server_kib for one in looks) - looks[0].server_kib) / count
    sockets = (max(one.sockets_kib for one in looks) - looks[0].sockets_kib) / count
    say(
        f"{way:8} {count:7} {told['underflows']:10} {told['unfinished']:10} "
        f"{statistics.median(told['startups_s']):8.2f} {max(told['startups_s']):6.2f} "
        f"{spent[0]:8.2f} {sum(spent[1:]):6.2f} {whole:6.2f} {kib:7.0f} {sockets:8.0f} "
        f"{joined:6} {1e3 * told['late_s']:6.0f}"
    )
    return not told["underflows"] and not told["unfinished"] and joined >= count


def run_all(
    bench: uplinks.Lab, way: str, servers: Sequence[int], counts: Sequence[int], seconds: float
) -> bool:
    """Run the viewers for each count. Return whether none of them froze."""
    well = [measure(bench, way, servers, count, seconds) for count in counts]
    return all(well)


def run(way: str, counts: list[int], seconds: float) -> bool:
    """Measure one way of serving. Return whether no viewer froze."""
    bench = uplinks.Lab()
    try:
        bench.second_path()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            folder.joinpath("film").write_bytes(os.urandom(1 << 20) * (int(seconds * _RATE) >> 20))
            with folder.joinpath("film").open("ab") as film:
                film.write(bytes(int(seconds * _RATE) - film.tell()))
            if way == "gateway":
                with nginx(bench, folder, None) as behind, bench.gateway("--per-source", "1000") as gateway:
                    return run_all(bench, way, (gateway.process.pid, behind.pid), counts, seconds)
            with bench.host.socket(protocol=uplinks.MPTCP) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((uplinks_host(), uplinks.PORT))
                listener.listen(512)
                with nginx(bench, folder, listener) as server:
                    return run_all(bench, way, (server.pid,), counts, seconds)
    finally:
        bench.close()


def main() -> int:
    """Measure every way of serving."""
    if sys.argv[1:2] == ["--watch"]:
        host, count, seconds = sys.argv[2:]
        return watch(host, int(count), float(seconds))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", default="10,50,100", help="how many watch, one number after the other")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the film is")
    parser.add_argument("--way", choices=("gateway", "kernel"), help="one way of serving alone")
    given = parser.parse_args()
    lacks = missing() or origin.lacks() or (None if shutil.which("ip") else "iproute2 is not installed")
    if lacks is not None:
        sys.stderr.write(f"bench-viewers: skipped: {lacks}\n")
        return 4
    say(
        f"{'':8} {'viewers':>7} {'underflows':>10} {'unfinished':>10} {'startup':>8} {'most s':>6} "
        f"{'CPU ms/s':>8} {'behind':>6} {'whole':>6} {'KiB':>7} {'sockets':>8} "
        f"{'joins':>6} {'late':>6}"
    )
    ways = ("gateway", "kernel") if given.way is None else (given.way,)
    counts = [int(word) for word in given.viewers.split(",")]
    well = [run(way, counts, given.seconds) for way in ways]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())

"""A host with a gateway and a client with two uplinks, in two network namespaces, and the clients and origins
of the tests.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from anabranch.live.testbed import inside

MPTCP = 262
PORT = 443
#: The gateway's addresses. Those of the second path are announced.
V4, V6 = "10.77.9.1", "fd77:9::1"
SECOND_V4 = "10.77.9.2"
#: The client's addresses on its two uplinks.
CLIENT_V4 = ("10.77.1.2", "10.77.2.2")
CLIENT_V6 = ("fd77:1::2", "fd77:2::2")
ORIGIN_PORT = 8080
METRICS_PORT = 9464
#: The longest time that any step of these tests may take before it counts as hung, s.
HUNG_S = 60.0


class Namespace:
    """A network namespace of the test's own."""

    def __init__(self, name):
        self.name = name
        subprocess.run(["ip", "netns", "add", name], check=True)
        self.run("ip link set lo up")

    def run(self, command, **more):
        return subprocess.run(
            ["ip", "netns", "exec", self.name, *command.split()],
            check=True,
            capture_output=True,
            text=True,
            **more,
        ).stdout

    def socket(self, family=socket.AF_INET, protocol=socket.IPPROTO_TCP, kind=socket.SOCK_STREAM):
        with inside(self.name):
            return socket.socket(family, kind, protocol)

    def counters(self):
        """Return the kernel's counters of MPTCP."""
        return {
            name: int(value)
            for name, value in re.findall(r"^(MPTcpExt\w+)\s+(\d+)", self.run("nstat -asz"), re.MULTILINE)
        }

    def drop(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False)


class Lab:
    """The host, the client, the two uplinks between them, and the device."""

    def __init__(self):
        tag = f"gw{os.getpid()}x{random.randrange(10**6)}"
        self._stack = ExitStack()
        self.host = self._namespace(f"{tag}h")
        self.client = self._namespace(f"{tag}c")
        for path in (1, 2):
            veth = f"ip link add up{path} type veth peer name up{path} netns {self.client.name}"
            self.host.run(veth)
            for space, last in ((self.host, 1), (self.client, 2)):
                space.run(f"ip addr add 10.77.{path}.{last}/24 dev up{path}")
                space.run(f"ip -6 addr add fd77:{path}::{last}/64 dev up{path} nodad")
                space.run(f"ip link set up{path} up")
            # Packets from each source address use its own uplink.
            table, rule = 100 + path, f"from 10.77.{path}.2 table {100 + path}"
            self.client.run(f"ip rule add {rule}")
            self.client.run(f"ip route add default via 10.77.{path}.1 dev up{path} table {table}")
            self.client.run(f"ip -6 rule add from fd77:{path}::2 table {table}")
            self.client.run(f"ip -6 route add default via fd77:{path}::1 dev up{path} table {table}")
        self.client.run("ip route add default via 10.77.1.1 dev up1")
        self.client.run("ip -6 route add default via fd77:1::1 dev up1")
        self.host.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        for space in (self.host, self.client):
            space.run("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0")
        self.host.run("ip tuntap add dev anabranch0 mode tun user root")
        self.host.run("ip link set anabranch0 mtu 1500 txqueuelen 2000 up")
        for address in (V4, SECOND_V4):
            self.host.run(f"ip route add {address}/32 dev anabranch0")
        self.host.run(f"ip -6 route add {V6}/128 dev anabranch0")

    def _namespace(self, name):
        space = Namespace(name)
        self._stack.callback(space.drop)
        return space

    def close(self):
        self._stack.close()

    def second_path(self):
        """Let the client's kernel open a second subflow over its second uplink."""
        self.client.run("ip mptcp limits set subflow 2 add_addr_accepted 2")
        self.client.run(f"ip mptcp endpoint add {CLIENT_V4[1]} dev up2 subflow")

    def connect(self, *, mptcp=True, v6=False, source=None, timeout=HUNG_S, receive_buffer=None):
        """Return a connected socket of the client's kernel."""
        family = socket.AF_INET6 if v6 else socket.AF_INET
        made = self.client.socket(family, MPTCP if mptcp else socket.IPPROTO_TCP)
        made.settimeout(timeout)
        if receive_buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            made.bind((source, 0))
        try:
            made.connect((V6 if v6 else V4, PORT))
        except OSError:
            made.close()
            raise
        return made

    @contextmanager
    def gateway(
        self, *more, listen=None, origin=f"127.0.0.1:{ORIGIN_PORT}", under=(), stdout=subprocess.PIPE
    ):
        """Run a gateway as the command does. With `under`, another program (such as a profiler) runs it."""
        listen = listen or (f"{V4}:{PORT}", f"[{V6}]:{PORT}")
        places = [word for place in listen for word in ("--listen", place)]
        command = [sys.executable, "-m", "anabranch", "gateway", *places, "--origin", origin, *more]
        running = Gateway(self.host, [*under, *command], stdout)
        try:
            running.wait_ready()
            yield running
        finally:
            running.end()


class Gateway:
    """A gateway that runs."""

    def __init__(self, space, command, stdout=subprocess.PIPE):
        self._space = space
        self.process = subprocess.Popen(
            # A gateway ignores signals that it inherits as ignored. Tests started in the background ignore
            # some, so they are reset.
            ["ip", "netns", "exec", space.name, "env", "--default-signal=HUP,INT,TERM", *command],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines, self.notes = [], []
        pairs = ((self.process.stdout, self.lines), (self.process.stderr, self.notes))
        pairs = [pair for pair in pairs if pair[0] is not None]
        self._readers = [threading.Thread(target=_read, args=pair, daemon=True) for pair in pairs]
        for reader in self._readers:
            reader.start()

    def wait_ready(self):
        wait(lambda: self.notes or self.process.poll() is not None, "the gateway is ready")
        assert self.process.poll() is None, "".join(self.notes)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def wait_end(self):
        code = self.process.wait(HUNG_S)
        for reader in self._readers:
            reader.join()
        return code

    def records(self, count):
        """Return the log's lines as tables, after waiting for this number of lines."""
        wait(lambda: len(self.lines) >= count, f"{count} lines of the log: {self.lines} {self.notes}")
        return [record(line) for line in self.lines]

    def visit(self):
        """Return a socket that is connected to the metrics."""
        visitor = self._space.socket()
        visitor.settimeout(HUNG_S)
        visitor.connect(("127.0.0.1", METRICS_PORT))
        return visitor

    def metrics(self):
        """Return the metrics by name and labels."""
        with self.visit() as asked:
            asked.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _, body = drained(asked).decode().partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200 "), head
        rows = (line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
        return {
            name.removeprefix("anabranch_gateway_"): float(value) if "." in value else int(value)
            for name, value in rows
        }

    def memory_kib(self):
        """Return the memory that it has in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def open_descriptors(self):
        """Return the numbers of the gateway's open descriptors."""
        return [int(path.name) for path in Path(f"/proc/{self.process.pid}/fd").iterdir()]

    def descriptors(self):
        """Return the number of its open descriptors."""
        return len(self.open_descriptors())


def _read(stream, lines):
    lines.extend(iter(stream.readline, ""))


def record(line):
    """Return a line of the log as a table; `path` is the list of its subflows."""
    found = {"path": []}
    for word in line.split():
        key, _, value = word.partition("=")
        if key == "path":
            ends, *counts = value.split(",")
            path = {name: int(number) for name, number in (count.split("=") for count in counts)}
            found["path"].append({"ends": ends, **path})
        else:
            found[key] = value
    return found


def wait(condition, what, seconds=HUNG_S):
    """Wait until a condition is true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not in {seconds} s: {what}"
        time.sleep(0.02)


def checksum(data):
    """Return the Internet checksum of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def drained(connected):
    """Return everything until the other side finishes."""
    pieces = []
    while piece := connected.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def pattern(length, seed=1):
    """Return bytes in which no sequence repeats."""
    return random.Random(seed).randbytes(length)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Origin:
    """A server in the host's namespace; each connection is a thread that runs `talk`."""

    def __init__(self, space, talk, port=ORIGIN_PORT):
        self.talk, self.heard, self.faults = talk, [], []
        self.accepted = 0
        self._listener = space.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(512)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            connected.settimeout(HUNG_S)
            threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected):
        try:
            with connected:
                self.heard.append(self.talk(connected))
        except OSError as error:
            self.faults.append(error)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def echo(connected):
    """Send back everything received, until the end of the stream."""
    total = 0
    while piece := connected.recv(1 << 16):
        connected.sendall(piece)
        total += len(piece)
    return total


def answers(data):
    """Return a talk that receives everything and then sends this data."""

    def talk(connected):
        heard = drained(connected)
        connected.sendall(data)
        return digest(heard)

    return talk


def says(data):
    """Return a talk that sends this data at once and then receives everything."""

    def talk(connected):
        connected.sendall(data)
        connected.shutdown(socket.SHUT_WR)
        return digest(drained(connected))

    return talk


def exchange(connected, data):
    """Send all of some data while receiving; return the received data."""
    failed = []

    def say():
        try:
            connected.sendall(data)
            connected.shutdown(socket.SHUT_WR)
        except OSError as error:
            failed.append(error)

    speaker = threading.Thread(target=say)
    speaker.start()
    heard = drained(connected)
    speaker.join()
    assert not failed, failed
    return heard

"""How fast the gateway is, beside this host's kernel: `make bench-throughput`, as root.

Clients in one network namespace download from a server in another over a veth pair, on one connection and
on many, or upload to it: from the kernel's own MPTCP and TCP, and through the gateway. First with offloads:
bursts that devices cut, segments that they merge. Then without any, neither of the device nor of the pair;
beside downloads stands what a TUN device alone allows, with packets as long, every second one answered, and
no endpoint behind. Ways run by turns, some rounds of it, and medians are printed with the least and the
most, so that what is compared is of the same minutes. Ratios of one run count, and seconds do not: the
programs that send and receive are the same in all, and take their share of the same cores.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "live" / "gateway"))

import uplinks

from anabranch.live.testbed import missing

if TYPE_CHECKING:
    from collections.abc import Callable

    Ways = list[tuple[str, Callable[..., float]]]
    #: What a server does on a connection of so many bytes; what a client does, and how long it took.
    Direction = tuple[Callable[[int], Callable[[socket.socket], None]], Callable[[socket.socket, int], float]]

ROOT = Path(__file__).resolve().parents[1]
#: What is sent at once, bytes.
_PIECE = bytes(1 << 18)
#: What sets a feature of a device (linux/ethtool.h): receive and transmit checksums, TSO, GSO, GRO.
_SIOCETHTOOL = 0x8946
_FEATURES = (0x15, 0x17, 0x1F, 0x24, 0x2C)
#: A packet of the device's MTU, bytes, and what of it is a download's own.
_PACKET, _PAYLOAD = 1500, 1424
#: What the kernel and the gateway serve, and what has neither.
PROTOCOLS = ("MPTCP", "TCP")
BARE = "bare TUN"


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def source(size: int):  # noqa: ANN201
    """Return what a server says on a connection: `size` bytes, and no more."""

    def talk(connected: socket.socket) -> None:
        # With a time limit each call would ask first whether it may.
        connected.settimeout(None)
        left = size
        while left:
            left -= connected.send(_PIECE[: min(left, len(_PIECE))])
        connected.shutdown(socket.SHUT_WR)
        while connected.recv(1 << 16):
            pass

    return talk


def download(connected: socket.socket, size: int) -> float:
    """Read `size` bytes, and return how long it took, in seconds."""
    connected.settimeout(None)
    began = time.perf_counter()
    read(connected, size)
    took = time.perf_counter() - began
    connected.close()
    return took


def read(connected: socket.socket, size: int) -> None:
    """Read `size` bytes."""
    room = memoryview(bytearray(1 << 20))
    heard = 0
    while heard < size:
        count = connected.recv_into(room)
        if not count:
            message = f"{heard} of {size} bytes came"
            raise ConnectionError(message)
        heard += count


def sink(size: int):  # noqa: ANN201
    """Return what a server does that is sent `size` bytes: it says a byte when it has them all."""

    def talk(connected: socket.socket) -> None:
        connected.settimeout(None)
        read(connected, size)
        connected.sendall(b"!")
        connected.shutdown(socket.SHUT_WR)

    return talk


def upload(connected: socket.socket, size: int) -> float:
    """Send `size` bytes, and return how long it took until the server had them, in seconds."""
    connected.settimeout(None)
    began, left = time.perf_counter(), size
    while left:
        left -= connected.send(_PIECE[: min(left, len(_PIECE))])
    read(connected, 1)
    took = time.perf_counter() - began
    connected.close()
    return took


DOWN: Direction = (source, download)
UP: Direction = (sink, upload)


def busy() -> float:
    """Return the seconds that all cores have been busy."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    ticks = [int(word) for word in words]
    # All but idle and waiting for input.
    return (sum(ticks[:8]) - ticks[3] - ticks[4]) / 100


def all_of(
    make: Callable[[], socket.socket], size: int, count: int, client: Callable[[socket.socket, int], float]
) -> float:
    """Move `size` bytes over `count` connections at once; return how long all took, in seconds."""
    connected = [make() for _ in range(count)]
    failed: list[Exception] = []

    def one(own: socket.socket) -> None:
        try:
            client(own, size // count)
        except OSError as error:
            failed.append(error)

    began = time.perf_counter()
    readers = [threading.Thread(target=one, args=(own,)) for own in connected]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - began


def through_gateway(
    bench: uplinks.Lab, size: int, count: int, *more: str, mptcp: bool, direction: Direction
) -> float:
    """Move bytes through the gateway."""
    server, client = direction
    with (
        uplinks.Origin(bench.host, server(size // count)),
        bench.gateway("--per-source", "1000", *more),
    ):
        return all_of(lambda: bench.connect(mptcp=mptcp), size, count, client)


def with_kernel(bench: uplinks.Lab, size: int, count: int, *, mptcp: bool, direction: Direction) -> float:
    """Move bytes from or to the host's kernel, which does without a gateway."""
    server, client = direction
    protocol = uplinks.MPTCP if mptcp else socket.IPPROTO_TCP
    with bench.host.socket(protocol=protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("10.77.1.1", uplinks.PORT))
        listener.listen(count)
        talk = server(size // count)

        def serve() -> None:
            for _ in range(count):
                served, _ = listener.accept()
                threading.Thread(target=talk, args=(served,), daemon=True).start()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()

        def connect() -> socket.socket:
            connected = bench.client.socket(protocol=protocol)
            connected.connect(("10.77.1.1", uplinks.PORT))
            return connected

        took = all_of(connect, size, count, client)
        serving.join()
        return took


def bare_tun(bench: uplinks.Lab, size: int, _count: int, *, example: Path) -> float:
    """Write as many packets to the device, and read the answers; return how long as many as came took."""
    packets = size // _PAYLOAD
    ends = (bench.client.name, uplinks.V4, uplinks.CLIENT_V4[0])
    told = bench.host.run(f"{example} anabranch0 {' '.join(ends)} {packets} {_PACKET}")
    took, came = told.split()
    return float(took) * packets / int(came)


def without_offloads(bench: uplinks.Lab) -> None:
    """Let the pair of devices that is used cut, merge and leave out nothing."""
    for space in (bench.host, bench.client):
        with space.socket(kind=socket.SOCK_DGRAM, protocol=0) as asked:
            for feature in _FEATURES:
                value = ctypes.create_string_buffer(struct.pack("=II", feature, 0))
                # struct ifreq: a name, and a pointer in a union of 24 bytes.
                request = struct.pack("16sP16x", b"up1", ctypes.addressof(value))
                fcntl.ioctl(asked, _SIOCETHTOOL, request)


def ways(direction: Direction, *, offloads: bool) -> Ways:
    """Return what is run, by name: each is given the lab, the bytes and the number of connections."""
    found: Ways = []
    for name in PROTOCOLS:
        multipath = name == "MPTCP"
        more = () if offloads else ("--no-offload",)
        found += [
            (f"kernel, {name}", lambda *of, m=multipath: with_kernel(*of, mptcp=m, direction=direction)),
            (
                f"gateway, {name}",
                lambda *of, m=multipath, o=more: through_gateway(*of, *o, mptcp=m, direction=direction),
            ),
        ]
    return found


def measure(bench: uplinks.Lab, size: int, count: int, run: Callable[..., float]) -> tuple[float, float]:
    """Run one way; return Gb/s and how many cores were busy."""
    before, began = busy(), time.perf_counter()
    took = run(bench, size, count)
    cores = (busy() - before) / (time.perf_counter() - began)
    return size * 8 / took / 1e9, cores


def by_turns(bench: uplinks.Lab, size: int, count: int, rounds: int, found: Ways) -> dict[str, float]:
    """Run all ways one after the other, some rounds of it; print and return the median of each."""
    got: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in found}
    for _ in range(rounds):
        for name, run in found:
            got[name].append(measure(bench, size, count, run))
    medians = {}
    for name, pairs in got.items():
        speeds, cores = zip(*pairs, strict=True)
        medians[name] = statistics.median(speeds)
        span = f"{min(speeds):.2f} to {max(speeds):.2f}"
        say(f"  {name:32} {count:11} {medians[name]:6.2f}  {span:16} {statistics.median(cores):10.2f}")
    return medians


def compare(medians: dict[str, float]) -> None:
    """Print what the gateway has of the kernel's median, or of bare TUN's where that is less."""
    for protocol in PROTOCOLS:
        least, beside = medians[f"kernel, {protocol}"], "the kernel"
        if medians.get(BARE, least) < least:
            least, beside = medians[BARE], BARE
        share = medians[f"gateway, {protocol}"] / least
        say(f"  gateway, {protocol}: {share:.0%} of {beside}")


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=800, help="what each way carries with offloads")
    parser.add_argument("--connections", type=int, default=100, help="how many are many")
    parser.add_argument("--rounds", type=int, default=5, help="how often each way runs, by turns")
    parser.add_argument("--only", choices=["with", "without"], help="only with, or only without offloads")
    parser.add_argument("--upload", action="store_true", help="clients upload")
    return parser.parse_args()


def main() -> int:
    """Run every way."""
    given = parse()
    lacks = missing()
    if lacks is not None:
        sys.stderr.write(f"bench-throughput: skipped: {lacks}\n")
        return 4
    build = ("cargo", "build", "--quiet", "--release", "--package", "anabranch-live", "--example", "bare_tun")
    subprocess.run(build, cwd=ROOT, check=True)
    example = ROOT / "target" / "release" / "examples" / "bare_tun"
    load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
    say(f"medians of {given.rounds} rounds; load before: {load}")
    say(f"{'':34} {'connections':>11} {'Gb/s':>6}  {'range':16} cores busy")
    for offloads in (True, False):
        if given.only == ("without" if offloads else "with"):
            continue
        say("with offloads" if offloads else "without offloads")
        size = given.megabytes * 1_000_000 // (1 if offloads else 4)
        bench = uplinks.Lab()
        try:
            if not offloads:
                without_offloads(bench)
            for count in (1, given.connections):
                found = ways(UP if given.upload else DOWN, offloads=offloads)
                if not offloads and not given.upload:
                    found.append((BARE, lambda *of: bare_tun(*of, example=example)))
                compare(by_turns(bench, size, count, given.rounds, found))
        finally:
            bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

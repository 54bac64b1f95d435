"""The speed of the gateway compared with this host's kernel: `make bench-throughput`, as root.

Clients in one network namespace download from a server in another one over a veth pair, on one connection
and on many. They can also upload. The server is the kernel's own MPTCP or TCP, or the gateway. The first
part has offloads: devices split bursts and merge segments. The second part has no offloads, neither of the
TUN device nor of the veth pair. For downloads, it also prints the limit of a TUN device without an endpoint:
packets of the same length, of which every second one is answered. The ways run in turn for several rounds,
and medians are printed with the minimum and the maximum. Compare ratios of one run, not seconds: the
programs that send and receive are the same in all ways, and use the same cores.
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
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "live" / "gateway"))

import uplinks

from anabranch.live.testbed import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ways = list[tuple[str, Callable[..., float]]]

ROOT = Path(__file__).resolve().parents[1]
_EXAMPLES = ROOT / "target" / "release" / "examples"
#: The programs that transfer bytes, and that measure a device alone.
BULK, BARE_TUN = _EXAMPLES / "bulk", _EXAMPLES / "bare_tun"
#: The commands that set a device's features (linux/ethtool.h): receive and transmit checksums, TSO, GSO, GRO.
_SIOCETHTOOL = 0x8946
_FEATURES = (0x15, 0x17, 0x1F, 0x24, 0x2C)
#: The size of a packet at the device's MTU in bytes, and the payload of a download in it.
_PACKET, _PAYLOAD = 1500, 1424
#: The protocols, and the name of the way without an endpoint.
PROTOCOLS = ("MPTCP", "TCP")
BARE = "bare TUN"


def say(line: str) -> None:
    """Print a line, and flush it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def build_examples() -> None:
    """Build the programs that transfer bytes."""
    asked = ("--package", "anabranch-live", "--example", "bulk", "--example", "bare_tun")
    subprocess.run(["cargo", "build", "--quiet", "--release", *asked], cwd=ROOT, check=True)


def busy() -> float:
    """Return the time in which any core was busy, summed over the cores, seconds."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    ticks = [int(word) for word in words]
    # All states except idle and waiting for input.
    return (sum(ticks[:8]) - ticks[3] - ticks[4]) / 100


@contextmanager
def serving(space: uplinks.Namespace, *of: str) -> Iterator[None]:
    """Run a program that serves connections in a namespace."""
    with subprocess.Popen([BULK, "serve", space.name, *of], stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            if program.stdout.readline() != "ready\n":
                message = "the server did not begin"
                raise ConnectionError(message)
            yield
            if program.wait(timeout=uplinks.HUNG_S):
                message = "a connection failed at the server"
                raise ConnectionError(message)
        finally:
            program.kill()


def fetch(space: uplinks.Namespace, *of: str) -> float:
    """Transfer bytes over connections from a namespace. Return the time for all of them, seconds."""
    return float(subprocess.run([BULK, "fetch", space.name, *of], check=True, stdout=subprocess.PIPE).stdout)


def through_gateway(bench: uplinks.Lab, size: int, count: int, *more: str, protocol: str, way: str) -> float:
    """Transfer `size` bytes through the gateway, over `count` connections at once. Return the seconds."""
    what = (way, str(count), str(size // count))
    with (
        serving(bench.host, f"127.0.0.1:{uplinks.ORIGIN_PORT}", "tcp", *what),
        bench.gateway("--per-source", "1000", *more),
    ):
        return fetch(bench.client, f"{uplinks.V4}:{uplinks.PORT}", protocol, *what)


def with_kernel(bench: uplinks.Lab, size: int, count: int, *, protocol: str, way: str) -> float:
    """Transfer bytes from or to the host's kernel, without a gateway."""
    asked = (f"10.77.1.1:{uplinks.PORT}", protocol, way, str(count), str(size // count))
    with serving(bench.host, *asked):
        return fetch(bench.client, *asked)


def bare_tun(bench: uplinks.Lab, size: int, _count: int) -> float:
    """Write the packets of a download to the device, and read the answers. Return the time in seconds."""
    packets = size // _PAYLOAD
    ends = (bench.client.name, uplinks.V4, uplinks.CLIENT_V4[0])
    told = bench.host.run(f"{BARE_TUN} anabranch0 {' '.join(ends)} {packets} {_PACKET}")
    took, came = told.split()
    return float(took) * packets / int(came)


def without_offloads(bench: uplinks.Lab) -> None:
    """Disable all offloads of the pair of devices that is used."""
    for space in (bench.host, bench.client):
        with space.socket(kind=socket.SOCK_DGRAM, protocol=0) as asked:
            for feature in _FEATURES:
                value = ctypes.create_string_buffer(struct.pack("=II", feature, 0))
                # struct ifreq: a name, and a pointer in a union of 24 bytes.
                request = struct.pack("16sP16x", b"up1", ctypes.addressof(value))
                fcntl.ioctl(asked, _SIOCETHTOOL, request)


def ways(way: str, *, offloads: bool) -> Ways:
    """Return the ways by name. Each is called with the lab, the bytes and the number of connections."""
    found: Ways = []
    for name in PROTOCOLS:
        of = {"protocol": name.lower(), "way": way}
        more = () if offloads else ("--no-offload",)
        found += [
            (f"kernel, {name}", lambda *size, o=of: with_kernel(*size, **o)),
            (f"gateway, {name}", lambda *size, o=of, m=more: through_gateway(*size, *m, **o)),
        ]
    return found


def measure(bench: uplinks.Lab, size: int, count: int, run: Callable[..., float]) -> tuple[float, float]:
    """Run one way. Return Gb/s, and the number of busy cores."""
    before, began = busy(), time.perf_counter()
    took = run(bench, size, count)
    cores = (busy() - before) / (time.perf_counter() - began)
    return size * 8 / took / 1e9, cores


def by_turns(bench: uplinks.Lab, size: int, count: int, rounds: int, found: Ways) -> dict[str, float]:
    """Run all ways in turn for several rounds. Print and return the median of each."""
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
    """Print the gateway's median relative to the kernel's, or to the bare TUN's if that is smaller."""
    for protocol in PROTOCOLS:
        least, beside = medians[f"kernel, {protocol}"], "the kernel"
        if medians.get(BARE, least) < least:
            least, beside = medians[BARE], BARE
        share = medians[f"gateway, {protocol}"] / least
        say(f"  gateway, {protocol}: {share:.0%} of {beside}")


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--megabytes",
        type=int,
        default=800,
        help="what one connection carries with offloads; many: four times that",
    )
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
    build_examples()
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
                # More data per connection, so that the different start times of connections matter as
                # little.
                carried = size if count == 1 or not offloads else 4 * size
                found = ways("up" if given.upload else "down", offloads=offloads)
                if not offloads and not given.upload:
                    found.append((BARE, bare_tun))
                compare(by_turns(bench, carried, count, given.rounds, found))
        finally:
            bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

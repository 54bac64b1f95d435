"""How fast the gateway is, beside this host's kernel: `make bench-throughput`, as root.

A client in one network namespace downloads from a server in another over two veth pairs: through the gateway
with and without offloads, and from the kernel's own MPTCP and TCP. Ratios of one run count, and seconds do
not: the programs that send and receive are the same in all, and take their share of the same cores.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "live" / "gateway"))

import uplinks

from anabranch.live.testbed import missing

#: What is sent at once, bytes.
_PIECE = bytes(1 << 18)


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def source(size: int):  # noqa: ANN201
    """Return what a server says on a connection: `size` bytes, and no more."""

    def talk(connected: socket.socket) -> None:
        left = size
        while left:
            left -= connected.send(_PIECE[: min(left, len(_PIECE))])
        connected.shutdown(socket.SHUT_WR)
        while connected.recv(1 << 16):
            pass

    return talk


def download(connected: socket.socket, size: int) -> float:
    """Read `size` bytes, and return how long it took, in seconds."""
    room = memoryview(bytearray(1 << 20))
    began, heard = time.perf_counter(), 0
    while heard < size:
        count = connected.recv_into(room)
        if not count:
            message = f"{heard} of {size} bytes came"
            raise ConnectionError(message)
        heard += count
    took = time.perf_counter() - began
    connected.close()
    return took


def busy() -> float:
    """Return the seconds that all cores have been busy."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    ticks = [int(word) for word in words]
    # All but idle and waiting for input.
    return (sum(ticks[:8]) - ticks[3] - ticks[4]) / 100


def through_gateway(bench: uplinks.Lab, size: int, *more: str, mptcp: bool) -> float:
    """Download through the gateway."""
    with uplinks.Origin(bench.host, source(size)), bench.gateway("--per-source", "1000", *more):
        return download(bench.connect(mptcp=mptcp), size)


def from_kernel(bench: uplinks.Lab, size: int, *, mptcp: bool) -> float:
    """Download from the host's kernel, which does without a gateway."""
    protocol = uplinks.MPTCP if mptcp else socket.IPPROTO_TCP
    with bench.host.socket(protocol=protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("10.77.1.1", uplinks.PORT))
        listener.listen()
        connected = bench.client.socket(protocol=protocol)
        connected.connect(("10.77.1.1", uplinks.PORT))
        served, _ = listener.accept()
        serving = threading.Thread(target=source(size), args=(served,), daemon=True)
        serving.start()
        took = download(connected, size)
        serving.join()
        served.close()
        return took


def main() -> int:
    """Run every way, and print Gb/s and how many cores were busy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400, help="what each way carries")
    size = parser.parse_args().megabytes * 1_000_000
    lacks = missing()
    if lacks is not None:
        sys.stderr.write(f"bench-throughput: skipped: {lacks}\n")
        return 4
    bench = uplinks.Lab()
    try:
        ways = [
            (f"{name}, {'MPTCP' if mptcp else 'TCP'}", run, more, mptcp)
            for name, run, more in (
                ("kernel", from_kernel, ()),
                ("gateway", through_gateway, ()),
                ("gateway without offloads", through_gateway, ("--no-offload",)),
            )
            for mptcp in (True, False)
        ]
        say(f"{'':34} {'Gb/s':>6}  cores busy")
        for name, run, more, mptcp in ways:
            before, began = busy(), time.perf_counter()
            took = run(bench, size, *more, mptcp=mptcp)
            cores = (busy() - before) / (time.perf_counter() - began)
            say(f"{name:34} {size * 8 / took / 1e9:6.2f}  {cores:10.2f}")
    finally:
        bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

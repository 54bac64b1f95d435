"""A serving kernel's data about its subflows: `tcp_info` of its sockets, ten times a second.

A separate process reads it, inside the server's namespace, so that no other work waits for it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from anabranch.errors import MissingError
from anabranch.live import _tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.live.testbed import Bed

#: Time between two looks.
_PERIOD_S = 0.1
#: `INET_DIAG_INFO`, as the bit of its extension.
_INFO = 1 << 1
#: Every state except that of a listening socket.
_STATES = 0xFFF & ~(1 << 10)
#: The kernel's threshold before the first congestion (`TCP_INFINITE_SSTHRESH`).
_INFINITE = 0x7FFFFFFF
#: `tcp_ca_state`, in the words of the trace.
_CA_STATES = ("Open", "Disorder", "CWR", "Recovery", "Loss")
#: The fields of each socket's `tcp_info` that are kept.
_KEPT = (
    "snd_cwnd", "snd_ssthresh", "unacked", "sacked", "lost", "retrans", "rtt", "min_rtt", "delivery_rate",
    "pacing_rate", "bytes_acked", "notsent_bytes", "total_retrans", "bytes_sent", "bytes_retrans",
    "data_segs_out", "delivered_ce", "ca_state",
)  # fmt: skip

#: A socket at a moment: the time of the monotonic clock, the client's address and port, and its `tcp_info`.
Look = tuple[float, str, int, dict[str, int]]


@contextmanager
def watching(bed: Bed) -> Iterator[list[Look]]:
    """Watch the sockets of the server's kernel; the list is filled when the block is left."""
    from anabranch.live.testbed import inside

    looks: list[Look] = []
    with inside(bed.server):
        program = subprocess.Popen(
            [sys.executable, "-m", "anabranch.live.watch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        # It prints the time of each look.
        if not program.stdout.readline():
            message = "the kernel's sockets cannot be watched (pyroute2's DiagSocket)"
            raise MissingError(message)
        yield looks
    finally:
        # It ends with its input, and prints its results then.
        told, _ = program.communicate()
        looks += [(at, address, port, info) for at, address, port, info in map(json.loads, told.splitlines())]


#: Receives the state of a run.
Shown = Callable[[Any], None]


@contextmanager
def streaming(bed: Bed, show: Shown) -> Iterator[Shown]:
    """Yield a function that shows a state of the run, with the present state of the server's sockets added.

    The sockets are read by another process, so that the thread that carries packets never waits.
    """
    from anabranch.live.testbed import inside

    with inside(bed.server):
        program = subprocess.Popen(
            [sys.executable, "-m", "anabranch.live.watch", "--stream"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        yield _Stream(bed, program.stdout.fileno(), show).show
    finally:
        program.stdin.close()
        program.stdout.close()
        program.terminate()
        program.wait()


class _Stream:
    """The latest sockets of the server's kernel, read without waiting."""

    def __init__(self, bed: Bed, descriptor: int, show: Shown) -> None:
        self._paths = {lane.client: place for place, lane in enumerate(bed.lanes)}
        self._descriptor, self._show = descriptor, show
        self._rest = b""
        self._last: list[tuple[int, dict[str, int]]] = []
        os.set_blocking(descriptor, False)

    def show(self, moment: Mapping[str, Any]) -> None:
        """Show a state of the run with the newest socket of each path that has sent data."""
        self._read()
        paths = [dict(path) for path in moment["paths"]]
        for place, info in self._last:
            paths[place].update(
                cwnd_segments=info["snd_cwnd"],
                in_flight_segments=_in_flight(info),
                srtt_ms=info["rtt"] / 1e3,
                bytes_acked=info["bytes_acked"],
            )
        self._show({**moment, "paths": paths})

    def _read(self) -> None:
        """Read what the other process has written, and keep the last complete look."""
        with suppress(BlockingIOError):
            while data := os.read(self._descriptor, 1 << 16):
                self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        if lines:
            self._last = [
                (self._paths[address], info)
                for _, address, _, info in json.loads(lines[-1])
                if address in self._paths and info["bytes_sent"]
            ]


def _stream() -> None:
    """Print the namespace's sockets, a line for each look, until the input ends."""
    import select

    from pyroute2 import DiagSocket

    with DiagSocket() as diag, suppress(BrokenPipeError):
        diag.bind()
        while not select.select([sys.stdin], [], [], _PERIOD_S)[0]:
            sys.stdout.write(f"{json.dumps(_look(diag))}\n")
            sys.stdout.flush()


def _watch() -> None:
    """Look at the namespace's sockets until the input ends, then print the results."""
    import select

    from pyroute2 import DiagSocket

    looks: list[Look] = []
    with DiagSocket() as diag:
        diag.bind()
        sys.stdout.write("looking\n")
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], _PERIOD_S)[0]:
            looks += _look(diag)
        looks += _look(diag)
    sys.stdout.write("".join(f"{json.dumps(look)}\n" for look in looks))


def _look(diag: Any) -> list[Look]:  # noqa: ANN401
    """Return the kernel's data about each socket now."""
    result = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for found in diag.get_sock_stats(family=family, states=_STATES, extensions=_INFO):
            info = found.get_attr("INET_DIAG_INFO")
            if info is None:
                continue
            kept = {name: info[f"tcpi_{name}"] for name in _KEPT}
            address = found["idiag_dst"].removeprefix("::ffff:")
            result.append((time.monotonic(), address, found["idiag_dport"], kept))
    return result


def tables(looks: Sequence[Look], bed: Bed, begin_s: float) -> dict[str, Any]:
    """Return the tables `samples` and `subflows` of the observations; `begin_s` is the start of the run.

    Values that a kernel does not report are None: timeouts, undos, penalties and answers to marks.
    """
    paths = {lane.client: lane.name for lane in bed.lanes}
    numbers: dict[tuple[str, int], int] = {}
    samples: list[dict[str, Any]] = []
    last: dict[int, tuple[str, dict[str, int]]] = {}
    for at, address, port, info in looks:
        path = paths.get(address)
        # A socket that has sent nothing is the one that carried the request.
        if path is None or info["bytes_sent"] == 0:
            continue
        number = numbers.setdefault((address, port), len(numbers))
        samples.append(_sample(at - begin_s, number, path, info))
        last[number] = (path, info)
    totals = [_totals(number, path, info) for number, (path, info) in sorted(last.items())]
    return {"samples": _tables.made(_SAMPLES, samples), "subflows": _tables.made(_SUBFLOWS, totals)}


def _sample(t_s: float, number: int, path: str, info: Mapping[str, int]) -> dict[str, Any]:
    """Return a row of `samples`."""
    threshold = info["snd_ssthresh"]
    return {
        "t_s": t_s,
        "client": 0,
        "subflow": number,
        "path": path,
        "cwnd_segments": info["snd_cwnd"],
        "ssthresh_segments": None if threshold >= _INFINITE else float(threshold),
        "in_flight_segments": _in_flight(info),
        "srtt_ms": info["rtt"] / 1e3,
        "min_rtt_ms": info["min_rtt"] / 1e3,
        "delivery_rate_mbps": info["delivery_rate"] * 8 / 1e6,
        "pacing_rate_mbps": min(info["pacing_rate"], 1 << 47) * 8 / 1e6,
        "bytes_acked": info["bytes_acked"],
        "unsent_bytes": info["notsent_bytes"],
        "retransmissions": info["total_retrans"],
        "state": _CA_STATES[info["ca_state"]],
    }


def _in_flight(info: Mapping[str, int]) -> int:
    """Return the segments in flight (`tcp_packets_in_flight`)."""
    return info["unacked"] + info["retrans"] - info["sacked"] - info["lost"]


def _totals(number: int, path: str, info: Mapping[str, int]) -> dict[str, Any]:
    """Return a row of `subflows`."""
    return {
        "client": 0,
        "subflow": number,
        "path": path,
        "established": True,
        "bytes": info["bytes_acked"],
        "bytes_sent": info["bytes_sent"],
        "retransmissions": info["total_retrans"],
        "bytes_retransmitted": info["bytes_retrans"],
        "data_segments": info["data_segs_out"],
        "timeouts": None,
        "undos": None,
        "penalties": None,
        "delivered_ce": info["delivered_ce"],
        "ecn_reductions": None,
    }


#: The columns of the tables, each with its kind; whole numbers that may be missing are floats.
_SAMPLES = {
    "t_s": "float", "client": "int", "subflow": "int", "path": "text", "cwnd_segments": "int",
    "ssthresh_segments": "float", "in_flight_segments": "int", "srtt_ms": "float", "min_rtt_ms": "float",
    "delivery_rate_mbps": "float", "pacing_rate_mbps": "float", "bytes_acked": "int", "unsent_bytes": "int",
    "retransmissions": "int", "state": "text",
}  # fmt: skip
_SUBFLOWS = {
    "client": "int", "subflow": "int", "path": "text", "established": "bool", "bytes": "int",
    "bytes_sent": "int", "retransmissions": "int", "bytes_retransmitted": "int", "data_segments": "int",
    "timeouts": "float", "undos": "float", "penalties": "float", "delivered_ce": "int",
    "ecn_reductions": "float",
}  # fmt: skip


if __name__ == "__main__":
    _stream() if "--stream" in sys.argv else _watch()

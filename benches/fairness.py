"""Kernel CUBIC flows that compete with a download over two paths, over real packets.

`python benches/fairness.py --out FILE` adds the runs that the CSV file lacks. It requires root. The sender
of the download is the gateway with the preset `video`, or the kernel with CUBIC. Its client is the kernel.
The competing flows are plain TCP between the two kernels: one on each path of 10 Mb/s, or one on a link of
20 Mb/s that both paths share. Goodputs are in Mb/s.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.live.emulate import emulate
from anabranch.live.testbed import missing
from anabranch.scenario.load import load
from anabranch.viewed.make import LATE_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

QUEUES = (15, 50, 150, 400)
SHAPES = ("own links", "shared link")
SENDERS = ("kernel", "gateway")
COLUMNS = (
    "shape",
    "queue",
    "sender",
    "run",
    "download_mbps",
    "other_p1_mbps",
    "other_p2_mbps",
    "late.p99_ms",
)
#: The protocol number of MPTCP for `socket(2)`; Python 3.11 has no name for it.
_MPTCP = 262
#: The ports of the kernel's senders and of the gateway's origin, and the gateway's address.
_PLAIN, _MULTIPATH, _ORIGIN = 5001, 5002, 8080
_GATEWAY = ("10.77.0.1", 80)
#: The time before the measurement of flows starts, seconds.
_WARM_S = 5.0
#: The number of attempts for a run, which is repeated if the emulator was late.
_ATTEMPTS = 3


def scenario(shape: str, queue: int) -> dict[str, Any]:
    """Return the scenario of a shape, with queues of `queue` packets."""
    general = {"name": "fairness", "application": {"kind": "bulk", "duration": "60 s"}}
    paths: list[dict[str, Any]] = [{"name": "p1", "rtt": "40 ms"}, {"name": "p2", "rtt": "80 ms"}]
    if shape == "own links":
        paths = [{**path, "rate": "10 Mbit/s", "queue": f"{queue} packets"} for path in paths]
        return {**general, "paths": paths}
    paths = [{**path, "rate": "200 Mbit/s", "queue": "1000 packets", "links": ["shared"]} for path in paths]
    link = {"name": "shared", "rate": "20 Mbit/s", "queue": f"{queue} packets"}
    return {**general, "links": [link], "paths": paths}


def sends(place: tuple[str, int], protocol: int = 0) -> None:
    """Serve endless data to each client, with CUBIC."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    made.bind(place)
    made.listen()

    def one(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while True:
                client.sendall(bytes(65_536))

    while True:
        client, _ = made.accept()
        threading.Thread(target=one, args=(client,), daemon=True).start()


def serve(sender: str) -> None:
    """Run the server's side: the kernel's senders, and the gateway if it is the sender."""
    for place, protocol in ((("0.0.0.0", _PLAIN), 0), (("0.0.0.0", _MULTIPATH), _MPTCP)):
        threading.Thread(target=sends, args=(place, protocol), daemon=True).start()
    if sender == "kernel":
        threading.Event().wait()
    threading.Thread(target=sends, args=(("127.0.0.1", _ORIGIN),), daemon=True).start()
    address, port = _GATEWAY
    for command in (
        "ip tuntap add dev anabranch0 mode tun",
        "ip link set dev anabranch0 mtu 1500 txqueuelen 2000 up",
        f"ip route replace {address}/32 dev anabranch0",
        "sysctl -qw net.ipv4.ip_forward=1",
    ):
        subprocess.run(command.split(), check=True)
    words = ["gateway", "--listen", f"{address}:{port}", "--origin", f"127.0.0.1:{_ORIGIN}"]
    words += ["--preset", "video", "--metrics", "off"]
    subprocess.run([sys.executable, "-m", "anabranch", *words], check=True, stdout=subprocess.DEVNULL)


def _connected(source: str, place: tuple[str, int], protocol: int = 0) -> socket.socket:
    """Connect from an address."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    made.bind((source, 0))
    made.settimeout(2.0)
    try:
        made.connect(place)
    except OSError:
        made.close()
        raise
    made.settimeout(None)
    return made


def _until_it_answers(source: str, place: tuple[str, int]) -> None:
    """Wait until the server's programs have started."""
    for _ in range(100):
        try:
            _connected(source, place).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    message = f"nobody answers at {place}"
    raise SystemExit(message)


class Flow:
    """A connection that counts its received bytes.

    Attributes
    ----------
    received
        The number of bytes received so far.
    """

    def __init__(self, source: str, place: tuple[str, int], protocol: int = 0) -> None:
        self.received = 0
        # If a SYN with MPTCP is not answered, the kernel would try without MPTCP.
        _until_it_answers(source, place)
        self._socket = _connected(source, place, protocol)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Count the received bytes."""
        while got := self._socket.recv(1 << 18):
            self.received += len(got)


def ask(sender: str, shape: str, seconds: float, out: Path) -> None:
    """Run the client's side: the download and its competitors."""
    flows = {"download": _download(sender)}
    for number, path in enumerate(("p1", "p2")[: 2 if shape == "own links" else 1], start=1):
        flows[f"other_{path}"] = Flow(f"10.{number}.1.1", (f"10.{number}.0.1", _PLAIN))
    time.sleep(_WARM_S)
    begun, before = time.monotonic(), {name: flow.received for name, flow in flows.items()}
    time.sleep(seconds)
    lasted = time.monotonic() - begun
    found = {
        f"{name}_mbps": round((flow.received - before[name]) * 8e-6 / lasted, 3)
        for name, flow in flows.items()
    }
    out.write_text(json.dumps(found), encoding="utf-8")


def _download(sender: str) -> Flow:
    """Start the download."""
    return Flow("10.1.1.1", _GATEWAY if sender == "gateway" else ("10.1.0.1", _MULTIPATH), _MPTCP)


def run(shape: str, queue: int, sender: str, seconds: float) -> Mapping[str, Any]:
    """Return the results of one run."""
    own = [sys.executable, str(Path(__file__).resolve())]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        done = emulate(
            load(scenario(shape, queue)),
            [*own, "--ask", sender, "--shape", shape, "--seconds", str(seconds), "--out", str(out)],
            serve=[*own, "--serve", sender],
        )
        found = json.loads(out.read_text(encoding="utf-8"))
    return {**found, "late.p99_ms": round(done.summary["lateness"]["p99_ms"], 3)}


def main() -> int:
    """Make the runs that the file lacks, and append each to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("fairness.csv"))
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--serve", choices=SENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--ask", choices=SENDERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve)
    elif asked.ask:
        ask(asked.ask, asked.shape, asked.seconds, asked.out)
    else:
        return _all(asked)
    return 0


def _all(asked: argparse.Namespace) -> int:
    """Make all runs that the file lacks."""
    lacks = missing()
    if lacks is not None:
        sys.stderr.write(f"fairness: skipped: {lacks}\n")
        return 4
    done = set()
    if asked.out.exists():
        with asked.out.open(encoding="utf-8", newline="") as file:
            done = {tuple(one[key] for key in COLUMNS[:4]) for one in csv.DictReader(file)}
    wanted = itertools.product(range(asked.runs), SHAPES, QUEUES, SENDERS)
    with asked.out.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for number, shape, queue, sender in wanted:
            which = (shape, str(queue), sender, str(number))
            if which not in done:
                found = _in_time(shape, queue, sender, asked.seconds)
                writer.writerow(dict(zip(COLUMNS, which, strict=False)) | dict(found))
                file.flush()
    return 0


def _in_time(shape: str, queue: int, sender: str, seconds: float) -> Mapping[str, Any]:
    """Return the results of a run. It is repeated, at most twice, while the emulator was late."""
    for _ in range(_ATTEMPTS - 1):
        found = run(shape, queue, sender, seconds)
        if found["late.p99_ms"] <= LATE_MS:
            return found
    return run(shape, queue, sender, seconds)


if __name__ == "__main__":
    sys.exit(main())

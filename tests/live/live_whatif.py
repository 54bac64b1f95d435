"""Captures sessions between two kernels, turns each capture into a scenario, and prints a table of both.

    python tests/live/live_whatif.py

It needs root, as the tests in this folder. The congestion control of the scenario's runs is the kernel's, which a
capture does not show. docs/guide/capture.md has the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

import anabranch
from anabranch.live import emulate
from anabranch.scenario.load import load

SERVER = Path(__file__).with_name("counted_server.py")
SIZE = 6_000_000
TRIALS = 5
#: A client that reads one answer over MPTCP.
CLIENT = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as s:
    s.connect(("10.1.0.1", 8000))
    s.sendall(b"GET /film HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    while s.recv(1 << 16):
        pass
"""


def world(*paths: dict[str, str]) -> dict[str, object]:
    """Return a scenario of two paths."""
    return {
        "name": "captured",
        "application": {"kind": "bulk", "bytes": "2 MB"},
        "paths": [{"name": name, **own} for name, own in zip(("wifi", "lte"), paths, strict=True)],
    }


WORLDS = {
    "clean": world({"rtt": "20 ms", "rate": "8 Mbit/s"}, {"rtt": "40 ms", "rate": "4 Mbit/s"}),
    "lossy": world(
        {"rtt": "20 ms", "rate": "8 Mbit/s", "loss": "1 %"},
        {"rtt": "60 ms", "rate": "4 Mbit/s", "loss": "2 %"},
    ),
    "short queues": world(
        {"rtt": "20 ms", "rate": "8 Mbit/s", "queue": "12 packets"},
        {"rtt": "60 ms", "rate": "4 Mbit/s", "queue": "12 packets"},
    ),
    "a far path": world(
        {"rtt": "20 ms", "rate": "4 Mbit/s"}, {"rtt": "300 ms", "rate": "8 Mbit/s", "queue": "60 packets"}
    ),
    "a slow path": world(
        {"rtt": "50 ms", "rate": "2 Mbit/s"}, {"rtt": "100 ms", "rate": "6 Mbit/s", "loss": "0.5 %"}
    ),
}


def session(
    given: dict[str, object], size: int, folder: Path
) -> tuple[dict[str, Path], dict[int, dict[str, object]]]:
    """Run a session between two kernels.

    Returns
    -------
    tuple
        The captures at both hosts, and the server's counters of each subflow by the client's port.
    """
    files = {"client": folder / "client.pcapng", "server": folder / "server.pcap"}
    told = folder / "counters.json"
    serve = [sys.executable, str(SERVER), str(size), str(files["server"]), str(told)]
    done = emulate(load(given), [sys.executable, "-c", CLIENT], serve=serve, pcapng=files["client"])
    if done.status != 0:
        raise SystemExit(f"the client ended with {done.status}")
    return files, {one["port"]: one for one in json.loads(told.read_text(encoding="utf-8"))}


def again(file: Path, folder: Path, congestion: str) -> float:
    """Return the mean goodput of runs of a capture's scenario."""
    scenario = folder / f"{file.stem}.toml"
    command = [
        sys.executable,
        "-m",
        "anabranch",
        "capture",
        str(file),
        "--scenario",
        str(scenario),
        "--force",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs = [anabranch.run(scenario, run=run, congestion=congestion) for run in range(TRIALS)]
    return fmean(run.qos["goodput_mbps"] for run in runs)


def main() -> None:
    """Print a row for each session."""
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip()
    print(f"congestion control: {congestion}\n")
    print("| session | goodput Mb/s | again, from the client's capture | again, from the server's |")
    print("|---|--:|--:|--:|")
    for name, given in WORLDS.items():
        with tempfile.TemporaryDirectory() as made:
            files, _ = session(given, SIZE, Path(made))
            real = anabranch.read_capture(files["client"]).qos["goodput_mbps"]
            cells = []
            for file in files.values():
                simulated = again(file, Path(made), congestion)
                cells.append(f"{simulated:.2f} ({100 * (simulated / real - 1):+.1f} %)")
            print(f"| {name} | {real:.2f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

"""`anabranch capture` of a session between two kernels, against the kernel's own counters."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import anabranch
from anabranch.live import emulate
from anabranch.scenario.load import load

SERVER = Path(__file__).with_name("counted_server.py")
SIZE = 2_000_000
#: A client that reads one answer over MPTCP.
CLIENT = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as s:
    s.connect(("10.1.0.1", 8000))
    s.sendall(b"GET /film HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    while s.recv(1 << 16):
        pass
"""


def world(*paths):
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
}


def captured(tmp_path, given):
    """Return a captured session as a run, and the kernel's counters of its subflows by the client's port."""
    file, told = tmp_path / "server.pcap", tmp_path / "counters.json"
    serve = [sys.executable, str(SERVER), str(SIZE), str(file), str(told)]
    done = emulate(load(given), [sys.executable, "-c", CLIENT], serve=serve)
    assert done.status == 0
    kernel = {one["port"]: one for one in json.loads(told.read_text(encoding="utf-8"))}
    return anabranch.read_capture(file), kernel


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_bytes_of_each_subflow_are_those_of_the_kernel(tmp_path, name):
    read, kernel = captured(tmp_path, WORLDS[name])
    assert read.summary["captured_at"] == "server"
    rows = read.rows("subflows")
    assert [row["path"] for row in rows] == ["10.1.1.1", "10.2.1.1"]
    assert len(kernel) == 2
    for row in rows:
        (own,) = [one for one in kernel.values() if one["address"] == row["path"]]
        assert row["bytes_sent"] == own["sent"]
        assert row["bytes_retransmitted"] == own["retransmitted"]
    assert name == "clean" or sum(row["bytes_retransmitted"] for row in rows) > 10_000
    assert read.summary["uq18"]["DB_total"] == sum(one["acknowledged"] for one in kernel.values())

"""`anabranch measure` between two kernels over emulated paths."""

import json
import sys
from pathlib import Path

import pytest

from anabranch.live import emulate
from anabranch.scenario.load import load

#: 8 and 4 Mb/s. A segment's payload is at most 1,448 of its 1,514 bytes on the link.
WORLD = {
    "name": "measured",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [
        {"name": "wifi", "rtt": "20 ms", "rate": "8 Mbit/s"},
        {"name": "lte", "rtt": "40 ms", "rate": "4 Mbit/s"},
    ],
}
#: A server of endless zeros that speaks MPTCP or TCP.
SERVER = """
import socket, sys, threading
kind = socket.IPPROTO_MPTCP if sys.argv[1] == "mptcp" else 0
def serve(accepted):
    accepted.recv(4096)
    try:
        accepted.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 100000000\\r\\n\\r\\n")
        while True:
            accepted.sendall(bytes(1 << 16))
    except OSError:
        accepted.close()
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, kind) as listener:
    listener.bind(("0.0.0.0", 8000))
    listener.listen()
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def _measured(tmp_path: Path, server: str) -> dict:
    out = tmp_path / "out.json"
    command = (
        f"{sys.executable} -m anabranch measure http://10.1.0.1:8000/x --trials 1 --limit 3s --json > {out}"
    )
    done = emulate(load(WORLD), ["sh", "-c", command], serve=[sys.executable, "-c", SERVER, server])
    assert done.status == 0
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_all_paths_carry_more_than_each_alone_and_no_path_more_than_its_rate(tmp_path):
    found = _measured(tmp_path, "mptcp")
    rows = {row["arm"]: row for row in found["sessions"]}
    assert list(rows) == ["MPTCP", "TCP over wifi", "TCP over lte"]
    payload = 1448 / 1514
    assert rows["TCP over wifi"]["shares"] == {"wifi": 1.0, "lte": 0.0}
    assert rows["TCP over lte"]["shares"] == {"wifi": 0.0, "lte": 1.0}
    assert rows["TCP over wifi"]["goodput_mbps"] < 8 * payload
    assert rows["TCP over lte"]["goodput_mbps"] < 4 * payload
    both = rows["MPTCP"]
    assert rows["TCP over wifi"]["goodput_mbps"] < both["goodput_mbps"] < 12 * payload
    assert not both["fell_back"]
    assert min(both["shares"].values()) > 0.1
    assert both["uq18"]["RTT_avg"]["wifi"] >= 20.0
    assert both["uq18"]["RTT_avg"]["lte"] >= 40.0


@pytest.mark.slow
def test_a_fallback_to_tcp_is_reported(tmp_path):
    found = _measured(tmp_path, "tcp")
    (both,) = [row for row in found["sessions"] if row["arm"] == "MPTCP"]
    assert both["fell_back"]
    assert found["differences"] == []
    assert any("1 of 1 MPTCP sessions fell back to TCP" in note for note in found["notes"])

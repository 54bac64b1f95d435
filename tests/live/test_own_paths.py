"""`anabranch measure` between two kernels over emulated paths."""

import json
import sys
from pathlib import Path

import pytest

import anabranch
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
#: A server of zeros that speaks MPTCP or TCP.
SERVER = """
import socket, sys, threading
kind, size = socket.IPPROTO_MPTCP if sys.argv[1] == "mptcp" else 0, int(sys.argv[2])
def serve(accepted):
    accepted.recv(4096)
    try:
        accepted.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % size)
        accepted.sendall(bytes(size))
        accepted.recv(4096)
    except OSError:
        pass
    finally:
        accepted.close()
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, kind) as listener:
    listener.bind(("0.0.0.0", 8000))
    listener.listen()
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def _measured(tmp_path: Path, server: str, *options: str, size: int = 100_000_000) -> dict:
    out = tmp_path / "out.json"
    command = (
        f"{sys.executable} -m anabranch measure http://10.1.0.1:8000/x --trials 1 --json "
        f"{' '.join(options) or '--limit 3s'} > {out}"
    )
    done = emulate(
        load(WORLD), ["sh", "-c", command], serve=[sys.executable, "-c", SERVER, server, str(size)]
    )
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


@pytest.mark.slow
def test_the_capture_and_the_kernel_agree(tmp_path):
    found = _measured(tmp_path, "mptcp", "--limit 60s", f"--captures {tmp_path}", size=3_000_000)
    assert found["captured"]
    for row in found["sessions"]:
        assert row["uq18_from"] == "capture"
        assert row["bytes"] == 3_000_000
        seen, counted = row["capture"], row["tcp_info"]
        assert seen["drops"] == 0
        # Both count each byte of a subflow once, headers of HTTP included.
        assert {name: path["bytes"] for name, path in seen["paths"].items()} == {
            name: path["bytes"] for name, path in counted.items()
        }
        for name, least_ms in (("wifi", 20.0), ("lte", 40.0)):
            if name in seen["paths"]:
                assert least_ms <= seen["paths"][name]["min_rtt_ms"] < least_ms + 5.0
                assert least_ms <= counted[name]["min_rtt_ms"] < least_ms + 5.0
                # The queue of a path is in the round-trip times of its data.
                assert seen["paths"][name]["rtt_ms"] >= seen["paths"][name]["min_rtt_ms"]
        both = anabranch.read_capture(seen["file"])
        assert both.summary["captured_at"] == "client"
        assert both.summary["uq18"]["DB_total"] == row["uq18"]["DB_total"]
    (together,) = [row for row in found["sessions"] if row["arm"] == "MPTCP"]
    assert set(together["capture"]["paths"]) == {"wifi", "lte"}
    assert together["capture"]["fallback"] is None

"""The emulated network, as measured by programs at its ends."""

from __future__ import annotations

import os
import pwd
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import MissingError
from anabranch.live import emulate, page
from anabranch.scenario.load import load

PROBE = Path(__file__).with_name("probe.py")
#: Below this load of the machine, other work does not disturb the emulator's timing.
IDLE = 0.5
#: A path without further properties.
PLAIN = {
    "name": "plain",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [{"name": "wifi", "rtt": "10 ms", "rate": "unlimited"}],
}


def sent(tmp_path, path, *, count, size=1500, gap_s=0.0, rest_s=0.3, seed=1):
    """Send datagrams from the client to the server; return number, microseconds on the way, arrival of each."""
    out = tmp_path / "arrivals"
    given = {
        "name": "probe",
        "seed": seed,
        "application": {"kind": "bulk", "bytes": "1 MB"},
        "paths": [{"rate": "unlimited", **path}],
    }
    program = [sys.executable, str(PROBE)]
    done = emulate(
        load(given),
        [*program, "send", "10.1.0.1", "5000", str(count), str(size), str(gap_s), str(rest_s)],
        serve=[*program, "receive", "5000", str(out)],
    )
    assert done.status == 0
    lines = [line.split() for line in out.read_text(encoding="ascii").splitlines()]
    return done, [(int(number), float(way), float(at)) for number, way, at in lines]


def test_packets_take_the_path_s_delay(tmp_path):
    done, arrivals = sent(tmp_path, {"name": "wifi", "rtt": "40 ms"}, count=300, size=200, gap_s=0.01)
    assert len(arrivals) == 300
    ways = sorted(way for _, way, _ in arrivals)
    # No packet is early, however busy the machine is.
    assert ways[0] >= 20_000
    assert statistics.median(ways) < 20_300
    assert done.summary["lateness"]["packets"] >= 300
    if os.getloadavg()[0] > IDLE:
        pytest.skip(f"the machine is busy; the 99th percentile was {ways[297] - 20_000:.0f} us late")
    assert ways[297] < 20_300


def test_the_rate_is_kept_to_a_thousandth(tmp_path):
    path = {"name": "wifi", "rtt": "0 ms", "up": {"rate": "8 Mbit/s", "queue": "2000 packets"}}
    _, arrivals = sent(tmp_path, path, count=1500, rest_s=2.5)
    assert len(arrivals) == 1500
    # The slope is computed over all arrivals, because a single one may be measured late.
    numbers, _, seen = zip(*arrivals, strict=True)
    us_a_packet = statistics.linear_regression(numbers, seen).slope
    assert 1500 * 8 / us_a_packet == pytest.approx(8, rel=1e-3)


def test_a_burst_fills_the_queue_and_no_more(tmp_path):
    path = {"name": "wifi", "rtt": "10 ms", "up": {"rate": "200 kbit/s", "queue": "20 packets"}}
    done, arrivals = sent(tmp_path, path, count=50, rest_s=1.5)
    # Each packet takes 60 ms, so the burst is over before the first packet has left.
    assert [number for number, _, _ in arrivals] == list(range(20))
    up = next(link for link in done.links if link["link"] == "wifi.up")
    assert up["dropped_queue"] == 30


def test_losses_are_those_of_the_seed(tmp_path):
    path = {"name": "wifi", "rtt": "10 ms", "up": {"loss": "10 %"}}
    runs = [sent(tmp_path, path, count=400, size=100, gap_s=0.001, seed=seed)[1] for seed in (1, 1, 2)]
    first, again, other = ([number for number, _, _ in arrivals] for arrivals in runs)
    assert 300 < len(first) < 390
    assert first == again
    assert first != other


def test_a_program_reaches_the_server_and_nothing_else(capfd):
    links = [sys.executable, "-c", "import socket; print([name for _, name in socket.if_nameindex()])"]
    assert emulate(load(PLAIN), links).status == 0
    assert capfd.readouterr().out.strip() == "['lo', 'wifi']"
    beyond = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=0.3)"
    assert emulate(load(PLAIN), [sys.executable, "-c", beyond]).status == 1


def test_the_program_s_exit_code_is_the_command_s():
    assert emulate(load(PLAIN), [sys.executable, "-c", "raise SystemExit(7)"]).status == 7
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"]
    assert emulate(load(PLAIN), killed).status == 143


@pytest.mark.parametrize("before_others", [True, False])
def test_a_program_has_the_timers_that_it_has_elsewhere(capfd, monkeypatch, before_others):
    def refuses(*_):
        raise PermissionError

    if not before_others:
        # This simulates a user without the permission.
        monkeypatch.setattr(os, "sched_setscheduler", refuses)
    asked = ["cat", "/proc/self/timerslack_ns"]
    subprocess.run(asked, check=True)
    elsewhere = capfd.readouterr().out
    assert int(elsewhere) > 1
    assert emulate(load(PLAIN), asked).status == 0
    assert capfd.readouterr().out == elsewhere
    # Programs that are started later do not have the priority either.
    subprocess.run(asked, check=True)
    assert capfd.readouterr().out == elsewhere


def test_program_runs_as_the_calling_sudo_user(monkeypatch, capfd):
    found = pwd.getpwnam("nobody")
    told = subprocess.run(["id", "-G", "nobody"], capture_output=True, text=True, check=True).stdout
    own = {int(word) for word in told.split()}
    # The test uses a user with several groups, whichever groups the host has.
    given, beside = os.getgrouplist, {4242, 4343}
    monkeypatch.setattr(os, "getgrouplist", lambda *of: [*given(*of), *beside])
    monkeypatch.setenv("SUDO_UID", str(found.pw_uid))
    monkeypatch.setenv("SUDO_GID", "0")
    assert emulate(load(PLAIN), ["cat", "/proc/self/status"]).status == 0
    status = dict(line.split(":", 1) for line in capfd.readouterr().out.splitlines())
    # The real, effective, saved and file-system IDs: none is root's.
    assert status["Uid"].split() == [str(found.pw_uid)] * 4
    assert status["Gid"].split() == [str(found.pw_gid)] * 4
    assert {int(word) for word in status["Groups"].split()} == own | beside
    assert all(int(status[name], 16) == 0 for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"))


#: Two paths without further properties.
TWO = {**PLAIN, "paths": [*PLAIN["paths"], {"name": "lte", "rtt": "10 ms", "rate": "unlimited"}]}
#: A server that opens its socket after a second, over TCP or MPTCP, and sends a byte; and a client of it.
LATE = """
import socket, sys, time
time.sleep(1)
kind = socket.IPPROTO_MPTCP if sys.argv[1] == "mptcp" else 0
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, kind) as listener:
    listener.bind(("0.0.0.0", 5000))
    listener.listen()
    accepted, _ = listener.accept()
    accepted.sendall(b"x")
    # The client's kernel joins over the second path meanwhile.
    time.sleep(1)
    accepted.close()
"""
ASKS = """
import socket, sys
kind = socket.IPPROTO_MPTCP if sys.argv[1] == "mptcp" else 0
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, kind) as asks:
    asks.connect(("10.1.0.1", 5000))
    assert asks.recv(1) == b"x"
    assert asks.recv(1) == b""
"""


@pytest.mark.parametrize(
    ("server", "client", "connections", "joined", "said"),
    [
        ("mptcp", "mptcp", 1, 1, []),
        ("tcp", "mptcp", 0, 0, ["no MPTCP was spoken: the server's program answered with plain TCP"]),
        ("mptcp", "tcp", 0, 0, ["no MPTCP was spoken: the program used plain TCP"]),
    ],
)
def test_the_program_waits_for_the_server_and_plain_tcp_is_reported(
    server, client, connections, joined, said
):
    done = emulate(
        load(TWO),
        [sys.executable, "-c", ASKS, client],
        serve=[sys.executable, "-c", LATE, server],
    )
    # Without the wait, the client's first SYN would be answered with a reset.
    assert (done.status, done.served) == (0, 0)
    assert (done.mptcp["connections"], done.mptcp["joined"]) == (connections, joined)
    assert [note.partition(", over")[0] for note in done.notes] == said


def test_a_server_that_fails_before_it_listens_is_an_error():
    with pytest.raises(MissingError, match="--serve: the program ended with exit code 7"):
        emulate(load(PLAIN), ["true"], serve=[sys.executable, "-c", "raise SystemExit(7)"])


def test_the_page_of_an_emulation_shows_the_kernel_s_windows():
    busy = LATE.replace("time.sleep(1)", "pass").replace('b"x"', 'b"x" * 3_000_000')
    reads = ASKS.replace('assert asks.recv(1) == b""', "while asks.recv(1 << 16): pass")
    given = {**TWO, "paths": [{**path, "rate": "8 Mbit/s"} for path in TWO["paths"]]}
    seen = []
    with page.served() as shown:
        shown.show = seen.append
        done = emulate(
            load(given),
            [sys.executable, "-c", reads, "mptcp"],
            serve=[sys.executable, "-c", busy, "mptcp"],
            watch=shown,
        )
    assert done.status == 0
    flowing = [moment for moment in seen if all(path["srtt_ms"] for path in moment["paths"])]
    assert len(flowing) > 5
    # The round trip has 10 ms at least. One segment has at most 1,460 bytes of payload.
    assert all(path["srtt_ms"] >= 10 for moment in flowing for path in moment["paths"])
    assert all(path["cwnd_segments"] > 0 for moment in flowing for path in moment["paths"])

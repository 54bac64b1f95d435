"""The effects of a scenario's links on real packets besides delay and loss: size limits and other traffic."""

from __future__ import annotations

import sys

import pytest

from anabranch.live import emulate, run_live
from anabranch.scenario.load import load

pytestmark = pytest.mark.slow
PATH = {"name": "wifi", "rtt": "20 ms", "rate": "10 Mbit/s", "queue": "50 packets"}
ONE = {"name": "links", "application": {"kind": "bulk", "bytes": "1 MB"}, "paths": [PATH]}
TOLD = {"mtu": "1300 B"}
SILENT = {**TOLD, "icmp": False}
WORLDS = [("gateway", "kernel"), ("kernel", "kernel"), ("kernel", "anabranch")]


def link(run, name):
    """Return the row of a link."""
    (row,) = [row for row in run.rows("links") if row["link"] == name]
    return row


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize(("server", "client"), WORLDS)
def test_the_sender_of_packets_that_are_too_large_is_notified(server, client, family):
    run = run_live(load({**ONE, "paths": [{**PATH, **TOLD, "family": family}]}), server=server, client=client)
    down = link(run, "wifi.down")
    assert run.rows("connections")[0]["finished"]
    # At least the first window was too large. The segments that carried the data have the new size.
    assert down["dropped_mtu"] > 0
    assert 1150 < down["bytes_delivered"] / down["delivered"] <= 1300


@pytest.mark.parametrize("server", ["gateway", "kernel"])
def test_a_silent_router_notifies_no_sender(server):
    second = {**PATH, "name": "lte", "rtt": "40 ms", **SILENT}
    run = run_live(load({**ONE, "paths": [PATH, second]}), server=server)
    silent = link(run, "lte.down")
    # A black hole for full segments: data sent there is reinjected over the other path.
    assert run.rows("connections")[0]["finished"]
    assert silent["dropped_mtu"] > 0
    assert silent["bytes_delivered"] < 20_000


def test_an_event_makes_a_path_s_packets_smaller():
    event = {"at": "500 ms", "path": "wifi", **TOLD}
    run = run_live(load({**ONE, "application": {"kind": "bulk", "bytes": "2 MB"}, "events": [event]}))
    down = link(run, "wifi.down")
    assert [row["what"] for row in run.rows("events")] == ["mtu 1300 bytes"] * 2
    assert run.rows("connections")[0]["finished"]
    assert down["dropped_mtu"] > 0
    # Half a second of packets of 1500 bytes, then more than a second of smaller ones.
    assert 1250 < down["bytes_delivered"] / down["delivered"] < 1450


#: Sends a datagram of so many bytes that must not be fragmented, and prints the path's MTU as the kernel has it then.
#: Its numbers are `IP_MTU_DISCOVER`, `IP_PMTUDISC_DO` and `IP_MTU` of linux/in.h.
DATAGRAM = """
import socket, sys, time
sender = socket.socket(type=socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, 10, 2)
sender.connect(("10.1.0.1", 9))
sender.send(bytes(int(sys.argv[1])))
time.sleep(0.3)
print(sender.getsockopt(socket.IPPROTO_IP, 14))
"""


def test_a_program_behind_the_path_is_notified(capfd):
    scenario = load({**ONE, "paths": [{**PATH, **TOLD}]})
    # Headers of UDP and IPv4 take 28 bytes.
    for size, known, dropped in ((1272, 1500, 0), (1273, 1300, 1)):
        ran = emulate(scenario, [sys.executable, "-c", DATAGRAM, str(size)])
        assert (ran.status, capfd.readouterr().out.strip()) == (0, str(known))
        assert [row["dropped_mtu"] for row in ran.links if row["link"] == "wifi.up"] == [dropped]


def beside(*groups, seconds=4):
    """Return a download of so many seconds beside cross traffic."""
    application = {"kind": "bulk", "duration": f"{seconds} s"}
    return run_live(load({**ONE, "application": application, "cross_traffic": list(groups)}))


def test_tcp_of_others_takes_its_part_of_a_path():
    run = beside({"path": "wifi", "kind": "bulk", "start": "200 ms"}, seconds=6)
    (flow,) = run.rows("cross_traffic")
    down = link(run, "wifi.down")
    own = run.rows("connections")[0]["bytes_read"]
    assert flow["fate"] == "running"
    assert 0 < flow["connect_s"] < 1
    # Two connections of one kind on one path: neither takes all, and the link has carried what both read.
    assert min(own, flow["bytes_read"]) > 0.15 * (own + flow["bytes_read"])
    assert own + flow["bytes_read"] < down["bytes_delivered"] < 1.15 * (own + flow["bytes_read"])
    assert {row["name"] for row in run.rows("cross_samples")} == {"cross-1"}


def test_datagrams_of_others_leave_the_rest_of_a_path():
    run = beside({"path": "wifi", "kind": "udp", "rate": "6 Mbit/s", "size": "1000 B", "start": "500 ms"})
    (flow,) = run.rows("cross_traffic")
    # One every 1.333 ms for 3.5 s and the farewell.
    assert 2625 <= flow["datagrams_sent"] <= 2625 + 300
    under_way = flow["datagrams_sent"] - flow["datagrams_delivered"] - flow["datagrams_lost"]
    assert 0 <= under_way < 100
    # 10 ms of the link's delay, and the queue that the download fills.
    assert 10 < flow["datagram_delay_ms"] < 10 + 80
    # 10 Mbit/s for half a second, and the rest that the datagrams leave for 3.5 s.
    most = (10e6 * 0.5 + 10e6 * 3.5 - 8000 * flow["datagrams_delivered"]) / 8
    assert 0.4 * most < run.rows("connections")[0]["bytes_read"] <= 1.02 * most


def test_cross_traffic_follows_the_scenario_schedule():
    run = beside(
        {"name": "calls", "path": "wifi", "kind": "poisson", "rate": "1 Mbit/s"},
        {
            "name": "bursts",
            "path": "wifi",
            "kind": "on-off",
            "rate": "2 Mbit/s",
            "on": "100 ms",
            "off": "100 ms",
        },
        {"name": "pages", "path": "wifi", "kind": "transfers", "bytes": "50 kB", "gap": "300 ms"},
        {
            "name": "upload",
            "path": "wifi",
            "direction": "up",
            "kind": "paced",
            "rate": "1 Mbit/s",
            "duration": "1 s",
        },
    )
    rows = {
        name: [row for row in run.rows("cross_traffic") if row["name"] == name]
        for name in ("calls", "bursts", "pages", "upload")
    }
    (calls,), (bursts,), (upload,) = rows["calls"], rows["bursts"], rows["upload"]
    # 83 a second in the mean, for 4 s: within six standard deviations.
    assert abs(calls["datagrams_sent"] - 333) < 6 * 333**0.5 + 20
    assert 0 < bursts["datagrams_sent"] < 4.2 * 167
    pages = [row for row in rows["pages"] if row["fate"] == "finished"]
    assert pages
    assert {row["bytes_read"] for row in pages} == {50_000}
    assert (upload["fate"], round(upload["end_s"], 6)) == ("stopped", 1)
    # A second's worth of 1 Mbit/s, less what was under way.
    assert 80_000 < upload["bytes_read"] <= 125_000
    assert link(run, "wifi.up")["bytes_delivered"] > 80_000


def test_a_program_meets_cross_traffic_too():
    flood = {"path": "wifi", "kind": "udp", "rate": "9.9 Mbit/s"}
    scenario = {**ONE, "cross_traffic": [{**flood, "count": 2}]}
    ran = emulate(load(scenario), ["sleep", "1"])
    (down,) = [row for row in ran.links if row["link"] == "wifi.down"]
    # Twice what the link carries fills its queue.
    assert down["dropped_queue"] > 100

"""Several subflows of one connection, and messages of routers."""

from __future__ import annotations

import socket
import struct

import pytest
from uplinks import (
    CLIENT_V4,
    HUNG_S,
    SECOND_V4,
    V4,
    V6,
    Origin,
    answers,
    checksum,
    digest,
    drained,
    exchange,
    pattern,
    says,
)

MIB = 1 << 20


def shape(lab, rate):
    """Make both uplinks slow, so that one alone is not enough."""
    for space in (lab.host, lab.client):
        for path in (1, 2):
            space.run(f"tc qdisc add dev up{path} root tbf rate {rate} burst 16kb latency 50ms")


def test_two_subflows_carry_data(lab):
    up, down = pattern(6 * MIB, 1), pattern(12 * MIB, 2)
    lab.second_path()
    shape(lab, "40mbit")
    with Origin(lab.host, answers(down)) as origin, lab.gateway() as gateway:
        with lab.connect() as client:
            assert digest(exchange(client, up)) == digest(down)
        assert origin.heard == [digest(up)]
        (record,) = gateway.records(1)
        counted = gateway.metrics()
    paths = {path["ends"].partition("-")[2].rpartition(":")[0]: path for path in record["path"]}
    assert set(paths) == set(CLIENT_V4)
    for path in paths.values():
        assert path["down"] > len(down) // 4
        assert path["up"] > len(up) // 4
    assert sum(path["down"] for path in paths.values()) >= len(down)
    assert counted["joined_subflows_total"] >= 1
    assert lab.client.counters()["MPTcpExtMPJoinSynAckRx"] == 1


@pytest.mark.slow
def test_an_announced_address_is_joined(lab):
    down = pattern(12 * MIB, 2)
    lab.client.run("ip mptcp limits set subflow 2 add_addr_accepted 2")
    # The kernel reaches the announced address over the second uplink.
    lab.client.run(f"ip route add {SECOND_V4}/32 via 10.77.2.1 dev up2")
    shape(lab, "40mbit")
    with Origin(lab.host, says(down)), lab.gateway("--announce", SECOND_V4) as gateway:
        with lab.connect() as client:
            assert digest(drained(client)) == digest(down)
        (record,) = gateway.records(1)
    assert {path["ends"].partition(":")[0] for path in record["path"]} == {V4, SECOND_V4}
    assert all(path["down"] > len(down) // 4 for path in record["path"])
    counters = lab.client.counters()
    assert (counters["MPTcpExtAddAddr"], counters["MPTcpExtMPJoinSynAckRx"]) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["min-rtt", "round-robin", "blest"])
def test_any_scheduler_serves(lab, scheduler):
    down = pattern(8 * MIB, 2)
    lab.second_path()
    shape(lab, "40mbit")
    arguments = ("--scheduler", scheduler, "--congestion", "olia")
    with Origin(lab.host, says(down)), lab.gateway(*arguments) as gateway:
        with lab.connect() as client:
            assert digest(drained(client)) == digest(down)
        (record,) = gateway.records(1)
        metrics = gateway.metrics()
    assert len(record["path"]) == 2
    # The client may join over either address of the gateway.
    joined = [value for name, value in metrics.items() if "delivered" in name and 'role="joined"' in name]
    assert joined


@pytest.mark.slow
@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_a_path_that_loses_packets_loses_no_bytes(lab, mptcp):
    up, down = pattern(2 * MIB, 1), pattern(3 * MIB, 2)
    for space in (lab.host, lab.client):
        # A queue of ten packets, which every burst overflows.
        space.run("tc qdisc add dev up1 root tbf rate 30mbit burst 4kb limit 15000")
    with Origin(lab.host, answers(down)) as origin, lab.gateway() as gateway:
        with lab.connect(mptcp=mptcp) as client:
            assert digest(exchange(client, up)) == digest(down)
        assert origin.heard == [digest(up)]
        (record,) = gateway.records(1)
        # Some packets were lost.
        assert sum(path["retransmitted"] for path in record["path"]) > 0
        metrics = gateway.metrics()
        assert metrics[f'retransmissions_total{{address="{V4}"}}'] > 0
        # All that the client has read was acknowledged on the only subflow, which is the first one.
        role = f'address="{V4}",role="first"'
        assert metrics[f"delivered_bytes_total{{{role}}}"] >= len(down)
        assert metrics[f"delivered_share{{{role}}}"] == 1


@pytest.mark.parametrize("v6", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["v4", "v6"])
def test_gateway_obeys_the_mtu_in_icmp_errors(lab, v6):
    down = pattern(2 * MIB, 2)
    # The client's own MTU stays, so that its segment size does not depend on it.
    lab.host.run("ip link set up1 mtu 1300")
    with Origin(lab.host, answers(down)), lab.gateway() as gateway:
        with lab.connect(v6=v6) as client:
            assert digest(exchange(client, b"")) == digest(down)
        (record,) = gateway.records(1)
        assert record["path"][0]["retransmitted"] > 0


@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
def test_echoes_are_answered(lab, v6):
    family, protocol = (
        (socket.AF_INET6, socket.IPPROTO_ICMPV6) if v6 else (socket.AF_INET, socket.IPPROTO_ICMP)
    )
    said = pattern(56, 1)
    with lab.gateway(), lab.client.socket(family, protocol, socket.SOCK_RAW) as asks:
        asks.settimeout(HUNG_S)
        kind = 128 if v6 else 8
        # Over IPv6, the kernel fills in the checksum.
        head = struct.pack("!BBHHH", kind, 0, 0, 0x1234, 1)
        total = 0 if v6 else checksum(head + said)
        request = struct.pack("!BBHHH", kind, 0, total, 0x1234, 1) + said
        asks.sendto(request, (V6 if v6 else V4, 0))
        while True:
            packet, (source, *_) = asks.recvfrom(2000)
            if source == (V6 if v6 else V4):
                break
        answer = packet if v6 else packet[20:]
        assert answer[0] == (129 if v6 else 0)
        assert answer[4:] == request[4:]
        assert v6 or checksum(answer) == 0

"""Attackers that hold the gateway's memory or slots, and an honest client that must be served."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from bystander import LEAST_MBPS, Bystander, streams_first
from uplinks import Origin, digest, drained, echo, exchange, pattern, wait

MIB = 1 << 20
#: Further addresses of the client on its first uplink.
OTHERS_V4 = tuple(f"10.77.1.{last}" for last in range(11, 19))
_RESET = 'connections_ended_total{reason="memory"}'
_GAVE_WAY = 'connections_ended_total{reason="gave-way"}'


def assert_served(client, seconds=2.0):
    """Assert that the honest client receives its stream for this time."""
    rate = client.meter()
    time.sleep(seconds)
    assert rate() >= LEAST_MBPS


def pours(connected):
    """Send data without end."""
    piece = bytes(MIB)
    while True:
        connected.sendall(piece)


def reads_nothing(connected):
    """Wait until the connection is closed, without reading."""
    with suppress(OSError):
        while connected.fileno() >= 0:
            time.sleep(0.1)


def more_sources(lab):
    """Give the client further IPv4 addresses."""
    for address in OTHERS_V4:
        lab.client.run(f"ip addr add {address}/24 dev up1")
    return OTHERS_V4


def sources_of_one_site(lab, count):
    """Give the client one address in each of `count` IPv6 /64 of one /48."""
    lab.host.run("ip -6 route add fd77:50::/48 via fd77:1::2 dev up1")
    found = [f"fd77:50:0:{number:x}::1" for number in range(1, count + 1)]
    for address in found:
        lab.client.run(f"ip -6 addr add {address}/128 dev lo")
    return found


def greedy(lab, stack, sources, each, **more):
    """Open connections that request the origin's data."""
    found = []
    for source in sources:
        for _ in range(each):
            connected = stack.enter_context(lab.connect(source=source, v6=":" in source, mptcp=False, **more))
            connected.sendall(b"attacks")
            found.append(connected)
    return found


def read_until(connections, least):
    """Read at least `least` bytes from each connection, all at the same time, or until it is reset."""

    def reads(connected):
        left = least
        with suppress(OSError):
            while left > 0 and (piece := connected.recv(1 << 16)):
                left -= len(piece)

    readers = [threading.Thread(target=reads, args=(it,), daemon=True) for it in connections]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def open_connections(counted):
    return counted['connections{protocol="mptcp"}'] + counted['connections{protocol="tcp"}']


def assert_reset_beside(gateway, client, least=1):
    """Assert that connections are reset because memory is short, while the honest client is served."""
    for _ in range(3):
        assert_served(client)
    wait(lambda: gateway.metrics()[_RESET] >= least, "connections above their share are reset")
    counted = gateway.metrics()
    assert counted["held_bytes"] <= counted["memory_limit_bytes"]
    assert any("memory is short" in note for note in gateway.notes)


@pytest.mark.slow
def test_clients_that_stop_reading_are_reset_and_no_other_client_waits(lab):
    """With the default memory, 200 such clients once blocked all others. With less memory 16 are enough."""
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(pours)))
        gateway = stack.enter_context(lab.gateway("--memory", "16 MiB"))
        client = stack.enter_context(Bystander(lab))
        read_until(greedy(lab, stack, more_sources(lab)[:4], 4), 2 * MIB)
        assert_reset_beside(gateway, client)
        with lab.connect() as other:
            assert other.recv(1) == b"\0"


@pytest.mark.slow
def test_clients_that_read_a_byte_a_second_are_reset(lab):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(pours)))
        gateway = stack.enter_context(lab.gateway("--memory", "16 MiB"))
        client = stack.enter_context(Bystander(lab))
        slow = greedy(lab, stack, more_sources(lab)[:4], 4)
        read_until(slow, MIB)
        over = threading.Event()

        def trickles():
            while not over.wait(1.0):
                for connected in slow:
                    with suppress(OSError):
                        connected.recv(1)

        trickle = threading.Thread(target=trickles)
        trickle.start()
        try:
            assert_reset_beside(gateway, client)
        finally:
            over.set()
            trickle.join()


@pytest.mark.slow
def test_sources_of_one_site_of_ipv6_have_four_shares_and_no_more(lab):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(pours)))
        gateway = stack.enter_context(lab.gateway("--memory", "16 MiB"))
        client = stack.enter_context(Bystander(lab))
        read_until(greedy(lab, stack, sources_of_one_site(lab, 16), 1), 2 * MIB)
        assert_reset_beside(gateway, client)


@pytest.mark.slow
def test_clients_whose_uploads_wait_are_reset(lab):
    """The origin reads nothing, so the uploads wait in the gateway, which cannot stop the clients."""
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(reads_nothing)))
        gateway = stack.enter_context(lab.gateway("--memory", "16 MiB"))
        client = stack.enter_context(Bystander(lab))
        uploads = greedy(lab, stack, more_sources(lab), 4)
        for connected in uploads:
            connected.settimeout(None)

        def sends(connected):
            with suppress(OSError):
                while True:
                    connected.sendall(bytes(MIB))

        for connected in uploads:
            threading.Thread(target=sends, args=(connected,), daemon=True).start()
        assert_reset_beside(gateway, client)


@pytest.mark.slow
def test_multipath_clients_that_stop_reading_are_reset(lab):
    """Each subflow has its own send buffer. The sum over the subflows counts for the connection."""
    lab.second_path()
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(pours)))
        gateway = stack.enter_context(lab.gateway("--memory", "16 MiB"))
        client = stack.enter_context(Bystander(lab))
        found = []
        for source in more_sources(lab)[:4]:
            for _ in range(2):
                connected = stack.enter_context(lab.connect(source=source))
                connected.sendall(b"attacks")
                found.append(connected)
        read_until(found, 4 * MIB)
        assert_reset_beside(gateway, client)


@pytest.mark.slow
def test_memory_that_is_short_slows_readers_down_and_loses_nothing(lab):
    down = pattern(8 * MIB, 1)

    def answers(connected):
        drained(connected)
        connected.sendall(down)

    with Origin(lab.host, answers), lab.gateway("--memory", "8 MiB") as gateway:
        found = []

        def asks():
            with lab.connect() as client:
                found.append(digest(exchange(client, b"asked")))

        clients = [threading.Thread(target=asks) for _ in range(6)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert found == [digest(down)] * 6
        assert {record["end"] for record in gateway.records(6)} == {"finished"}


def test_the_oldest_silent_client_gives_way(lab):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, echo))
        gateway = stack.enter_context(lab.gateway("--connections", "4", "--per-source", "3"))
        first, *others = more_sources(lab)
        spoke = stack.enter_context(lab.connect(source=first))
        spoke.sendall(b"x")
        assert spoke.recv(1) == b"x"
        silent = [stack.enter_context(lab.connect(source=source)) for source in others[:3]]
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"
        with pytest.raises(ConnectionResetError):
            silent[0].recv(1)
        assert gateway.metrics()[_GAVE_WAY] == 1
        assert any(record["end"] == "gave-way" for record in gateway.records(2))
        # The other clients have kept their slots.
        for connected in (spoke, *silent[1:]):
            connected.sendall(b"y")
            assert connected.recv(1) == b"y"


def test_a_silent_client_gives_way_to_another_one_of_its_source_and_of_its_site(lab):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, echo))
        gateway = stack.enter_context(lab.gateway("--per-source", "2", "--per-site", "3"))
        sources = sources_of_one_site(lab, 3)

        def opened(source):
            return stack.enter_context(lab.connect(source=source, v6=True, mptcp=False))

        silent = [opened(sources[0]) for _ in range(2)]
        opened(sources[0])
        with pytest.raises(ConnectionResetError):
            silent[0].recv(1)
        opened(sources[1])
        opened(sources[2])
        with pytest.raises(ConnectionResetError):
            silent[1].recv(1)
        assert open_connections(gateway.metrics()) == 3


@pytest.mark.slow
def test_silent_clients_keep_no_client_out(lab):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(echo)))
        gateway = stack.enter_context(lab.gateway("--connections", "64", "--per-source", "8"))
        client = stack.enter_context(Bystander(lab))
        sources = more_sources(lab)
        for number in range(200):
            stack.enter_context(lab.connect(source=sources[number % 8]))
        assert_served(client)
        with lab.connect() as other:
            assert exchange(other, b"1234567served") == b"1234567served"
        counted = gateway.metrics()
        assert open_connections(counted) <= 64
        assert counted[_GAVE_WAY] >= 200 - 64


@pytest.mark.slow
def test_clients_with_half_a_request_give_way_to_other_sources(lab):
    """The clients have sent a byte, so their slots are kept. After ten seconds they stand still."""
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(echo)))
        gateway = stack.enter_context(lab.gateway("--connections", "32", "--per-source", "16"))
        client = stack.enter_context(Bystander(lab))
        sources = more_sources(lab)
        for number in range(31):
            half = stack.enter_context(lab.connect(source=sources[number % 2]))
            half.sendall(b"GET")
        wait(lambda: open_connections(gateway.metrics()) == 32, "all slots are taken")
        time.sleep(11)
        for source in sources[2:6]:
            with lab.connect(source=source) as other:
                assert exchange(other, b"1234567served") == b"1234567served"
        assert_served(client)
        assert gateway.metrics()[_GAVE_WAY] >= 1


def test_the_origin_is_connected_when_the_client_has_spoken(lab):
    with (
        Origin(lab.host, echo) as origin,
        lab.gateway("--wait-for-client") as gateway,
        lab.connect() as silent,
        lab.connect() as client,
    ):
        assert exchange(client, b"served") == b"served"
        assert origin.accepted == 1
        # If a client finishes without sending a byte, the origin is connected too.
        silent.shutdown(socket.SHUT_WR)
        assert drained(silent) == b""
        assert [record["end"] for record in gateway.records(2)] == ["finished"] * 2
        assert origin.accepted == 2

"""One short test for each limit. Longer tests are in `test_gateway_limits.py`."""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import ExitStack

import pytest
from floods import OPTIONS, syn
from test_gateway_limits import join, raw
from uplinks import (
    CLIENT_V4,
    HUNG_S,
    PORT,
    V4,
    Origin,
    answers,
    checksum,
    drained,
    echo,
    exchange,
    pattern,
    wait,
)

FROM, TO = 'packets_total{direction="from_client"}', 'packets_total{direction="to_client"}'


def refused(gateway, reason):
    return gateway.metrics()[f'refused_total{{reason="{reason}"}}']


def sends(flood, gateway, packets):
    """Send packets, and wait until the gateway has received them."""
    before = gateway.metrics()[FROM]
    for packet in packets:
        flood.sendto(packet, (V4, 0))
    wait(lambda: gateway.metrics()[FROM] >= before + len(packets), "they have come")


def test_the_connections_of_a_source(lab):
    with ExitStack() as stack:
        flood = stack.enter_context(raw(lab))
        stack.enter_context(Origin(lab.host, echo))
        gateway = stack.enter_context(lab.gateway("--per-source", "2"))
        clients = [stack.enter_context(lab.connect()) for _ in range(2)]
        assert all(exchange_one(client) for client in clients)
        sends(flood, gateway, [syn(CLIENT_V4[0], 999, OPTIONS)])
        assert refused(gateway, "source") == 1
        stack.enter_context(lab.connect(source=CLIENT_V4[1]))
        # Each connection that ends frees its slot.
        for number in range(6):
            clients.pop(0).close()
            gateway.records(number + 1)
            clients.append(stack.enter_context(lab.connect(mptcp=number % 2 == 0)))
            assert exchange_one(clients[-1])
        sends(flood, gateway, [syn(CLIENT_V4[0], 999, OPTIONS)])
        assert refused(gateway, "source") == 2


def exchange_one(client):
    client.sendall(b"x")
    return client.recv(1) == b"x"


def test_all_connections(lab):
    with ExitStack() as stack:
        flood = stack.enter_context(raw(lab))
        stack.enter_context(Origin(lab.host, echo))
        gateway = stack.enter_context(lab.gateway("--connections", "2"))
        clients = [stack.enter_context(lab.connect(source=source, mptcp=False)) for source in CLIENT_V4]
        assert all(exchange_one(client) for client in clients)
        sends(flood, gateway, [syn("10.77.1.77", 999, OPTIONS)])
        counted = gateway.metrics()
        assert counted['refused_total{reason="connections"}'] == 1
        assert (counted['connections{protocol="tcp"}'], counted['connections{protocol="mptcp"}']) == (2, 0)
        clients[0].close()
        gateway.records(1)
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"


def test_incomplete_handshakes_and_the_share_of_a_source(lab):
    """Beyond the backlog of 4, eight SYNs a second are answered (`flood.rs`). 20 arrive within 1 s or 2 s."""
    arguments = ("--backlog", "4", "--half-open", "500 ms")
    with Origin(lab.host, echo), lab.gateway(*arguments) as gateway, raw(lab) as flood:
        floods = [syn("10.77.1.9", 1024 + number, OPTIONS) for number in range(24)]
        sends(flood, gateway, floods[:4])
        assert gateway.metrics()["half_open_connections"] == 4
        sends(flood, gateway, floods[4:])
        assert 4 <= refused(gateway, "flood") <= 12
        assert gateway.metrics()["half_open_connections"] == 4
        # Another source can connect. It gets a SYN cookie, and its connection uses MPTCP.
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"
        assert gateway.records(1)[0]["protocol"] == "mptcp"
        wait(lambda: gateway.metrics()["half_open_connections"] == 0, "they are forgotten")
        assert refused(gateway, "half-open") == 4
        # While the backlog has room, nothing is dropped.
        before = refused(gateway, "flood")
        sends(flood, gateway, [syn("10.77.1.9", 3000 + number, OPTIONS) for number in range(3)])
        assert refused(gateway, "flood") == before


def test_a_full_backlog_keeps_no_client_out(lab):
    """A SYN cookie replaces the record of the handshake (RFC 4987 section 3.6), so no incomplete handshake
    expires meanwhile.
    """
    arguments = ("--backlog", "4", "--half-open", "200 s")
    with Origin(lab.host, echo), lab.gateway(*arguments) as gateway, raw(lab) as flood:
        sends(flood, gateway, [syn("10.77.1.9", 1024 + number, OPTIONS) for number in range(4)])
        with lab.connect(timeout=5) as client:
            assert exchange(client, b"served") == b"served"
        assert gateway.records(1)[0]["protocol"] == "mptcp"
        assert gateway.metrics()["half_open_connections"] == 4


@pytest.mark.parametrize("known", [True, False], ids=["known-token", "guessed-tokens"])
def test_joins(lab, known):
    """Joins with a known token get one answer each. Joins with guessed tokens get 64 a second. The connection
    continues.
    """
    lab.second_path()
    with Origin(lab.host, echo), lab.gateway() as gateway, raw(lab) as flood, lab.connect() as victim:
        assert exchange_one(victim)
        shown = lab.client.run("ss -tinH state established")
        token = int(re.search(r"token:([0-9a-f]+)\(id:0\)/", shown)[1], 16)
        sent = gateway.metrics()[TO]
        tokens = [token if known else token ^ (number + 1) for number in range(400)]
        sends(
            flood,
            gateway,
            [syn(f"10.77.1.{3 + at % 250}", 1024 + at, join(it)) for at, it in enumerate(tokens)],
        )
        answered = gateway.metrics()[TO] - sent
        assert answered <= (400 if known else 200)
        said = pattern(1 << 16)
        assert exchange(victim, said) == said
        assert gateway.metrics()["joined_subflows_total"] <= 2


def test_bytes_held_by_a_connection(lab):
    """The limit is `--send-buffer` for the single subflow plus 448 KiB (docs/guide/gateway.md)."""
    down = pattern(4 << 20)
    with (
        Origin(lab.host, answers(down)),
        lab.gateway("--send-buffer", "256 KiB") as gateway,
        lab.connect(receive_buffer=1 << 14) as client,
    ):
        client.shutdown(socket.SHUT_WR)
        # The origin has started to send, and the client reads nothing.
        wait(lambda: gateway.metrics()["held_bytes"] > 100_000, "much is held")
        held = [gateway.metrics()["held_bytes"] for _ in range(20)]
        assert max(held) <= (256 + 448) << 10
        heard = b""
        while piece := client.recv(1 << 16):
            heard += piece
        assert heard == down


def test_new_connections_of_a_source_above_its_share_of_memory(lab):
    """One source may hold 7/16 of 2 MiB. Memory is short from 3/4 on, until half is held (`shares.rs`)."""
    done = threading.Event()

    def pours(connected):
        if connected.recv(1) == b"p":
            while True:
                connected.sendall(bytes(1 << 20))
        connected.sendall(b"served")

    def reads_slowly():
        while not done.wait(0.1):
            client.recv(1 << 16)

    def reads(least):
        while least > 0:
            least -= len(client.recv(1 << 16))

    with (
        Origin(lab.host, pours),
        lab.gateway("--memory", "2 MiB") as gateway,
        raw(lab) as flood,
        lab.connect(mptcp=False) as client,
    ):
        client.sendall(b"p")
        # The gateway's buffer for this client grows.
        reads(4 << 20)
        reader = threading.Thread(target=reads_slowly)
        reader.start()

        def refuses():
            flood.sendto(syn(CLIENT_V4[0], 999, OPTIONS), (V4, 0))
            return refused(gateway, "memory") > 0

        try:
            wait(lambda: gateway.metrics()["memory_short"] == 1, "memory is short")
            wait(refuses, "the source is refused")
            with lab.connect(source=CLIENT_V4[1]) as other:
                assert exchange(other, b"x") == b"served"
        finally:
            done.set()
            reader.join()
        reads(8 << 20)


def test_packets_for_others_and_damaged_packets(lab):
    lab.host.run("ip route add 10.77.9.77/32 dev anabranch0")
    with Origin(lab.host, echo), lab.gateway() as gateway, raw(lab) as flood:
        flood.sendto(syn(CLIENT_V4[0], 999, OPTIONS, "10.77.9.77"), ("10.77.9.77", 0))
        wait(lambda: refused(gateway, "address") == 1, "the packet to another address is counted")
        spoilt = bytearray(syn(CLIENT_V4[0], 999, OPTIONS))
        spoilt[36] ^= 1
        sends(flood, gateway, [bytes(spoilt)])
        assert refused(gateway, "malformed") == 1
        other = lab.client.socket()
        with other, pytest.raises(ConnectionRefusedError):
            other.connect((V4, PORT + 1))


def test_an_echo_is_answered(lab):
    """RFC 792: type 0 with the identifier, the number and the data of the request."""
    told = struct.pack("!HH", 0x1234, 1) + b"the same data"
    told += b"\0" * (len(told) % 2)
    icmp = (socket.AF_INET, socket.IPPROTO_ICMP, socket.SOCK_RAW)
    with lab.gateway(), lab.client.socket(*icmp) as asks:
        asks.settimeout(HUNG_S)
        head = struct.pack("!BBH", 8, 0, checksum(struct.pack("!BBH", 8, 0, 0) + told))
        asks.sendto(head + told, (V4, 0))
        answer = asks.recv(1 << 12)
        length = (answer[0] & 15) * 4
        assert (socket.inet_ntoa(answer[12:16]), answer[length], answer[length + 4 :]) == (V4, 0, told)
        assert checksum(answer[length:]) == checksum(answer[:length]) == 0


def test_counters_of_connections(lab):
    """The counters of two MPTCP connections and one TCP connection, while open and after they end."""
    down = pattern(50_000)
    sizes = [(True, 3_000), (True, 7), (False, 200)]

    def talk(connected):
        connected.recv(1 << 16)
        connected.sendall(down)
        return len(drained(connected))

    def told(gateway):
        counted = gateway.metrics()
        names = ("connections", "connections_total")
        rows = [f'{name}{{protocol="{kind}"}}' for name in names for kind in ("mptcp", "tcp")]
        rows += [f'relayed_bytes_total{{direction="{way}_client"}}' for way in ("from", "to")]
        rows += [f'subflow_bytes_total{{address="{V4}",direction="{way}_client"}}' for way in ("from", "to")]
        rows += ['connections_ended_total{reason="finished"}', "fallbacks_total", "joined_subflows_total"]
        return [counted[row] for row in rows]

    with Origin(lab.host, talk), lab.gateway() as gateway, ExitStack() as stack:
        for mptcp, size in sizes:
            client = stack.enter_context(lab.connect(mptcp=mptcp))
            client.sendall(bytes(size))
            heard = b""
            while len(heard) < len(down):
                heard += client.recv(1 << 16)
            assert heard == down
        moved = [3_207, 150_000, 3_207, 150_000]
        wait(lambda: told(gateway) == [2, 1, 2, 1, *moved, 0, 0, 0], "all are open and counted")
        between = gateway.metrics()
        assert between["held_bytes"] == 0
        stack.close()
        records = gateway.records(3)
        assert told(gateway) == [0, 0, 2, 1, *moved, 3, 0, 0]
        after = gateway.metrics()
    found = sorted((it["protocol"], int(it["up"]), it["down"], it["end"]) for it in records)
    assert found == [
        ("mptcp", 7, "50000", "finished"),
        ("mptcp", 3_000, "50000", "finished"),
        ("tcp", 200, "50000", "finished"),
    ]
    for record in records:
        (path,) = record["path"]
        assert (path["up"], path["down"]) == (int(record["up"]), 50_000)
    # The device segments a packet of 50,000 bytes, which counts once. ACKs and FINs travel both ways.
    for way in (FROM, TO):
        assert between[way] < after[way] < 400

"""Clients of this host's kernel through the gateway to an origin, over MPTCP and TCP."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import threading
import time
from contextlib import contextmanager

import pytest
from uplinks import (
    HUNG_S,
    PORT,
    V4,
    V6,
    Origin,
    answers,
    digest,
    drained,
    echo,
    exchange,
    pattern,
    says,
    wait,
)

MIB = 1 << 20
#: The metric of the bytes that clients received.
TO_CLIENT = 'relayed_bytes_total{direction="to_client"}'


@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_bytes_arrive_as_they_were_sent(lab, mptcp, v6):
    up, down = pattern(5 * MIB, 1), pattern(7 * MIB, 2)
    with Origin(lab.host, answers(down)) as origin, lab.gateway() as gateway:
        with lab.connect(mptcp=mptcp, v6=v6) as client:
            heard = exchange(client, up)
        assert digest(heard) == digest(down)
        wait(lambda: origin.heard, "the origin has heard all")
        assert origin.heard == [digest(up)]
        (record,) = gateway.records(1)
        assert record["protocol"] == ("mptcp" if mptcp else "tcp")
        assert (record["up"], record["down"]) == (str(len(up)), str(len(down)))
        assert record["end"] == "finished"
        (path,) = record["path"]
        assert path["ends"].startswith(f"[{V6}]:{PORT}-" if v6 else f"{V4}:{PORT}-")
        # Data that the connection sends again counts for the subflow that carries it.
        assert len(down) <= path["down"] < 1.1 * len(down)
        assert path["up"] >= len(up)
        counted = gateway.metrics()
    protocol = "mptcp" if mptcp else "tcp"
    assert counted[f'connections_total{{protocol="{protocol}"}}'] == 1
    assert counted['relayed_bytes_total{direction="from_client"}'] == len(up)
    assert counted['relayed_bytes_total{direction="to_client"}'] == len(down)
    assert counted['connections_ended_total{reason="finished"}'] == 1
    assert counted[f'connections{{protocol="{protocol}"}}'] == counted["half_open_connections"] == 0
    assert lab.client.counters()["MPTcpExtMPCapableFallbackSYNACK"] == 0


def test_connections_at_once_each_have_bytes_of_their_own(lab):
    def answer(connection):
        connection.sendall(pattern(4 * MIB, connection.recv(1)[0]))

    with Origin(lab.host, answer), lab.gateway() as gateway:
        connected = {mark: lab.connect(mptcp=mark % 2 == 0) for mark in range(1, 13)}
        heard = {}

        def ask(mark, client):
            client.sendall(bytes([mark]))
            heard[mark] = digest(drained(client))

        clients = [threading.Thread(target=ask, args=both) for both in connected.items()]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        for client in connected.values():
            client.close()
        assert heard == {mark: digest(pattern(4 * MIB, mark)) for mark in connected}
        records = gateway.records(len(connected))
    assert {record["down"] for record in records} == {str(4 * MIB)}


@pytest.mark.slow
def test_gateway_drops_few_acknowledgements_of_many_clients(lab):
    # A device that was not made by --setup-print has a queue of 500. While it is not read, further packets
    # are lost.
    lab.host.run("ip link set anabranch0 txqueuelen 500")
    down, clients = pattern(2 * MIB, 1), 60
    with Origin(lab.host, says(down)), lab.gateway("--no-offload", "--per-source", "1000") as gateway:
        connected = [lab.connect() for _ in range(clients)]
        heard = []
        readers = [
            threading.Thread(target=lambda own=own: heard.append(len(drained(own)))) for own in connected
        ]
        for reader in readers:
            reader.start()
        for reader, own in zip(readers, connected, strict=True):
            reader.join()
            own.close()
        assert heard == [len(down)] * clients
        gateway.records(clients)
    of_device = "/sys/class/net/anabranch0/statistics"
    sent, dropped = (int(lab.host.run(f"cat {of_device}/{name}")) for name in ("tx_packets", "tx_dropped"))
    # Each client's packets are included, and there are enough to fill the queue repeatedly.
    assert sent > 10_000
    assert dropped < sent / 100


@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_either_side_may_finish_first(lab, mptcp):
    up, down = pattern(MIB, 1), pattern(2 * MIB, 2)
    with Origin(lab.host, says(down)) as origin, lab.gateway() as gateway:
        with lab.connect(mptcp=mptcp) as client:
            # The origin has finished before the client begins.
            assert digest(drained(client)) == digest(down)
            client.sendall(up)
            client.shutdown(socket.SHUT_WR)
            wait(lambda: origin.heard, "the origin has heard all")
        assert origin.heard == [digest(up)]
        assert gateway.records(1)[0]["end"] == "finished"


@pytest.mark.slow
def test_a_conversation_goes_back_and_forth(lab):
    with Origin(lab.host, echo), lab.gateway(), lab.connect() as client:
        for turn in range(200):
            said = pattern(1 + 37 * turn, turn)
            client.sendall(said)
            heard = b""
            while len(heard) < len(said):
                heard += client.recv(1 << 16)
            assert heard == said


@pytest.mark.slow
@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_a_reader_that_waits_holds_the_origin_up(lab, mptcp):
    down = pattern(96 * MIB, 3)
    sent = [0]

    def talk(connected):
        for at in range(0, len(down), 1 << 16):
            connected.sendall(down[at : at + (1 << 16)])
            sent[0] = at + (1 << 16)

    buffer = 4 * MIB
    with (
        Origin(lab.host, talk),
        lab.gateway(f"--send-buffer={buffer} B") as gateway,
        lab.connect(mptcp=mptcp, receive_buffer=1 << 16) as client,
    ):
        before = gateway.memory_kib()
        still = [-1, 0]
        while still[0] != still[1]:
            time.sleep(1)
            still = [still[1], sent[0]]
        # The buffers of the host's kernel (tcp_rmem and tcp_wmem) hold a part of the data.
        assert 0 < sent[0] < 32 * MIB
        held = gateway.metrics()["held_bytes"]
        assert 0 < held <= 2 * buffer
        assert gateway.memory_kib() - before < 32 << 10
        assert digest(drained(client)) == digest(down)


def sends_while_it_may(client, data):
    """Send until nothing more is accepted for a while, and return the number of sent bytes."""
    client.settimeout(2)
    sent = 0
    try:
        while True:
            sent += client.send(data[sent : sent + (1 << 16)])
    except TimeoutError:
        return sent


@pytest.mark.slow
@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_an_origin_that_waits_holds_the_client_up(lab, mptcp):
    up = pattern(96 * MIB, 4)
    go = []

    def talk(connected):
        wait(lambda: go, "the origin may read")
        return digest(drained(connected))

    buffer = 4 * MIB
    with Origin(lab.host, talk) as origin, lab.gateway(f"--receive-buffer={buffer} B") as gateway:
        with lab.connect(mptcp=mptcp) as client:
            before = gateway.memory_kib()
            sent = sends_while_it_may(client, up)
            assert 0 < sent < 32 * MIB
            assert 0 < gateway.metrics()["held_bytes"] <= 2 * buffer
            assert gateway.memory_kib() - before < 32 << 10
            go.append(True)
            client.settimeout(HUNG_S)
            client.sendall(up[sent:])
            client.shutdown(socket.SHUT_WR)
            assert drained(client) == b""
        assert origin.heard == [digest(up)]


@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_without_an_origin_the_client_is_reset(lab, mptcp):
    with lab.gateway() as gateway:
        # The reset may come as soon as the handshake is complete.
        with pytest.raises(ConnectionResetError), lab.connect(mptcp=mptcp) as client:
            client.recv(1)
        assert gateway.records(1)[0]["end"] == "origin-refused"


@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_an_origin_that_breaks_off_resets_the_client(lab, mptcp):
    def talk(connected):
        assert connected.recv(5) == b"hello"
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with Origin(lab.host, talk), lab.gateway() as gateway:
        with lab.connect(mptcp=mptcp) as client:
            client.sendall(b"hello")
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert gateway.records(1)[0]["end"] == "origin-broke"


@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_a_client_that_breaks_off_resets_the_origin(lab, mptcp):
    def talk(connected):
        connected.sendall(b"x")
        try:
            return connected.recv(1)
        except ConnectionResetError:
            return "reset"

    with Origin(lab.host, talk) as origin, lab.gateway() as gateway:
        client = lab.connect(mptcp=mptcp)
        assert client.recv(1) == b"x"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert gateway.records(1)[0]["end"] == "client-broke"
        wait(lambda: origin.heard, "the origin has heard of it")
        assert origin.heard == ["reset"]


@contextmanager
def slow_client(lab, talk):
    """A client that has sent a request of 200,000 bytes and has a small receive buffer for the answer."""
    with (
        Origin(lab.host, talk),
        lab.gateway() as gateway,
        lab.connect(mptcp=False, receive_buffer=1 << 16) as client,
    ):
        client.sendall(bytes(200_000))
        yield gateway, client


@pytest.mark.slow
def test_complete_response_arrives_although_the_origin_resets(lab):
    down = pattern(100_000, 5)

    passed = threading.Event()

    def talk(connected):
        connected.recv(1)
        connected.sendall(down)
        connected.shutdown(socket.SHUT_WR)
        assert passed.wait(HUNG_S)
        # With unread data, closing the socket sends a reset.

    with slow_client(lab, talk) as (gateway, client):
        wait(lambda: gateway.metrics()[TO_CLIENT] == len(down), "the gateway has all of the answer")
        passed.set()
        client.sendall(bytes(200_000))
        assert digest(drained(client)) == digest(down)


@pytest.mark.slow
def test_an_answer_that_waits_in_the_gateways_kernel_arrives_though_the_origin_reads_no_more(lab):
    down = pattern(600_000, 6)
    gone = threading.Event()

    def unacknowledged(connected):
        return struct.unpack("i", fcntl.ioctl(connected, termios.TIOCOUTQ, bytes(4)))[0]

    def talk(connected):
        connected.recv(1)
        connected.sendall(down)
        connected.shutdown(socket.SHUT_WR)
        wait(lambda: unacknowledged(connected) == 0, "the gateway's kernel has all of the answer")
        # With unread data, closing the socket sends a reset.
        connected.close()
        gone.set()

    with slow_client(lab, talk) as (gateway, client):
        assert gone.wait(HUNG_S)
        assert gateway.metrics()[TO_CLIENT] < len(down)
        client.sendall(bytes(200_000))
        assert digest(drained(client)) == digest(down)


@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
def test_the_origin_receives_the_address_of_its_client(lab, v6):
    with (
        Origin(lab.host, drained) as origin,
        lab.gateway("--proxy-protocol", "v2"),
        lab.connect(v6=v6) as client,
    ):
        client.sendall(b"bytes")
        client.shutdown(socket.SHUT_WR)
        drained(client)
        wait(lambda: origin.heard, "the origin has heard all")
        address, port = client.getsockname()[:2]
    (heard,) = origin.heard
    family = socket.AF_INET6 if v6 else socket.AF_INET
    ends = [socket.inet_pton(family, it) for it in (address, V6 if v6 else V4)]
    known = b"".join(ends) + struct.pack("!HH", port, PORT)
    kind = b"\x21\x21" if v6 else b"\x21\x11"
    signature = b"\r\n\r\n\0\r\nQUIT\n"
    assert heard == signature + kind + struct.pack("!H", len(known)) + known + b"bytes"


def test_nothing_moves_for_the_idle_time(lab):
    with Origin(lab.host, echo), lab.gateway("--idle", "1 s") as gateway:
        with lab.connect() as client, pytest.raises(ConnectionResetError):
            client.recv(1)
        (record,) = gateway.records(1)
        assert record["end"] == "idle"
        assert 1 <= float(record["seconds"]) < 3


def test_a_client_that_reads_slowly_is_not_idle(lab):
    """The gateway has the whole answer in its buffer, so only acknowledgements show that the client reads."""
    down = pattern(60_000, 2)
    with Origin(lab.host, answers(down)), lab.gateway("--idle", "1 s") as gateway:
        with lab.connect(receive_buffer=1 << 14) as client:
            client.shutdown(socket.SHUT_WR)
            heard = b""
            while piece := client.recv(2000):
                heard += piece
                time.sleep(0.1)
        assert digest(heard) == digest(down)
        assert gateway.records(1)[0]["end"] == "finished"

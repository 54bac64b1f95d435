"""Attackers that take all slots with slow connections, and honest clients that must be served."""

from __future__ import annotations

import fcntl
import socket
import subprocess
import termios
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
from bystander import LEAST_MBPS, Bystander, streams_first
from test_gateway_shares import assert_served, more_sources, open_connections
from uplinks import Origin, digest, pattern, wait

_GAVE_WAY = 'connections_ended_total{reason="gave-way"}'
#: The time after which the rate of a connection counts, s.
_YOUNG_S = 10


@contextmanager
def trickling(connections, every_s):
    """Send a byte on each connection every few seconds."""
    over = threading.Event()

    def trickles():
        while not over.wait(every_s):
            for connected in connections:
                with suppress(OSError):
                    connected.sendall(b"x")

    trickle = threading.Thread(target=trickles)
    trickle.start()
    try:
        yield
    finally:
        over.set()
        trickle.join()


def waits_for_a_request(connected):
    """Answer only to a whole request."""
    heard = b""
    while not heard.endswith(b"\r\n\r\n"):
        piece = connected.recv(1 << 16)
        if not piece:
            return
        heard += piece
    connected.sendall(b"answer")
    connected.recv(1)


def asks(lab, source):
    """Return the answer to a request."""
    with lab.connect(source=source) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        return client.recv(100)


def opens(lab, stack, gateway, sources, each=1):
    """Open connections that have sent half a request."""
    before, found = open_connections(gateway.metrics()), []
    for source in sources:
        for _ in range(each):
            half = stack.enter_context(lab.connect(source=source, mptcp=False))
            half.sendall(b"GET")
            found.append(half)
    wait(lambda: open_connections(gateway.metrics()) == before + len(found), "they have slots")
    return found


def test_the_slowest_connection_of_the_largest_source_gives_way(lab):
    """Sources with many slots lose some to newcomers at once, even if no connection stands still."""
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(waits_for_a_request)))
        gateway = stack.enter_context(lab.gateway("--connections", "13", "--per-source", "4"))
        client = stack.enter_context(Bystander(lab))
        rate = client.meter()
        sources = more_sources(lab)
        opens(lab, stack, gateway, sources[:3], each=4)
        # The next count of slots is within 0.1 s. A SYN that arrives earlier is repeated after a second.
        assert [asks(lab, source) for source in sources[3:]] == [b"answer"] * 5
        assert rate() >= LEAST_MBPS
        assert gateway.metrics()[_GAVE_WAY] >= 1


@pytest.mark.slow
def test_many_sources_with_a_byte_every_nine_seconds_keep_no_client_out(lab):
    """Each source has one slot, and none of its connections stands still for ten seconds."""
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(waits_for_a_request)))
        gateway = stack.enter_context(lab.gateway("--connections", "8", "--per-source", "4"))
        client = stack.enter_context(Bystander(lab))
        sources = more_sources(lab)
        # A viewer who has received an answer and keeps the connection.
        pauses = stack.enter_context(lab.connect(source=sources[7], mptcp=False))
        pauses.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert pauses.recv(100) == b"answer"
        attackers = opens(lab, stack, gateway, sources[:6])
        with trickling(attackers, 4.5):
            time.sleep(_YOUNG_S + 1)
            assert asks(lab, sources[6]) == b"answer"
            assert asks(lab, "10.77.1.2") == b"answer"
            assert_served(client)
        counted = gateway.metrics()
        assert counted[_GAVE_WAY] >= 1
        pauses.setblocking(False)
        with pytest.raises(BlockingIOError):
            pauses.recv(1)


def answers_and_closes(answer, over=None):
    """Return a talk that answers the first byte and closes the connection when the gateway has received the
    answer. `over` is set then.
    """

    def talk(connected):
        connected.recv(1)
        connected.sendall(answer)
        left = bytearray(b"\1\0\0\0")
        while any(left):
            time.sleep(0.05)
            fcntl.ioctl(connected, termios.TIOCOUTQ, left)
        if over is not None:
            over.set()

    return talk


@pytest.mark.slow
def test_a_slow_client_receives_the_whole_answer_of_an_origin_that_is_gone(lab):
    """The gateway holds more than 100 KiB when the origin has gone: at 12 KiB a second, that is more than 5 s."""
    answer, over = pattern(200 << 10), threading.Event()
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(answers_and_closes(answer, over))))
        gateway = stack.enter_context(lab.gateway())
        bystander = stack.enter_context(Bystander(lab))
        rate = bystander.meter()
        client = stack.enter_context(lab.connect(receive_buffer=1 << 13, mptcp=False))
        client.sendall(b"x")
        heard, is_late = b"", False
        while piece := client.recv(1 << 12):
            if over.is_set() and not is_late:
                # The origin closes its socket now, so this data causes a reset. Data that came before would be
                # unread at the close, and the origin would send a reset instead of its end.
                time.sleep(1)
                client.sendall(b"too late")
                is_late = True
            heard += piece
            time.sleep(len(piece) / (12 << 10))
        assert digest(heard) == digest(answer)
        (record,) = gateway.records(1)
        assert record["end"] == "origin-broke"
        assert rate() >= LEAST_MBPS


@pytest.mark.slow
def test_a_client_that_takes_a_little_now_and_then_of_an_origin_that_is_gone_is_ended(lab):
    """Some hundred bytes a second are progress, but less than 1 KiB a second."""
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(answers_and_closes(bytes(8 << 10)))))
        gateway = stack.enter_context(lab.gateway())
        bystander = stack.enter_context(Bystander(lab))
        rate = bystander.meter()
        client = stack.enter_context(lab.connect(receive_buffer=1, mptcp=False))
        client.sendall(b"x")
        time.sleep(1)
        client.sendall(b"too late")
        with suppress(ConnectionResetError):
            for _ in range(15):
                client.recv(300)
                time.sleep(1)
        (record,) = gateway.records(1)
        assert record["end"] == "origin-broke"
        assert float(record["seconds"]) < 12
        assert rate() >= LEAST_MBPS


@pytest.mark.slow
def test_uploads_of_clients_that_have_finished_count_and_are_reset(lab):
    """The origin has answered, and does not read. The clients have sent all their data and their FIN."""
    # The kernel's buffers of the sockets to the origin are small.
    for key in ("tcp_rmem", "tcp_wmem"):
        setting = f"net.ipv4.{key}=4096 16384 16384"
        subprocess.run(["ip", "netns", "exec", lab.host.name, "sysctl", "-qw", setting], check=True)

    def answers_and_waits(connected):
        connected.sendall(b"answer")
        connected.shutdown(socket.SHUT_WR)
        time.sleep(60)

    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(answers_and_waits)))
        gateway = stack.enter_context(lab.gateway("--memory", "2 MiB"))
        bystander = stack.enter_context(Bystander(lab))
        for source in more_sources(lab):
            for _ in range(6):
                # A source above its share is refused, and a client may be reset before it has sent everything.
                with suppress(OSError):
                    client = stack.enter_context(lab.connect(source=source, mptcp=False, timeout=3))
                    assert client.recv(10) == b"answer"
                    client.sendall(bytes(100 << 10))
                    client.shutdown(socket.SHUT_WR)
        for _ in range(3):
            assert_served(bystander)
        wait(lambda: gateway.metrics()['connections_ended_total{reason="memory"}'] >= 1, "some are reset")
        counted = gateway.metrics()
        assert counted["held_bytes"] <= counted["memory_limit_bytes"]
        assert {record["end"] for record in gateway.records(1)} == {"memory"}

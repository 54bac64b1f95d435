"""How the gateway ends."""

from __future__ import annotations

import signal
import socket
import time

import pytest
from uplinks import Origin, answers, digest, drained, echo, exchange, pattern, wait

MIB = 1 << 20


@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_connections_that_are_open_lose_no_byte(lab, mptcp):
    up, down = pattern(2 * MIB, 1), pattern(24 * MIB, 2)
    with Origin(lab.host, answers(down)) as origin, lab.gateway() as gateway:
        with lab.connect(mptcp=mptcp) as client:
            client.sendall(up)
            client.shutdown(socket.SHUT_WR)
            head = client.recv(1000)
            gateway.terminate()
            wait(lambda: any("SIGTERM" in note for note in gateway.notes), "the signal is heard")
            with pytest.raises(ConnectionRefusedError):
                lab.connect()
            assert gateway.process.poll() is None
            assert digest(head + drained(client)) == digest(down)
        assert gateway.wait_end() == 0
        assert origin.heard == [digest(up)]
        (record,) = gateway.records(1)
        assert (record["end"], record["down"]) == ("finished", str(len(down)))


def test_session_is_reset_after_the_grace_time(lab):
    with Origin(lab.host, echo), lab.gateway("--grace", "1 s") as gateway:
        with lab.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            began = time.monotonic()
            gateway.terminate()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
            assert time.monotonic() - began >= 0.9
        assert gateway.wait_end() == 0
        assert gateway.records(1)[0]["end"] == "shutdown"


def test_a_second_signal_ends_it_at_once(lab):
    with Origin(lab.host, echo), lab.gateway("--grace", "1000 s") as gateway:
        with lab.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            gateway.terminate()
            wait(lambda: any("SIGTERM" in note for note in gateway.notes), "the signal is heard")
            assert gateway.metrics()["closing"] == 1
            gateway.process.send_signal(signal.SIGINT)
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert gateway.wait_end() == 0


def test_without_connections_it_ends_at_once(lab):
    with Origin(lab.host, echo), lab.gateway("--grace", "1000 s") as gateway:
        with lab.connect() as client:
            assert exchange(client, b"x") == b"x"
        gateway.records(1)
        gateway.terminate()
        assert gateway.wait_end() == 0

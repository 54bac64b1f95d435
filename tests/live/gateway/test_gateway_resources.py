"""The gateway on a host without free descriptors or ports, and with an origin that does not answer."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress

import pytest
from bystander import LEAST_MBPS, Bystander, streams_first
from test_gateway_host import run
from uplinks import CLIENT_V4, METRICS_PORT, V4, Origin, echo, exchange, wait

from anabranch.live.gateway import _OTHER_DESCRIPTORS

#: An address that the host routes to a neighbour that does not exist.
NOWHERE = "10.99.0.9"


def limited(soft, hard):
    """Return the command prefix that limits a program's descriptors."""
    return ("prlimit", f"--nofile={soft}:{hard}", "--")


def asks(client, said=b"x"):
    """Return whether the origin echoes the client's data; False if the connection is reset."""
    try:
        client.sendall(said)
        return client.recv(len(said)) == said
    except ConnectionError:
        return False


def is_reset(client):
    """Return whether the client's connection has been reset."""
    try:
        client.sendall(b"x")
    except ConnectionError:
        return True
    return False


def test_too_few_descriptors_for_all_connections_are_an_error_at_the_start(lab):
    words = ("--listen", f"{V4}:443", "--origin", "127.0.0.1:8080")
    done = run(lab, *words, under=limited(64, 64))
    assert done.returncode == 2
    assert "error: 1024 connections need 1088 descriptors; the limit is 64 (--connections)" in done.stderr
    assert "LimitNOFILE=1088" in done.stderr
    # The gateway raises its limit to a sufficient hard limit.
    needed = 10 + _OTHER_DESCRIPTORS
    with Origin(lab.host, echo), lab.gateway("--connections", "10", under=limited(20, needed)) as gateway:
        assert resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE) == (needed, needed)
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"


def test_descriptor_exhaustion_spares_metrics_and_open_sessions(lab):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(echo)))
        gateway = stack.enter_context(lab.gateway("--connect-timeout", "300 ms"))
        bystander = stack.enter_context(Bystander(lab))
        # The gateway gets no descriptors beyond those that are open now.
        most = max(gateway.open_descriptors()) + 1
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (most, most))
        rate = bystander.meter()
        clients = [stack.enter_context(lab.connect(source=CLIENT_V4[at % 2])) for at in range(4)]
        served = [asks(client) for client in clients]
        assert not all(served)
        for _ in range(20):
            stack.enter_context(closing(gateway.visit()))
        # While clients wait for a descriptor, each request of the metrics gets one, and returns it.
        for _ in range(10):
            assert gateway.metrics()['origin_errors_total{errno="EMFILE"}'] >= served.count(False)
        records = gateway.records(served.count(False))
        assert {(it["end"], it["errno"]) for it in records} == {("no-socket", "EMFILE")}
        wait(lambda: any("EMFILE" in note for note in gateway.notes), "the operator is told")
        assert sum("EMFILE" in note for note in gateway.notes) == 1
        assert rate() >= LEAST_MBPS


def test_a_client_without_a_free_port_waits_for_one_or_is_reset(lab):
    ports = "net.ipv4.ip_local_port_range=40000 40007"
    subprocess.run(["ip", "netns", "exec", lab.host.name, "sysctl", "-qw", ports], check=True)
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(echo)))
        gateway = stack.enter_context(lab.gateway("--connect-timeout", "2 s"))
        bystander = stack.enter_context(Bystander(lab))
        rate = bystander.meter()
        served = [stack.enter_context(lab.connect()) for _ in range(7)]
        assert all(asks(client) for client in served)
        with lab.connect() as refused:
            began = time.monotonic()
            assert not asks(refused)
            assert time.monotonic() - began >= 1.9
        (record,) = gateway.records(1)
        assert (record["end"], record["errno"]) == ("no-socket", "EADDRNOTAVAIL")
        with lab.connect() as waits:
            waits.sendall(b"x")
            # On loopback the kernel reuses a port in TIME_WAIT after a second (`net.ipv4.tcp_tw_reuse`).
            served.pop().close()
            assert waits.recv(1) == b"x"
        assert gateway.metrics()['connections_ended_total{reason="no-socket"}'] == 1
        assert rate() >= LEAST_MBPS


@pytest.mark.parametrize("second", [False, True], ids=["one-address", "the-second-one-answers"])
def test_an_origin_that_does_not_answer_is_given_up(lab, second):
    lab.host.run("ip route add 10.99.0.0/24 dev up2")
    lab.host.run(f"ip neigh add {NOWHERE} lladdr 02:00:00:00:00:99 dev up2")
    places = (f"{NOWHERE}:8080", "127.0.0.1:8080")[: 2 if second else 1]
    # A stub for name resolution that returns the origin's addresses in this order.
    resolves = (
        "import runpy, sys; from anabranch.live import gateway; "
        f"gateway.resolve = lambda _: {places}; del sys.argv[1:4]; "
        "runpy.run_module('anabranch', run_name='__main__')"
    )
    under = (sys.executable, "-c", resolves)
    with (
        Origin(lab.host, echo),
        lab.gateway("--connect-timeout", "1 s", under=under) as gateway,
        lab.connect() as client,
    ):
        began = time.monotonic()
        assert asks(client) == second
        assert time.monotonic() - began >= 0.9
        if not second:
            (record,) = gateway.records(1)
            assert (record["end"], record["errno"]) == ("origin-refused", "ETIMEDOUT")
        assert gateway.metrics()['origin_errors_total{errno="ETIMEDOUT"}'] == 1


def test_a_refusal_is_logged_with_its_errno(lab):
    with lab.gateway() as gateway:
        # The reset may come before connect() returns.
        with suppress(ConnectionResetError), lab.connect() as client:
            assert not asks(client)
        (record,) = gateway.records(1)
        assert (record["end"], record["errno"]) == ("origin-refused", "ECONNREFUSED")
        assert gateway.metrics()['origin_errors_total{errno="ECONNREFUSED"}'] == 1


def test_silent_visitors_do_not_keep_others_from_the_metrics(lab):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(echo)))
        gateway = stack.enter_context(lab.gateway())
        bystander = stack.enter_context(Bystander(lab))
        rate = bystander.meter()
        before = gateway.descriptors()
        visitors = [stack.enter_context(closing(gateway.visit())) for _ in range(100)]
        for visitor in visitors[:50]:
            visitor.sendall(b"GET /metrics HTTP/1.1\r\nSlow: ")
        for _ in range(3):
            assert gateway.metrics()['connections{protocol="mptcp"}'] == 1
        assert gateway.descriptors() <= before + 16
        time.sleep(1)
        assert rate() >= LEAST_MBPS
        # Each visitor is closed after 5 s, including those that keep sending.
        wait(lambda: gateway.descriptors() <= before, "the silent visitors are gone", seconds=10)


def test_metrics_beyond_loopback_are_warned_of(lab):
    with lab.gateway("--metrics", f"0.0.0.0:{METRICS_PORT}") as gateway:
        wait(lambda: any("0.0.0.0" in note and "warning" in note for note in gateway.notes), "the warning")
    with lab.gateway() as gateway:
        gateway.metrics()
        gateway.terminate()
        assert gateway.wait_end() == 0
        assert not any("warning" in note for note in gateway.notes)


def closes_at_once(connected):
    """Close without reading, before any data has arrived."""


@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "tcp"])
def test_an_origin_that_closes_and_resets_later_data_frees_its_slot(lab, mptcp):
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, streams_first(closes_at_once)))
        gateway = stack.enter_context(lab.gateway())
        bystander = stack.enter_context(Bystander(lab))
        rate = bystander.meter()
        client = stack.enter_context(lab.connect(mptcp=mptcp))
        assert client.recv(10) == b""
        client.sendall(b"too late")
        # The gateway accepts and discards the client's data until the client closes.
        wait(lambda: gateway.metrics().get('origin_errors_total{errno="EPIPE"}') == 1, "the origin is gone")
        client.sendall(b"too late again")
        client.close()
        (record,) = gateway.records(1)
        assert (record["end"], record["errno"]) == ("origin-broke", "EPIPE")
        assert gateway.metrics()['connections_ended_total{reason="origin-broke"}'] == 1
        # The slot is freed well before the 5 s that a client may take to read the answer.
        assert float(record["seconds"]) < 4
        assert rate() >= LEAST_MBPS


@pytest.mark.slow
def test_a_client_that_stays_when_its_origin_is_gone_is_reset_after_five_seconds(lab):
    with Origin(lab.host, closes_at_once), lab.gateway() as gateway, lab.connect() as client:
        assert client.recv(10) == b""
        client.sendall(b"too late")
        (record,) = gateway.records(1)
        assert record["end"] == "origin-broke"
        assert 5 <= float(record["seconds"]) < 8
        wait(lambda: is_reset(client), "the client is told")

"""Schedulers and controllers written in Python, and the connection of a plug-in that fails."""

from __future__ import annotations

import textwrap

import pytest
from uplinks import CLIENT_V4, Origin, digest, drained, echo, exchange, pattern, says, wait

MIB = 1 << 20

pytestmark = pytest.mark.slow


@pytest.fixture
def written(tmp_path):
    """Write a plug-in; return the place of its class `Mine`."""

    def write(text):
        file = tmp_path / "mine.py"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return f"{file}:Mine"

    return write


def test_a_scheduler_in_python_serves(lab, written):
    down = pattern(4 * MIB, 1)
    lab.second_path()
    for space in (lab.host, lab.client):
        for path in (1, 2):
            space.run(f"tc qdisc add dev up{path} root tbf rate 40mbit burst 16kb latency 50ms")
    place = written("""
        from anabranch.plugins import candidates

        class Mine:
            def schedule(self, request, subflows):
                free = [it for it in candidates(subflows) if it.can_send]
                return min(free, key=lambda it: it.queued_bytes, default=None)
    """)
    with Origin(lab.host, says(down)), lab.gateway("--scheduler", place) as gateway:
        with lab.connect() as client:
            assert digest(drained(client)) == digest(down)
        (record,) = gateway.records(1)
    assert record["end"] == "finished"


@pytest.mark.parametrize("kind", ["scheduler", "congestion"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [('raise KeyError("told so")', "told so"), ("while True: pass", "took more than 0.1 s")],
    ids=["raises", "hangs"],
)
def test_a_plug_in_that_fails_costs_its_own_connection(lab, written, kind, wrong, said):
    # Only the instance that is called often enough first fails.
    fails = f"""
                self.calls += 1
                if self.calls > 20 and Mine.failing in (None, self):
                    Mine.failing = self
                    {wrong}
    """.strip()
    begins = """
            failing = None

            def __init__(self):
                self.calls = 0
    """.strip()
    if kind == "scheduler":
        text = f"""
        from anabranch.plugins import candidates

        class Mine:
            {begins}

            def schedule(self, request, subflows):
                {fails}
                return next((it for it in candidates(subflows) if it.can_send), None)
        """
    else:
        text = f"""
        class Mine:
            {begins}

            def on_ack(self, ack, window):
                {fails}
                window.cwnd = 20

            def on_congestion(self, event, window):
                window.ssthresh = 10
        """
    place = written(text)
    with Origin(lab.host, echo), lab.gateway(f"--{kind}", place) as gateway:
        clients = [lab.connect(source=CLIENT_V4[number % 2]) for number in range(4)]
        data = pattern(2 * MIB, 1)
        ended = 0
        for client in clients:
            with client:
                try:
                    assert exchange_or_reset(client, data) == data
                except (ConnectionResetError, BrokenPipeError):
                    ended += 1
        assert ended == 1
        ends = sorted(record["end"] for record in gateway.records(4))
        assert ends == ["finished"] * 3 + ["plug-in-failed"]
        wait(lambda: any(said in note for note in gateway.notes), "the failure is told of")
        assert sum("mine.py, line" in note for note in gateway.notes) == 1
        with lab.connect() as client:
            assert exchange(client, b"alive") == b"alive"


def exchange_or_reset(client, data):
    """Exchange in small steps, so that the waiting side meets a reset."""
    heard = b""
    for at in range(0, len(data), 1 << 16):
        client.sendall(data[at : at + (1 << 16)])
        while len(heard) < min(at + (1 << 16), len(data)):
            piece = client.recv(1 << 16)
            assert piece
            heard += piece
    return heard

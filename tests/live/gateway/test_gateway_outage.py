"""A path that falls silent and returns, with a kernel's client."""

from __future__ import annotations

import time

import pytest
from uplinks import Origin, digest, drained, pattern, says

MIB = 1 << 20
SILENT_S = 7.0


@pytest.mark.slow
def test_a_path_that_returns_is_found_within_a_second(lab):
    # The only path drops every packet for 7 s. With timeouts of at most a second, the gateway sends again
    # within a second after the path's return. Timeouts that double from 0.2 s would be at 0.2, 0.6, 1.4, 3,
    # 6.2 and 12.6 s.
    down = pattern(40 * MIB, 2)
    for space in (lab.host, lab.client):
        space.run("tc qdisc add dev up1 root tbf rate 40mbit burst 16kb latency 50ms")
    with Origin(lab.host, says(down)), lab.gateway("--preset", "video") as gateway:
        with lab.connect(mptcp=False) as client:
            head = client.recv(MIB)
            lab.client.run("nft add table netdev cut")
            hook = "{ type filter hook ingress device up1 priority 0; policy drop; }"
            lab.client.run(f"nft add chain netdev cut arriving {hook}")
            time.sleep(SILENT_S)
            # Read the bytes that arrived before the cut.
            client.setblocking(False)
            try:
                while True:
                    head += client.recv(MIB)
            except BlockingIOError:
                client.setblocking(True)
            lab.client.run("nft delete table netdev cut")
            returned = time.monotonic()
            head += client.recv(MIB)
            found_s = time.monotonic() - returned
            assert digest(head + drained(client)) == digest(down)
        (record,) = gateway.records(1)
    assert record["end"] == "finished"
    # The bound is a timeout of one second, its tick, and a round trip.
    assert found_s < 1.5

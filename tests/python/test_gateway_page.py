"""The page of a gateway: the text of its metrics becomes the state of its paths."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.live import gateway_page
from anabranch.live.gateway import Settings

FIRST = 'address="10.9.0.1",role="first"'
JOINED = 'address="10.9.0.2",role="joined"'
TEXT = f"""\
# HELP anabranch_gateway_connections Connections that are served.
# TYPE anabranch_gateway_connections gauge
anabranch_gateway_connections{{protocol="mptcp"}} 2
anabranch_gateway_connections{{protocol="tcp"}} 1
anabranch_gateway_delivered_bytes_total{{{FIRST}}} 3000000
anabranch_gateway_delivered_bytes_total{{{JOINED}}} 1000000
anabranch_gateway_cwnd_segments{{{FIRST}}} 40
anabranch_gateway_in_flight_segments{{{FIRST}}} 30
anabranch_gateway_delivery_rate_bits_per_second{{{FIRST}}} 8000000
anabranch_gateway_srtt_seconds{{{FIRST}}} 0.0125
"""


def settings(**more):
    given = {"tun": "t0", "listen": ("10.9.0.1:443",), "origin": ("127.0.0.1:80",), "announce": ("10.9.0.2",)}
    return Settings(**{**given, **more})


def test_an_address_has_first_and_joined_subflows_and_an_announced_one_joined_ones_only():
    assert gateway_page.groups(settings()) == [
        ("10.9.0.1", "first"),
        ("10.9.0.1", "joined"),
        ("10.9.0.2", "joined"),
    ]


def test_metrics_become_a_moment():
    found = gateway_page.moment(TEXT, gateway_page.groups(settings()), 1.5)
    assert (found["t_s"], found["connections"]) == (1.5, 3)
    first, joined, announced = found["paths"]
    assert (first["bytes"], joined["bytes"], announced["bytes"]) == (3e6, 0, 1e6)
    assert (first["cwnd_segments"], first["in_flight_segments"]) == (40, 30)
    # 0.0125 s and 8,000,000 bit/s in the page's units.
    assert (first["srtt_ms"], first["delivery_rate_mbps"]) == (12.5, 8.0)
    assert announced["srtt_ms"] is None
    assert first["queue_packets"] is None


@pytest.mark.module
def test_the_page_needs_the_metrics():
    options = ["--listen", "10.9.0.1:443", "--origin", "127.0.0.1:80", "--metrics", "off", "--watch"]
    done = CliRunner().invoke(app, ["gateway", *options])
    assert done.exit_code == 2, done.stderr
    assert "the page reads the metrics, which are off (--watch, --metrics)" in done.stderr

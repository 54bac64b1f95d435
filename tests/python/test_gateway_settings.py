"""What a gateway is told, and what it says of it, without any packet."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import Fault, InputError
from anabranch.live import host_setup
from anabranch.live.deadline import deadline
from anabranch.live.gateway import Settings, resolve, split
from anabranch.plugins.load import Finder


def settings(**more):
    given = {"tun": "anabranch0", "listen": ("10.9.0.1:443",), "origin": ("127.0.0.1:8443",)}
    return Settings(**{**given, **more})


@pytest.mark.parametrize(
    ("place", "found"),
    [("10.9.0.1:443", ("10.9.0.1", 443)), ("[fd09::1]:65535", ("fd09::1", 65535))],
)
def test_a_place_is_an_address_and_a_port(place, found):
    assert split(place) == found


@pytest.mark.parametrize(
    "place",
    [
        "",
        "443",
        "10.9.0.1",
        "10.9.0.1:",
        "10.9.0.1:0",
        "10.9.0.1:65536",
        "fd09::1:443",
        "[10.9.0.1]:443",
        "x:80",
    ],
)
def test_what_is_no_place_is_told_of(place):
    fault = split(place, "--metrics")
    assert isinstance(fault, Fault)
    assert fault.where == "--metrics"


def test_an_origin_is_looked_up():
    assert resolve("127.0.0.1:80") == ("127.0.0.1:80",)
    assert resolve("[::1]:80") == ("[::1]:80",)
    for wrong in ("", "127.0.0.1", ":80", "127.0.0.1:x", "[::1]"):
        with pytest.raises(InputError):
            resolve(wrong)


@pytest.mark.module
def test_all_that_is_wrong_is_told_of_at_once():
    wrong = settings(
        listen=("0.0.0.0:80", "127.0.0.1:80", "10.9.0.1:80", "10.9.0.1:80"),
        announce=("10.9.0.1", "ff02::1", "10.9.0.2", "10.9.0.2"),
        metrics="nowhere",
        scheduler="blst",
        congestion="cubic(beta=7)",
        receive_buffer=10,
    )
    faults = [(fault.where, fault.message) for fault in wrong.faults(Finder(Path.cwd()))]
    assert [where for where, _ in faults] == [
        *["--listen"] * 3,
        *["--announce"] * 3,
        "--metrics",
        "--scheduler",
        "--congestion",
        "--receive-buffer",
    ]
    assert list(settings().faults(Finder(Path.cwd()))) == []


def printed(given, public=()):
    command = ["anabranch", "gateway", "--listen", "10.9.0.1:443"]
    return host_setup.text(given, user="web", public=public, mtu=1400, command=command)


def test_what_root_does_before_is_printed():
    both = settings(listen=("10.9.0.1:443", "[fd09::1]:443"), announce=("10.9.0.2",))
    lines = printed(both, ("203.0.113.7:8443", "[2001:db8::7]:443")).splitlines()
    for line in (
        "ip tuntap add dev anabranch0 mode tun user web",
        "ip link set dev anabranch0 mtu 1400 up",
        "ip route add 10.9.0.1/32 dev anabranch0",
        "ip route add 10.9.0.2/32 dev anabranch0",
        "ip -6 route add fd09::1/128 dev anabranch0",
        "sysctl -w net.ipv4.ip_forward=1",
        "sysctl -w net.ipv6.conf.all.forwarding=1",
        "    ip daddr 203.0.113.7 tcp dport 8443 dnat ip to 10.9.0.1:443",
        "    ip6 daddr 2001:db8::7 tcp dport 443 dnat ip6 to [fd09::1]:443",
        "ExecStart=anabranch gateway --listen 10.9.0.1:443",
        "CapabilityBoundingSet=",
    ):
        assert line in lines
    alone = printed(settings())
    assert "nft" not in alone
    assert "ipv6" not in alone


def test_a_public_address_without_a_gateway_behind_it_is_told_of():
    with pytest.raises(InputError, match="no gateway behind"):
        printed(settings(), ("[2001:db8::7]:443",))


def test_the_words_of_the_unit_ask_for_no_text():
    given = [
        "gateway",
        "--listen",
        "10.9.0.1:443",
        "--setup-print",
        "--user",
        "web",
        "--mtu=1400",
        "--public",
        "x",
    ]
    assert host_setup.started_with(given)[1:] == ["-m", "anabranch", "gateway", "--listen", "10.9.0.1:443"]


def calls(function):
    return function()


def spins():
    while True:
        pass


def test_a_call_that_takes_too_long_is_interrupted_and_others_are_not():
    def counts():
        return sum(range(1000))

    with deadline(calls.__code__, counts.__code__):
        with pytest.raises(TimeoutError, match="spins took more than"):
            calls(spins)
        assert [calls(counts) for _ in range(3)] == [499_500] * 3

"""The settings of a gateway and the messages about them, without any packet."""

from __future__ import annotations

import re
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import Fault, InputError
from anabranch.live import gateway as gateways
from anabranch.live import host_setup
from anabranch.live.deadline import deadline
from anabranch.live.gateway import Settings, resolve, split
from anabranch.plugins import module
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
def test_invalid_socket_address_is_reported(place):
    fault = split(place, "--metrics")
    assert isinstance(fault, Fault)
    assert fault.where == "--metrics"


def test_an_origin_is_looked_up():
    assert resolve("127.0.0.1:80") == ("127.0.0.1:80",)
    assert resolve("[::1]:80") == ("[::1]:80",)
    for wrong in ("", "127.0.0.1", ":80", "127.0.0.1:x", "[::1]"):
        with pytest.raises(InputError):
            resolve(wrong)


def faults(**more):
    found = settings(**more).faults(Finder(Path.cwd()))
    return [(fault.where, fault.message) for fault in found]


@pytest.mark.module
def test_a_handshake_is_kept_for_as_long_as_the_endpoint_can():
    assert faults(half_open_s=262.0) == []
    assert faults(half_open_s=600.0) == [("--half-open", "more than 262 s")]


@pytest.mark.module
@pytest.mark.parametrize(
    ("listen", "same"),
    [
        ("[fd09::1]:443", "[FD09:0:0::0001]:443"),
        ("10.9.0.1:443", "[::ffff:10.9.0.1]:443"),
        ("10.9.0.1:443", "[::ffff:a09:1]:0443"),
    ],
)
def test_addresses_are_the_same_however_they_are_written(listen, same):
    assert settings(listen=(same,)).listen == (listen,)
    assert faults(listen=(listen, same)) == [("--listen", "an address is given twice")]
    address, _, _ = same.removeprefix("[").partition("]")
    own = listen.rpartition(":")[0].strip("[]")
    expected = [("--announce", f"the gateway listens there: `{own}`")]
    assert faults(listen=(listen,), announce=(address,)) == expected
    given = ("fd09::2", "fd09:0::2")
    assert faults(announce=given) == [("--announce", "an address is announced twice")]


@pytest.mark.module
def test_the_origin_is_not_the_gateway_itself():
    given = {"listen": ("10.9.0.1:443", "[fd09::1]:443"), "announce": ("10.9.0.2",)}
    for origin in ("[::ffff:10.9.0.1]:443", "[fd09:0::1]:443", "10.9.0.2:443", "10.9.0.1:80"):
        found = faults(origin=("127.0.0.1:80", *resolve(origin)), **given)
        assert [where for where, _ in found] == ["--origin"], origin
        assert "the gateway itself" in found[0][1]
    assert faults(origin=("10.9.0.3:443",), **given) == []


@pytest.mark.module
def test_an_address_with_a_scope_is_not_the_gateway_s():
    for address in ("fe80::1%lo", "fd09::1%1"):
        found = faults(listen=(f"[{address}]:443",), announce=(f"fd09::2%{address[-1]}",))
        assert [where for where, _ in found] == ["--listen", "--announce"]
        assert all("a scope" in message for _, message in found)
    # An origin on the link has one, as a number.
    assert resolve("[fe80::1%lo]:80") == (f"[fe80::1%{socket.if_nametoindex('lo')}]:80",)


@pytest.mark.module
def test_every_fault_is_reported_at_once():
    wrong = settings(
        listen=("0.0.0.0:80", "127.0.0.1:80", "10.9.0.1:80", "10.9.0.1:80"),
        announce=("10.9.0.1", "ff02::1", "10.9.0.2", "10.9.0.2"),
        metrics="nowhere",
        scheduler="blst",
        congestion="cubic(beta=7)",
        tun="../x",
        receive_buffer=10,
    )
    faults = [(fault.where, fault.message) for fault in wrong.faults(Finder(Path.cwd()))]
    assert [where for where, _ in faults] == [
        "--tun",
        *["--listen"] * 3,
        *["--announce"] * 3,
        "--metrics",
        "--scheduler",
        "--congestion",
        "--receive-buffer",
    ]
    assert list(settings().faults(Finder(Path.cwd()))) == []


@pytest.mark.module
def test_a_wait_for_the_origin_has_a_length():
    assert faults(connect_s=0.0) == [("--connect-timeout", "no time to connect in")]


@pytest.mark.module
@pytest.mark.parametrize("seconds", [0.999, 120.001, -1.0, 0.0, float("nan"), float("inf")])
def test_a_retransmission_timeout_is_between_one_second_and_120(seconds):
    """Linux's `tcp_rto_max_ms`: 1,000 to 120,000. The module refuses what the settings did not check."""
    assert faults(rto_max_s=1.0) == faults(rto_max_s=120.0) == []
    message = f"not between 1 and 120 s: `{seconds}`"
    assert faults(rto_max_s=seconds) == [("rto_max_s", message)]
    with pytest.raises(ValueError, match="rto_max_s is not between 1 and 120 s"):
        module().gateway(settings(rto_max_s=seconds), lambda _: (2, [], None))


@pytest.mark.module
def test_a_rule_for_outages_has_a_known_name():
    for name in ("kernel", "timeouts", "dsack"):
        assert faults(outage=name) == []
    (fault,) = settings(outage="dsak").faults(Finder(Path.cwd()))
    assert (fault.where, fault.message, fault.hint) == (
        "outage",
        "unknown rule: `dsak`",
        "did you mean `dsack`?",
    )


@pytest.mark.parametrize(
    ("hard", "told"),
    [(1087, "1024 connections need 1088 descriptors; the limit is 1087"), (1088, None), (64, "limit is 64")],
)
def test_the_limit_of_descriptors_is_raised_and_has_room_for_all_connections(monkeypatch, hard, told):
    """64 in addition to one for each connection."""
    limits = [(32, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    if told is None:
        gateways._raise_descriptor_limit(1024)
        assert limits[-1] == (hard, hard)
        return
    with pytest.raises(InputError) as raised:
        gateways._raise_descriptor_limit(1024)
    (fault,) = raised.value.faults
    assert told in fault.message
    assert fault.where == "--connections"
    assert "LimitNOFILE=1088" in fault.hint
    assert ("--connections 1023" in fault.hint) == (hard == 1087)


def test_a_limit_that_cannot_be_raised_stays_as_it_is(monkeypatch):
    """setrlimit(2): EPERM if the limit is beyond `fs.nr_open`. The soft limit then decides."""

    def refused(*_):
        message = "not allowed to raise maximum limit"
        raise ValueError(message)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 30))
    monkeypatch.setattr(resource, "setrlimit", refused)
    gateways._raise_descriptor_limit(900)
    with pytest.raises(InputError, match="the limit is 1024"):
        gateways._raise_descriptor_limit(1024)


@pytest.mark.parametrize(
    ("place", "warns"),
    [
        ("127.0.0.1:9464", False),
        ("127.8.8.8:9464", False),
        ("[::1]:9464", False),
        (None, False),
        ("0.0.0.0:9464", True),
        ("[::]:9464", True),
        ("10.0.0.1:9464", True),
        ("[fd09::1]:9464", True),
    ],
)
def test_metrics_that_others_can_read_are_warned_of(place, warns):
    assert (gateways._exposed_metrics(place) is not None) == warns


def printed(given, public=(), **more):
    command = ["anabranch", "gateway", "--listen", "10.9.0.1:443"]
    return host_setup.text(given, user="web", public=public, mtu=1400, command=command, **more)


def test_setup_commands_for_root_are_printed():
    both = settings(listen=("10.9.0.1:443", "[fd09::1]:443"), announce=("10.9.0.2",))
    lines = printed(both, ("203.0.113.7:8443", "[2001:db8::7]:443")).splitlines()
    for line in (
        "[ -e /sys/class/net/anabranch0 ] || ip tuntap add dev anabranch0 mode tun user web",
        "ip link set dev anabranch0 mtu 1400 txqueuelen 2000 up",
        "ip route replace 10.9.0.1/32 dev anabranch0",
        "ip route replace 10.9.0.2/32 dev anabranch0",
        "ip -6 route replace fd09::1/128 dev anabranch0",
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


def test_a_limit_of_syns_is_printed_where_one_is_asked_for():
    text = printed(settings(), syn_limit=20)
    assert "table inet anabranch_anabranch0_floods {" in text.splitlines()
    assert text.count("limit rate over 20/second burst 100 packets } drop") == 2
    assert "--syn-limit" not in host_setup.started_with(["gateway", "--setup-print", "--syn-limit", "20"])


def test_a_public_address_without_a_gateway_behind_it_is_reported():
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


@pytest.mark.module
def test_the_unit_names_plug_ins_by_their_whole_place(tmp_path, monkeypatch):
    here = tmp_path / "a (b)"
    here.mkdir()
    monkeypatch.chdir(here)
    given = [
        *("gateway", "--scheduler", "rtx-aware(mine.py:A)", "--congestion=sub/its.py:B"),
        *("--scheduler", "cubic", "--congestion", "/etc/its.py:C"),
    ]
    # A name with a composition's own signs is in quotes; a place alone is not read so.
    assert host_setup.started_with(given)[3:] == [
        *("gateway", "--scheduler", f'rtx-aware("{here}/mine.py:A")', "--congestion", f"{here}/sub/its.py:B"),
        *("--scheduler", "cubic", "--congestion", "/etc/its.py:C"),
    ]


@pytest.mark.module
def test_the_unit_names_files_by_their_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["gateway", "--log", "gateway.log", "--limits=sub/limits.toml", "--log", "/var/log/g.log"]
    assert host_setup.started_with(given)[3:] == [
        *("gateway", "--log", f"{tmp_path}/gateway.log", "--limits", f"{tmp_path}/sub/limits.toml"),
        *("--log", "/var/log/g.log"),
    ]


def test_the_unit_reloads_and_writes_its_log():
    """systemd.exec(5): `ProtectSystem=strict` leaves only the folders of `ReadWritePaths` writable."""
    lines = unit(["x"], log="/var/log/100% mine/gateway.log").splitlines()
    assert "ExecReload=/bin/kill -HUP $MAINPID" in lines
    assert 'ReadWritePaths="/var/log/100%% mine"' in lines
    assert "ReadWritePaths" not in unit(["x"])


def unit(command, user="web", **more):
    """Return the unit that is printed."""
    text = host_setup.text(settings(**more), user=user, public=(), mtu=1400, command=command)
    return text.partition("<<'UNIT'\n")[2].partition("UNIT\n")[0]


def test_the_words_of_the_unit_are_as_systemd_reads_them():
    words = ["/50%$/python", "--scheduler", "/a b/m.py:X", "%h", "${HOME}", 'a"b\\c', "two\nlines", ";", ""]
    started = next(line for line in unit(words, user="50%").splitlines() if line.startswith("ExecStart="))
    assert started == (
        r'ExecStart=/50%%$/python --scheduler "/a b/m.py:X" %%h "$${HOME}" "a\"b\\c" "two\nlines" ";" ""'
    )
    assert "User=50%%" in unit(words, user="50%")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze to verify units with")
def test_systemd_takes_the_unit(tmp_path):
    file = tmp_path / "anabranch-gateway.service"

    def verified(text):
        file.write_text(text, encoding="utf-8")
        command = ["systemd-analyze", "verify", "--man=no", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # The host's own units may have faults, so only lines about this file are returned.
        return [line for line in done.stderr.splitlines() if file.name in line]

    words = [
        sys.executable,
        "-m",
        "anabranch",
        "--scheduler",
        "/a b/%z $x.py:X",
        "%h",
        'a"b\\c',
        "two\nlines",
    ]
    assert verified(unit(words)) == []
    # This shows that the check reports faults.
    assert verified(unit(words).replace("%%z", "%z")) != []
    assert verified(unit(words).replace("PrivateTmp=yes", "PrivateTmp=perhaps")) != []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze to judge units with")
def test_systemd_finds_the_unit_hardly_exposed(tmp_path):
    """The number is systemd's exposure level, from 0 to 10. The gateway's unit must not exceed 2.0."""
    file = tmp_path / "anabranch-gateway.service"

    def exposure(text):
        file.write_text(text, encoding="utf-8")
        command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return float(re.search(r"exposure level for .*: ([\d.]+)", done.stdout)[1])

    printed = unit(["/usr/bin/true"])
    assert exposure(printed) <= 2.0
    without = "".join(line for line in printed.splitlines(True) if "SystemCallFilter" not in line)
    assert exposure(without) > exposure(printed)


def test_the_unit_has_room_for_all_that_connections_may_hold():
    """Computed by hand: twice 512 MiB of data, and 512 MiB."""
    assert "MemoryMax=1536M" in unit(["/usr/bin/true"]).splitlines()
    text = host_setup.text(
        settings(memory=3 << 30, connections=100_000), user="web", public=(), mtu=1400, command=["x"]
    )
    assert {"MemoryMax=6656M", "LimitNOFILE=101024"} <= set(text.splitlines())


def rules(*public, tun="anabranch0"):
    """Return the rules that are printed."""
    text = printed(settings(tun=tun), public)
    return text.partition("<<'RULES'\n")[2].partition("RULES\n")[0]


def test_another_gateway_s_rules_have_another_table():
    assert "table inet anabranch_anabranch0 {" in rules("203.0.113.7:443")
    assert "table inet anabranch_web_2d_1 {" in rules("203.0.113.7:443", tun="web-1")
    assert "table inet anabranch_web_5f_1 {" in rules("203.0.113.7:443", tun="web_1")


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

"""Captures of headers: the kernel's filter, the choice of packets, the file, and the command's options."""

import socket
import struct
from dataclasses import fields
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from anabranch import capture, measure
from anabranch.cli._app import app
from anabranch.errors import Fault, InputError
from anabranch.measure import _captured as _captured_module
from anabranch.measure import _figures, _headers, _paths, _session
from anabranch.measure._captured import Captured, PathSeen
from anabranch.measure._sockets import Sample, Subflow

#: The number of the interface, at `SKF_AD_OFF + SKF_AD_IFINDEX` of linux/filter.h.
_IFINDEX = 2**32 - 0x1000 + 8
_HOST = _paths.Host(
    server=("192.0.2.1", 443),
    family=socket.AF_INET,
    paths=(_paths.Path(name="wifi", address="10.0.0.1"), _paths.Path(name="lte", address="10.0.1.1")),
    multipath=True,
    lacking=(),
)
_HOST6 = _paths.Host(
    server=("2001:db8::1", 443),
    family=socket.AF_INET6,
    paths=(_paths.Path(name="wifi", address="fd00::1"), _paths.Path(name="lte", address="fd00::2")),
    multipath=True,
    lacking=(),
)
_SYN, _ACK = 0x02, 0x10
_REFUSED = InputError([Fault(message="the server answers 503", where="http://192.0.2.1/x")])
_ORDERS = measure._orders
#: MP_JOIN of RFC 8684 section 3.2: kind 30, length 12, subtype 1.
_JOIN = bytes([30, 12, 0x10, 1]) + bytes(8)


def _tcp(source, destination, *, flags=_ACK, options=b"", payload=b""):
    offset = (20 + len(options)) // 4
    return (
        struct.pack("!HHIIBBHHH", source, destination, 1, 1, offset << 4, flags, 500, 0, 0)
        + options
        + payload
    )


def _ipv4(source, destination, body, *, protocol=6, fragment=0, options=b""):
    length = 20 + len(options) + len(body)
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    first = 0x45 + len(options) // 4
    head = struct.pack("!BBHHHBBH", first, 0, length, 0, fragment, 64, protocol, 0)
    return head + ends + options + body


def _ipv6(source, destination, body, *, protocol=6):
    ends = (socket.inet_pton(socket.AF_INET6, end) for end in (source, destination))
    return struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + b"".join(ends) + body


def _accepts(program, packet, interface):
    """Run classic BPF as the kernel does. The codes are those of linux/bpf_common.h."""
    place = accumulator = index = 0
    while True:
        code, yes, no, operand = program[place]
        place += 1
        if code == 0x06:  # return
            return operand > 0
        if code == 0x20 and operand == _IFINDEX:
            accumulator = interface
        elif code in (0x20, 0x28, 0x30, 0x48):  # load a word, half a word, a byte; half a word at an offset
            size = {0x20: 4, 0x28: 2, 0x30: 1, 0x48: 2}[code]
            start = operand + (index if code == 0x48 else 0)
            if start + size > len(packet):
                return False
            accumulator = int.from_bytes(packet[start : start + size], "big")
        elif code == 0xB1:  # the length of the IPv4 header
            index = 4 * (packet[operand] & 0xF)
        elif code == 0x74:  # shift right
            accumulator >>= operand
        elif code == 0x15:  # jump if equal
            place += yes if accumulator == operand else no
        elif code == 0x45:  # jump if a bit is set
            place += yes if accumulator & operand else no
        else:
            raise AssertionError(code)


@pytest.mark.parametrize(
    ("packet", "interface", "kept"),
    [
        (_ipv4("10.0.0.1", "192.0.2.1", _tcp(5000, 443)), 2, True),
        (_ipv4("192.0.2.1", "10.0.1.1", _tcp(443, 5000)), 3, True),
        (_ipv4("192.0.2.1", "10.0.1.1", _tcp(443, 5000), options=bytes(4)), 3, True),
        # Another interface, port, protocol, and an address of another host.
        (_ipv4("10.0.0.1", "192.0.2.1", _tcp(5000, 443)), 4, False),
        (_ipv4("10.0.0.1", "192.0.2.1", _tcp(5000, 80)), 2, False),
        (_ipv4("10.0.0.1", "192.0.2.1", _tcp(443, 5000)), 2, False),
        (_ipv4("10.0.0.1", "192.0.2.1", _tcp(5000, 443), protocol=17), 2, False),
        (_ipv4("10.0.0.9", "192.0.2.1", _tcp(5000, 443)), 2, False),
        # The second fragment of a packet has no TCP header.
        (_ipv4("10.0.0.1", "192.0.2.1", _tcp(5000, 443), fragment=100), 2, False),
        (_ipv6("fd00::1", "2001:db8::1", _tcp(5000, 443)), 2, False),
    ],
)
def test_the_filter_for_ipv4(packet, interface, kept):
    assert _accepts(_headers.program(_HOST, [2, 3]), packet, interface) == kept


@pytest.mark.parametrize(
    ("packet", "kept"),
    [
        (_ipv6("fd00::1", "2001:db8::1", _tcp(5000, 443)), True),
        (_ipv6("2001:db8::1", "fd00::2", _tcp(443, 5000)), True),
        (_ipv6("2001:db8::1", "fd00::3", _tcp(443, 5000)), False),
        (_ipv6("fd00::2", "2001:db8::1", _tcp(5000, 80)), False),
        (_ipv6("fd00::2", "2001:db8::1", _tcp(5000, 443), protocol=17), False),
        (_ipv4("10.0.0.1", "192.0.2.1", _tcp(5000, 443)), False),
    ],
)
def test_the_filter_for_ipv6(packet, kept):
    assert _accepts(_headers.program(_HOST6, [2, 3]), packet, 3) == kept


def test_only_the_server_and_addresses_that_are_joined_belong_to_a_session(tmp_path):
    recorder = _headers.Recorder(tmp_path / "x.pcapng", _HOST)

    def belongs(*ends, **more):
        body = _tcp(5000, 443, **more) if ends[0].startswith("10.") else _tcp(443, 5000, **more)
        return recorder._is_of_session(_headers._parsed(_ipv4(*ends, body)))

    assert belongs("10.0.0.1", "192.0.2.1")
    assert belongs("192.0.2.1", "10.0.1.1")
    assert not belongs("10.0.0.1", "198.51.100.7", flags=_SYN)
    assert not belongs("198.51.100.7", "10.0.0.1")
    assert belongs("10.0.1.1", "198.51.100.7", flags=_SYN, options=_JOIN)
    assert belongs("198.51.100.7", "10.0.1.1")


@pytest.mark.module
def test_the_file_has_headers_only_and_is_read(tmp_path):
    file = tmp_path / "x.pcapng"
    body = _tcp(443, 5000, options=b"\x01" * 12, payload=b"secret" * 100)
    blocks = [_headers._heads(["wifi", "lte"])]
    for number, packet in enumerate(
        (_ipv4("192.0.2.1", "10.0.1.1", body), _ipv6("fd00::1", "fd00::2", body))
    ):
        # The socket returns the beginning of a packet.
        blocks.append(
            _headers._packet(1_700_000_000 * 10**9 + number, number, _headers._parsed(packet[:160]))
        )
    file.write_bytes(b"".join(blocks))
    assert b"secret" not in file.read_bytes()
    found = capture.read(file, progress=False)
    assert found.damage == ""
    assert found.counts["tcp_segments"] == 2
    assert found.counts["first_unix_s"] == 1_700_000_000
    assert [stream["to_client"]["payload_bytes"] for stream in found.streams] == [600, 600]


def _session_with(captured):
    subflow = Subflow(local=("10.0.0.1", 1), received=100, rtt_ms=20.0, min_rtt_ms=20.0)
    samples = [Sample(at_s=0.1, subflows=(subflow,), fell_back=False)]
    return _session.Session(arm="MPTCP", trial=0, samples=samples, captured=captured)


def _captured(*, drops):
    seen = PathSeen(
        bytes=90,
        rtt_ms=25.0,
        min_rtt_ms=20.0,
        rtt_from="timestamps",
        out_of_order=0,
        twice_bytes=0,
        head_of_line_s=0.0,
    )
    return Captured(file=None, frames=9, drops=drops, paths={"wifi": seen})


@pytest.mark.parametrize(("drops", "source", "total"), [(0, "capture", 90), (3, "tcp_info", 100)])
def test_a_capture_with_gaps_gives_no_figures(drops, source, total):
    row = _figures.of_session(_session_with(_captured(drops=drops)), _HOST.paths)
    assert (row["uq18_from"], row["uq18"]["DB_total"]) == (source, total)
    assert row["tcp_info"]["wifi"]["bytes"] == 100
    plan = measure.Plan(url=None, host=_HOST, trials=1, limit_s=1.0, notes=(), is_captured=True)
    notes = measure.Measured(plan=plan, sessions=[_session_with(_captured(drops=drops))]).notes
    assert any("lack 3 packets" in note for note in notes) == bool(drops)


def _subflow(stream, rtt_ms, samples, kind):
    """Return a subflow of wifi, as a capture shows it."""
    empty = dict.fromkeys(field.name for field in fields(capture.Path))
    times = {"rtt_ms": rtt_ms, "min_rtt_ms": rtt_ms, "rtt_mean_ms": rtt_ms, "rtt_from": kind}
    ends = {"client": f"10.0.0.1:{stream}", "server": "192.0.2.1:443"}
    return capture.Path(**{**empty, **times, **ends, "stream": stream, "bytes": 1, "rtt_samples": samples})


def test_the_round_trip_time_of_many_connections_is_weighted_by_their_samples():
    subflows = [
        _subflow(1, 20.0, 1, "handshake"),
        _subflow(2, 40.0, 98, "timestamps"),
        _subflow(3, 20.0, 1, "handshake"),
        _subflow(4, None, 0, None),
    ]
    way = {"resent_bytes": 0}
    streams = [{"stream": one.stream, "client": one.client, "to_client": way} for one in subflows]
    found = _captured_module._paths(
        SimpleNamespace(streams=streams), [SimpleNamespace(paths=subflows)], _HOST.paths
    )
    # (20 + 98 * 40 + 20) / 100
    assert found["wifi"].rtt_ms == pytest.approx(39.6)
    assert (found["wifi"].rtt_from, found["wifi"].min_rtt_ms) == ("timestamps", 20.0)


def test_round_trip_times_of_a_capture_have_a_line_for_each_path():
    times = {
        "10.1.1.1:40000 10.1.0.1:80": 164.42,
        "10.2.1.1:40000 10.1.0.1:80": 1.0,
        "10.2.1.1:40001 10.1.0.1:80": None,
        "[fd00::1]:5 [fd00::2]:80": 20.0,
    }
    found = {**dict.fromkeys(capture.FIGURES), "RTT_avg": times, "missing": {}}
    rows = {row["name"]: row for row in capture.figures(SimpleNamespace(summary={"uq18": found}))}
    assert rows["RTT_avg"]["value"].split("\n") == [
        "10.1.1.1: 164.4 ms",
        "10.2.1.1:40000: 1.0 ms",
        "fd00::1: 20.0 ms",
    ]
    assert rows["RTT_diff"]["value"] == "–"


def _run(*options):
    return CliRunner().invoke(
        app, ["measure", "http://127.0.0.1:9/x", "--paths", "lo", "--dry-run", *options]
    )


def test_a_folder_for_captures_without_captures_is_refused(tmp_path):
    done = _run("--captures", str(tmp_path), "--no-capture")
    assert done.exit_code == 2
    assert "there are no captures to keep" in done.stderr
    tmp_path.joinpath("file").touch()
    done = _run("--captures", str(tmp_path / "file"))
    assert (done.exit_code, "not a folder" in done.stderr) == (2, True)


def test_a_folder_for_captures_is_made_and_never_written_twice(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "may_capture", lambda: True)
    folder = tmp_path / "new" / "folder"
    done = _run("--captures", str(folder))
    assert (done.exit_code, folder.exists()) == (0, False)
    # No trial: nothing is requested.
    plan = measure.Plan(url=urlsplit("http://192.0.2.1/x"), host=_HOST, trials=0, limit_s=1.0, notes=())
    measure.measure(plan, captures_folder=folder)
    assert folder.is_dir()
    folder.joinpath("trial-1-mptcp.pcapng").touch()
    done = _run("--captures", str(folder))
    assert (done.exit_code, "captures of an earlier measurement" in done.stderr) == (2, True)
    tmp_path.joinpath("file").touch()
    done = _run("--captures", str(tmp_path / "file" / "folder"))
    assert (done.exit_code, "cannot make files or folders in" in done.stderr) == (2, True)


def test_any_failure_of_the_recording_thread_is_raised_when_the_block_ends(monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unused:
        monkeypatch.setattr(_headers, "_socket", lambda: unused)
        for name in ("_attach", "_listen"):
            monkeypatch.setattr(_headers, name, lambda *_: None)
        monkeypatch.setattr(_headers.socket, "if_nametoindex", lambda _: 1)
        recorder = _headers.Recorder(tmp_path / "x.pcapng", _HOST)
        failure = struct.error("odd packet")

        def fails():
            raise failure

        monkeypatch.setattr(recorder, "_packets", fails)
        monkeypatch.setattr(_headers, "_dropped", lambda _: 0)
        with pytest.raises(struct.error, match="odd packet"), recorder:
            pass


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), _REFUSED])
@pytest.mark.parametrize("captured", [True, False])
def test_a_later_session_that_fails_keeps_those_before_it(monkeypatch, captured, failure):
    def play(order):
        if order.trial:
            raise failure
        return _session.Session(arm=order.arm, trial=order.trial, bytes=5)

    monkeypatch.setattr(measure, "_PAUSE_S", 0.0)
    monkeypatch.setattr(
        measure, "_recorded" if captured else "_played", lambda _, order, *__, **___: play(order)
    )
    plan = measure.Plan(
        url=urlsplit("http://192.0.2.1/x"), host=_HOST, trials=2, limit_s=1.0, notes=(), is_captured=captured
    )
    found = measure.measure(plan)
    # MPTCP and both paths alone, in two trials.
    assert [one.bytes for one in found.sessions] == [5, 5, 5, 0, 0, 0]
    reasons = {one.error for one in found.sessions if one.trial == 1}
    assert reasons == {getattr(failure, "strerror", None) or "the server answers 503 (http://192.0.2.1/x)"}
    # The first one shows that the measurement is impossible.
    monkeypatch.setattr(measure, "_orders", lambda plan: list(_ORDERS(plan))[3:])
    with pytest.raises(type(failure)):
        measure.measure(plan)


def test_the_start_says_whether_packets_are_captured(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "may_capture", lambda: False)
    assert "it needs CAP_NET_RAW" in _run().stderr
    done = _run("--captures", str(tmp_path))
    assert (done.exit_code, "lacks CAP_NET_RAW" in done.stderr) == (4, True)
    monkeypatch.setattr(measure, "may_capture", lambda: True)
    assert "without payload, and deleted after they were read" in _run().stderr
    assert "and kept in" in _run("--captures", str(tmp_path)).stderr
    assert "(--no-capture)" in _run("--no-capture").stderr

"""The limits of a gateway as options and in the file of limits: both are read in the same way."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from anabranch.cli import _gateway
from anabranch.cli._gateway import gateway
from anabranch.errors import InputError
from anabranch.live import gateway as gateways
from anabranch.live import gateway_limits

#: Values that each limit refuses, and values at the bounds that it accepts.
REFUSED = [
    ("connections", 0),
    ("connections", 1 << 32),
    ("per_source", 0),
    ("per_site", -1),
    ("memory", "0 B"),
    ("memory", "1023 KiB"),
    ("idle", "0 s"),
    ("grace", "-1 s"),
    ("backlog", 1 << 32),
    ("half_open", "0 s"),
    ("connect_timeout", "0 ms"),
    ("receive_buffer", "much"),
]
ALLOWED = [
    ("connections", (1 << 32) - 1, "connections", (1 << 32) - 1),
    ("memory", "1 MiB", "memory", 1 << 20),
    ("idle", "1 ms", "idle_s", 0.001),
    ("grace", "0 s", "grace_s", 0.0),
    ("backlog", 0, "backlog", 0),
    ("per_site", None, "per_site", None),
]


def options(**changed):
    """Return the defaults of the command's options, except those that are changed."""
    names = {**gateway_limits.KEYS, **gateway_limits.OPTIONS}
    count = gateway.__code__.co_argcount
    words = gateway.__code__.co_varnames[count - len(gateway.__defaults__) : count]
    defaults = dict(zip(words, gateway.__defaults__, strict=True))
    return {name: defaults[name] for name in names} | changed


def plugged(**changed):
    """Return what a preset and the options that replace it set, and the faults."""
    faults = []
    given = SimpleNamespace(**{"preset": "kernel", "scheduler": None, "congestion": None} | changed)
    return _gateway._preset(given, faults), faults


def test_a_preset_of_the_gateway_sets_plug_ins_and_timeouts():
    assert plugged() == ({}, [])
    video = {"scheduler": "min-rtt-0.9x", "congestion": "bbr3", "rto_max_s": 1.0, "outage": "dsack"}
    assert plugged(preset="video") == (video, [])
    assert plugged(preset="video", congestion="cubic")[0] == video | {"congestion": "cubic"}
    assert plugged(scheduler="blest")[0] == {"scheduler": "blest"}
    faults = plugged(preset="vidoe")[1]
    assert [(fault.where, fault.hint) for fault in faults] == [("--preset", "did you mean `video`?")]
    # Without a preset, the longest timeout is the kernel's 120 s (TCP_RTO_MAX).
    assert (settings().rto_max_s, settings().outage) == (120.0, "kernel")


def settings(**more):
    return gateways.Settings(tun="tun0", listen=("10.9.0.1:443",), origin=("127.0.0.1:80",), **more)


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_limit_that_is_none_is_refused_as_an_option_and_in_the_file(name, value, tmp_path):
    _, faults = gateway_limits.given(options(**{name: value}))
    assert [fault.where for fault in faults] == [f"--{name.replace('_', '-')}"]
    if name not in gateway_limits.KEYS:
        return
    file = tmp_path / "limits.toml"
    file.write_text(f"{name} = {value!r}\n", encoding="utf-8")
    with pytest.raises(InputError) as raised:
        gateway_limits.applied(settings(), file)
    (fault,) = raised.value.faults
    assert (fault.message, fault.line, fault.key) == (faults[0].message, 1, name)


@pytest.mark.parametrize(("name", "value", "setting", "found"), ALLOWED)
def test_a_limit_at_the_edge_is_taken(name, value, setting, found):
    read, faults = gateway_limits.given(options(**{name: value}))
    assert faults == []
    assert read.get(setting) == found


def test_all_options_that_are_wrong_are_reported_at_once():
    changed = dict(REFUSED)
    _, faults = gateway_limits.given(options(**changed))
    assert len(faults) == len(changed)


class Refuses:
    """A file of limits that cannot be read for an unexpected reason."""

    def __init__(self, error):
        self.error = error

    def __call__(self):
        raise self.error


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), RecursionError("deep"), KeyError("x")])
def test_no_fault_of_the_file_ends_a_gateway_that_serves(error):
    signals, before = gateways._Signals(30.0), settings()
    signals.heard(gateways._RELOAD, None)
    assert signals.reloaded(before, Refuses(error)) == before
    told, last = signals.notes
    assert told.startswith(f"{type(error).__name__}: ")
    assert last == "SIGHUP: the limits stay as they were"
    assert signals.reloaded(before, Refuses(error)) is None


@pytest.mark.parametrize("content", [b"\xff\xfe", b"idle = ", b"x = " + b"[" * 5000, None])
def test_a_file_that_cannot_be_read_is_a_fault_of_the_input(content, tmp_path):
    file = tmp_path / "limits.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError):
        gateway_limits.applied(settings(), file)


@pytest.mark.parametrize(
    ("number", "said", "hint"),
    [
        (errno.EROFS, "the log `/var/log/x`: Read-only file system", "ReadWritePaths="),
        (errno.EACCES, "the log `/var/log/x`: Permission denied", "write there"),
        (errno.EACCES, "the device `tun0`: Permission denied", "/dev/net/tun"),
    ],
)
def test_missing_host_resource_error_has_a_hint(number, said, hint):
    error = gateways._missing(settings(), OSError(number, said))
    assert said in str(error)
    assert hint in error.fault.hint

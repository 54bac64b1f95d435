"""The gateway under the restrictions of the systemd unit that `--setup-print` prints."""

from __future__ import annotations

import os
import shutil
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest
from bystander import LEAST_MBPS, Bystander, streams_first
from sandbox import service
from test_gateway_host import NOBODY, opened_to_all, run
from uplinks import V4, Origin, echo, exchange, wait

SANDBOX = Path(__file__).with_name("sandbox.py")
pytestmark = [
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze: sets of calls"),
    pytest.mark.skipif(find_library("seccomp") is None, reason="no libseccomp to filter calls with"),
]
#: The mounts of `ProtectProc=`, `ProcSubset=`, `ProtectSystem=strict` and `PrivateTmp=`.
_MOUNTS = (
    "mount -t proc -o subset=pid,hidepid=invisible proc /proc",
    "mount -o remount,bind,ro /",
    # Otherwise a checkout in /tmp would be hidden, even from the program itself.
    *([] if Path(sys.prefix).is_relative_to("/tmp") else ["mount -t tmpfs tmpfs /tmp"]),
)
#: The end of the command that mounts.
_MARK = 'exec "$@"'


def unit(lab):
    """Return the printed unit."""
    words = ("--listen", f"{V4}:443", "--origin", "127.0.0.1:8080", "--user", "nobody", "--setup-print")
    text = run(lab, *words).stdout
    return text.partition("<<'UNIT'\n")[2].partition("UNIT\n")[0]


def restricted(lab, tmp_path, *denied):
    """Return the command prefix that starts a program as systemd would."""
    text = unit(lab)
    settings = service(text)
    assert settings["User"] == ["nobody"]
    assert settings["CapabilityBoundingSet"] == [""]
    assert settings["PrivateUsers"] == settings["NoNewPrivileges"] == ["yes"]
    # This place can be read although the file system is read-only and the program has its own /tmp.
    place = Path("/dev/shm") / f"anabranch-{os.getpid()}"
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    (place / "unit").write_text(text, encoding="utf-8")
    mounts = opened_to_all(tmp_path)
    mounts = (*mounts[:2], f"{mounts[2].removesuffix(_MARK)}{' && '.join(_MOUNTS)} && {_MARK}", *mounts[3:])
    users = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--")
    sandbox = (sys.executable, str(SANDBOX), str(place / "unit"), *denied, "--")
    return (*mounts, *NOBODY, *users, *sandbox)


def for_nobody(lab):
    lab.host.run("ip tuntap del dev anabranch0 mode tun")
    lab.host.run("ip tuntap add dev anabranch0 mode tun user nobody")
    lab.host.run("ip link set anabranch0 mtu 1500 txqueuelen 2000 up")
    lab.host.run(f"ip route add {V4}/32 dev anabranch0")


def test_it_serves_under_all_that_the_unit_forbids(lab, tmp_path):
    with Origin(lab.host, echo), lab.gateway() as gateway, lab.connect() as client:
        assert exchange(client, b"served") == b"served"
        uring = gateway.metrics()["io_uring"]
    for_nobody(lab)
    under = restricted(lab, tmp_path)
    with (
        Origin(lab.host, streams_first(echo)),
        lab.gateway(listen=[f"{V4}:443"], under=under) as gateway,
        Bystander(lab) as bystander,
    ):
        status = Path(f"/proc/{gateway.process.pid}/status").read_text(encoding="ascii")
        for line in ("Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t" + "0" * 16, "Umask:\t0027"):
            assert f"{line}\n" in status
        rate = bystander.meter()
        for _ in range(20):
            with lab.connect() as client:
                assert exchange(client, b"served") == b"served"
        assert gateway.metrics()["io_uring"] == uring
        assert rate() >= LEAST_MBPS
        assert not any("not permitted" in note for note in gateway.notes)
        gateway.terminate()
        wait(lambda: any("SIGTERM" in note for note in gateway.notes), "the signal is heard")


def is_served(lab, under):
    """Return whether a gateway with this command prefix serves a client and keeps running."""
    try:
        with (
            Origin(lab.host, echo),
            lab.gateway(listen=[f"{V4}:443"], under=under) as gateway,
            lab.connect(timeout=2) as client,
        ):
            served = exchange(client, b"served") == b"served"
            return served and gateway.process.poll() is None
    except (AssertionError, OSError):
        return False


@pytest.mark.parametrize(
    "call",
    [pytest.param(name, marks=pytest.mark.slow) for name in ("connect", "io_uring_setup", "epoll_ctl")],
)
def test_a_call_that_is_forbidden_would_be_noticed(lab, tmp_path, call):
    for_nobody(lab)
    assert not is_served(lab, restricted(lab, tmp_path, call))

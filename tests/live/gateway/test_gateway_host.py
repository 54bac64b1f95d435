"""The gateway's requirements of its host, and the parts of the host that it leaves unchanged."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from uplinks import HUNG_S, V4, Origin, echo, exchange, wait

import anabranch

_OF_THE_LINK = re.compile("fe80::|ff00::|addr_gen_mode|stable_secret|_thresh")


#: Runs a program without any capability, as the current user.
BARE = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--")
#: Runs a program without any capability, as an unprivileged user.
NOBODY = (*BARE[:-1], "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--")

#: A program that runs another one with `io_uring_setup` (425 on every architecture) failing with EPERM, as in
#: a container.
FORBID_IO_URING = """
import ctypes, os, struct, sys
steps = ((0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x0005_0001), (0x06, 0, 0, 0x7FFF_0000))
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
prctl = ctypes.CDLL(None, use_errno=True).prctl
asked = Filter(len(steps), ctypes.addressof(program))
# PR_SET_NO_NEW_PRIVS, and PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(asked)):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def run(lab, *words, under=()):
    command = [
        "ip",
        "netns",
        "exec",
        lab.host.name,
        *under,
        sys.executable,
        "-m",
        "anabranch",
        "gateway",
        *words,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_runs_without_any_capability(lab):
    with Origin(lab.host, echo), lab.gateway(under=BARE) as gateway:
        status = Path(f"/proc/{gateway.process.pid}/status").read_text(encoding="ascii")
        assert "CapEff:\t0000000000000000\n" in status
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"


def test_it_serves_where_io_uring_is_forbidden_and_reports_this(lab):
    under = (sys.executable, "-c", FORBID_IO_URING)
    with Origin(lab.host, echo), lab.gateway(under=under) as gateway:
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"
        wait(lambda: any("no io_uring" in note for note in gateway.notes), "the operator is told")
        # The gateway checks for this ten times a second.
        time.sleep(0.35)
        assert sum("Operation not permitted" in note for note in gateway.notes) == 1
        assert gateway.metrics()["io_uring"] == 0


def test_packets_that_the_device_does_not_take_are_counted(lab):
    """A TUN device that is down takes no packet (EIO, `tun_get_user`)."""
    down = threading.Event()

    def talk(connected):
        connected.sendall(connected.recv(1))
        down.wait(HUNG_S)
        connected.sendall(bytes(10_000))

    with Origin(lab.host, talk), lab.gateway() as gateway, lab.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert gateway.metrics()["packets_refused_total"] == 0
        lab.host.run("ip link set anabranch0 down")
        down.set()
        wait(lambda: gateway.metrics()["packets_refused_total"] > 0, "refused packets are counted")


def test_the_metric_shows_whether_io_uring_is_used(lab):
    with Origin(lab.host, echo), lab.gateway() as gateway:
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"
        used = gateway.metrics()["io_uring"]
        # Reports that were written earlier have been read when the metric is requested.
        gateway.terminate()
        assert gateway.wait_end() == 0
        assert used == 1 - any("no io_uring" in note for note in gateway.notes)


def shut_above(place):
    """Return the outermost parent folder that only its owner can access; None if there is none."""
    return next((folder for folder in reversed(place.parents) if not folder.stat().st_mode & 0o001), None)


def opened_to_all(tmp_path):
    """Return a command prefix with which any user may run Python from root's folder and open TUN devices.

    Their mounts are private: `ip netns exec` gives a program a separate mount namespace.
    """
    node, kept, base = tmp_path / "tun", tmp_path / "kept", Path(sys.base_prefix)
    kept.mkdir()
    # The device has the permissions that udev gives it. Not every host has udev.
    steps = [f"mknod -m 666 {node}.$$ c 10 200", f"mount --bind {node}.$$ /dev/net/tun"]
    for place in (sys.prefix, anabranch.__file__):
        if (closed := shut_above(Path(place))) is not None:
            pytest.skip(f"nobody but root may look into {closed}")
    if (shut := shut_above(base)) is not None:
        steps += [f"mount --bind {base} {kept}", f"mount -t tmpfs -o mode=755 tmpfs {shut}"]
        steps += [f"mkdir -p {base}", f"mount --bind {kept} {base}"]
    return ("sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh")


@pytest.mark.slow
def test_a_user_without_any_privilege_runs_it_on_the_device_that_root_made(lab, tmp_path):
    under = (*opened_to_all(tmp_path), *NOBODY)
    words = ("--listen", f"{V4}:443", "--origin", "127.0.0.1:8080")
    # The device that belongs to root is not opened.
    refused = run(lab, *words, under=under)
    assert refused.returncode == 4, refused.stderr
    assert "ip tuntap add dev anabranch0 mode tun user" in refused.stderr
    assert "serving" not in refused.stderr
    lab.host.run("ip tuntap del dev anabranch0 mode tun")
    lab.host.run("ip tuntap add dev anabranch0 mode tun user nobody")
    lab.host.run("ip link set anabranch0 mtu 1500 up")
    lab.host.run(f"ip route add {V4}/32 dev anabranch0")
    with Origin(lab.host, echo), lab.gateway(listen=[f"{V4}:443"], under=under) as gateway:
        status = Path(f"/proc/{gateway.process.pid}/status").read_text(encoding="ascii")
        for line in (
            "Uid:" + "\t65534" * 4,
            "Gid:" + "\t65534" * 4,
            "CapEff:\t" + "0" * 16,
            "CapBnd:\t" + "0" * 16,
        ):
            assert f"{line}\n" in status
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"
        assert gateway.records(1)[0]["protocol"] == "mptcp"
    # The device stays for the next gateway.
    assert "anabranch0" in lab.host.run("ip link")


def test_it_leaves_the_host_as_it_was(lab):
    looks = (
        "ip -o addr",
        "ip route show table all",
        "ip -6 route show table all",
        "ip rule",
        "sysctl net.ipv4 net.ipv6",
    )

    def look():
        # `linkdown` marks a route over a device that is not open. The kernel gives an open device a
        # link-local address.
        found = "\n".join(lab.host.run(command) for command in looks).replace(" linkdown", "")
        return sorted(
            re.sub(r" expires \d+sec| tentative", "", line).strip()
            for line in found.splitlines()
            if not _OF_THE_LINK.search(line)
        )

    before = look()
    with Origin(lab.host, echo), lab.gateway():
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"
        assert look() == before
    assert look() == before


def test_a_device_that_is_not_there_is_reported_and_not_made(lab):
    done = run(lab, "--listen", f"{V4}:443", "--origin", "127.0.0.1:80", "--tun", "nowhere0")
    assert done.returncode == 4
    assert "the device `nowhere0`" in done.stderr
    assert done.stderr.count("error:") == 1
    assert "nowhere0" not in lab.host.run("ip link")


def test_every_fault_is_reported_at_once(lab):
    wrong = ("--listen", "0.0.0.0:80", "--origin", "nowhere", "--scheduler", "nowhere.py:Mine", "--idle", "5")
    done = run(lab, *wrong)
    assert done.returncode == 2
    assert done.stderr.count("error:") == 4
    assert "no such file: `nowhere.py`" in done.stderr


@pytest.mark.slow
def test_a_device_that_another_one_has_is_reported(lab):
    with lab.gateway():
        done = run(lab, "--listen", f"{V4}:443", "--origin", "127.0.0.1:80", "--metrics", "off")
    assert done.returncode == 4
    assert "anabranch0" in done.stderr


@pytest.mark.skipif(shutil.which("nft") is None, reason="no nft to translate addresses with")
def test_setup_commands_suffice_to_run_a_gateway(lab):
    """The printed commands make a device and routes that a gateway can be run on."""
    lab.host.run("ip tuntap del dev anabranch0 mode tun")
    arguments = ["--listen", f"{V4}:443", "--origin", "127.0.0.1:8080", "--user", "root"]
    text = run(lab, *arguments, "--public", "10.77.1.1:8443", "--setup-print").stdout
    assert "anabranch0" not in lab.host.run("ip link")
    commands, unit, _ = text.partition("# Started by systemd")
    assert unit
    # Running the commands twice has the same effect as once.
    for _ in range(2):
        subprocess.run(
            ["ip", "netns", "exec", lab.host.name, "sh", "-e"], input=commands, text=True, check=True
        )
    assert lab.host.run("nft list ruleset").count("dnat ip to") == 1
    with Origin(lab.host, echo), lab.gateway(listen=[f"{V4}:443"]) as gateway:
        # The client connects to the public address, which the rules translate.
        client = lab.client.socket(protocol=262)
        client.settimeout(30)
        with client:
            client.connect(("10.77.1.1", 8443))
            assert exchange(client, b"served") == b"served"
        assert gateway.records(1)[0]["protocol"] == "mptcp"

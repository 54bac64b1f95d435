"""The host is unchanged in all cases. Namespaces and devices belong to the program and are removed with
it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anabranch.live import run_live
from anabranch.live.testbed import Bed, open_bed
from anabranch.scenario import plan as plans
from anabranch.scenario.load import load

GIVEN = {
    "name": "host",
    "application": {"kind": "bulk", "bytes": "200 kB"},
    "paths": [
        {"name": "wifi", "rtt": "10 ms", "rate": "20 Mbit/s"},
        {"name": "lte", "rtt": "20 ms", "rate": "20 Mbit/s"},
    ],
}
RUN = (
    "from anabranch.live import run_live; from anabranch.scenario.load import load; import json, sys; "
    "run_live(load(json.loads(sys.argv[1])))"
)


def host():
    """Return the state of the host's own namespace: links, addresses, routes, rules, settings."""
    told = [
        subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=True).stdout
        for words in (
            "-o link",
            "-o addr",
            "route show table all",
            "-6 route show table all",
            "rule",
            "-6 rule",
        )
    ]
    settings = {
        str(file): file.read_text(encoding="utf-8", errors="replace")
        for folder in ("ipv4", "ipv6", "mptcp", "core")
        for file in sorted(Path("/proc/sys/net", folder).rglob("*"))
        if file.is_file() and os.access(file, os.R_OK) and file.stat().st_mode & 0o444 and readable(file)
    }
    return told, settings


def readable(file):
    try:
        file.read_bytes()
    except OSError:
        return False
    return True


def names():
    """Return the names of all namespaces."""
    place = Path("/run/netns")
    return [file.name for file in place.iterdir()] if place.exists() else []


def made(*processes):
    """Return the names of the namespaces of these processes. Other users may run the program at the same
    time.
    """
    return {name for name in names() for process in processes if name.startswith(f"anabranch-{process}-")}


@pytest.mark.slow
def test_the_host_is_the_same_before_during_and_after():
    before, seen = host(), []

    def during(*_):
        seen.append((host(), made(os.getpid())))

    run_live(load(GIVEN), progress=during)
    assert seen
    assert all(told == before for told, _ in seen)
    # This shows that the test took effect: both namespaces existed during the run.
    assert all(len(spaces) == 2 for _, spaces in seen)
    assert host() == before
    assert made(os.getpid()) == set()


@pytest.mark.parametrize("moments", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_next_run_removes_namespaces_of_a_killed_run(moments):
    before, processes = host(), []
    draws = random.Random(1)
    left = 0
    for _ in range(moments):
        program = subprocess.Popen(
            [
                sys.executable,
                "-c",
                RUN,
                json.dumps({**GIVEN, "application": {"kind": "bulk", "bytes": "20 MB"}}),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(draws.uniform(0.3, 2.0))
        # At least one process has its namespaces, however busy the machine is.
        while len(processes) == moments - 1 and program.poll() is None and not made(program.pid):
            time.sleep(0.02)
        program.send_signal(signal.SIGKILL)
        program.wait()
        processes.append(program.pid)
        left += bool(made(program.pid))
    assert left > 0
    with open_bed(plans.build(load(GIVEN).scenario, None)):
        assert len(made(os.getpid())) == 2
        assert made(*processes) == set()
    assert made(os.getpid()) == set()
    assert host() == before


def test_others_namespaces_stay():
    name = f"anabranch-test-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        run_live(load(GIVEN))
        assert name in names()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_a_bed_names_its_places():
    bed = Bed(client="a", server="b", lanes=[])
    assert bed.place("client") == "/run/netns/a"

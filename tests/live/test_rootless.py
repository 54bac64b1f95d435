"""Real packets without root, if a host permits it: tried by a caller without privileges."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

#: A namespace in which the caller is another user, with its own files.
NOBODY = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@pytest.fixture
def nobody():
    if (
        shutil.which("unshare") is None
        or subprocess.run([*NOBODY, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no user namespaces here")


def run(*words):
    program = [*NOBODY, sys.executable, "-m", "anabranch", *words]
    return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.usefixtures("nobody")
def test_live_run_works_without_root():
    who = subprocess.run([*NOBODY, "id", "-u"], capture_output=True, text=True, check=True)
    assert who.stdout.strip() == "1000"
    done = run("live", "bulk-two-paths", "--set", "application.bytes=200kB", "--json")
    assert done.returncode == 0, done.stderr
    assert '"world": "live"' in done.stdout


@pytest.mark.usefixtures("nobody")
def test_a_missing_privilege_is_reported_in_a_line(monkeypatch):
    # As in a namespace in which no further one can be made.
    monkeypatch.setenv("PATH", "/nowhere")
    done = subprocess.run(
        [
            shutil.which("unshare", path="/usr/bin:/bin"),
            *NOBODY[1:],
            sys.executable,
            "-m",
            "anabranch",
            "live",
            "two-paths",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr.count("\n") <= 2
    assert "run it with sudo" in done.stderr

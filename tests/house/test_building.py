"""`.ci/building.py`, which runs a build and shows its progress."""

import os
import pty
import re
import subprocess
import sys

from repository import ROOT


def build(tmp_path, script):
    command = [sys.executable, ROOT / ".ci" / "building.py", tmp_path / "log", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_build_that_fails_prints_its_output_and_has_its_status(tmp_path):
    done = build(tmp_path, "echo said; echo wrong >&2; exit 3")
    assert (done.returncode, done.stderr) == (3, "said\nwrong\n")


def test_a_build_that_succeeds_is_quiet(tmp_path):
    done = build(tmp_path, "echo ' Compiling one'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "log").read_text(encoding="utf-8") == " Compiling one\n"


# Lines of cargo 1.95's output, where CARGO_TERM_PROGRESS_WHEN is "always".
BAR = r"    Building [==>    ] 2/15: serde(build.rs), serde_core\r    Building [====>  ] 3/15: serde_core\r"


def test_the_progress_of_cargo_is_shown_with_the_number_of_all_crates(tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, ROOT / ".ci" / "building.py", tmp_path / "log"]
    subprocess.run([*command, "sh", "-c", f"printf '{BAR}'; sleep 3"], stdout=theirs, check=True)
    os.close(theirs)
    assert re.search(r"  3 of 15 compiled, \d s", os.read(ours, 1000).decode())
    os.close(ours)


def test_a_build_that_fails_prints_its_output_without_the_progress_of_cargo(tmp_path):
    done = build(tmp_path, f"printf '   Compiling serde\n{BAR}error: wrong\n'; exit 101")
    assert (done.returncode, done.stderr) == (101, "   Compiling serde\nerror: wrong\n")


def test_a_terminal_shows_how_far_a_build_is(tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, ROOT / ".ci" / "building.py", tmp_path / "log"]
    script = "echo ' Compiling one'; echo ' Compiling two'; sleep 1.5"
    subprocess.run([*command, "sh", "-c", script], stdout=theirs, check=True)
    os.close(theirs)
    assert "2 crates compiled or begun, 1 s" in os.read(ours, 1000).decode()
    os.close(ours)

"""The program as a process: what it is given, where it writes, and what ends it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
bytes = "200 kB"
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "10 Mbit/s"
"""
FULL = Path("/dev/full")

needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the program in a separate folder."""
    (tmp_path / "small.toml").write_text(SCENARIO, encoding="utf-8")

    def begin(*arguments, env=None, **streams):
        command = [sys.executable, "-m", "anabranch", *arguments]
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **streams}
        environment = {**os.environ, "ANABRANCH_CACHE": str(tmp_path / "cache"), **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, **given)

    return begin


@pytest.fixture
def call(start):
    """Return what runs the program; it must end without a traceback."""

    def run(*arguments, given=None, **rest):
        if given is not None:
            rest["stdin"] = subprocess.PIPE
        process = start(*arguments, **rest)
        out, err = process.communicate(given, timeout=120)
        assert b"Traceback" not in (err or b"")
        assert b"Exception ignored" not in (err or b"")
        return process.returncode, (out or b"").decode(), (err or b"").decode()

    return run


@pytest.fixture
def within(tmp_path, monkeypatch):
    """Return what runs a command in this process, in the folder of `start`: where it is the command that matters."""
    from typer.testing import CliRunner

    from anabranch.cli._app import app
    from anabranch.scenario import shipped

    (tmp_path / "small.toml").write_text(SCENARIO, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))

    def run(*arguments, given=None, env=None):
        # In the program, stdin is read once per process. This test process stands for several.
        shipped.stdin.cache_clear()
        done = CliRunner().invoke(app, arguments, input=given, env=env)
        shipped.stdin.cache_clear()
        assert "Traceback" not in done.stderr
        return done.exit_code, done.stdout, done.stderr

    return run


# -- what it writes to -------------------------------------------------------------------------------


@needs_full
@pytest.mark.parametrize(
    "arguments", [("list", "films"), ("list", "films", "--json"), ("--version",), ("--help",)]
)
def test_a_full_disk_behind_stdout_is_reported(call, arguments):
    with FULL.open("wb") as full:
        code, _, err = call(*arguments, stdout=full)
    assert (code, err.splitlines()[0]) == (4, "error: cannot write the output: No space left on device")


@needs_full
def test_a_full_disk_behind_stderr_changes_no_exit_code(call):
    with FULL.open("wb") as full:
        assert call("list", "scheduler", stderr=full)[0] == 2


def test_broken_pipe_ends_the_program_quietly(start):
    with start("list", "schedulers", "--json") as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.module
def test_files_are_written_although_a_pipe_is_closed(start, call, tmp_path):
    sweep = ("--grid", "transport.scheduler=linux,min-rtt", "--trials", "2", "--workers", "1", "--out", "out")
    assert call("sweep", "small.toml", *sweep)[0] == 0
    for name, command in {
        "run.html": ("run", "small.toml"),
        "results.html": ("results", "out"),
        "versus.html": ("results", "out", "--versus", "linux"),
    }.items():
        with start(*command, "--report", name) as process:
            process.stdout.close()
            process.stderr.read()
        assert (process.returncode, (tmp_path / name).is_file()) == (141, True)


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [
        pytest.param("0<&-", 0, b"", marks=pytest.mark.slow),
        ("1>&-", 4, b"error: cannot write the output: it is closed\n  hint: leave stdout open\n"),
        pytest.param("2>&-", 0, b"", marks=pytest.mark.slow),
        ("0<&- 1>&- 2>&-", 4, b""),
    ],
)
def test_only_a_closed_stdout_is_a_fault(tmp_path, closed, code, said):
    (tmp_path / "small.toml").write_text(SCENARIO, encoding="utf-8")
    command = f"exec {sys.executable} -m anabranch check small.toml {closed}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, said)


def test_a_character_set_without_the_characters_is_no_fault(call, tmp_path):
    (tmp_path / "small.toml").write_text(SCENARIO.replace('"wifi"', '"無線"'), encoding="utf-8")
    code, out, _ = call("check", "small.toml", env={"PYTHONIOENCODING": "latin-1"})
    assert code == 0
    assert r"bulk over \u7121\u7dda" in out


def test_an_argument_that_is_no_text_is_reported(call):
    code, _, err = call("check", b"bad\xff.toml")
    assert code == 2
    assert err.startswith(r"error: an argument is not UTF-8 text: `bad\xff.toml`")


def test_a_table_wider_than_the_terminal_is_taken_apart_and_no_number_is_cut():
    """On a terminal of 80 columns, where a table of eleven columns has no room."""
    text = (
        "from anabranch.cli import _console\n"
        "names = ['transport.scheduler', 'runs', *(f'a_long_metric_{n}' for n in range(8))]\n"
        "_console.table(names, [['min-rtt', '30', *(f'{n}234.5 ± 0.{n}' for n in range(8))]], left=1)\n"
    )
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", text], env=environment, stdout=child, check=True)
    os.close(child)
    shown = b""
    try:
        while piece := os.read(parent, 65536):
            shown += piece
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.decode().splitlines()]
    assert max(map(len, lines)) <= 80
    for number in range(8):
        assert sum(f"a_long_metric_{number}" in line for line in lines) == 1
        assert sum(f"{number}234.5 ± 0.{number}" in line for line in lines) == 1
    assert sum("min-rtt" in line for line in lines) > 1


# -- what it is given --------------------------------------------------------------------------------


@pytest.mark.module
def test_a_scenario_comes_from_stdin(within):
    given = SCENARIO.encode()
    code, out, _ = within("run", "-", "--json", given=given)
    assert (code, json.loads(out)["scenario"]) == (0, "small")
    code, again, _ = within("run", "small.toml", "--json")
    assert json.loads(again)["digest"] == json.loads(out)["digest"]
    assert within("check", "-", given=given)[1].startswith("ok: stdin: bulk over wifi")
    code, _, err = within("check", "-", given=given.replace(b"rtt", b"rrt"))
    assert code == 2
    assert "(stdin, line 7)" in err


@pytest.mark.slow
@pytest.mark.module
def test_a_sweep_of_a_scenario_from_stdin_has_a_folder_of_that_name(call, tmp_path):
    given = SCENARIO.encode()
    code, out, _ = call("sweep", "-", "--trials", "2", "--workers", "2", "--json", given=given)
    assert (code, json.loads(out)[0]["runs"]) == (0, 2)
    assert (tmp_path / "results" / "stdin" / "manifest.json").exists()


def test_an_empty_or_closed_stdin_is_reported(call):
    assert "the scenario is empty" in call("check", "-", given=b"")[2]


def test_a_file_called_like_stdin_is_a_file(within, tmp_path):
    (tmp_path / "-").write_text(SCENARIO, encoding="utf-8")
    code, out, _ = within("check", "./-")
    assert (code, out.split(":")[0]) == (0, "ok")


@pytest.mark.parametrize("begin", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_files_of_windows_editors_are_read(within, tmp_path, begin, end):
    text = SCENARIO.replace("20 ms", "20 mz").encode().replace(b"\n", end)
    (tmp_path / "small.toml").write_bytes(begin + text)
    code, _, err = within("check", "small.toml")
    assert code == 2
    assert "unknown unit `mz` for a time: `20 mz` (small.toml, line 7)" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the scenario is empty (empty.toml)"),
        (b"\xff\xfe", "not UTF-8 text (empty.toml, line 1)"),
        (b"a = " + b"9" * 5000, "a number of thousands of digits (empty.toml)"),
        (b"a = " + b"[" * 5000, "nested too deeply"),
        (b"name = 1979-05-27\n[[paths]]", "expected a string, got `1979-05-27` (empty.toml, line 1)"),
    ],
    ids=["empty", "binary", "huge number", "deep", "date"],
)
def test_files_that_are_no_scenario_are_reported(within, tmp_path, content, message):
    (tmp_path / "empty.toml").write_bytes(content)
    code, _, err = within("check", "empty.toml")
    assert code == 2
    assert message in err


# -- where it keeps things ---------------------------------------------------------------------------


@pytest.fixture
def film(tmp_path):
    from anabranch.media.make import make_film

    return make_film(tmp_path / "film.mp4", duration_s=1.0, rate_bps=600_000, size=(160, 90)).path


MAKE = ("media", "make", "--duration", "1s", "--rate", "600kbit/s", "--size", "160x90")


@pytest.mark.parametrize("place", ["/dev/null/cache", "/proc/cache", "small.toml"])
def test_a_cache_that_cannot_be_written_is_reported_where_it_is_needed(within, film, place):
    code, _, err = within(*MAKE, env={"ANABRANCH_CACHE": place})
    assert code == 4
    assert "cannot make the cache folder" in err
    assert "ANABRANCH_CACHE=DIR" in err
    assert within("media", "probe", str(film), env={"ANABRANCH_CACHE": place})[0] == 0


@pytest.mark.parametrize(
    "file", [(), pytest.param(("here.mp4",), marks=pytest.mark.slow)], ids=["cache", "file"]
)
def test_a_disk_that_is_full_meanwhile_is_reported_and_leaves_nothing(tmp_path, file):
    """A limit on the size of files simulates a full disk."""
    cache = tmp_path / "cache"
    command = f"ulimit -f 16; exec {sys.executable} -m anabranch {' '.join((*MAKE, *file))}"
    environment = {**os.environ, "ANABRANCH_CACHE": str(cache)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "error: cannot write the film: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.rglob("*.mp4")) == []


def test_nothing_appears_in_the_working_folder(within, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    unnamed = {"ANABRANCH_CACHE": None, "XDG_CACHE_HOME": None, "HOME": str(home)}
    code, out, _ = within(*MAKE, env=unnamed)
    assert code == 0
    assert out.startswith(str(home / ".cache" / "anabranch"))
    relative = {**unnamed, "XDG_CACHE_HOME": "here"}  # the specification has such a path ignored
    assert within(*MAKE, env=relative)[1] == out
    assert within(*MAKE, env={**unnamed, "HOME": "/dev/null"})[0] == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "small.toml"]


def test_making_a_film_is_reported_without_a_terminal(call, within, tmp_path):
    code, out, err = call(*MAKE)
    assert code == 0
    assert f"making a film of 1 s, once; it is kept in {tmp_path / 'cache'}" in err
    code, again, err = within(*MAKE)
    assert (again, "making" in err, "made earlier" in err) == (out, False, True)


def test_long_work_is_reported_in_lines_without_a_terminal(monkeypatch, capsys):
    from anabranch import _progress
    from anabranch.cli import _console

    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    with _console.progress("making the film") as told:
        for second in range(12):
            now[0] = 100.0 + second
            told(second, 60)
    # An estimate needs 5 % of the work, here 3 s.
    assert capsys.readouterr().err.splitlines() == [
        "making the film: 1 of 60 s",
        "making the film: 6 of 60 s, about 54 s to go",
        "making the film: 11 of 60 s, about 49 s to go",
    ]


# -- what ends it ------------------------------------------------------------------------------------


def lines(path):
    """Return how many lines a file has; none before it is there."""
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def ended(start, tmp_path, number, *, group):
    """Return how a sweep ends on a signal, once something of it is done."""
    if signal.getsignal(number) is signal.SIG_IGN:
        # Under `nohup` the sweep would ignore it too, as it should.
        signal.signal(number, signal.SIG_DFL)
    out = tmp_path / "out"
    sweep = ("sweep", "small.toml", "--trials", "4000", "--workers", "2", "--out", str(out))
    process = start(*sweep, start_new_session=True)
    journal = out / "journal-all.jsonl"
    while lines(journal) <= 2:
        assert process.poll() is None
        time.sleep(0.02)
    (os.killpg if group else os.kill)(process.pid, number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode(), lines(journal)


@pytest.mark.module
@pytest.mark.parametrize(
    ("number", "said", "group"),
    [
        (signal.SIGTERM, "ended by SIGTERM", False),
        pytest.param(signal.SIGTERM, "ended by SIGTERM", True, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, "ended by SIGHUP", False, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, "interrupted", True, marks=pytest.mark.slow),
    ],
    ids=["TERM", "TERM to its workers too", "HUP", "INT to its workers too"],
)
def test_a_signal_ends_a_sweep_that_can_go_on(start, within, tmp_path, number, said, group):
    code, err, done = ended(start, tmp_path, number, group=group)
    assert code == 128 + number
    # No leaked semaphores, no tracebacks: these two lines and no other.
    assert [line for line in err.splitlines() if not line.startswith("running small: ")] == [
        f"interrupted; finished runs are in {tmp_path / 'out'}: repeat the command to go on",
        said,
    ]
    again = ("sweep", "small.toml", "--trials", "4", "--workers", "1", "--out", str(tmp_path / "out"))
    code, _, err = within(*again)
    assert (code, done >= 3) == (0, True)
    assert "4 runs, 0 were there already" not in err


# -- whatever else a stranger may type ---------------------------------------------------------------

#: The typed command, the exit code, and the beginning of the first line of the answer.
TYPED = [
    (("run", "small.toml", "--seed", "1e3"), 2, "Invalid value for '--seed': expected a whole number, got `1e3`"),
    (("run", "small.toml", "--run", "9" * 30), 2, "Invalid value for '--run': must be at most 9,223,372,036"),
    (("sweep", "small.toml", "--trials", "0"), 2, "Invalid value for '--trials': must be at least 1: `0`"),
    (("run", "small.toml", "--report", "loop"), 2, "error: cannot write a file of that name"),
    (("run", "small.toml", "--report", "n" * 300), 2, "error: cannot write a file of that name: File name too long"),
    (("run", "small.toml", "--report", "folder"), 2, "error: a folder, not a file: `folder` (--report)"),
    (("run", "folder"), 2, "error: a scenario is a file, not a folder: `folder`"),
    (("run", "loop"), 2, "error: symbolic links in a ring: `loop`"),
    (("run", "small.toml", "--scheduler", "f.py:X"), 2, "error: a folder, not a file: `f.py`"),
    (("init", "loop"), 2, "error: cannot write a file of that name"),
    (("init", "/dev/full", "--force"), 4, "error: cannot write the scenario: No space left on device: `/dev/full`"),
    (("trace", "show", "folder"), 2, "error: cannot read the trace: Is a directory (folder)"),
    (("media", "probe", "folder"), 2, "error: a film is a file, not a folder: `folder`"),
    (("media", "make", "f.mp4", "--duration", "1e6h"), 2, "error: longer than a day: `1e6h`"),
    (("media", "ladder", "f.mp4", "l", "--rung", "8Mbit/s"), 2, "error: expected HEIGHT=RATE: `8Mbit/s`"),
    (("media", "ladder", "f.mp4", "l", "--rung", "64=1bit/s"), 2, "error: a rate below 10 kbit/s: `1bit/s`"),
    (("media", "ladder", "f.mp4", "l", "--chunk", "1e-9s"), 2, "error: a chunk lasts from 0.1 s to 1 h: `1e-9s`"),
    (("results", "folder"), 2, "error: no folder of results: `folder`"),
    (("sweep", "small.toml", "--trials", "1", "--out", "small.toml"), 2, "error: cannot make the folder: File exists"),
]  # fmt: skip


@pytest.mark.module
def test_anything_that_is_typed_is_answered_in_a_sentence(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from anabranch.cli._app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "f.py").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for arguments, code, said in TYPED:
        result = CliRunner().invoke(app, list(arguments))
        first = next(line for line in result.stderr.splitlines() if line.lower().startswith("error: "))
        assert (result.exit_code, first.removeprefix("Error: ")[: len(said)]) == (code, said)


def test_an_unexpected_error_is_reported_without_a_traceback(monkeypatch, capsys):
    import typer

    from anabranch.cli import _console

    def fail():
        raise KeyError("surprise")

    def full():
        raise OSError(28, "No space left on device", "x/y")

    for command, code, said in (
        (
            fail,
            70,
            "error: a defect of this program, not of what it was given: KeyError: 'surprise' (test_process.py",
        ),
        (full, 4, "error: No space left on device (x/y)"),
    ):
        with pytest.raises(typer.Exit) as ended:
            _console.guarded(command)()
        err = capsys.readouterr().err
        assert (ended.value.exit_code, err[: len(said)]) == (code, said)
        assert "Traceback" not in err
    monkeypatch.setenv("ANABRANCH_TRACEBACK", "1")
    with pytest.raises(typer.Exit):
        _console.guarded(fail)()
    assert "Traceback" in capsys.readouterr().err


def test_a_working_folder_that_is_gone_is_reported(tmp_path):
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && exec {sys.executable} -m anabranch list films"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("error: cannot tell the working folder: No such file or directory")


def test_a_starter_goes_to_stdout_and_comes_from_stdin(call):
    code, out, err = call("init", "-")
    assert (code, err) == (0, "")
    assert call("check", "-", given=out.encode())[0] == 0

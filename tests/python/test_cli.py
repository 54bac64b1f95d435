"""The command line: its output streams and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from anabranch import errors, plugins
from anabranch.cli._app import app

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
duration = "10 s"
[[paths]]
name = "wifi"
rtt = "50 ms"
rate = "5 Mbit/s"
[[paths]]
name = "lte"
rtt = "100 ms"
rate = "5 Mbit/s"
"""


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return str(file)


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_json_is_all_that_stdout_gets(scenario):
    result = call("run", scenario, "--json", "--seed", 5, "--run", 2, "--scheduler", "redundant")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["seed"], found["run"], found["scheduler"]) == (5, 2, "redundant")


def test_tables_are_plain_without_a_terminal(scenario):
    result = call("run", scenario)
    assert result.exit_code == 0
    assert "What each subflow did" in result.stdout
    assert "digest" in result.stdout
    assert "\x1b" not in result.stdout
    assert result.stdout.isascii()


def test_cross_traffic_has_a_table_of_its_own(scenario):
    assert "cross traffic" not in call("run", scenario).stdout
    arguments = ("--set", "cross_traffic.0.path=lte", "--set", "cross_traffic.0.count=3")
    assert "over wifi, lte beside 3 background flows, about" in call("check", scenario, *arguments).stdout
    text = call("run", scenario, *arguments).stdout
    assert "What the cross traffic did" in text
    assert re.search(r"cross traffic +3\.000 Mb/s", text)
    assert re.search(r"cross-1 +cubic +3 +\S+ +3\.00 +1\.00 +15", text)


def test_film_run_prints_the_viewer_metrics(scenario):
    result = call(
        "run", scenario, "--set", "application.kind=progressive", "--set", "application.film=papers-film"
    )
    assert "buffer underflows" in result.stdout


def test_report_and_packets_are_written(scenario, tmp_path):
    result = call("run", scenario, "--report", "r.html", "--pcapng", "p.pcapng")
    assert result.exit_code == 0
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "p.pcapng").exists()
    assert "report: r.html" in result.stderr
    assert "r.html" not in result.stdout


def test_failed_expectation_exits_1_with_full_output(scenario):
    result = call("run", scenario, "--json", "--set", "expect.goodput_mbps={ min = 999 }")
    assert result.exit_code == 1
    assert "failed: expected goodput_mbps >= 999, found" in result.stderr
    assert json.loads(result.stdout)["scenario"] == "small"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scheduler", "blesst"), "unknown scheduler: `blesst` (--scheduler blesst)"),
        (("--congestion", "rino"), "did you mean `reno`?"),
        (("--set", "paths.wifi.rtt=80"), '80 -> "80 ms"'),
        (("--set", "nonsense"), "expected key=value"),
        (("--set", "transport.congestion.gain=1"), "unknown parameter"),
        (("--report", "nowhere/r.html"), "no such folder: `nowhere` (--report)"),
        (("--pcapng", "."), "a folder, not a file"),
        (
            ("--set", "application.film=missing.mp4"),
            "no such film: `missing.mp4` (--set application.film=missing.mp4)",
        ),
        (("--seed", "-1"), "--seed"),
        (("--nonsense",), "No such option"),
    ],
)
def test_bad_input_is_2(scenario, arguments, message):
    result = call("run", scenario, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_faults_of_files_and_scenario_come_together(scenario):
    result = call("run", scenario, "--report", "nowhere/r.html", "--scheduler", "no", "--set", "hots=1")
    assert result.exit_code == 2
    assert result.stderr.count("error: ") == 3


def test_a_truncated_film_is_2(scenario, tmp_path):
    (tmp_path / "cut.mp4").write_bytes(b"\0\0\0\x20ftypisom" + b"\0" * 100)
    result = call(
        "run", scenario, "--set", "application.film=cut.mp4", "--set", "application.kind=progressive"
    )
    assert result.exit_code == 2
    assert "truncated film" in result.stderr
    assert "application.film" in result.stderr


def test_scenarios_can_be_imported_without_the_module():
    code = "import sys; sys.modules['anabranch._anabranch'] = None; import anabranch.scenario.load"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_module_it_is_4(scenario, monkeypatch):
    def missing():
        message = "the simulator module `anabranch._anabranch` is not built"
        raise errors.MissingError(message, hint="run `make build`")

    monkeypatch.setattr(plugins, "module", missing)
    monkeypatch.setattr(plugins.tables, "module", missing)
    plugins.catalogue.cache_clear()
    result = call("run", scenario)
    assert result.exit_code == 4
    assert "hint: run `make build`" in result.stderr
    assert call("doctor").exit_code == 4


def test_interrupting_is_no_traceback(scenario, simulator, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulator, "simulate", interrupted)
    result = call("run", scenario)
    assert result.exit_code == 130
    assert result.stderr.strip() == "interrupted"


def test_check(scenario):
    result = call("check", scenario)
    assert result.exit_code == 0
    assert result.stdout.startswith("ok: small.toml: bulk over wifi, lte")
    assert call("check", scenario, "--scheduler", "x").exit_code == 2
    plan = json.loads(call("check", scenario, "--plan").stdout)
    assert plan["application"]["duration_ns"] == 10 * 10**9


def test_check_warns_if_every_path_loses_all_packets(tmp_path):
    dead = tmp_path / "dead.toml"
    link = 'name = "{}"\nrtt = "50 ms"\nrate = "5 Mbit/s"\n{}\n'
    head = 'name = "dead"\n[application]\nkind = "bulk"\nbytes = "1 MB"\n'
    nothing = "and nothing arrives: every path loses every packet"
    lost, fair = 'loss = "100 %"', 'loss = "99 %"'
    event = '[[events]]\nat = "2 s"\npath = "a"\nloss = "1 %"\n'
    for paths, rest, dies in (
        ((lost,), "", True), ((lost, lost), "", True), (('up.loss = "100 %"',), "", True),
        ((fair,), "", False), ((lost, fair), "", False), ((lost,), event, False),
    ):  # fmt: skip
        tables = "".join(
            f"[[paths]]\n{link.format(name, loss)}" for name, loss in zip("ab", paths, strict=False)
        )
        dead.write_text(head + tables + rest, encoding="utf-8")
        said = call("check", str(dead)).stdout
        assert (nothing in said, "s of session" in said) == (dies, not dies), said


def test_check_accepts_the_file_init_writes(scenario, tmp_path):
    assert call("init", "new.toml").exit_code == 0
    assert call("check", "new.toml").exit_code == 0
    again = call("init", "new.toml")
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert call("init", "new.toml", "--force").exit_code == 0


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("schedulers", "min-rtt"),
        ("congestion", "cubic"),
        ("path-managers", "full-mesh"),
        ("scenarios", "two-paths"),
        ("films", "papers-film"),
    ],
)
def test_list(what, name):
    result = call("list", what)
    assert result.exit_code == 0
    assert name in result.stdout
    rows = json.loads(call("list", what, "--json").stdout)
    assert all(row["name"] and row["description"] for row in rows)
    assert name in [row["name"] for row in rows]


def test_list_of_nothing_is_2():
    result = call("list", "scheduler")
    assert result.exit_code == 2
    assert "did you mean `schedulers`?" in result.stderr


def test_scenarios_here_come_first(tmp_path, monkeypatch):
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "two-paths.toml").write_text(SCENARIO.replace('"small"', '"mine"'), encoding="utf-8")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert json.loads(call("run", "two-paths", "--json").stdout)["scenario"] == "mine"
    assert call("check", "bulk-two-paths").exit_code == 0


def test_media(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = call("media", "make", "f.mp4", "--duration", "1s", "--rate", "600kbit/s", "--size", "160x90")
    assert (made.exit_code, made.stdout.strip()) == (0, "f.mp4")
    assert "Mb/s" in made.stderr
    assert "30 fps" in call("media", "probe", "f.mp4").stdout
    assert json.loads(call("media", "probe", "f.mp4", "--json").stdout)["codec"] == "h264"
    header, *rows = call("media", "probe", "f.mp4", "--packets").stdout.splitlines()
    assert header == "stream,position,size,pts_ns,dts_ns,kind,reference"
    assert sum(row.startswith("video,") for row in rows) == 30
    assert call("media", "probe", "g.mp4").exit_code == 2
    bad = call("media", "make", "--duration", "60", "--rate", "-1 Mb/s", "--size", "161x90")
    assert bad.exit_code == 2
    assert bad.stderr.count("error: ") == 3


def test_doctor():
    result = call("doctor")
    assert result.exit_code == 0
    assert "unlocks" in result.stdout
    assert {"simulator", "codec libx264"} <= {
        row["name"] for row in json.loads(call("doctor", "--json").stdout)
    }


def test_help_has_examples():
    for command in ("run", "check", "init", "list", "demo", "compare"):
        result = call(command, "--help")
        assert result.exit_code == 0
        assert f"anabranch {command}" in result.stdout
    assert call("--help").exit_code == 0


def test_as_a_program(scenario):
    """The exit code and the streams of a real process, without a terminal."""
    command = [sys.executable, "-m", "anabranch", "media", "probe", "nothing.mp4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: cannot read the film: No such file or directory: `nothing.mp4`")


def test_a_file_that_may_not_be_written_is_reported_before_the_run(scenario, monkeypatch, tmp_path):
    import os

    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    result = call("run", scenario, "--report", str(tmp_path / "r.html"))
    assert result.exit_code == 2
    assert "no permission to write" in result.stderr

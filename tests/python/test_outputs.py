"""The outputs of a command: never over its inputs, never two into one, whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import _files
from anabranch.cli._app import app
from anabranch.errors import MissingError

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
duration = "10 s"
[[paths]]
name = "wifi"
rtt = "50 ms"
rate = "5 Mbit/s"
"""
FULL = Path("/dev/full")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.toml").write_text(SCENARIO, encoding="utf-8")
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("option", ["--report", "--pcapng"])
@pytest.mark.parametrize("name", ["b.toml", "./b.toml", "link"])
def test_no_output_goes_over_the_scenario(folder, option, name):
    (folder / "link").symlink_to("b.toml")
    result = call("run", "b.toml", option, name)
    assert result.exit_code == 2
    assert f"would be written over the scenario: `{Path(name)}` ({option})" in result.stderr
    assert (folder / "b.toml").read_text(encoding="utf-8") == SCENARIO


def test_no_demo_goes_over_the_scenario(folder):
    result = call("demo", "--scenario", "b.toml", "--report", "b.toml")
    assert (result.exit_code, "written over the scenario" in result.stderr) == (2, True)
    assert (folder / "b.toml").read_text(encoding="utf-8") == SCENARIO


def test_no_output_goes_over_a_film(folder):
    assert (
        call("media", "make", "f.mp4", "--duration", "1s", "--size", "320x180", "--rate", "1Mbit/s").exit_code
        == 0
    )
    before = (folder / "f.mp4").read_bytes()
    result = call("run", "b.toml", "--set", "application.film=f.mp4", "--report", "f.mp4")
    assert (result.exit_code, "would be written over the film" in result.stderr) == (2, True)
    again = call("media", "make", "f.mp4", "--duration", "2s", "--size", "320x180", "--rate", "1Mbit/s")
    assert (again.exit_code, "the file exists: `f.mp4`" in again.stderr) == (2, True)
    assert "--force overwrites it" in again.stderr
    assert (folder / "f.mp4").read_bytes() == before
    forced = call(
        "media", "make", "f.mp4", "--duration", "2s", "--size", "320x180", "--rate", "1Mbit/s", "--force"
    )
    assert (forced.exit_code, (folder / "f.mp4").read_bytes() == before) == (0, False)


def test_no_output_goes_over_a_recording(folder):
    recording = folder / "r.down"
    recording.write_text("".join(f"{time}\n" for time in range(1, 2000, 2)), encoding="utf-8")
    before = recording.read_bytes()
    result = call("run", "b.toml", "--set", "paths.wifi.trace=r.down", "--report", "r.down")
    assert (result.exit_code, "would be written over a recording" in result.stderr) == (2, True)
    result = call("trace", "convert", "r.down", "./r.down", "--to", "anabranch")
    assert (result.exit_code, "would be written over what is read" in result.stderr) == (2, True)
    result = call("trace", "record", "b.toml", "wifi", "b.toml")
    assert (result.exit_code, "would be written over the scenario" in result.stderr) == (2, True)
    assert recording.read_bytes() == before


def test_two_outputs_into_one_file_are_refused(folder):
    result = call("run", "b.toml", "--report", "z", "--pcapng", "./z")
    assert (result.exit_code, "two outputs into one file: `z` (--report, --pcapng)" in result.stderr) == (
        2,
        True,
    )
    assert not (folder / "z").exists()
    assert call("run", "b.toml", "--report", "/dev/null", "--pcapng", "/dev/null").exit_code == 0


@pytest.mark.parametrize(
    ("option", "name", "endings"),
    [
        ("--report", "other.json", ".html or .htm"),
        ("--report", "other.py", ".html or .htm"),
        ("--pcapng", "other.toml", ".pcapng or .pcap"),
        ("--p1203", "other.csv", ".json"),
        ("--report", "other", ".html or .htm"),
    ],
)
def test_an_output_has_an_ending_of_its_kind(folder, option, name, endings):
    (folder / name).write_text("of another kind", encoding="utf-8")
    result = call("run", "b.toml", option, name)
    assert result.exit_code == 2
    assert f"not a name for this output: `{name}` ({option})" in result.stderr
    assert f"the name ends in {endings}" in result.stderr
    assert (folder / name).read_text(encoding="utf-8") == "of another kind"


def test_no_report_of_a_comparison_or_of_results_goes_over_a_file_of_another_kind(folder):
    for command in (("compare", "b.toml"), ("demo", "--scenario", "b.toml"), ("results", ".")):
        result = call(*command, "--report", "b.toml")
        assert (result.exit_code, "not a name for this output: `b.toml`" in result.stderr) == (2, True)
    assert (folder / "b.toml").read_text(encoding="utf-8") == SCENARIO
    assert call("run", "b.toml", "--report", "R.HTML").exit_code == 0


@pytest.mark.parametrize("name", ["manifest.json", "cost.json"])
def test_no_output_goes_over_a_file_of_a_folder_of_results(folder, name):
    (folder / "aa").mkdir()
    (folder / "aa" / "manifest.json").write_text("{}", encoding="utf-8")
    result = call("run", "adaptive-two-paths", "--p1203", f"aa/{name}")
    assert result.exit_code == 2
    assert f"would be written over a file of a folder of results: `aa/{name}`" in result.stderr
    assert (folder / "aa" / "manifest.json").read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("raised", [KeyboardInterrupt, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])
def test_a_capture_is_whole_or_not_there(folder, simulator, monkeypatch, raised):
    def ended(_plan, pcapng, *_):
        Path(pcapng).write_bytes(b"\x0a\x0d")
        raise raised

    (folder / "i.pcapng").write_bytes(b"earlier")
    monkeypatch.setattr(simulator, "simulate", ended)
    result = call("run", "b.toml", "--pcapng", "i.pcapng")
    assert result.exit_code == (130 if raised is KeyboardInterrupt else 4)
    if raised is not KeyboardInterrupt:
        assert "cannot write the capture: No space left on device: `i.pcapng`" in result.stderr
    assert (folder / "i.pcapng").read_bytes() == b"earlier"
    assert sorted(path.name for path in folder.iterdir()) == ["b.toml", "i.pcapng"]


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
def test_a_full_disk_is_reported_in_the_system_s_words(folder, simulator, monkeypatch):
    def ended(*_):
        raise OSError("Error reading bytes")

    monkeypatch.setattr(simulator, "simulate", ended)
    with pytest.raises(MissingError, match="cannot write the capture: No space left on device: `/dev/full`"):
        anabranch.run("b.toml", pcapng=FULL)


@pytest.mark.module
def test_no_output_goes_over_a_plug_in(folder):
    text = "class Mine:\n    def schedule(self, request, subflows):\n        return None\n"
    (folder / "mine.py").write_text(text, encoding="utf-8")
    result = call("run", "b.toml", "--scheduler", "mine.py:Mine", "--pcapng", "mine.py")
    assert (result.exit_code, "would be written over the plug-in" in result.stderr) == (2, True)
    assert (folder / "mine.py").read_text(encoding="utf-8") == text


def test_a_full_disk_leaves_the_earlier_file(folder, monkeypatch):
    def half(self, data):
        with self.open("wb") as opened:
            opened.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (folder / "r.html").write_bytes(b"earlier")
    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(MissingError, match="cannot write the report: No space left on device"):
        _files.write(folder / "r.html", "a report of many bytes", "the report")
    assert (folder / "r.html").read_bytes() == b"earlier"
    assert sorted(path.name for path in folder.iterdir()) == ["b.toml", "r.html"]


def test_symbolic_links_in_a_ring_are_named(folder):
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    for command in (("run", "a"), ("results", "a")):
        result = call(*command)
        assert (result.exit_code, "symbolic links in a ring: `a`" in result.stderr) == (2, True)


@pytest.mark.module
def test_total_loss_warns_that_no_path_works(folder):
    result = call("run", "b.toml", "--set", "paths.wifi.loss=100%")
    assert result.exit_code == 3
    assert "warning: no path works: no connection was established" in result.stderr

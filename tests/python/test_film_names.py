"""Films are streamed whatever they are called: HTTP knows no spaces, the simulator's server knows the name."""

from __future__ import annotations

import shutil
import struct

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.media.make import make_film

pytestmark = pytest.mark.module

#: Names, and their form in a path by RFC 3986: percent-encoded UTF-8 except for the permitted characters
#: (3.3).
NAMES = {
    "a b": b"/a%20b",
    "für": b"/f%C3%BCr",
    "a#b": b"/a%23b",
    "a?b": b"/a%3Fb",
    "50 %": b"/50%20%25",
    "a%20b": b"/a%2520b",
    "日本": b"/%E6%97%A5%E6%9C%AC",
    "tab\tand\nline": b"/tab%09and%0Aline",
    "a=b,c;d+e&f": b"/a=b,c;d+e&f",
    "plain-1.0_x~": b"/plain-1.0_x~",
}


@pytest.fixture(scope="session")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    return make_film(path, duration_s=1.0, rate_bps=600_000, size=(160, 90)).path


def scenario(film):
    path = {"name": "wifi", "rtt": "20 ms", "rate": "10 Mbit/s"}
    return {"name": "named", "application": {"film": str(film)}, "paths": [path]}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_film_of_any_name_is_played_and_asked_for_as_the_rfc_has_it(film, tmp_path, name):
    named, capture = tmp_path / f"{name}.mp4", tmp_path / "p.pcapng"
    shutil.copy(film, named)
    run = anabranch.run(scenario(named), pcapng=capture)
    assert (run.qoe["finished"], run.qoe["frames"]["displayed"]) == (True, 30)
    assert b"GET " + NAMES[name] + b" HTTP/1.1\r\n" in capture.read_bytes()
    assert {row["resource"].encode() for row in run.rows("requests")} == {NAMES[name][1:]}


def test_a_name_changes_nothing_but_itself(film, tmp_path):
    """The same film under two names of as many bytes in the request: the same times."""
    runs = []
    for name in ("a b.mp4", "a123b.mp4"):
        shutil.copy(film, tmp_path / name)
        runs.append(anabranch.run(scenario(tmp_path / name)))
    assert runs[0].tables["frames"] == runs[1].tables["frames"]
    assert runs[0].qos == runs[1].qos


def test_the_command_line_report_and_capture_take_any_name(film, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(film, tmp_path / "Ünsere Ferien #1.mp4")
    setting = ("--set", "application.film='Ünsere Ferien #1.mp4'")
    files = ("--report", "ä b.html", "--pcapng", "ä b.pcapng")
    result = CliRunner().invoke(app, ["run", "two-paths", *setting, *files])
    assert (result.exit_code, result.stderr) == (0, "packets: ä b.pcapng\nreport: ä b.html\n")
    assert "pictures shown" in result.stdout
    assert (tmp_path / "ä b.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert struct.unpack("<I", (tmp_path / "ä b.pcapng").read_bytes()[:4]) == (0x0A0D0D0A,)


def test_a_ladder_of_any_name_is_played(tmp_path):
    from anabranch.media.make_ladder import Rung, make_ladder

    film = make_film(tmp_path / "f.mp4", duration_s=3.0, rate_bps=700_000, size=(160, 90)).path
    ladder = tmp_path / "für # 50 %?"
    make_ladder(film, ladder, rungs=[Rung(height=90, rate_bps=300_000)], chunk_s=1.0)
    path = {"name": "wifi", "rtt": "20 ms", "rate": "10 Mbit/s"}
    application = {"kind": "adaptive", "ladder": str(ladder)}
    run = anabranch.run({"name": "named", "application": application, "paths": [path]})
    assert run.qoe["finished"]

"""Results of reconstructed algorithms are marked as such wherever they are shown."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import report
from anabranch.cli._app import app

pytestmark = pytest.mark.module

BULK = {
    "name": "bulk",
    "application": {"kind": "bulk", "bytes": "200 kB"},
    "paths": [{"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s"}],
}


def test_a_reconstruction_is_reported_with_every_parameter():
    chosen = {"name": "ccpd", "kd": 1.5, "capacity": "delivery-rate"}
    result = anabranch.run(BULK, congestion=chosen)
    (note,) = result.notes
    assert "reconstruction" in note
    for declared in (
        "kd = 1.5",
        'capacity = "delivery-rate"',
        "kp = 3",
        "memory = 30",
        'recovery = "frozen"',
    ):
        assert declared in note
    assert result.to_json()["notes"] == [note]
    page = report.build(result)
    assert "reconstruction" in page
    assert "kd = 1.5" in page


@pytest.mark.parametrize("name", ["cubic", "compound"])
def test_algorithms_with_a_reference_have_no_note(name):
    result = anabranch.run(BULK, congestion=name)
    assert result.notes == ()
    assert "reconstruction" not in report.build(result)


def test_command_line_prints_the_reconstruction_note():
    call = CliRunner().invoke
    result = call(app, ["run", "single-path", "--congestion", "ccp", "--set", "application.kind=bulk",
                        "--set", "application.duration=5s"])  # fmt: skip
    assert result.exit_code == 0, result.stderr
    shown = " ".join(result.stdout.split())
    assert "reconstruction" in shown
    assert "kp = 3" in shown
    rows = json.loads(call(app, ["list", "congestion", "--json"]).stdout)
    told = {row["name"] for row in rows if "reconstruction" in row["description"]}
    assert told == {"ccp", "ccpd"}


def film(*events):
    path = {"name": "a", "rtt": "50 ms", "rate": "8 Mbit/s"}
    playing = {"film": "papers-film"}
    return {
        "name": "cut",
        "time_limit": "80 s",
        "application": playing,
        "paths": [path],
        "events": list(events),
    }


def test_a_session_that_ended_in_silence_is_reported_wherever_it_is_shown():
    """The player receives no notice of the silence, so it counts no underflow and no stall."""
    result = anabranch.run(film({"at": "25 s", "path": "a", "state": "down"}))
    assert result.qoe["buffer_underflows"] == result.qoe["rebuffer_s"] == 0
    unfinished, silent = result.notes
    assert "had not finished" in unfinished
    # The data received by then lasts for longer than the cut: 8 Mb/s against the film's 5.24.
    last = max(row["shown_s"] or 0 for row in result.rows("frames"))
    assert 30 < last < 45
    assert f"the picture stood still from {last:,.1f} s on: these {80 - last:,.1f} s" in silent
    assert "No byte came after 25." in silent
    assert "a, cut at 25.0 s, did not come back" in silent
    assert silent in report.build(result)


def test_a_path_that_came_back_is_not_blamed():
    down, up = ({"at": at, "path": "a", "state": state} for at, state in (("25 s", "down"), ("27 s", "up")))
    result = anabranch.run(film(down, up))
    # The limit ends the session while data is still arriving.
    (unfinished,) = result.notes
    assert "had not finished" in unfinished

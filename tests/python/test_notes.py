"""Results of a reconstruction say so wherever they are shown; skipped aloud without the simulator."""

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


def test_a_reconstruction_is_told_with_every_parameter():
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
def test_what_has_a_reference_needs_no_note(name):
    result = anabranch.run(BULK, congestion=name)
    assert result.notes == ()
    assert "reconstruction" not in report.build(result)


def test_the_command_line_says_it_too():
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

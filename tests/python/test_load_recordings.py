"""Two recordings of one link, under light and under heavy load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.errors import ScenarioError

LIGHT = "t_s,rate_mbps,delay_ms\n0,2,30\n5,1,40\n10,2,30\n"
HEAVY = "t_s,rate_mbps,delay_ms\n0,12,60\n5,8,20\n10,12,60\n"


@pytest.fixture(autouse=True)
def recordings(tmp_path, monkeypatch):
    """Write two recordings into the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("light.csv").write_text(LIGHT, encoding="utf-8")
    Path("heavy.csv").write_text(HEAVY, encoding="utf-8")


def scenario(trace):
    """Return a download over a path whose direction to the client follows a recording."""
    return {
        "name": "loads",
        "application": {"kind": "bulk", "bytes": "2 MB"},
        "paths": [{"name": "cell", "rtt": "20 ms", "up": {"rate": "5 Mbit/s"}, "down": {"trace": trace}}],
    }


@pytest.mark.module
@pytest.mark.parametrize(
    ("light_bytes", "alone"),
    [
        pytest.param("1 B", "heavy.csv", id="no packet fits, so all have the heavy one"),
        pytest.param("1 GB", "light.csv", id="all bytes fit, so all have the light one"),
    ],
)
@pytest.mark.parametrize("start", ["beginning", "random"])
def test_the_limits_are_the_recordings_alone(light_bytes, alone, start):
    both = {"file": "heavy.csv", "light": "light.csv", "light_bytes": light_bytes, "start": start}
    run = anabranch.run(scenario(both))
    assert run.digest == anabranch.run(scenario({"file": alone, "start": start})).digest
    other = "light.csv" if alone == "heavy.csv" else "heavy.csv"
    assert run.digest != anabranch.run(scenario({"file": other, "start": start})).digest


@pytest.mark.module
def test_the_plan_has_both_recordings():
    both = {"file": "heavy.csv", "light": "light.csv", "light_bytes": "15 kB", "light_after": "50 ms"}
    run = anabranch.run(scenario(both))
    (model,) = [link["model"] for link in run.plan["links"] if "model" in link]
    assert list(model) == ["load"]
    assert model["load"]["light_bytes"] == 15_000
    assert model["load"]["idle_ns"] == 50_000_000
    assert model["load"]["light"]["steps"]["rates_bps"][:2] == [2_000_000, 1_000_000]
    assert model["load"]["heavy"]["steps"]["rates_bps"][:2] == [12_000_000, 8_000_000]


FAULTS = {
    "no bytes": ({"light": "light.csv"}, "a recording under light load without `light_bytes`"),
    "no light one": ({"light_bytes": "1 kB"}, "belong to a recording under light load"),
    "no file": ({"light": "none.csv", "light_bytes": "1 kB"}, "no such trace: `none.csv`"),
}


@pytest.mark.module
@pytest.mark.parametrize(("keys", "message"), FAULTS.values(), ids=FAULTS)
def test_faults_of_the_keys(keys, message):
    with pytest.raises(ScenarioError) as raised:
        anabranch.run(scenario({"file": "heavy.csv", **keys}))
    assert any(message in fault.message for fault in raised.value.faults)


@pytest.mark.module
def test_a_scenario_file_finds_both_beside_it(tmp_path, monkeypatch):
    text = """
        name = "loads"
        application = { kind = "bulk", bytes = "200 kB" }
        [[paths]]
        name = "cell"
        rtt = "20 ms"
        trace = { file = "heavy.csv", light = "light.csv", light_bytes = "15 kB" }
    """
    Path("loads.toml").write_text(text, encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    result = CliRunner().invoke(app, ["run", str(tmp_path / "loads.toml"), "--json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["digest"]

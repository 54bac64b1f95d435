"""Parts of a scenario that real packets cannot have are refused at their key, on any host."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app

pytestmark = pytest.mark.module

SCENARIO = """\
name = "changed"
application = { kind = "bulk", bytes = "1 MB" }

[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"
corrupt = { share = "1 %", passes = "10 %" }
up = { corrupt = { share = "1 %" } }
links = ["core"]

[[links]]
name = "core"
down = { corrupt = { share = "1 %", passes = "0 %" } }

[links.up.corrupt]
share = "1 %"
passes = "5 %"
"""


@pytest.mark.parametrize("command", ["live", "parity", "emulate", "shell"])
def test_a_changed_payload_is_for_the_simulator(tmp_path, command):
    file = tmp_path / "changed.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    more = ["--", "true"] if command == "emulate" else []
    result = CliRunner().invoke(app, [command, str(file), *more], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    told = "".join(result.stderr.split())
    assert "changed.toml,line8)key:paths.wifi.corrupt.passes" in told
    assert "changed.toml,line18)key:links.core.up.corrupt.passes" in told
    assert told.count("realpacketscannotbegivenachangedpayload") == 2
    assert told.count("runitinthesimulator") == 2


def test_simulator_counts_corrupted_bytes_read(tmp_path):
    file = tmp_path / "changed.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    run = anabranch.run(file, set={"paths.wifi.corrupt.passes": "100 %"})
    wrong = sum(row["wrong_bytes"] for row in run.rows("wrong_reads"))
    assert wrong > 0
    assert any(f"read {wrong} bytes that were not those sent" in note for note in run.summary["notes"])

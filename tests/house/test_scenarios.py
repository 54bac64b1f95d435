"""Every scenario of the repository is valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from repository import ROOT, matching

SCENARIOS = [*matching(".toml", under="scenarios/"), "python/anabranch/cli/starter.toml"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_scenario_is_valid(scenario):
    result = CliRunner().invoke(app, ["check", str(ROOT / scenario)])
    assert result.exit_code == 0, result.stderr


def test_a_scenarios_name_is_its_files():
    for scenario in matching(".toml", under="scenarios/"):
        assert f'\nname = "{Path(scenario).stem}"\n' in (ROOT / scenario).read_text(encoding="utf-8")

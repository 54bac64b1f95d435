"""Every scenario of the repository is valid."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT, matching

SCENARIOS = [*matching(".toml", under="scenarios/"), "python/anabranch/cli/starter.toml"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_scenario_is_valid(scenario):
    command = [sys.executable, "-m", "anabranch", "check", str(ROOT / scenario)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_scenarios_name_is_its_files():
    for scenario in matching(".toml", under="scenarios/"):
        assert f'\nname = "{Path(scenario).stem}"\n' in (ROOT / scenario).read_text(encoding="utf-8")

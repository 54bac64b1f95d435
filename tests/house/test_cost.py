"""The cost gate can fail, reports when it does not judge, and has a figure for each of its cases."""

from __future__ import annotations

import importlib.util
import sys
import tomllib

import pytest

from repository import ROOT, text

sys.path.insert(0, str(ROOT / "benches"))
_SPEC = importlib.util.spec_from_file_location("cost", ROOT / "benches" / "cost.py")
cost = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cost)

KEPT = {"W": 1_000_000, "wide": 500}


def test_one_percent_more_is_too_much():
    assert cost.judge(KEPT, {"W": 1_009_999, "wide": 500}) == []
    assert cost.judge(KEPT, {"W": 1_010_000, "wide": 500}) == [
        "W: 1,010,000 instructions, +1.0% on the 1,000,000 kept"
    ]
    assert len(cost.judge(KEPT, {"W": 2_000_000, "wide": 505})) == 2


def test_less_is_no_fault_but_is_reported():
    found = {"W": 990_000, "wide": 496}
    assert cost.judge(KEPT, found) == []
    assert cost.saved(KEPT, found) == ["W: 990,000 instructions, -1.0% on the 1,000,000 kept"]
    assert cost.saved(KEPT, KEPT) == []


def test_a_case_without_a_figure_and_a_figure_without_a_case_are_faults():
    assert cost.judge(KEPT, {"W": 1_000_000, "new": 1}) == [
        "new: no figure is kept",
        "wide: a figure of no case",
    ]


@pytest.mark.parametrize(
    ("compiler", "valgrind", "said"),
    [
        ("rustc 1.2", True, None),
        ("rustc 1.3", True, "the figures are of rustc 1.2, this is rustc 1.3"),
        ("rustc 1.2", False, "valgrind is not installed (apt install valgrind)"),
    ],
)
def test_unmet_requirements_of_the_cost_gate_are_reported(compiler, valgrind, said):
    assert cost.why_not("rustc 1.2", compiler, valgrind=valgrind) == said


@pytest.mark.parametrize(
    ("counts", "status", "told"),
    [({"W": 1_020_000}, 1, "error: W: 1,020,000"), ({"W": 1_000_000}, 0, ""), ({"W": 1}, 0, "notice: W: 1 ")],
)
def test_gate_exit_status_matches_its_findings(monkeypatch, capsys, tmp_path, counts, status, told):
    here = cost.subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout
    figures = tmp_path / "costs.toml"
    figures.write_text(cost.written(here.strip(), {"W": 1_000_000}), encoding="utf-8")
    monkeypatch.setattr(cost, "FIGURES", figures)
    monkeypatch.setattr(cost, "_count", lambda: counts)
    monkeypatch.setattr(cost.shutil, "which", lambda _: "/usr/bin/valgrind")
    monkeypatch.setattr(sys, "argv", ["cost.py"])
    assert cost.main() == status
    assert told in capsys.readouterr().out


def test_another_compiler_skips_aloud(monkeypatch, capsys, tmp_path):
    figures = tmp_path / "costs.toml"
    figures.write_text(cost.written("rustc 0.1", {"W": 1}), encoding="utf-8")
    monkeypatch.setattr(cost, "FIGURES", figures)
    monkeypatch.setattr(cost, "_count", lambda: pytest.fail("nothing is counted"))
    monkeypatch.setattr(cost.shutil, "which", lambda _: "/usr/bin/valgrind")
    monkeypatch.setattr(sys, "argv", ["cost.py"])
    assert cost.main() == 0
    assert capsys.readouterr().out.startswith("SKIPPED: the cost gate: the figures are of rustc 0.1")


def test_every_case_has_its_figure():
    kept = tomllib.loads(text("benches/costs.toml"))
    assert list(kept["instructions"]) == list(cost.CASES)
    assert kept["rustc"].startswith("rustc 1.")
    assert min(kept["instructions"].values()) > 10**8


def test_every_suite_of_all_tests_has_the_gate():
    assert '"benches/cost.py"' in text("tests/suite.py").partition('"all": Suite(')[2]
    assert "valgrind" in text(".ci/run")

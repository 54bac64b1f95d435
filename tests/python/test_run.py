"""`anabranch.run` and the object that it returns."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import anabranch
from anabranch.errors import ScenarioError

BULK = {
    "name": "bulk",
    "application": {"kind": "bulk", "duration": "10 s"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s"},
        {"name": "lte", "rtt": "100 ms", "rate": "5 Mbit/s"},
    ],
}
FILM = {**BULK, "application": {"film": "papers-film"}}


def test_the_json_has_the_promised_form():
    result = anabranch.run(FILM, seed=3, run=2, scheduler="redundant", congestion="reno").to_json()
    assert list(result) == [
        "scenario", "world", "seed", "run", "scheduler", "congestion", "duration_s", "digest", "identity",
        "plugins", "notes", "qoe", "qos",
    ]  # fmt: skip
    assert (result["scenario"], result["world"], result["seed"], result["run"]) == ("bulk", "simulated", 3, 2)
    assert (result["scheduler"], result["congestion"]) == ("redundant", "reno")
    assert list(result["qoe"]) == [
        "picture_discards", "buffer_underflows", "recovery_time_s", "startup_delay_s", "rebuffer_s",
        "rebuffer_longest_s", "still_s", "still_longest_s", "unplayed_s", "play_time_s", "frames", "reached_end",
        "finished",
    ]  # fmt: skip
    assert list(result["qoe"]["frames"]) == ["total", "displayed", "discarded", "flushed"]
    assert list(result["qos"]) == [
        "goodput_mbps", "rtt_diff_ms", "reinjected_bytes", "max_read_gap_s", "queue_drops", "subflows", "paths",
    ]  # fmt: skip
    assert list(result["qos"]["subflows"][0]) == [
        "path", "bytes", "throughput_mbps", "retransmissions", "srtt_ms_mean", "cwnd_segments_mean",
        "cwnd_segments_median", "cwnd_segments_std", "recovery_s", "loss_s", "idle_s", "window_back_s",
    ]  # fmt: skip
    json.dumps(result, allow_nan=False)


def test_bulk_and_paced_have_no_viewer():
    assert anabranch.run(BULK).qoe is None
    paced = {**BULK, "application": {"kind": "paced", "rate": "1 Mb/s", "duration": "5 s"}}
    assert anabranch.run(paced).to_json()["qoe"] is None


def test_several_clients_are_listed():
    result = anabranch.run({**BULK, "clients": 3}).to_json()
    assert [client["client"] for client in result["clients"]] == [0, 1, 2]
    assert "clients" not in anabranch.run(BULK).to_json()


def test_equal_inputs_have_equal_digests():
    first, second = anabranch.run(BULK), anabranch.run(BULK)
    assert first.digest == second.digest
    assert anabranch.run(BULK, seed=2).digest != first.digest
    assert anabranch.run(BULK, run=1).digest != first.digest
    assert anabranch.run(BULK, set={"paths.wifi.rtt": "51 ms"}).digest != first.digest


def test_expectations():
    held = {"goodput_mbps": {"min": 0.1}, "finished": True, "subflows.wifi.retransmissions": {"max": 12}}
    assert anabranch.run({**FILM, "expect": held}).broken == ()
    failing = {"buffer_underflows": {"max": 0}, "finished": False, "frames.discarded": 11}
    broken = anabranch.run({**FILM, "expect": failing}).broken
    assert [str(item) for item in broken] == [
        "expected buffer_underflows <= 0, found 1",
        "expected finished = false, found True",
        "expected frames.discarded = 11, found 10",
    ]
    (missing,) = anabranch.run({**BULK, "expect": {"startup_delay_s": {"max": 9}}}).broken
    assert missing.found is None


def test_a_refused_plan_is_the_scenario_s_fault():
    with pytest.raises(ScenarioError, match="unknown parameter") as caught:
        anabranch.run(BULK, congestion={"name": "reno", "gain": 3.0})
    assert caught.value.faults[0].key == "transport.congestion.gain"


def test_a_defect_is_reported_and_how_to_see_it_again(simulator, monkeypatch):
    def broken(*_):
        message = "data that was acknowledged is never sent again"
        raise simulator.SimulationError(message)

    monkeypatch.setattr(simulator, "simulate", broken)
    with pytest.raises(anabranch.DefectError, match="seed 9, run 4"):
        anabranch.run(BULK, seed=9, run=4)


def test_overrides_name_themselves():
    with pytest.raises(ScenarioError) as caught:
        anabranch.run(BULK, scheduler="minrtt", set={"paths.wifi.rtt": 80})
    assert {fault.where for fault in caught.value.faults} == {
        "transport.scheduler='minrtt'",
        "paths.wifi.rtt=80",
    }


def test_a_run_gives_its_tables_as_rows():
    result = anabranch.run({**BULK, "clients": 2})
    assert [row["path"] for row in result.rows("subflows", client=1)] == ["wifi", "lte"]
    assert len(result.rows("subflows")) == 4


def test_progress_is_reported():
    told = []
    anabranch.run(BULK, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (10.0, 10.0)
    told.clear()
    anabranch.run(FILM, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0.0, pytest.approx(624.0, rel=0.1))


def test_the_public_names():
    assert sorted(anabranch.__all__) == [
        "AnabranchError", "DefectError", "Fault", "InputError", "MediaError", "MissingError", "Results", "Run",
        "ScenarioError", "Why", "__version__", "advise", "compare", "explain", "load", "open_run", "query",
        "read_capture", "read_log", "run", "run_study", "sweep", "write_report",
    ]  # fmt: skip
    for name in set(anabranch.__all__) - {"__version__"}:
        assert getattr(anabranch, name)
    with pytest.raises(AttributeError):
        _ = anabranch.nothing


def test_importing_does_no_work():
    heavy = {
        "altair",
        "av",
        "distributed",
        "duckdb",
        "jinja2",
        "numpy",
        "polars",
        "pydantic",
        "rich",
        "scipy",
        "typer",
        "vl_convert",
        "tree_sitter",
    }
    code = "import sys, anabranch; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not heavy & set(names.split())
    code = "import sys, anabranch.cli._app; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not (heavy - {"typer", "rich"}) & set(names.split())


#: Modules that short commands do not import: each takes longer to import than they may last.
HEAVY_ROOMS = {
    "altair",
    "av",
    "distributed",
    "duckdb",
    "jinja2",
    "numpy",
    "polars",
    "rich",
    "scipy",
    "vl_convert",
}


@pytest.mark.module
@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("--help", {*HEAVY_ROOMS, "pydantic", "decimal", "anabranch.scenario", "anabranch.cli._one"}),
        # pydantic: typer itself reads options with it.
        ("list schedulers", {*HEAVY_ROOMS, "anabranch.scenario.models", "anabranch.cli._many"}),
        ("run bulk-two-paths --set application.bytes=100kB", {*HEAVY_ROOMS, "anabranch.cli._many"}),
        # Its endpoint reads no scenario and runs no viewer: models, pydantic and viewers took most of its start.
        (
            "gateway --listen 10.9.0.1:443 --origin 127.0.0.1:8443 --setup-print",
            {
                *HEAVY_ROOMS,
                "pydantic",
                "anabranch.scenario.models",
                "anabranch.live.run",
                "anabranch.metrics",
            },
        ),
        # Intervals are computed without scipy.
        pytest.param(
            "sweep bulk-two-paths --set application.bytes=100kB --trials 2 --workers 1 --out out",
            {"altair", "av", "distributed", "jinja2", "scipy", "vl_convert"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_short_commands_import_little(words, heavy, tmp_path):
    code = (
        "import sys; from anabranch.cli._app import app\n"
        "try: app(sys.argv[1:], prog_name='anabranch')\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert not heavy & set(done.stderr.split())
    assert "anabranch.cli._app" in done.stderr.split()


def test_packages_import_only_from_lower_layers():
    """Scenario, media and metrics know nothing of the rooms that show things."""
    import ast
    from pathlib import Path

    root = Path(anabranch.__file__).parent
    above = {
        "advice",
        "cli",
        "report",
        "figures",
        "calibrate",
        "claims",
        "comparison",
        "study",
        "why",
        "experiments",
        "viewed",
        "_run",
    }
    # A run and a comparison can display themselves in a notebook.
    allowed = {"cli": above, "study": {"study", "_run"}, "comparison": {"comparison", "study", "figures"},
               "advice": {"advice", "comparison", "report", "study", "_run"},
               "report": {"report", "comparison", "figures", "why", "_run"},
               "claims": {"claims", "study", "why"},
               "experiments": {"experiments", "study", "figures", "claims", "comparison", "report", "_run"},
               "why": {"why", "study", "_run"},
               "viewed": {"viewed", "study", "experiments", "figures", "_run"},
               "calibrate": {"calibrate", "figures", "_run"},
               "figures": {"figures"}, "live": {"_run"}, "play": {"_run"}, "capture": {"_run"}, "measure": {"report"},
               "logs": {"_run"},
               "_run.py": {"figures"}}  # fmt: skip
    for file in root.rglob("*.py"):
        room = file.relative_to(root).parts[0]
        if room in ("__init__.py", "__main__.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anabranch"):
                parts = (node.module or "").split(".")[1:] or [alias.name for alias in node.names]
                assert parts[0] not in above - allowed.get(room, set()), f"{file}: {node.module}"

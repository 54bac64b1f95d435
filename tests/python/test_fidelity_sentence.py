"""The measured setting that is nearest to a scenario, and its sentence under a verdict."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from anabranch.comparison import fidelity
from anabranch.report import _folder

ROOT = Path(__file__).parents[2]


def scenario(*paths, **more):
    keys = ("rtt", "rate", "loss")
    return {
        "paths": [
            {"name": f"p{place}", **{key: value for key, value in zip(keys, path, strict=True) if value}}
            for place, path in enumerate(paths)
        ],
        **more,
    }


def test_the_table_is_that_of_the_page():
    tool = runpy.run_path(str(ROOT / "docs" / "calibrated.py"))
    page = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    assert tool["TABLE"].read_text(encoding="utf-8") == tool["table"](page), "run python docs/calibrated.py"
    for row in tool["settings"](page):
        assert f"### {row[0]}\n" in page


@pytest.mark.parametrize(
    ("paths", "congestion", "setting"),
    [
        # The settings themselves, in either order (groundtruth/README.md: P1 is 50 ms, 5 Mb/s, 0.5 % | 100, 5, 0).
        ([("50 ms", "5 Mbit/s", "0.5 %"), ("100 ms", "5 Mbit/s", None)], "cubic", "bulk P1"),
        ([("100 ms", "5 Mbit/s", None), ("50 ms", "5 Mbit/s", "0.5 %")], "reno", "bulk P1"),
        ([("300 ms", "2 Mbit/s", None), ("25 ms", "9 Mbit/s", None)], "bbr", "bulk P6"),
        ([("50 ms", "5 Mbit/s", "0.4 %")], "cubic", "bulk S1"),
        ([("100 ms", "5 Mbit/s", None)], "cubic", "bulk S2"),
    ],
)
def test_the_nearest_setting_is_found(paths, congestion, setting):
    found = fidelity.of(scenario(*paths), congestion)
    assert found.nearest.setting == setting
    assert found.nearest.congestion == congestion
    assert f"docs/calibration.md#{setting.lower().replace(' ', '-')}" in found.sentence
    assert "far" not in found.sentence


def test_the_sentence_has_the_figures_of_the_page():
    found = fidelity.of(scenario(("50 ms", "5 Mbit/s", "0.5 %"), ("100 ms", "5 Mbit/s", None)), "cubic")
    one = found.nearest
    assert one.error_percent == pytest.approx(100 * (one.simulator_mbps / one.kernel_mbps - 1), abs=0.06)
    assert f"{one.simulator_mbps:g} instead of {one.kernel_mbps:g} Mb/s" in found.sentence
    assert found.to_json()["goodput_error_percent"] == one.error_percent


def test_a_far_setting_and_another_control_are_named():
    far = fidelity.of(scenario(("20 ms", "500 Mbit/s", None)), "balia")
    assert ", not balia" in far.sentence
    assert "it is far from yours" in far.sentence
    # 18 Mb/s is the fastest single path that was measured: 500 is 4.8 doublings away.
    assert far.distance == pytest.approx(4.8, abs=0.1)


def test_paths_of_models_have_no_nearest_setting():
    model = {"paths": [{"name": "lte", "rtt": "50 ms", "model": "lte"}]}
    assert fidelity.of(model, "cubic").nearest is None
    assert "no setting measured" in fidelity.of(model, "cubic").sentence
    one, two = ("20 ms", "5 Mbit/s", None), ("30 ms", "5 Mbit/s", None)
    assert fidelity.of(scenario(one, two, one, two), "cubic").nearest is None


def test_the_other_kernel_has_its_own_settings():
    pair = ("50 ms", "6 Mbit/s", None), ("100 ms", "6 Mbit/s", None)
    assert fidelity.of(scenario(*pair), "lia").nearest.setting == "bulk P3"
    old = fidelity.of(scenario(*pair, transport={"profile": "mptcp-0.94"}), "lia")
    assert old.nearest.setting.startswith("papers-kernel ")
    lost = fidelity.of(scenario(*pair, handoffs=[{"path": "p0"}]), "cubic")
    assert "handoff" in lost.nearest.setting


@pytest.mark.parametrize(
    ("path", "more", "reason"),
    [
        ({"loss": {"kind": "gilbert-elliott"}}, {}, "path `p` has bursty loss"),
        ({"down": {"rate": "1 Mbit/s", "loss": "5 %"}}, {}, "path `p` has `down`"),
        ({"links": ["core"]}, {"links": [{"name": "core"}]}, "the scenario has `links`"),
        ({}, {"events": [{"at": "1 s"}]}, "the scenario has `events`"),
        ({}, {"cross_traffic": [{"kind": "tcp"}]}, "the scenario has `cross_traffic`"),
        ({"queue": {"name": "codel"}}, {}, "path `p` has the queue `codel`"),
        ({}, {"handoffs": [{"path": "p"}]}, "none has as many paths (1), with a loss of a path"),
    ],
)
def test_a_world_with_more_than_the_distance_compares_has_a_reason(path, more, reason):
    raw = {"paths": [{"name": "p", "rtt": "50 ms", "rate": "5 Mbit/s", **path}], **more}
    found = fidelity.of(raw, "cubic")
    assert found.nearest is None
    assert f"comparable: {reason} (" in found.sentence


def test_the_distance_is_that_of_the_worst_path():
    # The paths of P1 with 5 Mb/s each; one has 20 here: two doublings, of which the mean would be one.
    raw = scenario(("50 ms", "5 Mbit/s", "0.5 %"), ("100 ms", "20 Mbit/s", None))
    p1 = fidelity.of(scenario(("50 ms", "5 Mbit/s", "0.5 %"), ("100 ms", "5 Mbit/s", None)), "cubic").nearest
    legs = [(50.0, 5.0, 0.005), (100.0, 20.0, 0.0)]
    assert fidelity._distance(legs, p1.legs) == pytest.approx(2.0)
    assert fidelity.of(raw, "cubic").distance <= 2.0


def test_an_error_of_nothing_has_no_minus_sign():
    found = fidelity.of(scenario(("50 ms", "5 Mbit/s", "0.5 %"), ("100 ms", "5 Mbit/s", None)), "bbr")
    assert found.nearest.error_percent == 0
    assert "was +0 % from" in found.sentence


def test_another_application_and_scheduler_are_named():
    pair = ("50 ms", "5 Mbit/s", "0.5 %"), ("100 ms", "5 Mbit/s", None)
    film = fidelity.of(scenario(*pair, transport={"scheduler": "min-rtt"}), "cubic")
    assert "yours is progressive" in film.sentence
    assert "its scheduler is linux, yours is min-rtt" in film.sentence
    bulk = fidelity.of(scenario(*pair, application={"kind": "bulk"}), "cubic")
    assert "yours is" not in bulk.sentence


def test_a_bar_in_an_option_does_not_end_the_cell():
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert r"| `--width CM\|COLUMN` |" in page


def test_a_folders_sentence_names_only_settings_that_vary():
    cells = [
        {"settings": {"transport.profile": "linux-6.18", "transport.scheduler": name, "paths.a.rtt": "20 ms"}}
        for name in ("linux", "min-rtt")
    ]
    assert _folder._varying(cells, cells[0]) == "transport.scheduler linux"
    assert _folder._varying(cells[:1], cells[0]) == ""

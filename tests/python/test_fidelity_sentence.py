"""The measured setting that is nearest to a scenario, and its sentence under a verdict."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from anabranch.comparison import fidelity

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

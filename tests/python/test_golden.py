"""The congestion windows of every controller, against the curves that are kept."""

import sys
from pathlib import Path

import pytest

from anabranch.plugins import label

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

import curves  # noqa: E402 - it stands beside the curves

pytestmark = pytest.mark.module
SHOWN = [(plugin, setting) for plugin in curves.plugins() for setting in curves.SETTINGS]


@pytest.mark.parametrize(("plugin", "setting"), SHOWN, ids=[f"{label(p)}-{s}" for p, s in SHOWN])
def test_the_window_over_time(plugin, setting):
    found = curves.curve(plugin, setting)
    kept = found.file.read_text(encoding="utf-8") if found.file.exists() else ""
    assert found.text() == kept, f"`make golden` writes {found.file.name} anew"


def test_nothing_is_kept_of_what_is_not_run():
    run = {curves.Curve(plugin=label(p), setting=s, windows=[]).file.name for p, s in SHOWN}
    assert {path.name for path in curves.FOLDER.iterdir()} == run


def test_the_settings_do_to_the_window_what_they_say():
    """Loss is where it is said to be, and the limited application leaves the window unused."""
    import anabranch

    runs = {
        setting: anabranch.run(curves.scenario({"name": "reno"}, setting), set=values)
        for setting, values in curves.SETTINGS.items()
    }
    lost = {setting: sum(run.tables["links"]["dropped_loss"]) for setting, run in runs.items()}
    assert lost["loss"] > 20
    assert lost["lossless"] == lost["app-limited"] == 0
    assert sum(runs["lossless"].tables["links"]["dropped_queue"]) > 0
    assert runs["app-limited"].qos["goodput_mbps"] == pytest.approx(3, rel=0.02)
    assert max(cwnd for cwnd, _, _ in curves.curve({"name": "reno"}, "app-limited").windows[0]) < 60

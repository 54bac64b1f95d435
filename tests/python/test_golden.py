"""The congestion windows of every controller, against the curves that are kept."""

import functools
import itertools
import sys
from pathlib import Path

import pytest

from anabranch.plugins import label

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

import curves  # noqa: E402 - it stands beside the curves

pytestmark = pytest.mark.module
SHOWN = [(plugin, setting) for plugin in curves.plugins() for setting in curves.SETTINGS]


@functools.cache
def curve(name, setting):
    return curves.curve(next(p for p in curves.plugins() if label(p) == name), setting)


@pytest.mark.parametrize(("plugin", "setting"), SHOWN, ids=[f"{label(p)}-{s}" for p, s in SHOWN])
def test_the_window_over_time(plugin, setting):
    found = curve(label(plugin), setting)
    kept = found.file.read_text(encoding="utf-8") if found.file.exists() else ""
    assert found.text() == kept, f"`make golden` writes {found.file.name} anew"


@pytest.mark.parametrize("setting", curves.SETTINGS)
def test_no_two_curves_are_the_same_but_by_design(setting):
    """If two controllers had the same curve, the curve could not distinguish them."""
    names = [label(plugin) for plugin in curves.plugins()]
    rows = {name: curve(name, setting).text().split("\n", 1)[1] for name in names}
    same = {frozenset(two) for two in itertools.combinations(names, 2) if rows[two[0]] == rows[two[1]]}
    assert same == curves.SAME.keys()


def test_golden_folder_has_no_stale_curves():
    run = {curves.Curve(plugin=label(p), setting=s, windows=[]).file.name for p, s in SHOWN}
    assert {path.name for path in curves.FOLDER.iterdir()} == run


def test_golden_settings_shape_the_window_as_named():
    """Losses occur at their stated times, and the limited application leaves the window unused before the first."""
    import anabranch

    runs = {
        setting: anabranch.run(curves.scenario({"name": "reno"}, setting), set=values)
        for setting, values in curves.SETTINGS.items()
    }
    lost = {setting: sum(run.tables["links"]["dropped_loss"]) for setting, run in runs.items()}
    assert lost["lossless"] == 0 < lost["loss"]
    assert lost["app-limited"] > 5
    assert sum(runs["lossless"].tables["links"]["dropped_queue"]) > 0
    assert runs["app-limited"].qos["goodput_mbps"] == pytest.approx(12, rel=0.02)
    reno = [cwnd for cwnd, _, _ in curve("reno", "app-limited").windows[0]]
    # tcp_cwnd_application_limited takes away half of the unused window, and slow start regains it within
    # milliseconds. At most one sample in ten shows this. 12 Mb/s over 100 ms need 100 segments or more.
    unused = reno[20:55]
    assert unused.count(max(unused)) > 0.9 * len(unused), "the window stays where it is"
    assert min(unused) >= (max(unused) + 100) / 2
    assert min(reno[60:90]) < 12e6 * 0.1 / 12000 < reno[-1], "below what is offered, and back"

"""Notes below a summary: cells with equal digests, axes that a mean pools, short tables of differences."""

from __future__ import annotations

import warnings

import polars
import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.experiments import axes
from anabranch.experiments.read import PooledWarning
from anabranch.results import notes

pytestmark = pytest.mark.module

SMALL = {
    "name": "small",
    "application": {"kind": "bulk", "bytes": "200 kB"},
    "paths": [
        {"name": "wifi", "rtt": "30 ms", "rate": "5 Mbit/s"},
        {"name": "lte", "rtt": "60 ms", "rate": "5 Mbit/s"},
    ],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    pytest.importorskip("anabranch._anabranch")
    # Without loss nothing is retransmitted or lost: `rtx-aware` has nothing to change.
    grid = {
        "transport.scheduler": ["min-rtt", "rtx-aware(min-rtt)", "redundant"],
        "paths.lte.rate": ["5 Mbit/s", "2 Mbit/s"],
    }
    return anabranch.sweep(SMALL, grid=grid, trials=2, out=tmp_path_factory.mktemp("out"), workers=1)


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_cells_with_equal_digests_are_announced(found):
    expected = "rtx-aware(min-rtt) made the same decisions as min-rtt: all their runs have equal digests"
    assert found.same_decisions() == [f"{expected}, in 2 of 2 settings"]
    for options in ((), ("--versus", "min-rtt")):
        assert f"note: {expected}" in call("results", found.folder, *options).stderr
    rows = found.frame().filter(found.frame()["paths.lte.rate"] == "2 Mbit/s")
    digests = {row["transport.scheduler"]: row["digest"] for row in rows.filter(rows["run"] == 0).to_dicts()}
    assert digests["min-rtt"] == digests["rtx-aware(min-rtt)"] != digests["redundant"]


def test_a_mean_over_another_axis_is_announced(found):
    note = "each mean pools cells that differ in paths.lte.rate (5 Mbit/s, 2 Mbit/s); add --by paths.lte.rate"
    assert note in call("results", found.folder, "--by", "transport.scheduler").stderr
    assert "pools" not in call("results", found.folder).stderr
    with pytest.warns(PooledWarning, match=r"differ in paths\.lte\.rate"):
        found.means(by=["transport.scheduler"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PooledWarning)
        found.means()
        found.means(by=["transport.scheduler", "paths.lte.rate"])


def test_differences_have_at_most_ten_columns_unless_metrics_are_named(found):
    short = found.versus("min-rtt")
    assert len(short.columns) <= 10
    assert short.columns[:3] == ["transport.scheduler", "paths.lte.rate", "pairs"]
    assert "goodput_mbps_low" in short.columns
    whole = found.versus("min-rtt", metrics=["goodput_mbps", "retransmissions", "max_read_gap_s"])
    assert "max_read_gap_s_detectable" in whole.columns
    assert whole["goodput_mbps"].to_list() == short["goodput_mbps"].to_list()


def rows_of(digest):
    return polars.DataFrame(
        [
            {"paths.a.rate": a, "paths.b.rate": b, "run": 0, "digest": digest}
            for a in ("1 Mbit/s", "2 Mbit/s")
            for b in ("3 Mbit/s", "4 Mbit/s")
        ]
    )


def test_each_axis_of_a_grid_has_its_own_partners():
    sentences = notes.same(rows_of("d"), ("paths.a.rate", "paths.b.rate"))
    # Two axes, two settings of the other each.
    assert len(sentences) == 2
    assert all(one.endswith("in 2 of 2 settings") for one in sentences)


@pytest.mark.parametrize("digest", ["", None])
def test_rows_without_a_digest_are_not_equal(digest):
    assert notes.same(rows_of(digest), ("paths.a.rate", "paths.b.rate")) == []


def test_quiet_runs_do_not_lower_the_mean_of_unused_rates(monkeypatch):
    from pathlib import Path
    from types import SimpleNamespace

    from anabranch.results import store
    from anabranch.why import stored

    quiet = {name: {} for name in stored.ALL}
    known = {"1": {**quiet, "unused_mbps": {"late join": 4.0}, "frozen_s": {"late join": 1.0}}, "2": quiet}
    monkeypatch.setattr(stored, "read", lambda _: known)
    monkeypatch.setattr(stored, "_rows", lambda _: iter([{"identity": "1"}, {"identity": "2"}]))
    monkeypatch.setattr(store, "made", lambda _: SimpleNamespace(labels=()))
    (cell,) = stored.cells(Path()).values()
    # 4 Mb/s in the only run that has it; 1 s of freezes in two runs.
    assert cell["unused_mbps"] == {"late join": 4.0}
    assert cell["frozen_s"] == {"late join": 0.5}


@pytest.mark.parametrize(
    ("values", "exact", "low", "high"),
    [
        ([3.0], (), None, None),
        ([3.0], ("c",), 3.0, 3.0),
        # Student's t at 97.5 % with one degree of freedom is 12.706; the standard error of 2 and 4 is 1.
        ([2.0, 4.0], (), 3 - 12.706, 3 + 12.706),
    ],
)
def test_a_single_random_run_has_no_interval(values, exact, low, high):
    # Its interval is not cut at zero.
    metric = "rate_less_waiting_mbps"
    found = axes.Axes(x="x", values={"1": 1.0}, unit="", panel=None, colour=None, others=())
    rows = [{"x": "1", "row": "", "cell": "c", "run": at, metric: one} for at, one in enumerate(values)]
    (point,) = axes._points(rows, metric, found, {}, exact)
    assert point["mean"] == 3.0
    if low is None:
        assert point["low"] is None
        assert point["high"] is None
    else:
        assert (point["low"], point["high"]) == pytest.approx((low, high), abs=0.001)

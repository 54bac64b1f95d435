"""The page of the live trials: its tables are those of the recorded runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "returning_paths_live", ROOT / "docs" / "returning_paths_live.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.module
def test_the_page_has_the_tables_of_the_recorded_runs(script):
    rows, count = script.rounds()
    given = script.tables(rows, count)
    texts = [page.read_text(encoding="utf-8") for page in script.PAGES]
    for text in texts:
        assert script.with_tables(text, given) == text, "run python docs/returning_paths_live.py"
    assert all(table in "".join(texts) for table in given.values())
    # Five arms in six worlds.
    assert len(rows) == 30 * count
    assert f"{count} rounds of 30 sessions, {len(rows)} in all" in texts[0]


def row(world, arm, run, *, unplayed, start):
    return {"row": world, "arm": arm, "run": run, "unplayed_s": unplayed, "startup_delay_s": start}


ROWS = [
    row("w", "a", 0, unplayed=6.0, start=2.0),
    row("w", "a", 1, unplayed=8.0, start=2.0),
    row("v", "a", 0, unplayed=11.0, start=1.0),
    row("v", "a", 1, unplayed=12.0, start=None),  # never started: all of it counts
]


def test_worlds_weigh_the_same_and_a_session_without_a_start_counts_whole(script):
    values = script.by_case(ROWS)
    assert values == {("w", "a"): [4.0, 6.0], ("v", "a"): [10.0, 12.0]}
    assert script.mean(values, "a") == 8.0


def test_intervals_resample_trials_and_perhaps_worlds(script):
    values = script.by_case(ROWS)
    within = script.resampled(values, worlds=False)["a"]
    over = script.resampled(values, worlds=True)["a"]
    # Two trials of each world: 4, 5 or 6 s and 10, 11 or 12 s; half of their sums by hand.
    assert set(numpy.round(within, 6)) == {7.0, 7.5, 8.0, 8.5, 9.0}
    # One world twice gives 4 to 6 or 10 to 12 s.
    assert (over.min(), over.max()) == (4.0, 12.0)
    assert numpy.mean(over) == pytest.approx(8.0, abs=0.1)


def test_a_table_is_put_between_its_marks(script):
    text = "a\n<!-- table: x -->\n\nold\n\n<!-- end -->\nb\n<!-- table: y -->\n\nother\n\n<!-- end -->\n"
    assert script.with_tables(text, {"x": r"| \1 |"}) == text.replace("old", r"| \1 |")

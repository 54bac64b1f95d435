"""The figure of a session, as a notebook draws it again and again."""

from __future__ import annotations

import pytest

import anabranch

schemapi = pytest.importorskip("altair.utils.schemapi", reason="no Altair: nothing is drawn")


@pytest.mark.module
def test_a_figure_is_made_without_copies_of_its_parts(monkeypatch):
    """A copy of every part at each step took nine tenths of the time: 1,528 objects instead of 127."""
    run = anabranch.run("two-paths", set={"application.duration": "5 s"})
    made = []
    begin = schemapi.SchemaBase.__init__

    def counted(self, *arguments, **named):
        made.append(type(self))
        begin(self, *arguments, **named)

    monkeypatch.setattr(schemapi.SchemaBase, "__init__", counted)
    run.plot()
    assert 0 < len(made) < 300


@pytest.mark.module
def test_a_figure_that_the_user_changes_leaves_the_first_one_as_it_was():
    figure = anabranch.run("two-paths", set={"application.duration": "5 s"}).plot()
    before = figure.chart.to_dict()
    panel = figure.chart.vconcat[0].layer[0]
    changed = panel.encode(opacity={"value": 0.5})
    assert "opacity" in changed.to_dict()["encoding"]
    assert figure.chart.to_dict() == before

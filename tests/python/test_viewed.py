"""The live part of a study, and how its results are judged, without any packet."""

from __future__ import annotations

import functools

import pytest

from anabranch.errors import InputError
from anabranch.media import films, ladders
from anabranch.results.store import Store
from anabranch.study import study as studies
from anabranch.viewed import compare, make, page, read
from anabranch.viewed._one import Made

ARM = {"name": "a", "row": "2p-d"}


def study(folder, text):
    """Write a study of one scenario with a `live.toml`."""
    source = studies.find("SD18")
    for name in ("study.toml", *(f"{row}.toml" for row in studies.rows_of(source))):
        (folder / name).write_text((source / name).read_text())
    (folder / read.FILE).write_text(text)
    return folder


@pytest.fixture
def nothing_to_make(monkeypatch):
    """Put synthetic films in the place of those that are made on demand, which takes minutes."""
    monkeypatch.setattr(films, "open_film", functools.partial(_opened, films.open_film, "papers-film"))
    monkeypatch.setattr(ladders, "open_ladder", functools.partial(_opened, ladders.open_ladder, "uq18-va"))


def _opened(opens, synthetic, name, folders, **given):
    return opens(name and synthetic, folders, **given)


@pytest.mark.module
def test_a_ladder_that_two_make_at_the_same_time_is_one_of_theirs(tmp_path, monkeypatch):
    from anabranch.media import make as film_maker
    from anabranch.media import make_ladder as ladder_maker

    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    film = type("Film", (), {"path": tmp_path / "film.mp4"})
    monkeypatch.setattr(film_maker, "make_film", lambda **_: film)
    makers = []

    def written(_film, folder, **_):
        makers.append(folder)
        (folder / "0.ts").write_text(f"maker {len(makers)}")
        if len(makers) == 1:
            # Before the first one is done, a second one begins and ends.
            assert ladders.make("uq18-va-2min").name.startswith("ladder-")
        (folder / "master.m3u8").write_text("")

    monkeypatch.setattr(ladder_maker, "make_ladder", written)
    made = ladders.make("uq18-va-2min")
    assert (len(makers), len(set(makers))) == (2, 2)
    assert [one.name for one in tmp_path.iterdir()] == [made.name], "nothing else is left"
    assert (made / "0.ts").read_text() == "maker 2"
    assert made.stat().st_mode & 0o005 == 0o005, "another user plays it"
    assert ladders.make("uq18-va-2min") == made
    assert len(makers) == 2, "it is there"


@pytest.mark.module
def test_a_ladder_that_could_not_be_made_leaves_nothing(tmp_path, monkeypatch):
    from anabranch.media import make as film_maker
    from anabranch.media import make_ladder as ladder_maker

    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    monkeypatch.setattr(film_maker, "make_film", lambda **_: type("Film", (), {"path": tmp_path}))

    def interrupted(_film, folder, **_):
        (folder / "0.ts").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(ladder_maker, "make_ladder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ladders.make("uq18-va-2min")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.module
@pytest.mark.usefixtures("nothing_to_make")
@pytest.mark.parametrize(
    "name", [name for name, one in studies.folders().items() if (one / read.FILE).exists()]
)
def test_arms_are_run_by_turns_the_same_in_both_worlds(name):
    folder = studies.find(name)
    found = read.read(folder)
    what = read.sweep(folder, found)
    assert what.trials == found.trials
    cases = [case.labels for case in found.cases()]
    live, simulated = (make._tasks(found, what, live=live) for live in (True, False))
    assert [task.job.cell.labels for task in live] == cases * found.trials
    assert [task.job.run for task in live] == [run for run in range(found.trials) for _ in cases]
    for here, there in zip(live, simulated, strict=True):
        assert (here.job.cell, here.job.run) == (there.job.cell, there.job.run)
        assert here.job.identity != there.job.identity
    assert len({task.job.identity for task in live}) == len(live), "another server makes another run"


@pytest.mark.module
def test_viewed_sweep_uses_the_settings_of_the_paper():
    folder = studies.find("HO20")
    silent = read.sweep(folder, read.read(folder), only=["gr-sty, silent"]).cells[0]
    settings = {key: value for key, value, _ in silent.settings}
    assert settings["handoffs.0.at"] == "20 s"
    assert settings["handoffs.0.kind"] == "silent"
    assert settings["transport.scheduler"] == "gr-sty"
    assert settings["paths.F1.queue"] == "100 packets", "the study's assumptions hold"
    assert settings["transport.profile"] == "linux-6.18", "and what is set goes over them"


def test_every_fault_of_the_file_is_named(tmp_path):
    text = """
question = "?"
viewer = "vcl"
[[arms]]
name = "one"
row = "2p-x"
[[arms]]
name = "one"
row = "2p-d"
"""
    with pytest.raises(InputError) as caught:
        read.read(study(tmp_path, text))
    said = str(caught.value)
    assert "no such viewer: `vcl`" in said
    assert "no such scenario: `2p-x`" in said
    assert "another arm has this name: `one`" in said


def test_an_unknown_key_has_the_nearest_one(tmp_path):
    text = 'question = "?"\nviewer = "vlc"\n[[arms]]\nname = "one"\nrow = "2p-d"\nsever = "kernel"\n'
    folder = study(tmp_path, text)
    with pytest.raises(InputError, match="sever") as caught:
        read.read(folder)
    assert "server" in str(caught.value)


def test_study_without_live_runs_lists_studies_with_them():
    with pytest.raises(InputError, match=r"nothing to run over real packets") as caught:
        read.read(studies.find("PC16"))
    assert "SD18" in str(caught.value)


@pytest.mark.module
def test_a_wrong_value_is_reported_with_its_file(tmp_path):
    text = 'question = "?"\nviewer = "vlc"\n[set]\n"transport.scheduler" = "litx"\n[[arms]]\n'
    folder = study(tmp_path, text + 'name = "one"\nrow = "2p-d"\n')
    with pytest.raises(InputError, match=r"unknown scheduler: `litx` \(live\.toml\)"):
        read.sweep(folder, read.read(folder))


def test_an_unknown_arm_is_refused():
    folder = studies.find("SD18")
    with pytest.raises(InputError, match="no such arm: `linus`"):
        read.sweep(folder, read.read(folder), only=["linus"])


def row(run, **more):
    head = {"identity": f"live{run}", "cell": "c", "scenario": "2p-d", "scheduler": "linux"}
    head |= {"congestion": "cubic", "seed": 1, "run": run, "arm": "a"}
    return head | {"late.p99_ms": 0.1, "voids": 0, "void": False} | more


def compared(folder, live, simulated):
    """Compare rows of the two worlds, those over real packets from a folder of results."""
    cell = {
        "cell": "c",
        "scenario": "2p-d",
        "text": "t",
        "folder": "",
        "settings": {},
        "labels": {"arm": "a"},
    }
    made = {
        "name": "n",
        "code": "",
        "trials": 3,
        "keep": [],
        "notes": {},
        "scenarios": {"t": {}},
        "cells": [cell],
    }
    with Store(folder, made).writing() as journal:
        for run, one in enumerate(live):
            journal.add({"runs": [row(run, **one)], "subflows": []}, {})
    return compare.compare(folder, FOUND, [{"arm": "a", **one} for one in simulated])


FOUND = read.LiveStudy(question="?", viewer="vlc", arms=[read.Arm(**ARM)], causes={"startup_delay_s": "late"})


def test_a_figure_is_inside_its_target_inside_the_interval_or_apart(tmp_path):
    live = [
        {"startup_delay_s": 1.0, "buffer_underflows": 0, "picture_discards": 100, "goodput_mbps": 5.0},
        {"startup_delay_s": 1.1, "buffer_underflows": 20, "picture_discards": 102, "goodput_mbps": 5.2},
        {"startup_delay_s": 1.2, "buffer_underflows": 10, "picture_discards": 98, "goodput_mbps": 5.1},
    ]
    said = {"startup_delay_s": 1.5, "buffer_underflows": 15, "picture_discards": 124, "goodput_mbps": 9.0}
    found = compared(tmp_path, live, [said] * 3)
    verdicts = {one.name: one.verdict for one in found.differences}
    assert verdicts == {
        "startup_delay_s": "apart",  # 0.4 s, and the interval is 0.25
        "buffer_underflows": "inside the interval",  # 5 more, and the interval is 24.8
        "picture_discards": "inside",  # 24 %
        "goodput_mbps": "",
    }
    assert {one.name: one.cause for one in found.differences}["startup_delay_s"] == "late"
    text = page.page("X", FOUND, found, {"a": "X-1.html"})
    assert "2 of 3 figures" in text
    assert "| a | startup, s | 1.1 ± 0.25 | 1.5 ± 0 | +0.4 | apart | late |" in text
    assert "[report](X-1.html)" in text


def test_unplayed_time_is_compared_without_player_counters(tmp_path):
    # One trial dies after 10 of 60 s, the other never starts; in the simulator both play.
    died = {"rebuffer_s": 0.0, "still_s": 50.0, "unplayed_s": 50.0}
    never = {"rebuffer_s": 0.0, "still_s": None, "unplayed_s": 60.0}
    live = [
        {**died, "unstarted_sessions": 0, "unreached_sessions": 1},
        {**never, "unstarted_sessions": 1, "unreached_sessions": 1},
    ]
    plays = dict.fromkeys((*never, "unstarted_sessions", "unreached_sessions"), 0)
    found = compared(tmp_path, live, [plays] * 2)
    assert {one.name: one.apart for one in found.differences} == {
        "rebuffer_s": 0.0,
        "still_s": -50.0,
        "unplayed_s": -55.0,
        "unstarted_sessions": -0.5,
        "unreached_sessions": -1.0,
    }


def test_void_runs_do_not_count_and_are_counted(tmp_path):
    live = [{"startup_delay_s": 1.0, "voids": 1}, {"startup_delay_s": 9.0, "voids": 3, "void": True}]
    found = compared(tmp_path, live, [{"startup_delay_s": 1.0}])
    assert [one.viewer for one in found.differences] == [(1.0,)]
    assert found.trials == {"a": 1}
    assert found.voids == {"a": 4}
    assert found.late_ms == 0.1


def test_the_time_in_each_rendition_is_compared_from_the_lowest(tmp_path):
    live = [{"time_at.1080p": 50.0, "time_at.360p": 50.0}]
    found = compared(tmp_path, live, [{"time_at.1080p": 61.0, "time_at.360p": 41.0}])
    assert [(one.metric.title, one.verdict) for one in found.differences] == [
        ("time at 360p, %", "inside"),
        ("time at 1080p, %", "apart"),
    ]


def late(*, by_ms):
    """Return a maker of runs whose emulator was late by each of these in turn."""
    turns = iter(by_ms)

    def made(_self, task):
        return Made(rows={"runs": [{"late.p99_ms": next(turns)}] if task.live else [{}]}, traces={})

    return made


@pytest.mark.parametrize(
    ("by_ms", "voids", "void"), [([0.5], 0, False), ([3.0, 0.5], 1, False), ([3.0, 2.0, 1.5], 3, True)]
)
def test_a_late_run_is_made_again_and_not_for_ever(monkeypatch, by_ms, voids, void):
    monkeypatch.setattr(make._Runners, "_made", late(by_ms=by_ms))
    with make._Runners(1) as runners:
        (made,) = runners.results([make.Task(job=None, live=True, server="gateway", viewer="vlc")])
    assert made.rows["runs"][0] == {"late.p99_ms": by_ms[-1], "voids": voids, "void": void}

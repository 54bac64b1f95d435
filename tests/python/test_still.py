"""Stills and film that is not shown. The tables are made by hand, and the answers are computed by hand."""

from __future__ import annotations

import pytest

from anabranch import metrics
from anabranch.figures import _data
from anabranch.metrics._rows import of_one
from anabranch.metrics._still import standing_times, strips
from anabranch.why import stored


def pictures(fates, shown, *, events, duration=20.0, finished=True, planned=None, dues=None, times=None):
    """Return the tables of a film whose pictures last 1 s, or have the given film times."""
    count = len(fates)
    return {
        "connections": {
            "client": [0], "connect_s": [0.1], "duration_s": [duration], "bytes_read": [1], "reinjected_bytes": [0],
            "max_read_gap_s": [0.0], "fallback": [False], "finished": [finished], "planned_s": [planned],
        },
        "frames": {
            "client": [0] * count, "index": list(range(count)), "fate": fates, "shown_s": shown,
            "pts_s": times or [float(place) for place in range(count)], "due_s": dues or shown,
        },
        "playback": {
            "client": [0] * len(events), "t_s": [at for at, _ in events], "event": [event for _, event in events],
        },
    }  # fmt: skip


def numbers(tables):
    """Return `still_s`, `still_longest_s`, `unplayed_s` and `reached_end`."""
    found = metrics.by_client({**tables, "subflows": {"client": [], "bytes": []}})[0]["qoe"]
    return tuple(found[name] for name in ("still_s", "still_longest_s", "unplayed_s", "reached_end"))


def test_a_film_that_is_shown_from_the_start_never_stands_still():
    # The first picture is shown at 0.5 s, while the player buffers, and is due at 2 s.
    tables = pictures(
        ["displayed"] * 4,
        [0.5, 3.0, 4.0, 5.0],
        dues=[2.0, 3.0, 4.0, 5.0],
        events=[(1.99, "start"), (6.0, "end")],
    )
    assert numbers(tables) == (0.0, 0.0, 0.0, True)
    assert metrics.qoe({**tables, "subflows": {}})["play_time_s"] == 4.0


def test_a_stall_that_the_player_does_not_notice_counts():
    # Pictures at 2 and 3 s, then the input blocks. An underflow follows at 11 s, and playing resumes at 12 s.
    tables = pictures(
        ["displayed"] * 4,
        [2.0, 3.0, 12.0, 13.0],
        events=[(2.0, "start"), (11.0, "underflow"), (12.0, "resume"), (14.0, "end")],
    )
    # The picture of 3 s lasts until 4 s. The screen stands still from 4 to 12 s, of which VLC counts 1 s.
    assert numbers(tables) == (8.0, 8.0, 0.0, True)
    assert metrics.qoe({**tables, "subflows": {}})["rebuffer_s"] == 1.0


def test_a_discarded_picture_counts_one_frame():
    tables = pictures(
        ["displayed", "discarded", "displayed", "discarded", "discarded", "displayed"],
        [2.0, None, 4.0, None, None, 7.0],
        events=[(2.0, "start"), (8.0, "end")],
    )
    assert numbers(tables) == (3.0, 2.0, 3.0, True)


def test_a_picture_that_is_a_little_late_takes_nothing_away():
    # One picture is half a second late, and the next one is in time.
    tables = pictures(["displayed"] * 3, [2.0, 3.5, 4.0], events=[(2.0, "start"), (5.0, "end")])
    assert numbers(tables) == (0.0, 0.0, 0.0, True)


def test_film_that_a_flush_threw_away_is_not_played_and_takes_no_time():
    tables = pictures(
        ["displayed", "flushed", "flushed", "displayed"],
        [2.0, None, None, 4.0],
        events=[(2.0, "start"), (3.0, "underflow"), (4.0, "resume"), (5.0, "end")],
    )
    assert numbers(tables) == (1.0, 1.0, 2.0, True)


def test_a_session_that_dies_stands_still_to_the_end_of_the_simulation():
    tables = pictures(
        ["displayed"] * 2 + ["unplayed"] * 8,
        [2.0, 3.0] + [None] * 8,
        events=[(2.0, "start")],
        duration=100.0,
        finished=False,
    )
    assert numbers(tables) == (96.0, 96.0, 8.0, False)


def test_a_picture_before_the_start_counts_and_no_picture_is_null():
    still = ["unplayed"] * 9
    tables = pictures(["displayed", *still], [2.5] + [None] * 9, events=[], duration=100.0, finished=False)
    # The duration of the one shown picture is not still time.
    assert numbers(tables) == (96.5, 96.5, 9.0, False)
    tables = pictures(["unplayed", *still], [None] * 10, events=[], duration=100.0, finished=False)
    assert numbers(tables) == (None, None, 10.0, False)


@pytest.mark.parametrize(
    ("planned", "duration", "finished", "unplayed", "reached"),
    [
        # 5 s of the film's 10 s are wanted, and three pictures are shown by 5 s.
        (5.0, 5.0, True, 2.0, True),
        # The planned time is longer than the film.
        (30.0, 30.0, True, 5.0, False),
        # The simulation ended before the planned time.
        (8.0, 7.0, False, 3.0, False),
    ],
)
def test_unplayed_time_is_limited_by_film_and_planned_time(planned, duration, finished, unplayed, reached):
    tables = pictures(
        ["displayed"] * 5 + ["unplayed"] * 5,
        [2.0, 3.0, 4.0, 5.0, 6.0] + [None] * 5,
        events=[(2.0, "start")],
        duration=duration,
        finished=finished,
        planned=planned,
    )
    assert numbers(tables)[2:] == (unplayed, reached)


def test_long_final_freeze_means_end_not_reached():
    def standing(seconds):
        # Twelve pictures, shown from 2 to 14 s.
        end = 14.0 + seconds
        shown = [2.0 + place for place in range(12)]
        return numbers(
            pictures(
                ["displayed"] * 12 + ["unplayed"] * 30,
                shown + [None] * 30,
                events=[(2.0, "start")],
                duration=end,
                planned=end,
            )
        )

    assert standing(9.5) == (9.5, 9.5, 11.5, True)
    assert standing(10.0) == (10.0, 10.0, 12.0, False)


@pytest.mark.parametrize(
    ("shown", "reached"),
    [
        # Nothing new for half of the 8 s, and for a little less.
        ([1.0, 2.0, 3.0], False),
        ([1.0, 2.0, 3.0, 3.5], True),
        # One picture of 1 s for 7 s.
        ([0.0], False),
        # Half a second, less than a tenth of 8 s.
        ([7.5], False),
        ([7.0], True),
    ],
)
def test_a_short_session_that_died_has_not_reached_the_end(shown, reached):
    rest = 30 - len(shown)
    tables = pictures(
        ["displayed"] * len(shown) + ["unplayed"] * rest,
        shown + [None] * rest,
        events=[(shown[0], "start")],
        duration=8.0,
        planned=8.0,
    )
    assert numbers(tables)[3] is reached


def test_a_trace_of_before_has_no_planned_time():
    tables = pictures(
        ["displayed"] * 4 + ["unplayed"] * 6,
        [2.0, 3.0, 4.0, 5.0] + [None] * 6,
        events=[(2.0, "start")],
        duration=6.0,
    )
    del tables["connections"]["planned_s"]
    # The session finished before the end of the film, so its duration was the planned time, 6 s.
    assert numbers(tables) == (0.0, 0.0, 2.0, True)


def test_pictures_need_not_last_equally_long():
    # Pictures of 1, 3 and 2 s. The last one lasts as long as their mean, 2 s.
    tables = pictures(
        ["displayed"] * 4,
        [2.0, 3.0, 7.0, 9.0],
        times=[0.0, 1.0, 4.0, 6.0],
        events=[(2.0, "start"), (11.0, "end")],
    )
    # The picture of 3 s ends at 6 s, and the next one is shown at 7 s.
    assert numbers(tables) == (1.0, 1.0, 0.0, True)


def test_freezes_are_stretches_that_a_viewer_notices():
    shown = [2.0, 3.1, 4.3, 5.9, 7.0]
    tables = pictures(["displayed"] * 5, shown, events=[(2.0, "start"), (8.0, "end")])
    # 0.1 s is not a freeze. 0.2 and 0.6 s are two freezes with a picture of 1 s between them.
    found = standing_times(of_one(tables, 0))
    assert [(round(begin, 6), round(end, 6)) for begin, end in found] == [(4.1, 4.3), (5.3, 5.9)]


def strip(tables):
    """Return the states of the first client's screen: name, begin, end."""
    return [(one["state"], round(one["from_s"], 6), round(one["to_s"], 6)) for one in strips(tables)[0]]


def test_the_strip_of_a_screen_waits_plays_and_freezes():
    tables = pictures(["displayed"] * 4, [2.0, 3.1, 5.0, 6.0], events=[(2.0, "start"), (7.0, "end")])
    # The gap of 0.1 s is no freeze. The picture of 3.1 s ends at 4.1 s.
    assert strip(tables) == [("wait", 0, 2), ("play", 2, 4.1), ("freeze", 4.1, 5), ("play", 5, 7)]


def test_the_strip_shows_an_underflow_only_while_no_picture_is_shown():
    # The player has an empty buffer from 3.5 to 4 s, in the middle of a picture.
    events = [(2.0, "start"), (3.5, "underflow"), (4.0, "resume"), (5.0, "end")]
    assert strip(pictures(["displayed"] * 3, [2.0, 3.0, 4.0], events=events)) == [
        ("wait", 0, 2),
        ("play", 2, 5),
    ]


def test_the_strip_of_a_ladder_freezes_while_its_film_does():
    events = [(1.0, "start", 0.0), (11.0, "underflow", 10.0), (14.0, "resume", 10.0), (34.0, "end", 30.0)]
    assert strip(adaptive(events)) == [("wait", 0, 1), ("play", 1, 11), ("freeze", 11, 14), ("play", 14, 34)]


def test_the_strip_of_a_session_without_a_picture_is_one_freeze():
    tables = pictures(["unplayed"] * 10, [None] * 10, events=[], duration=100.0, finished=False)
    # The tables of a live run may lack the player.
    assert strip(tables) == [("wait", 0, 100)]
    tables["player"] = {"client": [0], "t_s": [0.0]}
    assert strip(tables) == [("freeze", 0, 100)]


def test_a_transfer_has_no_strip():
    tables = pictures([], [], events=[], duration=100.0)
    assert strips(tables) == [[]]


def test_a_session_without_a_picture_is_one_freeze_in_figures_too():
    tables = pictures(["unplayed"] * 10, [None] * 10, events=[], duration=100.0, finished=False)
    # A client without a player waits for no picture.
    assert _data.stalls(tables, 0) == []
    tables["player"] = {"client": [0], "t_s": [0.0]}
    assert _data.stalls(tables, 0) == [{"from_s": 0.0, "to_s": 100.0}]


@pytest.mark.parametrize(
    ("column", "amount", "quiet"),
    [
        ("still_longest_s", 0.14, True),
        ("still_longest_s", 0.15, False),
        # The time of the start.
        ("unplayed_s", 2.0, True),
        ("unreached_sessions", 1, False),
        ("picture_discards", 1, False),
    ],
)
def test_a_quiet_run_is_not_opened_again(column, amount, quiet):
    row = {"still_longest_s": None, "unplayed_s": 0.0, "unreached_sessions": 0, "buffer_underflows": 0}
    assert stored._is_quiet({**row, column: amount}) is quiet


@pytest.mark.parametrize(
    ("row", "is_first"),
    [
        ({"run": 1}, True),
        ({"run": 2}, False),
        ({"run": 0, "world": "1"}, True),
        ({"run": 2, "world": "1"}, True),
        ({"run": 0, "world": "2"}, False),
        ({"run": 1, "world": None}, True),
    ],
)
def test_causes_of_two_trials_are_those_of_two_drawn_worlds(row, is_first):
    assert stored.is_among(row, 2) is is_first


def adaptive(events, *, duration=40.0, finished=True, planned=None, rate=None, chunks=True):
    """Return the tables of a ladder with a film of 30 s."""
    own = [0] if chunks else []
    return {
        "connections": {
            "client": [0], "connect_s": [0.1], "duration_s": [duration], "bytes_read": [1], "reinjected_bytes": [0],
            "max_read_gap_s": [0.0], "fallback": [False], "finished": [finished], "planned_s": [planned],
        },
        "subflows": {"client": [0], "subflow": [0], "path": ["a"], "bytes": [7]},
        "requests": {"client": [0], "id": [0], "t_s": [0.2], "done_s": [0.5 if chunks else None]},
        "renditions": {
            "track": ["video"], "rendition": [0], "name": ["360p"], "width": [640], "height": [360],
            "frame_rate": [rate], "duration_s": [30.0],
        },
        "chunks": {
            "client": own, "track": ["video"] * len(own), "rendition": own, "duration_s": [30.0] * len(own),
            "bytes": [9] * len(own), "done_s": [0.5] * len(own), "abandoned": [False] * len(own),
        },
        "playback": {
            "client": [0] * len(events), "t_s": [at for at, _, _ in events], "event": [event for _, event, _ in events],
            "pts_s": [pts for _, _, pts in events],
        },
    }  # fmt: skip


def test_an_adaptive_player_stands_still_when_its_film_does():
    events = [(1.0, "start", 0.0), (11.0, "underflow", 10.0), (14.0, "resume", 10.0), (34.0, "end", 30.0)]
    # There are 33 s from the start to the end, and 30 s of film.
    assert numbers(adaptive(events)) == (3.0, 3.0, 0.0, True)


def test_a_stall_that_an_element_does_not_tell_of_counts():
    # From `start` to the underflow, 10 s pass but only 6 s of film.
    events = [(1.0, "start", 0.0), (11.0, "underflow", 6.0), (12.0, "resume", 6.0), (36.0, "end", 30.0)]
    assert numbers(adaptive(events)) == (5.0, 5.0, 0.0, True)


def test_a_picture_that_the_browser_dropped_counts_one_frame():
    drops = [(2.0, "drop", 1.0)] * 5
    events = [(1.0, "start", 0.0), *drops, (31.0, "end", 30.0)]
    assert numbers(adaptive(events, rate=25.0)) == (0.2, 0.2, 0.2, True)
    # Without a frame rate, the duration of a picture is unknown.
    assert numbers(adaptive(events)) == (0.0, 0.0, 0.0, True)


def test_an_adaptive_session_that_is_cut_off_while_it_stands_still():
    events = [(1.0, "start", 0.0), (11.0, "underflow", 10.0)]
    assert numbers(adaptive(events, duration=100.0, finished=False)) == (89.0, 89.0, 20.0, False)
    # The player is playing when its time ends.
    assert numbers(adaptive(events[:1], duration=21.0, planned=21.0)) == (0.0, 0.0, 1.0, True)
    # A player that is stopped reports the film time that it has reached.
    stopped = [*events[:1], (21.0, "stop", 8.0)]
    assert numbers(adaptive(stopped, duration=21.0, planned=21.0)) == (12.0, 12.0, 13.0, False)


def test_an_adaptive_session_that_receives_nothing_is_a_session():
    found = metrics.qoe(adaptive([], finished=False, chunks=False))
    assert (found["still_s"], found["unplayed_s"], found["reached_end"]) == (None, 30.0, False)
    assert (found["startup_delay_s"], found["resolution_mean"]) == (None, None)
    # No part of the film was played at the top rendition.
    assert (found["top_share"], found["bitrate_mean_mbps"]) == (0.0, 0.0)


@pytest.mark.module
def test_a_player_that_does_not_reach_the_end_is_exit_code_3(tmp_path, monkeypatch):
    import json

    from typer.testing import CliRunner

    from anabranch.cli._app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "dead.toml").write_text(
        'name = "dead"\n[application]\nkind = "progressive"\nfilm = "papers-film"\nduration = "20 s"\n'
        '[[paths]]\nname = "a"\nrtt = "30 ms"\nrate = "8 Mbit/s"\n'
        '[[events]]\nat = "10 ms"\npath = "a"\nstate = "down"\n'
    )
    done = CliRunner().invoke(app, ["run", "dead.toml", "--json"])
    assert done.exit_code == 3
    qoe = json.loads(done.stdout)["qoe"]
    assert (qoe["unplayed_s"], qoe["still_s"], qoe["buffer_underflows"]) == (20.0, None, 0)
    assert (
        "warning: the player did not reach the end: 20.0 s of film were not shown; it never started"
        in done.stderr
    )
    # If the path recovers in time, the run succeeds.
    done = CliRunner().invoke(app, ["run", "dead.toml", "--set", "events.0.at=19 s"])
    assert done.exit_code == 0
    # A failed expectation takes precedence.
    done = CliRunner().invoke(app, ["run", "dead.toml", "--set", "expect.unplayed_s.max=1"])
    assert done.exit_code == 1

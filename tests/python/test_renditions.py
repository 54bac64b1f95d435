"""Which rendition of a ladder is on the screen: one rule for figures, reports and the page."""

from __future__ import annotations

import pytest

from anabranch.figures import _data

pytestmark = pytest.mark.module

#: The film stands still from 7 s to 9 s. Its chunks are 4 s, 4 s and 2 s long.
PLAYBACK = [("start", 2.0, 0.0), ("underflow", 7.0, 5.0), ("resume", 9.0, 5.0), ("end", 14.0, 10.0)]
CHUNKS = [
    ("video", 0, 4.0, 1.0),
    ("audio", 0, 10.0, 1.5),
    ("video", 2, 4.0, None),
    ("video", 1, 4.0, 3.0),
    ("video", 1, 2.0, 5.0),
]


def tables(playback):
    client = {"client": [0] * len(playback)}
    chunks = dict(
        zip(("track", "rendition", "duration_s", "done_s"), map(list, zip(*CHUNKS, strict=True)), strict=True)
    )
    return {
        "connections": {"client": [0], "duration_s": [12.0]},
        "playback": client
        | {name: [row[place] for row in playback] for place, name in enumerate(("event", "t_s", "pts_s"))},
        "chunks": {"client": [0] * len(CHUNKS), **chunks},
        "renditions": {
            "track": ["video", "video", "video", "audio"],
            "rendition": [0, 1, 2, 0],
            "name": ["low", "high", "higher", "sound"],
            "height": [240, 720, 1080, None],
            "average_bps": [None, 2_000_400.0, 4e6, 1e5],
            "bandwidth_bps": [500_000.0, 3e6, 5e6, 1e5],
        },
    }


def shown(playback):
    return [(row["from_s"], row["to_s"], row["name"]) for row in _data.renditions(tables(playback), client=0)]


def test_a_chunk_is_on_the_screen_when_its_pictures_are_without_times_of_standstill():
    assert shown(PLAYBACK) == [(2.0, 6.0, "low"), (6.0, 7.0, "high"), (9.0, 14.0, "high")]


def test_a_session_that_is_cut_off_shows_the_film_until_its_end():
    # The session lasts 12 s: 5 s of film before the standstill, and 3 s after it.
    assert shown(PLAYBACK[:-1])[-1] == (9.0, 12.0, "high")


def test_a_film_that_never_starts_shows_no_rendition():
    assert shown([]) == []


def test_a_rendition_has_its_average_rate_or_its_highest_one_and_its_height():
    low, high, _ = _data.renditions(tables(PLAYBACK), client=0)
    assert (low["mbps"], low["height"]) == (0.5, 240)
    assert (high["mbps"], high["height"]) == (2.0, 720)


def test_clients_and_runs_without_a_ladder_have_none():
    given = tables(PLAYBACK)
    assert _data.renditions({**given, "renditions": {}}, client=0) == []

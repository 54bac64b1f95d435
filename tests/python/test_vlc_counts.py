"""VLC's picture counters, with expected counts computed by hand."""

from __future__ import annotations

import types

import pytest

from anabranch import metrics
from anabranch.live.viewers import hlsjs, vlc
from anabranch.metrics._rows import rows

#: 25 pictures a second for 20 s.
PACKETS = {
    "stream": ["video"] * 500, "pts_ns": [40_000_000 * place for place in range(500)], "kind": ["P"] * 500,
    "size": [100] * 500, "position": [100 * place for place in range(500)],
}  # fmt: skip
FILM = types.SimpleNamespace(plan={"recorded": {"packets": PACKETS}})


@pytest.mark.parametrize(
    ("shown", "passed_s", "new"),
    [
        # Playing: six or seven pictures of 40 ms in a quarter of a second.
        (6, 0.25, 6),
        (7, 0.25, 7),
        # Standing still: one picture is repeated every 80 ms.
        (25, 2.0, 0),
        # 50 pictures in 2 s, then one picture 37 times in 3 s.
        (87, 5.0, 49),
        # More pictures than the film can show, as VLC counts them at a restart.
        (20, 0.2, 7),
        (0, 1.0, 0),
    ],
)
def test_repeated_pictures_are_not_new(shown, passed_s, new):
    # (0.08 * 87 - 5) / (0.08 - 0.04) = 49.
    assert vlc._new(shown, passed_s, 0.04) == new


def told(counts, end_s):
    """Return log lines with these counters. The buffer is full at 1 s, empty at 9 s and full at 10 s."""
    lines = [{"t": 0.0, "what": "ready"}, {"t": 0.0, "what": "play"}]
    lines += [
        {"t": t_s, "what": "buffering", "percent": percent, "time_ms": 0}
        for t_s, percent in ((1.0, 100.0), (9.0, 0.0), (10.0, 100.0))
    ]
    lines += [
        {
            "t": t_s,
            "what": "counters",
            "read": read,
            "demuxed": read,
            "decoded": shown,
            "displayed": shown,
            "lost": lost,
        }
        for t_s, read, shown, lost in counts
    ]
    return [*sorted(lines, key=lambda line: line["t"]), {"t": end_s, "what": "stop"}]


@pytest.mark.module
def test_a_blocked_input_stands_still():
    # From 1 s to 4 s, 75 pictures are shown, 25 a second. Then the input blocks with 1 s of film left to
    # show, which are 25 pictures. From 5 s to 9 s one picture is repeated 50 times. From 10 s to 12 s it
    # plays 50 pictures.
    counts = [(1.0 + 0.2 * step, 100 * step, 5 * step, 0) for step in range(16)]
    counts += [(9.01, 2000, 150, 0), (9.2, 2100, 152, 0)]
    counts += [(10.0 + 0.2 * step, 2200 + 100 * step, 152 + 5 * step, 0) for step in range(11)]
    sent = {"duration_s": 12.0, "connect_s": 0.1, "reinjected_bytes": 0, "refused_packets": 0, "fallback": False,
            "planned_s": 12.0}  # fmt: skip
    tables = vlc.read(told(counts, 12.0), FILM, 0.0, sent)
    frames = [row for row in rows(tables["frames"]) if row["fate"] == "displayed"]
    # While VLC buffers again, one picture counts. It is due when VLC plays again, and so ends no stretch.
    assert len(frames) == 75 + 25 + 1 + 50
    assert [row["due_s"] for row in frames if row["shown_s"] < 10.0 < row["due_s"] + 0.001] == [10.0]
    found = metrics.qoe({**tables, "subflows": {"client": []}})
    # VLC counts 1 s. The picture stood still from 5 s to 10 s, in one stretch.
    assert found["rebuffer_s"] == pytest.approx(1.0)
    assert found["still_s"] == pytest.approx(11.0 - 151 * 0.04)
    assert found["still_longest_s"] == pytest.approx(found["still_s"])


@pytest.mark.module
def test_stopped_browser_reports_its_last_position():
    lines = [
        {"t_s": 1.0, "what": "playing", "position_s": 0.0},
        {"t_s": 5.0, "what": "counters", "position_s": 4.0, "dropped": 0, "buffer_s": 0.0},
        {"t_s": 9.0, "what": "stop"},
    ]
    found = hlsjs.playback(lines)
    assert [(row["event"], row["t_s"], row["pts_s"]) for row in found] == [
        ("start", 1.0, 0.0),
        ("stop", 9.0, 4.0),
    ]

"""How VLC and hls.js stand while they play, from the lines that they tell."""

from __future__ import annotations

from types import SimpleNamespace

from anabranch.live.viewers import hlsjs, vlc
from anabranch.live.viewers.session import Session

#: Two pictures a second, of 100 bytes each.
PACKETS = {
    "stream": ["video"] * 8,
    "position": [100 * n for n in range(8)],
    "size": [100] * 8,
    "pts_ns": [500_000_000 * n for n in range(8)],
    "kind": ["key"] * 8,
}
FILM = SimpleNamespace(plan={"recorded": {"packets": PACKETS}})


def counters(read, time_ms, lost=0):
    return {
        "what": "counters",
        "read": read,
        "demuxed": read,
        "displayed": 0,
        "lost": lost,
        "time_ms": time_ms,
    }


def test_vlc_reports_its_buffer_and_lost_pictures():
    now = vlc.Now(FILM)
    assert now.player() == {"buffer_s": 0.0, "position_s": 0.0, "discards": 0, "underflows": 0}
    now.hear([counters(400, -1), {"what": "buffering", "percent": 100.0}])
    # The fourth picture is that of 1.5 s.
    assert now.player() == {"buffer_s": 1.5, "position_s": 0.0, "discards": 0, "underflows": 0}
    now.hear([{"what": "buffering", "percent": 20.0}, {"what": "buffering", "percent": 60.0}])
    now.hear([counters(600, 1_000, lost=3)])
    assert now.player() == {"buffer_s": 1.5, "position_s": 1.0, "discards": 3, "underflows": 1}
    # The last lines of its output have no time.
    last = counters(600, 0, lost=4)
    del last["time_ms"]
    now.hear([{"what": "buffering", "percent": 100.0}, last])
    assert now.player() == {"buffer_s": 1.5, "position_s": 1.0, "discards": 4, "underflows": 1}


def test_hlsjs_reports_its_buffer_and_dropped_frames():
    now = hlsjs.Now(FILM)
    now.hear([{"what": "waiting"}, {"what": "playing"}])
    assert now.player() == {"buffer_s": 0.0, "position_s": 0.0, "discards": 0, "underflows": 0}
    told = {"what": "counters", "buffer_s": 4.5, "position_s": 2.0, "pictures": 60, "dropped": 7}
    now.hear([told, {"what": "waiting"}])
    assert now.player() == {"buffer_s": 4.5, "position_s": 2.0, "discards": 7, "underflows": 1}


def test_live_moments_include_the_latest_player_counters():
    session = SimpleNamespace(told=[counters(400, 0)])
    shown = []
    show = Session.shown(session, vlc.Now(FILM), shown.append)
    show({"t_s": 0.1, "player": None})
    session.told.append(counters(400, 500))
    show({"t_s": 0.2, "player": None})
    assert [moment["player"]["position_s"] for moment in shown] == [0.0, 0.5]
    assert [moment["t_s"] for moment in shown] == [0.1, 0.2]

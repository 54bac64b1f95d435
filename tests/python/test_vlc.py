"""The progressive player beside VLC 3.0.24: its rows run again, and the prefetch that hides a cut."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from anabranch._run import run_loaded
from anabranch.calibrate import read, simulate, vlc
from anabranch.scenario.load import load
from anabranch.scenario.streamed import film_of

TRUTH = read.read(Path(__file__).resolve().parents[2] / "groundtruth")
MEASURED = {one.setting.name: one for one in TRUTH.measured if one.setting.kind == "vlc"}
FIGURES = ("startup_s", "rebuffer_count", "rebuffer_s", "lost_pictures", "displayed_pictures")
RUNS = 10


def test_the_counters_are_those_of_vlc():
    tables = {
        "connections": {"duration_s": [10.0]},
        "frames": {
            "why": ["", "late", "haste", "reference", "", ""],
            "shown_s": [1.0, None, None, None, 1.2, 12.0],
        },
        "playback": {
            "t_s": [0.5, 0.75, 2.0, 3.5, 3.75, 9.0],
            "event": ["full", "start", "underflow", "full", "resume", "underflow"],
        },
    }
    figures = vlc.figures(tables)
    assert figures["startup_s"] == pytest.approx(0.5 + vlc.LAUNCH_S)
    # The underflow that the end of the session cut off is none yet.
    assert (figures["rebuffer_count"], figures["rebuffer_s"]) == (1, 1.5)
    assert figures["lost_pictures"] == 1
    # Two pictures in time, and the first again 76 and 152 ms later.
    assert figures["displayed_pictures"] == 4


def test_a_flush_leaves_nothing_to_show_again():
    frames = {"shown_s": [1.0, 2.0]}
    assert vlc.displayed(frames, [], 10.0) == 2 + 13
    assert vlc.displayed(frames, [(1.1, "underflow")], 10.0) == 2 + 1


def test_the_table_groups_trials_by_setting():
    assert len(MEASURED) == 10
    assert set(QUICK) < set(MEASURED)
    assert fmean(MEASURED["vlc/S2/cubic/v524.mp4"].values("lost_pictures")) == 51
    recorded = TRUTH.films["v524.ts"].plan["recorded"]
    assert recorded["container"] == "mpegts"
    assert recorded["frame_rate"] == 30
    assert recorded["packets"]["kind"].count("I") == 45


# One of each container in the quick suite; the others run in the other.
QUICK = ("vlc/S1/bbr/v524.ts", "vlc/S2/cubic/v524.mp4")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MEASURED]


@pytest.mark.module
@pytest.mark.parametrize("name", EACH)
def test_the_player_is_close_to_vlc(name):
    """Within 0.3 s, two rebuffers, a fifth of their seconds and a quarter of the lost pictures."""
    measured = MEASURED[name]
    runs = simulate.simulate(simulate.tasks([measured], TRUTH.films, runs=RUNS), workers=1)[0]
    found = {figure: fmean(run[figure] for run in runs) for figure in FIGURES}
    kernel = {figure: fmean(measured.values(figure)) for figure in FIGURES}
    assert found["startup_s"] == pytest.approx(kernel["startup_s"], abs=0.3)
    assert found["rebuffer_count"] == pytest.approx(kernel["rebuffer_count"], abs=2)
    # A row without rebuffers: half a second is less than the shortest one that VLC showed.
    assert found["rebuffer_s"] == pytest.approx(kernel["rebuffer_s"], rel=0.2, abs=0.5)
    assert found["lost_pictures"] == pytest.approx(kernel["lost_pictures"], rel=0.25, abs=0)
    assert found["displayed_pictures"] == pytest.approx(kernel["displayed_pictures"], rel=0.12)


def cut(prefetch, at="20 s"):
    """A film at 5.2 Mb/s over 18 and 3 Mb/s; the fast path is lost."""
    tables = {
        "name": "cut",
        "application": {"film": "papers-film", "duration": "110 s", "player": {"prefetch": prefetch}},
        # The kernel's had grown so that it held 3.6 to 5.5 MB when the ring was full (four sessions): 4.55 MB
        # of payload take 7 MiB, at 2304 bytes of memory for 1424 of payload.
        "transport": {"scheduler": "linux", "congestion": "cubic", "receive_buffer": "7 MiB"},
        "paths": [
            {"name": "fast", "rtt": "50 ms", "rate": "18 Mbit/s", "queue": "100 packets"},
            {"name": "slow", "rtt": "100 ms", "rate": "3 Mbit/s", "queue": "100 packets"},
        ],
        "events": [{"at": at, "path": "fast", "state": "down"}] if at else [],
    }
    return run_loaded(load(tables), film=TRUTH.films["v524.ts"])


def underflows(run):
    return [row["t_s"] for row in run.rows("playback") if row["event"] == "underflow"]


@pytest.mark.module
def test_the_prefetch_hides_a_cut():
    """VLC over the kernel underflowed at 88.3 s with 16 MiB of prefetch and at 49.9 s with 4 MiB."""
    run = cut("16 MiB")
    first = underflows(run)[0]
    assert first == pytest.approx(88.3, abs=4)

    # The cut took effect at once: nothing more was acknowledged on the fast path, and the bytes that the
    # player read came at the slow path's rate once the kernel's receive buffer was empty.
    fast = [row for row in run.rows("samples") if row["path"] == "fast"]
    acknowledged = {row["bytes_acked"] for row in fast if row["t_s"] > 20.2}
    assert len(acknowledged) == 1
    assert acknowledged.pop() > 25_000_000
    read = {round(row["t_s"], 1): row["bytes_read"] for row in run.rows("player")}
    assert (read[80.0] - read[50.0]) * 8 / 30 == pytest.approx(3e6 * 1424 / 1500, rel=0.01)
    # The ring was full at the cut and held a quarter of a minute and more; it ran dry, not over.
    held = {round(row["t_s"], 1): (row["buffer_bytes"], row["buffer_s"]) for row in run.rows("player")}
    assert held[19.9][0] == 16 * 2**20
    assert held[19.9][1] == pytest.approx(25.6, abs=1.5)
    assert held[round(first - 0.1, 1)][0] < 50_000

    # A smaller ring underflows that much earlier, except for the data that the receive buffer holds;
    # without the cut neither does.
    assert underflows(cut("4 MiB"))[0] == pytest.approx(49.9, abs=4)
    assert underflows(cut("4 MiB", at=None)) == []


@pytest.mark.module
def test_interleaving_determines_the_discards_per_underflow():
    """VLC counted 667 lost pictures in 60 underflows of an MP4 whose packets are in order of time."""
    found = {}
    for film in ("papers-film", "papers-film-interleaved"):
        scenario = {
            "name": "slow",
            "application": {"film": film, "duration": "90 s"},
            "transport": {"congestion": "cubic"},
            "paths": [{"name": "a", "rtt": "100 ms", "rate": "4.8 Mbit/s"}],
        }
        loaded = load(scenario)
        seen = [run_loaded(loaded, run=run, film=film_of(loaded)).qoe for run in range(4)]
        underflows_seen = sum(qoe["buffer_underflows"] for qoe in seen)
        assert underflows_seen >= 8
        found[film] = sum(qoe["picture_discards"] for qoe in seen) / underflows_seen
    assert found["papers-film"] < 1
    assert 5 < found["papers-film-interleaved"] < 20

"""P.1203's published formulas, term by term: right sides are their arithmetic with forty digits, rounded.

P.1203.1, mode 0: q = a1 + a2 ln(a3 + ln b + ln(b² / (pixels · fps) + a4)) with b in kbit/s; the score of the
coding alone is 4.66 - 0.07 exp(4.06 q), from 1 to 5; what is lost of 100 is added up over coding, scaling
72.61 log10(0.32 (screen / coded - 1) + 1), and below 24 pictures a second
(100 - coding - scaling) (30.98 - 1.29 fps) / (64.65 + fps).
"""

from __future__ import annotations

import math

import pytest

from anabranch.metrics import p1203

# A change in the eighth digit of any coefficient changes some right side by more than this.
EXACT = 1e-7


def pictures(width, height, fps, kbps):
    segment = {"resolution": f"{width}x{height}", "fps": fps, "bitrate": kbps}
    return p1203._pictures(segment)


@pytest.mark.parametrize(
    ("width", "height", "fps", "kbps", "score"),
    [
        # A whole screen at 24 a second and more loses to coding alone: the score is that of the coding.
        (1920, 1080, 25, 40_000, 4.60011634),
        (1920, 1080, 25, 4_000, 4.38130863),
        (1920, 1080, 25, 300, 3.91404319),
        (1920, 1080, 25, 5, 2.26265759),
        # More pixels than the screen has cost nothing and gain nothing.
        (3840, 2160, 25, 8_000, 4.42536062),
        # A ninth of the screen: 72.61 log10(3.56) = 40.04 more are lost; a quarter: 72.61 log10(1.96) = 21.22.
        (640, 360, 25, 1_000, 2.09641580),
        (960, 540, 24, 2_000, 3.26096739),
        # Below 24 pictures a second: 16.50, 1.21, and 11.98 of what coding and scaling leave.
        (1920, 1080, 12, 4_000, 3.63653632),
        (1920, 1080, 23, 4_000, 4.33576780),
        (960, 540, 12, 2_000, 2.64650623),
        # More is lost than there is.
        (320, 180, 25, 20, 1.05),
    ],
)
def test_a_second_of_pictures(width, height, fps, kbps, score):
    assert pictures(width, height, fps, kbps) == pytest.approx(score, abs=EXACT)


def test_a_hopeless_coding_is_the_least_score():
    # b² / (pixels · fps) + a4 has a logarithm of -2.03, ln 0.001 is -6.91: q is 1.4, and 4.66 - 20 counts as 1.
    assert pictures(1920, 1080, 25, 0.001) == 1.05


@pytest.mark.parametrize(
    ("kbps", "score"),
    # A rating of 85.4 - 100 exp(-b / 20).
    [(24, 3.09663360), (64, 4.40767452), (128, 4.55381402)],
)
def test_a_second_of_sound(kbps, score):
    assert p1203._sound({"bitrate": kbps}) == pytest.approx(score, abs=EXACT)


@pytest.mark.parametrize(
    ("rating", "score"),
    [
        # 1.05 + 3.85 r / 100 + 7e-6 r (r - 60) (100 - r)
        (-1, 1.05), (0, 1.05), (3.25, 1.050214703125), (10, 1.12), (20, 1.372), (60, 3.36), (80, 4.354),
        (99, 4.888527), (100, 4.9), (101, 4.9),
    ],
)  # fmt: skip
def test_a_rating_as_a_score(rating, score):
    assert p1203.mos_from_r(rating) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    ("score", "rating"),
    [
        (1.050214703125, 3.25),
        (1.12, 10),
        (1.372, 20),
        (3.36, 60),
        (4.354, 80),
        (4.888527, 99),
        (4.9, 100),
        (5, 100),
    ],
)
def test_a_score_as_a_rating(score, rating):
    assert p1203.r_from_mos(score) == pytest.approx(rating, abs=1e-6)


@pytest.mark.parametrize("score", [0, 1, 1.05])
def test_the_least_score_is_no_rating(score):
    assert p1203.r_from_mos(score) == 0


@pytest.mark.parametrize(
    ("sound", "sight", "both"),
    [
        # -0.00069084 + 0.15374283 · 4 + 0.97153861 · 3 + 0.02461776 · 12
        (4, 3, 3.82430943),
        (2, 1, 1.32756895),
        (1, 4, 4.13767747),
        (5, 5, 5),
        (0, 0, 1),
    ],
)
def test_sound_and_pictures_together(sound, sight, both):
    assert p1203._together(sound, sight) == pytest.approx(both, abs=1e-12)


@pytest.mark.parametrize(
    ("seconds", "session"),
    [
        # Weights (0.0066662 + 0.0000404 exp((t/T) / 0.1565)) (0.14318 - 0.0238642 v): those of 2, then 4, are
        # 0.00073042053 and 0.00146669728; those of 4, then 2, 0.00036519017 and 0.00293355438.
        ([4, 2], 2.2214117176),
        ([2, 4], 3.3351102726),
        ([1, 1, 5], 2.0839662384),
        ([3], 3),
    ],
)
def test_a_session_of_seconds(seconds, session):
    assert p1203._session(seconds) == pytest.approx(session, abs=1e-9)


@pytest.mark.parametrize(
    ("stalls", "film_s", "factor"),
    [
        ([], 30, 1.0),
        # exp(-1 / 9.3516 - 2 (0.48413 + 0.51587 / 2) / 30 / 0.9189)
        ([(20, 2)], 30, 0.8514872356),
        # Weighted seconds 4.09067265625, stalls 20 s apart on average.
        ([(0, 3), (10, 4), (40, 1)], 60, 0.6536761857),
    ],
)
def test_the_factor_for_stalls(stalls, film_s, factor):
    assert p1203._stalling(stalls, film_s) == pytest.approx(factor, abs=1e-9)


def chunked(*, width=960, height=540, frame_rate=24.0, audio=(), starts=((0.5, "start", 0.0),)):
    """Two chunks of 2 s and 3 s at 2000 kbit/s, asked for 0.25 s after the connect."""
    kinds = ["video", "video", *("audio" for _ in audio)]
    times, events, places = map(list, zip(*starts, strict=True)) if starts else ([], [], [])
    return {
        "connections": {"client": [0], "connect_s": [0.1], "duration_s": [9.0], "finished": [True]},
        "requests": {"client": [0], "id": [0], "t_s": [0.25], "done_s": [5.0]},
        "playback": {"client": [0] * len(times), "t_s": times, "event": events, "pts_s": places},
        "renditions": {
            "track": ["audio", "video"], "rendition": [0, 0], "name": ["a", "v"],
            "width": [0, width], "height": [0, height], "frame_rate": [None, frame_rate],
        },
        "chunks": {
            "client": [0] * len(kinds), "track": kinds, "rendition": [0] * len(kinds),
            "duration_s": [2.0, 3.0, *(length for length, _ in audio)],
            "bytes": [500_000, 750_000, *(size for _, size in audio)],
            "done_s": [1.0] * len(kinds), "abandoned": [False] * len(kinds),
        },
    }  # fmt: skip


def test_the_terms_of_a_session_without_sound_of_its_own():
    found = p1203.terms(chunked())
    # Each second: pictures 3.26096739, sound 4.9, -0.00069084 + 0.75333987 + 3.16815573 + 0.39336195.
    both = -0.00069084 + 0.15374283 * 4.9 + 0.97153861 * 3.26096739 + 0.02461776 * 4.9 * 3.26096739
    # The wait of 0.25 s at the start, of a film of 5 s: exp(-1 / 9.3516 - 0.25 (0.48413 + 0.51587 / sqrt 2) / 5 / 0.9189).
    factor = math.exp(-1 / 9.3516 - 0.25 * (0.48413 + 0.51587 / math.sqrt(2)) / 5 / 0.9189)
    assert found == {
        "o21": 4.9,
        "o22": pytest.approx(3.260967, abs=1e-6),
        "o35": pytest.approx(both, abs=2e-6),
        "stalling": pytest.approx(factor, abs=1e-6),
        "mos": pytest.approx(1 + (both - 1) * factor, abs=2e-6),
    }


def test_sound_that_ends_early_lasts_and_that_ends_late_is_cut():
    # 24 kbit/s for 2 s, then 64 kbit/s for 1 s that goes on for the film's other two.
    early = p1203.terms(chunked(audio=[(2.0, 6_000), (1.0, 8_000)]))
    assert early["o21"] == pytest.approx((2 * 3.09663360 + 3 * 4.40767452) / 5, abs=1e-6)
    late = p1203.terms(chunked(audio=[(4.0, 12_000), (4.0, 32_000)]))
    assert late["o21"] == pytest.approx((4 * 3.09663360 + 4.40767452) / 5, abs=1e-6)


def test_p1203_request_contains_segments_and_stalls():
    # Times are given to the microsecond.
    stalled = [
        (0.5000004, "start", 0.0),
        (2.5, "underflow", 2.0),
        (4.0000004, "resume", 2.0),
        (7.0, "underflow", 5.0),
    ]
    found = p1203.request(chunked(audio=[(2.0, 6_000), (3.0, 9_000)], starts=stalled[::-1]))
    assert found == {
        "I11": {
            "streamId": 1,
            "segments": [
                {"codec": "aaclc", "bitrate": 24.0, "start": 0.0, "duration": 2.0},
                {"codec": "aaclc", "bitrate": 24.0, "start": 2.0, "duration": 3.0},
            ],
        },
        "I13": {
            "streamId": 1,
            "segments": [
                {
                    "codec": "h264", "bitrate": 2000.0, "start": start, "duration": length,
                    "resolution": "960x540", "fps": 24.0,
                }
                for start, length in ((0.0, 2.0), (2.0, 3.0))
            ],
        },
        # The wait from the first request, a stall of 1.5 s, and one to the end of the session at 9 s.
        "I23": {"streamId": 1, "stalling": [[0.0, 0.25], [2.0, 1.5], [5.0, 2.0]]},
        "IGen": {"displaySize": "1920x1080", "device": "pc", "viewingDistance": "150cm"},
    }  # fmt: skip


def test_missing_playlist_attributes_get_defaults():
    (segment, _) = p1203.request(chunked(width=0, height=0, frame_rate=None))["I13"]["segments"]
    assert (segment["resolution"], segment["fps"]) == ("1920x1080", 24.0)


def test_a_session_that_never_began_waits_for_nothing():
    assert p1203.request(chunked(starts=()))["I23"]["stalling"] == []


def test_nothing_seen_has_no_terms():
    tables = chunked()
    tables["chunks"]["done_s"] = [None, None]
    assert p1203.terms(tables) == {"o21": None, "o22": None, "o35": None, "stalling": None, "mos": None}

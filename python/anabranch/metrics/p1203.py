"""ITU-T P.1203 for an adaptive session: the standard's input, and the terms that are published.

`request` is the JSON that the standard's reference program takes (mode 0: rates, sizes and stalls of each
chunk). `terms` computes its published formulas of mode 0 per second: P.1203.2 for sound, P.1203.1 for
pictures, P.1203.3 up to the stalling. The further steps of P.1203.3 (corrections for a bad period and for
oscillation, and a forest of decision trees) are not computed. `mos` is therefore not a P.1203 score.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from anabranch.metrics._adaptive import chunks, first_request_s
from anabranch.metrics._rows import Tables, of_one, rounded, rows
from anabranch.metrics._viewer import stall_times

if TYPE_CHECKING:
    from collections.abc import Sequence

#: P.1203.1 mode 0, a1 to a4.
_A = (11.9983519, -2.99991847, 41.24751, 0.13183166)
#: The screen that the defaults of the reference program describe.
_DISPLAY = (1920, 1080)


def request(tables: Tables, *, client: int = 0) -> dict[str, Any]:
    """Return the input of P.1203's reference program for one client's session.

    Parameters
    ----------
    tables
        The trace of an adaptive application.
    client
        Whose session.
    """
    own = of_one(tables, client)
    sound = chunks(own, track="audio")
    return {
        "I11": {"streamId": 1, "segments": [_heard(row) for row in _timed(sound)]},
        "I13": {"streamId": 1, "segments": [_seen(row, own) for row in _timed(chunks(own))]},
        "I23": {"streamId": 1, "stalling": [list(stall) for stall in _stalls(own)]},
        "IGen": {
            "displaySize": f"{_DISPLAY[0]}x{_DISPLAY[1]}",
            "device": "pc",
            "viewingDistance": "150cm",
        },
    }


def terms(tables: Tables, *, client: int = 0) -> dict[str, float | None]:
    """Return the published terms of P.1203, mode 0, each from 1 (bad) to 5 (excellent).

    Parameters
    ----------
    tables
        The trace of an adaptive application.
    client
        Whose session.

    Returns
    -------
    dict
        `o21` and `o22`: means of sound and pictures. `o35`: both, over the session. `stalling`: the factor
        for stalls, from 0 to 1. `mos`: 1 + (`o35` - 1) x `stalling`.
    """
    given = request(tables, client=client)
    seen = _per_second(given["I13"]["segments"], _pictures)
    if not seen:
        return dict.fromkeys(("o21", "o22", "o35", "stalling", "mos"))
    # Sound inside the chunks of pictures has no separate quality, so the best one is assumed.
    heard = _per_second(given["I11"]["segments"], _sound) or [4.9] * len(seen)
    heard += heard[-1:] * (len(seen) - len(heard))
    both = [_together(o21, o22) for o21, o22 in zip(heard, seen, strict=False)]
    o35 = _session(both)
    factor = _stalling(given["I23"]["stalling"], len(seen))
    return {
        "o21": rounded(sum(heard[: len(seen)]) / len(seen)),
        "o22": rounded(sum(seen) / len(seen)),
        "o35": rounded(o35),
        "stalling": rounded(factor),
        "mos": rounded(1 + (o35 - 1) * factor),
    }


def _timed(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return chunks with the film time that each begins at."""
    begun, result = 0.0, []
    for row in found:
        result.append({**row, "start": begun})
        begun += row["duration_s"]
    return result


def _heard(row: dict[str, Any]) -> dict[str, Any]:
    """Return a chunk of sound."""
    kbps = 8e-3 * row["bytes"] / row["duration_s"]
    return {"codec": "aaclc", "bitrate": rounded(kbps), "start": row["start"], "duration": row["duration_s"]}


def _seen(row: dict[str, Any], own: Tables) -> dict[str, Any]:
    """Return a chunk of pictures."""
    ladder = rows(own["renditions"])
    rendition = next(r for r in ladder if (r["track"], r["rendition"]) == ("video", row["rendition"]))
    return {
        "codec": "h264",
        "bitrate": rounded(8e-3 * row["bytes"] / row["duration_s"]),
        "start": row["start"],
        "duration": row["duration_s"],
        # A playlist may lack either value. A full screen at 24 pictures a second has no penalty.
        "resolution": f"{row['width'] or _DISPLAY[0]}x{row['height'] or _DISPLAY[1]}",
        "fps": rendition["frame_rate"] or 24.0,
    }


def _stalls(own: Tables) -> list[tuple[float, float]]:
    """Return each stall as film time and length. The startup delay is at film time 0."""
    events = sorted(rows(own["playback"]), key=lambda row: row["t_s"])
    begun = next((row["t_s"] for row in events if row["event"] == "start"), None)
    first = first_request_s(own)
    stalls = [] if begun is None or first is None else [(0.0, round(begun - first, 6))]
    until = next(rows(own["connections"]))["duration_s"]
    places = [row["pts_s"] for row in events if row["event"] == "underflow"]
    lengths = [round(end - begin, 6) for begin, end in stall_times(events, until)]
    return stalls + list(zip(places, lengths, strict=True))


def _per_second(segments: Sequence[dict[str, Any]], score: Any) -> list[float]:  # noqa: ANN401 - a function
    """Return a score for each whole second of film."""
    result: list[float] = []
    for segment in segments:
        end = round(segment["start"] + segment["duration"])
        result += [score(segment)] * (end - len(result))
    return result


def mos_from_r(r: float) -> float:
    """Return a rating of 0 to 100 as a mean opinion score of 1.05 to 4.9 (P.1203.1, annex)."""
    if r <= 0:
        return 1.05
    if r >= 100:
        return 4.9
    return 1.05 + (4.9 - 1.05) * r / 100 + r * (r - 60) * (100 - r) * 7e-6


def r_from_mos(mos: float) -> float:
    """Return the rating that corresponds to a mean opinion score: the inverse, by bisection."""
    if mos <= 1.05:
        return 0.0
    # The curve first falls below its start, and reaches it again at the smaller root of r² - 160 r + 500.
    low, high = 3.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mos_from_r(middle) < mos else (low, middle)
    return low


def _pictures(segment: dict[str, Any]) -> float:
    """Return O22, the quality of a second of pictures (P.1203.1, mode 0)."""
    width, height = map(int, segment["resolution"].split("x"))
    pixels, fps, kbps = width * height, segment["fps"], segment["bitrate"]
    a1, a2, a3, a4 = _A
    q = a1 + a2 * math.log(a3 + math.log(kbps) + math.log(kbps**2 / (pixels * fps) + a4))
    coded = min(max(4.66 - 0.07 * math.exp(4.06 * q), 1.0), 5.0)
    by_coding = min(max(100 - r_from_mos(coded), 0.0), 100.0)
    scale = max(_DISPLAY[0] * _DISPLAY[1] / pixels, 1.0)
    by_scaling = min(max(72.61 * math.log10(0.32 * (scale - 1) + 1), 0.0), 100.0)
    by_rate = 0.0
    if fps < 24:
        by_rate = (100 - by_coding - by_scaling) * (30.98 - 1.29 * fps) / (64.65 + fps)
    return mos_from_r(100 - min(by_coding + by_scaling + max(by_rate, 0.0), 100.0))


def _sound(segment: dict[str, Any]) -> float:
    """Return O21, the quality of a second of sound (P.1203.2, AAC-LC)."""
    return mos_from_r(100 - (100 * math.exp(-0.05 * segment["bitrate"]) + 14.6))


def _together(o21: float, o22: float) -> float:
    """Return O34, the quality of sound and pictures of a second."""
    both = -0.00069084 + 0.15374283 * o21 + 0.97153861 * o22 + 0.02461776 * o21 * o22
    return min(max(both, 1.0), 5.0)


def _session(both: Sequence[float]) -> float:
    """Return O35 without its corrections. Later and worse seconds have more weight."""
    weights = [
        (0.00666620 + 0.0000404 * math.exp((at / len(both)) / 0.1565)) * (0.14318 - 0.0238642 * value)
        for at, value in enumerate(both, 1)
    ]
    return sum(w * value for w, value in zip(weights, both, strict=True)) / sum(weights)


def _stalling(stalls: Sequence[Sequence[float]], film_s: float) -> float:
    """Return the factor for stalls. The startup delay has less weight than later stalls."""
    if not stalls:
        return 1.0
    half = [0.48413 + 0.51587 * 0.5 ** ((film_s - place) / 10) for place, _ in stalls]
    length = sum(weight * seconds for weight, (_, seconds) in zip(half, stalls, strict=True))
    places = [place for place, _ in stalls]
    apart = [later - earlier for earlier, later in itertools.pairwise(places)]
    interval = sum(apart) / len(apart) if apart else 0.0
    exponent = len(stalls) / 9.3516 + length / film_s / 0.9189 + interval / film_s / 11.0568
    return math.exp(-exponent)

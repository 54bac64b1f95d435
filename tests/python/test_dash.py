"""Static DASH manifests as ladders: lengths of segments by ISO/IEC 23009-1, with values by hand."""

from fractions import Fraction

import pytest

from anabranch.errors import MediaError
from anabranch.media import _dash, ladders, numbers
from anabranch.scenario.load import load

_REPRESENTATIONS = """
  <Representation id="1" bandwidth="400000" width="426" height="240" frameRate="30000/1001" codecs="avc1.42c00d"/>
  <Representation id="2" bandwidth="2400000" width="1280" height="720" frameRate="30"/>
"""


def _manifest(inside, *, attributes='mediaPresentationDuration="PT10S"', periods=None):
    sets = f'<AdaptationSet mimeType="video/mp4">{inside}{_REPRESENTATIONS}</AdaptationSet>'
    sets += '<AdaptationSet mimeType="audio/mp4"><Representation id="3" bandwidth="64000"/></AdaptationSet>'
    body = periods or f"<Period>{sets}</Period>"
    return f'<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" {attributes}>{body}</MPD>'


def _timeline(attributes, rows):
    return f"<SegmentTemplate {attributes}><SegmentTimeline>{rows}</SegmentTimeline></SegmentTemplate>"


def _lengths_s(tmp_path, text):
    file = tmp_path / "film.mpd"
    file.write_text(text, encoding="utf-8")
    return [length / 1e9 for length in _dash.read(file).lengths_ns]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT10S", 10),
        ("PT1H2M3.5S", Fraction(7447, 2)),
        ("P1DT1S", 86401),
    ],
)
def test_durations_of_xml_schema(text, seconds):
    assert _dash.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "10 s", "P1Y", "PT", "-PT1S"])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        _dash.duration(text)


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        # 10 s in segments of 360,000 / 90,000 = 4 s: the last one has the rest.
        ('<SegmentTemplate timescale="90000" duration="360000" media="$Number$.m4s"/>', [4, 4, 2]),
        # r counts repetitions, so two of 3 s, then one of 4 s.
        (
            _timeline('timescale="10"', '<S t="0" d="30" r="1"/><S d="40"/>'),
            [3, 3, 4],
        ),
        # A negative r repeats until the next t (6 s), and until the end of the period (10 s).
        (
            _timeline("", '<S t="0" d="2" r="-1"/><S t="6" d="1" r="-1"/>'),
            [2, 2, 2, 1, 1, 1, 1],
        ),
        ('<SegmentList duration="5"><SegmentURL media="1"/><SegmentURL media="2"/></SegmentList>', [5, 5]),
        ("", []),
    ],
)
def test_lengths_of_segments(tmp_path, inside, expected):
    assert _lengths_s(tmp_path, _manifest(inside)) == expected


def test_a_template_is_inherited_from_the_levels_above(tmp_path):
    text = _manifest('<SegmentTemplate duration="20"/>').replace(
        "<Period>", '<Period><SegmentTemplate timescale="4"/>'
    )
    # 20 / 4 = 5 s.
    assert _lengths_s(tmp_path, text) == [5, 5]


def test_segments_of_several_periods_follow_one_another(tmp_path):
    one = f'<AdaptationSet contentType="video"><SegmentTemplate duration="4"/>{_REPRESENTATIONS}</AdaptationSet>'
    # The first period lasts until the second one begins at 6 s, the second until the end at 10 s.
    periods = f'<Period>{one}</Period><Period start="PT6S">{one}</Period>'
    assert _lengths_s(tmp_path, _manifest("", periods=periods)) == [4, 2, 4]


def test_a_manifest_is_a_ladder_by_numbers(tmp_path):
    file = tmp_path / "film.mpd"
    file.write_text(_manifest('<SegmentTemplate duration="4"/>'), encoding="utf-8")
    notes = []
    found = numbers.of_master("film.mpd", file, content=numbers.Content(spread=0.25), notes=notes)
    low, high = found["renditions"]
    assert (low["width"], low["height"], low["bandwidth_bps"]) == (426, 240, 400_000)
    assert low["frame_rate"] == pytest.approx(29.97, abs=1e-3)
    # The mean is the declared rate less the spread: 2.4 Mb/s / 1.25, over 10 s.
    assert sum(chunk["bytes"] for chunk in high["chunks"]) == pytest.approx(1.92e6 * 10 / 8, abs=3)
    assert [chunk["duration_ns"] / 1e9 for chunk in high["chunks"]] == [4, 4, 2]
    assert any("the sound of the manifest is left out" in note.message for note in notes)


def test_a_scenario_takes_a_manifest_as_ladder(tmp_path):
    tmp_path.joinpath("film.mpd").write_text(_manifest('<SegmentTemplate duration="2"/>'), encoding="utf-8")
    given = {
        "name": "own",
        "application": {"kind": "adaptive", "ladder": str(tmp_path / "film.mpd")},
        "paths": [{"name": "wifi", "rtt": "40 ms", "rate": "6 Mbit/s"}],
    }
    loaded = load(given)
    found = ladders.open_ladder(loaded.scenario.application.ladder, loaded.folders)
    assert [len(one["chunks"]) for one in found.plan["recorded"]["renditions"]] == [5, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_manifest("", attributes='type="dynamic"'), "a live stream"),
        ("<MPD><Period></MPD>", "not XML"),
        ("<html>MPD</html>", "the first element is `html`"),
        ('<!DOCTYPE MPD [<!ENTITY a "b">]><MPD/>', "a document type"),
        ("<MPD><Period/></MPD>", "no representation with pictures"),
        (_manifest("").replace('bandwidth="400000"', 'bandwidth="much"'), "without a bandwidth"),
        (_manifest('<SegmentTemplate duration="0"/>'), "segments without a length"),
        (_manifest('<SegmentTemplate timescale="0" duration="1"/>'), "not a manifest"),
        (
            _manifest(_timeline("", '<S d="1" r="999999999"/>')),
            "more than 200,000 segments",
        ),
        (_manifest('<SegmentTemplate timescale="1000000" duration="1"/>'), "more than 200,000 segments"),
    ],
)
def test_other_manifests_are_refused_with_the_reason(tmp_path, text, message):
    file = tmp_path / "film.mpd"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(MediaError, match=message):
        _dash.read(file)

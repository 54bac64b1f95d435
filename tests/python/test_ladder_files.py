"""Ladders from playlists: sound by group, unequal lengths, gaps, empty segments, and a session's requests."""

from __future__ import annotations

import pytest

import anabranch
from anabranch.errors import MediaError
from anabranch.media import playlists

AVC = 'CODECS="avc1.64001f,mp4a.40.2"'


def media(*lines):
    return "\n".join(["#EXTM3U", "#EXT-X-VERSION:8", "#EXT-X-TARGETDURATION:4", *lines, "#EXT-X-ENDLIST", ""])


def chunks(count, *, seconds=1, changed=None):
    """Return the text of a media playlist. `changed` replaces the lines before a segment, by its number."""
    lines = []
    for number in range(count):
        lines += (changed or {}).get(number, [f"#EXTINF:{seconds},"])
        lines.append(f"s{number}.ts")
    return media(*lines)


@pytest.fixture
def put(tmp_path):
    """Return a function that writes a ladder: the master playlist, all media playlists and chunks."""

    def write(master, renditions):
        (tmp_path / "master.m3u8").write_text("\n".join(["#EXTM3U", *master, ""]), encoding="utf-8")
        for name, (text, size) in renditions.items():
            folder = tmp_path / name
            folder.mkdir()
            (folder / "index.m3u8").write_text(text, encoding="utf-8")
            for line in text.splitlines():
                if line.endswith(".ts") and not line.startswith("#"):
                    (folder / line).write_bytes(bytes(size))
        return tmp_path / "master.m3u8"

    return write


def read(master):
    notes = []
    return playlists.read(master, notes), [note.message for note in notes]


def session(master, rate="8 Mbit/s", model="hlsjs"):
    return anabranch.run(
        {
            "name": "ladder",
            "application": {
                "kind": "adaptive", "ladder": str(master), "abr": "hlsjs", "player": {"model": model},
            },
            "paths": [{"name": "a", "rtt": "20 ms", "rate": rate}],
        }
    )  # fmt: skip


def group(name, *, uri=True, default="YES", label="en"):
    address = f',URI="{name}/index.m3u8"' if uri else ""
    return f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{name}",NAME="{label}",DEFAULT={default}{address}'


def variants(*groups):
    lines = []
    for (name, rate), audio in zip((("lo", 564_000), ("hi", 2_128_000)), groups, strict=True):
        sound = f',AUDIO="{audio}"' if audio else ""
        size = "320x180" if name == "lo" else "1280x720"
        lines += [f"#EXT-X-STREAM-INF:BANDWIDTH={rate},RESOLUTION={size},{AVC}{sound}", f"{name}/index.m3u8"]
    return lines


PICTURES = {"lo": (chunks(10), 62_500), "hi": (chunks(10), 250_000)}


class TestSound:
    """The sound of a variant is that of the group in its AUDIO (RFC 8216 section 4.3.4.2)."""

    def ladder(self, put):
        sounds = {"a64": (chunks(10), 8_000), "a128": (chunks(10), 16_000)}
        return put([group("a64"), group("a128"), *variants("a64", "a128")], {**PICTURES, **sounds})

    def test_each_variant_has_the_sound_of_its_group(self, put):
        found, notes = read(self.ladder(put))
        assert notes == []
        assert [one.get("sound", 0) for one in found["renditions"]] == [0, 1]
        sounds = [found["audio"], *found["more_audio"]]
        assert [(one["name"], one["bandwidth_bps"]) for one in sounds] == [
            ("audio", 64_000),
            ("audio-a128", 128_000),
        ]

    @pytest.mark.module
    @pytest.mark.parametrize("model", ["hlsjs", "vlc"])
    @pytest.mark.parametrize(("rate", "name"), [("8 Mbit/s", "a128"), ("1 Mbit/s", "a64")])
    def test_requests_follow_the_variant(self, put, rate, name, model):
        run = session(self.ladder(put), rate, model)
        assert run.qoe["finished"]
        shown = {row["index"]: row["rendition"] for row in run.rows("chunks") if row["track"] == "video"}
        asked = [row["resource"] for row in run.rows("requests")]
        heard = [one for one in asked if one.endswith(".ts") and "/a" in f"/{one}"]
        assert len(heard) == 10, "each chunk of the sound once, of either group"
        assert heard[-1].split("/")[-2] == name
        # Both models end with one rendition, so the last chunks of both tracks belong together.
        assert shown[9] == (name == "a128")
        sizes = {row["rendition"]: row["bytes"] for row in run.rows("chunks") if row["track"] == "audio"}
        assert sizes[name == "a128"] == (16_000 if name == "a128" else 8_000)

    def test_a_group_that_all_share_is_one_sound(self, put):
        found, _ = read(put([group("x"), *variants("x", "x")], {**PICTURES, "x": (chunks(10), 8_000)}))
        assert "more_audio" not in found
        assert all("sound" not in one for one in found["renditions"])

    def test_groups_of_one_address_are_one_sound(self, put):
        second = group("y").replace('URI="y/', 'URI="x/')
        found, _ = read(
            put([group("x"), second, *variants("x", "y")], {**PICTURES, "x": (chunks(10), 8_000)})
        )
        assert "more_audio" not in found

    def test_the_default_of_a_group_is_chosen(self, put):
        other = group("x", default="NO", label="fr").replace('URI="x/', 'URI="y/')
        sounds = {"x": (chunks(10), 8_000), "y": (chunks(10), 9_000)}
        found, _ = read(put([other, group("x"), *variants("x", "x")], {**PICTURES, **sounds}))
        assert found["audio"]["chunks"][0]["bytes"] == 8_000

    def test_a_default_without_address_is_within_the_pictures(self, put):
        # "If the media type is AUDIO ... and URI is missing, the media data is included in the variant" (4.3.4.1).
        other = group("x", default="NO", label="fr").replace('URI="x/', 'URI="y/')
        found, _ = read(put([group("x", uri=False), other, *variants("x", "x")], PICTURES))
        assert found["audio"] is None

    def test_separate_sound_is_played_with_variants_without_a_group(self, put):
        # As hls.js does (`test_hlsjs_playlists.py`).
        found, notes = read(put([group("x"), *variants(None, "x")], {**PICTURES, "x": (chunks(10), 8_000)}))
        assert found["audio"]["chunks"][0]["bytes"] == 8_000
        assert all("sound" not in one for one in found["renditions"])
        assert notes == [
            "separate sound is played with variants that name no AUDIO, as in hls.js: `lo/index.m3u8`"
        ]

    def test_muxed_sound_in_some_variants_is_a_fault(self, put):
        lines = [group("m", uri=False), group("x"), *variants("m", "x")]
        master = put(lines, {**PICTURES, "x": (chunks(10), 8_000)})
        with pytest.raises(MediaError, match="muxed, although others have separate sound"):
            read(master)

    @pytest.mark.module
    def test_groups_that_are_cut_differently_are_followed_by_time(self, put):
        # 10 chunks of 1 s, and 5 of 2 s. At 8 Mbit/s the second group is played from about the second chunk
        # on.
        sounds = {"a64": (chunks(10), 8_000), "a128": (chunks(5, seconds=2), 32_000)}
        master = put([group("a64"), group("a128"), *variants("a64", "a128")], {**PICTURES, **sounds})
        run = session(master)
        assert run.qoe["finished"]
        heard = [row["resource"] for row in run.rows("requests") if "/a" in f"/{row['resource']}"]
        assert heard[-1].endswith("a128/s4.ts")
        assert len([one for one in heard if one.endswith(".ts")]) < 10


class TestLengths:
    @pytest.mark.module
    def test_the_film_ends_with_the_shortest(self, put):
        master = put(variants(None, None), {**PICTURES, "hi": (chunks(9), 250_000)})
        found, notes = read(master)
        assert [len(one["chunks"]) for one in found["renditions"]] == [9, 9]
        assert notes == ["the renditions have 9 to 10 chunks: the film ends with the shortest, after 9 s"]
        run = session(master)
        assert run.qoe["finished"]
        assert any("the film ends with the shortest" in note for note in run.notes)

    def test_sound_of_another_length_is_noted(self, put):
        _, notes = read(put([group("x"), *variants("x", "x")], {**PICTURES, "x": (chunks(7), 8_000)}))
        assert notes == ["the sound `audio` is 3 s shorter than the pictures"]

    def test_segments_of_no_time_are_passed_over(self, put):
        # The bytes of such segments still count for the ranges that follow (RFC 8216 section 4.3.2.2).
        ranges = [
            "#EXT-X-BYTERANGE:100@0",
            "#EXTINF:1,",
            "all.ts",
            "#EXT-X-BYTERANGE:50",
            "#EXTINF:0,",
            "all.ts",
        ]
        text = media(*ranges, "#EXTINF:1,", "#EXT-X-BYTERANGE:70", "all.ts")
        found, _ = read(put(variants(None, None), {"lo": (text, 300), "hi": (text, 300)}))
        assert [(one["offset"], one["bytes"]) for one in found["renditions"][0]["chunks"]] == [
            (0, 100),
            (150, 70),
        ]

    @pytest.mark.parametrize("between", [[], ["#EXT-X-BYTERANGE:9@0"]], ids=["whole", "range"])
    def test_a_range_without_offset_follows_the_segment_before(self, put, between):
        # "A previous Media Segment MUST appear ... and MUST be a sub-range of the same media resource".
        text = media("#EXTINF:1,", "#EXT-X-BYTERANGE:9@0", "a.ts", "#EXTINF:1,", *between, "b.ts", "#EXTINF:1,",
                     "#EXT-X-BYTERANGE:9", "a.ts")  # fmt: skip
        with pytest.raises(MediaError, match="`9` has no offset, and no piece before it"):
            read(put(variants(None, None), {"lo": (text, 300), "hi": (text, 300)}))

    def test_nothing_but_segments_of_no_time_is_a_fault(self, put):
        with pytest.raises(MediaError, match="no chunk"):
            read(put(variants(None, None), {**PICTURES, "lo": (chunks(10, seconds=0), 1)}))


class TestGaps:
    """`EXT-X-GAP`: a client should not request the segment (draft-pantos-hls-rfc8216bis section 4.4.4.7)."""

    def gap(self, *numbers, count=10):
        return chunks(count, changed={number: ["#EXT-X-GAP", "#EXTINF:1,"] for number in numbers})

    @pytest.mark.module
    def test_a_gap_in_every_rendition_is_skipped(self, put, tmp_path):
        master = put(variants(None, None), {"lo": (self.gap(3), 62_500), "hi": (self.gap(3), 250_000)})
        for name in ("lo", "hi"):
            (tmp_path / name / "s3.ts").unlink()
        found, notes = read(master)
        assert [one["path"] for one in found["renditions"][0]["chunks"]][2:4] == ["lo/s2.ts", "lo/s4.ts"]
        assert notes == ["1 chunks are gaps in every rendition (EXT-X-GAP): 1 s are skipped"]
        run = session(master)
        assert run.qoe["finished"]
        assert run.qoe["play_time_s"] == pytest.approx(9, abs=0.2)

    def test_a_film_of_gaps_is_a_fault(self, put):
        every = self.gap(*range(10))
        with pytest.raises(MediaError) as caught:
            read(put(variants(None, None), {"lo": (every, 1), "hi": (every, 1)}))
        (fault,) = caught.value.faults
        assert (fault.message, fault.line) == ("all chunks are gaps in every rendition (EXT-X-GAP)", 3)

    def test_set_ups_keep_their_chunks_when_a_gap_is_left_out(self, put, tmp_path):
        maps = {at: [f'#EXT-X-MAP:URI="m{at}.mp4"', "#EXTINF:1,"] for at in (0, 2, 5)}
        maps[2].insert(0, "#EXT-X-GAP")
        maps[3] = ["#EXT-X-GAP", "#EXTINF:1,"]
        master = put(variants(None, None), {name: (chunks(8, changed=maps), 100) for name in ("lo", "hi")})
        for name in ("lo", "hi"):
            for at in (0, 2, 5):
                (tmp_path / name / f"m{at}.mp4").write_bytes(b"x")
        (low, _) = read(master)[0]["renditions"]
        assert [one["path"][-5:] for one in low["chunks"]] == [f"s{at}.ts" for at in (0, 1, 4, 5, 6, 7)]
        # The second set-up now belongs to chunk 4, the third of the remaining chunks.
        assert [(at, init["path"]) for at, init in low["later_inits"]] == [(2, "lo/m2.mp4"), (3, "lo/m5.mp4")]

    def test_a_gap_in_the_lowest_rendition_alone_is_kept(self, put):
        found, notes = read(put(variants(None, None), {**PICTURES, "lo": (self.gap(5), 62_500)}))
        assert [len(one["chunks"]) for one in found["renditions"]] == [10, 10]
        assert notes == ["1 chunks are gaps in some renditions (EXT-X-GAP): others are played there"]

    @pytest.mark.module
    def test_another_rendition_is_played_at_a_gap_of_one(self, put, tmp_path):
        master = put(variants(None, None), {**PICTURES, "hi": (self.gap(5, 6), 250_000)})
        for number in (5, 6):
            (tmp_path / "hi" / f"s{number}.ts").unlink()
        _, notes = read(master)
        assert notes == ["2 chunks are gaps in some renditions (EXT-X-GAP): others are played there"]
        run = session(master)
        assert run.qoe["finished"]
        levels = {row["index"]: row["rendition"] for row in run.rows("chunks")}
        assert [levels[at] for at in (4, 5, 6, 7)] == [1, 0, 0, 1]

    def test_separate_sound_stays_with_the_pictures_behind_a_gap(self, put):
        # The pictures from 3 to 4 s and from 6 to 8 s are gaps. Chunks of sound of 1.5 s begin at 0, 1.5, 3, 4.5, 6, 7.5
        # and 9 s. Of these, 1.5, 1.5, 0.5, 1.5, 0, 1 and 1 s remain.
        pictures = {"lo": (self.gap(3, 6, 7), 62_500), "hi": (self.gap(3, 6, 7), 250_000)}
        sound = chunks(7, seconds=1.5, changed={6: ["#EXTINF:1,"]})
        found, notes = read(put([group("x"), *variants("x", "x")], {**pictures, "x": (sound, 8_000)}))
        kept = [(one["path"], one["duration_ns"] / 1e9) for one in found["audio"]["chunks"]]
        times = {0: 1.5, 1: 1.5, 2: 0.5, 3: 1.5, 5: 1.0, 6: 1.0}
        assert kept == [(f"x/s{at}.ts", seconds) for at, seconds in times.items()]
        assert (
            sum(times.values()) == sum(one["duration_ns"] for one in found["renditions"][0]["chunks"]) / 1e9
        )
        assert notes == [
            "3 chunks are gaps in every rendition (EXT-X-GAP): 3 s are skipped",
            "1 chunks of the sound `audio` are left out, as the pictures of their time are gaps",
        ]

    @pytest.mark.module
    def test_a_gap_in_the_sound_is_passed_over(self, put, tmp_path):
        master = put([group("x"), *variants("x", "x")], {**PICTURES, "x": (self.gap(0, 4, 9), 8_000)})
        (tmp_path / "x" / "s4.ts").unlink()
        run = session(master)
        assert run.qoe["finished"]
        heard = [row["index"] for row in run.rows("chunks") if row["track"] == "audio"]
        assert heard == [1, 2, 3, 5, 6, 7, 8]


@pytest.mark.module
def test_a_later_set_up_is_requested_before_its_first_chunk(put, tmp_path):
    changed = {
        0: ['#EXT-X-MAP:URI="one.mp4"', "#EXTINF:1,"],
        5: ["#EXT-X-DISCONTINUITY", '#EXT-X-MAP:URI="two.mp4",BYTERANGE="40@10"', "#EXTINF:1,"],
    }
    text = chunks(10, changed=changed)
    master = put([f"#EXT-X-STREAM-INF:BANDWIDTH=500000,{AVC}", "lo/index.m3u8"], {"lo": (text, 62_500)})
    for name in ("one", "two"):
        (tmp_path / "lo" / f"{name}.mp4").write_bytes(bytes(100))
    (rendition,) = read(master)[0]["renditions"]
    assert rendition["init"]["path"] == "lo/one.mp4"
    assert rendition["later_inits"] == [
        [5, {"path": "lo/two.mp4", "offset": 10, "bytes": 40, "duration_ns": 0}]
    ]
    asked = [row["resource"].rpartition("/")[2] for row in session(master).rows("requests")]
    assert asked.count("one.mp4") == asked.count("two.mp4") == 1
    assert asked.index("two.mp4") == asked.index("s5.ts") - 1
    assert asked.index("one.mp4") == asked.index("s0.ts") - 1


def test_a_media_playlist_may_use_the_parameters_of_its_address(put):
    text = media('#EXT-X-DEFINE:QUERYPARAM="token"', "#EXTINF:1,", "{$token}.ts")
    master = put(["#EXT-X-STREAM-INF:BANDWIDTH=500000", "lo/index.m3u8?token=abc"], {"lo": (text, 1)})
    (master.parent / "lo" / "abc.ts").write_bytes(b"x")
    assert read(master)[0]["renditions"][0]["chunks"][0]["path"] == "lo/abc.ts"

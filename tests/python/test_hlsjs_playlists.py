"""Our parsing of playlists against that of hls.js in node: variants, chunks, byte ranges, gaps, variables."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch.live.viewers import hlsjs
from anabranch.media import _hls, _variants, playlists

#: The library. Tests have a separate cache without it, so the path is fixed here. `hls.js` is not minified.
LIBRARY = hlsjs.library().with_name("hls.js")
HERE = "http://a/"
#: Codecs that a Chromium without hardware decoders does not play.
UNPLAYED = ["hvc1", "hev1", "dvh1", "ac-3", "ec-3"]


def answers(cases):
    """Return the answers of hls.js for playlists."""
    node = shutil.which("node")
    if node is None or not LIBRARY.is_file():
        pytest.skip("node or hls.js is not installed")
    lines = []
    for case in cases:
        files = {HERE + name: text for name, text in case["files"].items()}
        lines.append(
            json.dumps({**case, "files": files, "master": f"{HERE}master.m3u8", "unplayed": UNPLAYED})
        )
    done = subprocess.run(
        [node, str(Path(__file__).parent / "hlsjs_playlists.js"), str(LIBRARY)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


AVC, HEVC, AV1 = "avc1.64001f,mp4a.40.2", "hvc1.1.6.L93,mp4a.40.2", "av01.0.05M.08,mp4a.40.2"
SOUND = "mp4a.40.2"


def variant(name, rate, **attributes):
    given = {"BANDWIDTH": rate, **{key.replace("_", "-"): value for key, value in attributes.items()}}
    quoted = {"CODECS", "AUDIO"}
    text = ",".join(f'{key}="{value}"' if key in quoted else f"{key}={value}" for key, value in given.items())
    return f"#EXT-X-STREAM-INF:{text}\n{name}.m3u8"


#: Master playlists by name, and the variants that are played.
MASTERS = {
    "plain": ([variant("lo", 500_000), variant("hi", 2_000_000)], "lo hi"),
    "avc and hevc of one rate": (
        [variant("h", 2_000_000, RESOLUTION="1280x720", CODECS=HEVC), variant("a", 2_000_000, RESOLUTION="1280x720", CODECS=AVC)],
        "a",
    ),
    "avc and hevc of several rates": (
        [
            variant("a1", 500_000, RESOLUTION="640x360", CODECS=AVC),
            variant("h1", 400_000, RESOLUTION="640x360", CODECS=HEVC),
            variant("a2", 2_000_000, RESOLUTION="1280x720", CODECS=AVC),
            variant("h2", 1_500_000, RESOLUTION="1280x720", CODECS=HEVC),
        ],
        "a1 a2",
    ),
    "one variant": ([variant("x", 1_000_000, RESOLUTION="640x360", CODECS=AVC)], "x"),
    "avc and av1": (
        [
            variant("a1", 500_000, RESOLUTION="640x360", CODECS=AVC),
            variant("v1", 400_000, RESOLUTION="640x360", CODECS=AV1),
            variant("a2", 2_000_000, RESOLUTION="1280x720", CODECS=AVC),
            variant("v2", 1_500_000, RESOLUTION="1280x720", CODECS=AV1),
        ],
        "v1 v2",
    ),
    "av1 only above the first estimate": (
        [
            variant("a1", 300_000, RESOLUTION="640x360", CODECS=AVC),
            variant("v2", 4_000_000, RESOLUTION="1280x720", CODECS=AV1),
        ],
        "a1",
    ),
    "audio-only": (
        [
            variant("snd", 64_000, CODECS=SOUND),
            variant("lo", 500_000, RESOLUTION="320x180", CODECS=AVC),
            variant("hi", 2_000_000, RESOLUTION="1280x720", CODECS=AVC),
        ],
        "lo hi",
    ),
    "audio-only among variants without resolution": (
        [variant("snd", 64_000, CODECS=SOUND), variant("lo", 500_000, CODECS=AVC)],
        "lo",
    ),
    "nothing but sound": ([variant("s1", 64_000, CODECS=SOUND), variant("s2", 128_000, CODECS=SOUND)], "s1 s2"),
    "no codecs at all": (
        [variant("x", 64_000), variant("lo", 500_000, RESOLUTION="320x180")],
        "x lo",
    ),
    "one without attributes among others": (
        [variant("x", 300_000), variant("hi", 900_000, RESOLUTION="640x360", CODECS=AVC)],
        "hi",
    ),
    "redundant streams": (
        [
            variant("a", 500_000, RESOLUTION="320x180", CODECS=AVC),
            variant("backup", 500_000, RESOLUTION="320x180", CODECS=AVC),
        ],
        "a",
    ),
    "one rate, two sizes": (
        [
            variant("big", 900_000, RESOLUTION="1280x720", CODECS=AVC),
            variant("small", 900_000, RESOLUTION="640x360", CODECS=AVC),
        ],
        "big",
    ),
    "dolby sound beside AAC": (
        [
            variant("ac", 900_000, RESOLUTION="640x360", CODECS="avc1.64001f,ec-3"),
            variant("aac", 800_000, RESOLUTION="640x360", CODECS=AVC),
        ],
        "aac",
    ),
}  # fmt: skip


def master_of(lines):
    return "\n".join(["#EXTM3U", "#EXT-X-VERSION:7", *lines, ""])


def test_the_variants_that_are_played_are_those_of_hlsjs(tmp_path):
    told = answers([{"files": {"master.m3u8": master_of(lines)}} for lines, _ in MASTERS.values()])
    for (name, (_, names)), one in zip(MASTERS.items(), told, strict=True):
        # Of redundant streams, hls.js keeps the address of the last one, and tries the others after errors.
        played = {uri.removeprefix(HERE).removesuffix(".m3u8") for uri in one["played"]} - {"backup"}
        assert played | ({"a"} if name == "redundant streams" else set()) == set(names.split()), name


@pytest.mark.parametrize("name", MASTERS)
def test_we_keep_the_same_variants(tmp_path, name):
    lines, names = MASTERS[name]
    (tmp_path / "master.m3u8").write_text(master_of(lines), encoding="utf-8")
    master = _hls.read(tmp_path / "master.m3u8")
    kept, notes = _variants.chosen(master.variants)
    assert not master.faults
    assert {one.uri.removesuffix(".m3u8") for one in kept} == set(names.split())
    assert bool(notes) == (len(kept) < len(lines))


def test_the_sound_of_each_variant_is_that_of_hlsjs(tmp_path):
    def sound(group, name, default):
        head = f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{group}",LANGUAGE="{name}",NAME="{name}",DEFAULT={default}'
        return f'{head},URI="{group}-{name}.m3u8"'

    lines = [
        *(sound(group, name, default) for group in "ab" for name, default in (("fr", "NO"), ("en", "YES"))),
        variant("lo", 500_000, RESOLUTION="320x180", CODECS=AVC, AUDIO="a"),
        variant("hi", 2_000_000, RESOLUTION="1280x720", CODECS=AVC, AUDIO="b"),
    ]
    master = tmp_path / "master.m3u8"
    master.write_text(master_of(lines), encoding="utf-8")
    (one,) = answers([{"files": {"master.m3u8": master_of(lines)}}])
    found = _hls.read(master)
    ours = {place: of.uri for of in playlists._sounds(found, found.variants) for place in of.variants}
    assert (
        one["sounds"]
        == [f"{HERE}{ours[place]}" for place in range(2)]
        == [f"{HERE}a-en.m3u8", f"{HERE}b-en.m3u8"]
    )


#: Sounds as group, name, default and address, and the groups of two variants.
SOUNDS = {
    "group of the higher": ([("a", "en", "YES", "a")], None, "a"),
    "group of the lower": ([("a", "en", "YES", "a")], "a", None),
    "no group": ([("a", "en", "YES", "a")], None, None),
    "a later default": ([("a", "fr", "NO", "f"), ("a", "en", "YES", "a")], None, "a"),
    "two groups": ([("a", "en", "YES", "a"), ("b", "en", "YES", "b")], None, "b"),
    "a muxed default": ([("a", "en", "YES", None), ("a", "fr", "NO", "f")], None, "a"),
    "a muxed group": ([("a", "en", "YES", None), ("b", "en", "YES", "b")], "a", "b"),
    "no default": ([("a", "fr", "NO", "f"), ("a", "en", "NO", "a")], None, None),
    "no default, with groups": ([("a", "fr", "NO", "f"), ("a", "en", "NO", "a")], "a", "a"),
}


@pytest.mark.parametrize("name", SOUNDS)
def test_the_sound_of_a_variant_is_that_of_hlsjs_also_without_a_group(name, tmp_path):
    sounds, *groups = SOUNDS[name]
    lines = [
        f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{of}",NAME="{label}",DEFAULT={default}'
        + (f',URI="{uri}.m3u8"' if uri else "")
        for of, label, default, uri in sounds
    ]
    rates = zip(("lo", "hi"), (500_000, 2_000_000), groups, strict=True)
    lines += [variant(uri, rate, CODECS=AVC, **({"AUDIO": of} if of else {})) for uri, rate, of in rates]
    master = tmp_path / "master.m3u8"
    master.write_text(master_of(lines), encoding="utf-8")
    (one,) = answers([{"files": {"master.m3u8": master_of(lines)}}])
    found = _hls.read(master)
    audio = [(line, media) for line, media in found.media if media["TYPE"] == "AUDIO"]
    ours = [_variants.sound_of(of, audio, first=found.variants[0])[1].get("URI", "") for of in found.variants]
    assert [uri.removeprefix(HERE) for uri in one["sounds"]] == ours


#: Media playlists by name: the lines, and each chunk as uri, seconds, byte range, gap, set-up.
MEDIA = {
    "ranges after": (
        ["#EXTINF:1,", "#EXT-X-BYTERANGE:100@50", "all.ts", "#EXTINF:1,", "#EXT-X-BYTERANGE:70", "all.ts"],
        [("all.ts", 1, (50, 150), False, None), ("all.ts", 1, (150, 220), False, None)],
    ),
    "ranges before": (
        ["#EXT-X-BYTERANGE:100@50", "#EXTINF:1,", "all.ts", "#EXT-X-BYTERANGE:70", "#EXTINF:1,", "all.ts"],
        [("all.ts", 1, (50, 150), False, None), ("all.ts", 1, (150, 220), False, None)],
    ),
    "every tag before": (
        [
            "#EXT-X-GAP", "#EXT-X-BYTERANGE:9@0", "#EXT-X-DISCONTINUITY", "#EXT-X-PROGRAM-DATE-TIME:2026-01-01T00:00:00Z",
            "#EXT-X-BITRATE:5", "#EXT-X-NEW:1", "#EXTINF:2.5,a title, with #EXT", "all.ts",
            "#EXTINF:1,", "b.ts",
        ],
        [("all.ts", 2.5, (0, 9), True, None), ("b.ts", 1, None, False, None)],
    ),
    "maps": (
        [
            '#EXT-X-MAP:URI="i.mp4",BYTERANGE="20@3"', "#EXTINF:1,", "a.ts", "#EXT-X-DISCONTINUITY",
            '#EXT-X-MAP:URI="j.mp4"', "#EXTINF:1,", "b.ts", "#EXTINF:1,", "a.ts",
        ],
        [
            ("a.ts", 1, None, False, ("i.mp4", (3, 23))), ("b.ts", 1, None, False, ("j.mp4", None)),
            ("a.ts", 1, None, False, ("j.mp4", None)),
        ],
    ),
    "a map after EXTINF": (
        ["#EXTINF:1,", '#EXT-X-MAP:URI="i.mp4",BYTERANGE="20"', "a.ts"],
        [("a.ts", 1, None, False, ("i.mp4", (0, 20)))],
    ),
    "variables": (
        [
            '#EXT-X-DEFINE:NAME="f",VALUE="a"', '#EXT-X-DEFINE:IMPORT="i"', '#EXT-X-MAP:URI="{$i}.mp4"', "#EXTINF:1,",
            "{$f}.ts",
        ],
        [("a.ts", 1, None, False, ("i.mp4", None))],
    ),
}  # fmt: skip
MASTER = master_of(['#EXT-X-DEFINE:NAME="i",VALUE="i"', variant("x", 1_000_000)])


def media_of(lines, end="\n", begin=""):
    head = ["#EXTM3U", "#EXT-X-VERSION:11", "#EXT-X-TARGETDURATION:4"]
    return begin + end.join([*head, *lines, "#EXT-X-ENDLIST", ""])


def test_hlsjs_reads_the_chunks_as_they_are_listed_here():
    cases = [
        {"files": {"master.m3u8": MASTER, "x.m3u8": media_of(lines, end)}}
        for lines, _ in MEDIA.values()
        for end in ("\n", "\r\n")
    ]
    for case, one in zip([name for name in MEDIA for _ in range(2)], answers(cases), strict=True):
        assert "error" not in one, case
        found = [
            (
                chunk["uri"].removeprefix(HERE), chunk["duration"], chunk["range"] and tuple(chunk["range"]), chunk["gap"],
                chunk["map"] and (chunk["map"][0].removeprefix(HERE), chunk["map"][1] and tuple(chunk["map"][1])),
            )
            for chunk in one["fragments"][f"{HERE}x.m3u8"]
        ]  # fmt: skip
        assert found == MEDIA[case][1], case


@pytest.mark.parametrize("name", MEDIA)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_we_read_the_same_chunks(tmp_path, name, end, begin):
    lines, expected = MEDIA[name]
    (tmp_path / "master.m3u8").write_text(MASTER, encoding="utf-8")
    (tmp_path / "x.m3u8").write_bytes(media_of(lines, end, begin).encode())
    for file in ("all.ts", "a.ts", "b.ts", "i.mp4", "j.mp4"):
        (tmp_path / file).write_bytes(bytes(300))
    rendition = playlists.read(tmp_path)["renditions"][0]
    inits = {0: rendition["init"], **dict(map(tuple, rendition.get("later_inits", ())))}
    found, now = [], None
    for place, chunk in enumerate(rendition["chunks"]):
        now = inits.get(place, now)
        found.append(
            (chunk["path"], chunk["duration_ns"] / 1e9, span(chunk), now and (now["path"], span(now)))
        )
    # Chunks that no rendition has are left out. If a chunk has a range, its offset is always known.
    kept = [(uri, seconds, of, init) for uri, seconds, of, gap, init in expected if not gap]
    assert found == kept


def span(piece):
    return None if piece["offset"] is None else (piece["offset"], piece["offset"] + piece["bytes"])


@pytest.mark.parametrize(
    "lines",
    [
        ["#EXTINF:1,", "{$no}.ts"],
        ['#EXT-X-DEFINE:IMPORT="no"', "#EXTINF:1,", "a.ts"],
        ['#EXT-X-DEFINE:NAME="f",VALUE="a"', '#EXT-X-DEFINE:NAME="f",VALUE="a"', "#EXTINF:1,", "{$f}.ts"],
        ['#EXT-X-DEFINE:QUERYPARAM="no"', "#EXTINF:1,", "a.ts"],
    ],
    ids=["unknown", "not to import", "twice", "no parameter"],
)
def test_variables_that_hlsjs_refuses_are_faults(tmp_path, lines):
    (tmp_path / "x.m3u8").write_text(media_of(lines), encoding="utf-8")
    assert _hls.read(tmp_path / "x.m3u8", given={"i": "i"}).faults
    (one,) = answers([{"files": {"master.m3u8": MASTER, "x.m3u8": media_of(lines)}}])
    assert "error" in one


def test_hlsjs_never_loads_a_segment_without_duration():
    # The expected segment is number 2, and not the one of 0 s before it.
    lines = ["#EXTINF:4,", "a.ts", "#EXTINF:0,", "b.ts", "#EXTINF:4,", "c.ts"]
    (one,) = answers([{"files": {"master.m3u8": MASTER, "x.m3u8": media_of(lines)}, "place": 1}])
    assert one["placed"] == 2

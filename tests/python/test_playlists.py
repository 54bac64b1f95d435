"""HLS playlists from files: what they mean, and every fault with its line."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anabranch.errors import MediaError
from anabranch.media import _hls, playlists

MASTER = """\
#EXTM3U
#EXT-X-VERSION:4
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="snd",NAME="en",DEFAULT=YES,URI="audio.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=900000,AVERAGE-BANDWIDTH=800000,RESOLUTION=640x360,CODECS="avc1.64001e,mp4a.40.2",FRAME-RATE=25.000,AUDIO="snd"
high/index.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=300000,CODECS="avc1.42c01e,mp4a.40.2",AUDIO="snd"
low/index.m3u8
"""
HIGH = """\
#EXTM3U
#EXT-X-TARGETDURATION:4
#EXT-X-MAP:URI="all.mp4",BYTERANGE="100@0"
#EXTINF:4.0,
#EXT-X-BYTERANGE:1000@100
all.mp4
#EXTINF:3.5,the end
#EXT-X-BYTERANGE:900
all.mp4
#EXT-X-ENDLIST
"""
LOW = """\
#EXTM3U
#EXT-X-TARGETDURATION:4

# a comment
#EXT-X-SOMETHING-NEW:1
#EXTINF:4,
one%20chunk.ts
#EXTINF:3.500000,
two.ts
#EXT-X-ENDLIST
"""
AUDIO = """\
#EXTM3U
#EXT-X-TARGETDURATION:8
#EXTINF:7.5,
audio.aac
#EXT-X-ENDLIST
"""


@pytest.fixture
def folder(tmp_path):
    base = tmp_path / "film"
    for name, text in {"master": MASTER, "high/index": HIGH, "low/index": LOW, "audio": AUDIO}.items():
        file = base / f"{name}.m3u8"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for name, size in {
        "high/all.mp4": 2000,
        "low/one chunk.ts": 300,
        "low/two.ts": 200,
        "audio.aac": 750,
    }.items():
        (base / name).write_bytes(b"x" * size)
    return base


def change(file, line, text):
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[line - 1] = text
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def faults_of(path):
    with pytest.raises(MediaError) as caught:
        playlists.read(path)
    return [(fault.where.rpartition("film/")[2], fault.line, fault.message) for fault in caught.value.faults]


def test_a_ladder_is_read_whole(folder):
    found = playlists.read(folder)
    assert found == playlists.read(folder / "master.m3u8")
    assert (found["name"], found["master"]["path"]) == ("film", "master.m3u8")
    low, high = found["renditions"]
    assert low == {
        "name": "300k",
        "bandwidth_bps": 300_000,
        "average_bps": None,
        "width": 0,
        "height": 0,
        "frame_rate": None,
        "codecs": "avc1.42c01e,mp4a.40.2",
        "playlist": {"path": "low/index.m3u8", "bytes": len(LOW)},
        "init": None,
        "chunks": [
            {"path": "low/one%20chunk.ts", "offset": None, "bytes": 300, "duration_ns": 4_000_000_000},
            {"path": "low/two.ts", "offset": None, "bytes": 200, "duration_ns": 3_500_000_000},
        ],
    }
    assert (high["name"], high["width"], high["frame_rate"]) == ("360p", 640, 25.0)
    assert high["codecs"] == "avc1.64001e,mp4a.40.2"
    assert high["init"] == {"path": "high/all.mp4", "offset": 0, "bytes": 100, "duration_ns": 0}
    assert [(chunk["offset"], chunk["bytes"]) for chunk in high["chunks"]] == [(100, 1000), (1100, 900)]
    assert found["audio"]["chunks"][0]["path"] == "audio.aac"
    assert found["audio"]["bandwidth_bps"] == 800


FAULTS = [
    # what, file, line, its new text, where the fault is, its line, message
    ("no playlist", "master", 1, "#EXTM3", "master", 1, "the first line is not #EXTM3U"),
    ("bandwidth", "master", 6, '#EXT-X-STREAM-INF:BANDWIDTH=fast,AUDIO="snd"', "master", 6,
     "EXT-X-STREAM-INF: not a value of BANDWIDTH: `fast`"),
    ("no bandwidth", "master", 6, "#EXT-X-STREAM-INF:RESOLUTION=1x1", "master", 6, "EXT-X-STREAM-INF: no BANDWIDTH"),
    ("resolution", "master", 6, "#EXT-X-STREAM-INF:BANDWIDTH=1,RESOLUTION=360p", "master", 6,
     "EXT-X-STREAM-INF: not a value of RESOLUTION: `360p`"),
    ("attributes", "master", 6, "#EXT-X-STREAM-INF:BANDWIDTH", "master", 6,
     "EXT-X-STREAM-INF: not a list of attributes: `BANDWIDTH`"),
    ("gone", "master", 7, "lower/index.m3u8", "master", 7, "no such file: `lower/index.m3u8`"),
    ("remote", "master", 7, "https://example.org/low.m3u8", "master", 7,
     "not a file: `https://example.org/low.m3u8`"),
    ("group", "master", 4, '#EXT-X-STREAM-INF:BANDWIDTH=900000,AUDIO="sound"', "master", 4,
     "no EXT-X-MEDIA of the group: `sound`"),
    ("two tags", "master", 7, "# low/index.m3u8", "master", 6, "EXT-X-STREAM-INF without an address"),
    ("media as master", "low/index", 1, "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\ntwo.ts", "low/index", None,
     "a master playlist, where a media playlist is wanted"),
    ("duration", "low/index", 6, "#EXTINF:four,", "low/index", 6, "EXTINF: not a duration: `four`"),
    ("negative", "low/index", 6, "#EXTINF:-4,", "low/index", 6, "EXTINF: not a duration: `-4`"),
    ("nothing", "low/index", 6, "#EXTINF:,", "low/index", 6, "EXTINF: not a duration: ``"),
    ("address", "low/index", 6, "#", "low/index", 7, "an address without EXTINF or EXT-X-STREAM-INF: `one%20chunk.ts`"),
    ("chunk gone", "low/index", 9, "three.ts", "low/index", 9, "no such file: `three.ts`"),
    ("live", "low/index", 10, "", "low/index", None, "no EXT-X-ENDLIST: the film is not complete"),
    ("target", "low/index", 2, "#EXT-X-TARGETDURATION:3", "low/index", 2,
     "EXT-X-TARGETDURATION: 3 is less than a chunk of 4 s"),
    ("no target", "low/index", 2, "#", "low/index", None, "no EXT-X-TARGETDURATION"),
    ("range", "high/index", 5, "#EXT-X-BYTERANGE:1000@x", "high/index", 5,
     "EXT-X-BYTERANGE: not a byte range: `1000@x`"),
    ("beyond", "high/index", 8, "#EXT-X-BYTERANGE:901", "high/index", 9,
     "EXT-X-BYTERANGE: `901` goes beyond the 2,000 bytes of the file"),
    ("no offset", "high/index", 5, "#EXT-X-BYTERANGE:1000", "high/index", 6,
     "EXT-X-BYTERANGE: `1000` has no offset, and no piece before it"),
    ("map", "high/index", 3, "#EXT-X-MAP:BYTERANGE=1", "high/index", 3, "EXT-X-MAP: no URI"),
    ("cut", "low/index", 8, "#EXT-X-ENDLIST\n#\n#", "low/index", 11,
     "an address without EXTINF or EXT-X-STREAM-INF: `two.ts`"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "line", "text", "where", "at", "message"), [case[1:] for case in FAULTS],
                         ids=[case[0] for case in FAULTS])  # fmt: skip
def test_a_fault_is_reported_with_its_line(folder, file, line, text, where, at, message):
    change(folder / f"{file}.m3u8", line, text)
    assert faults_of(folder / "master.m3u8") == [(f"{where}.m3u8", at, message)]


def test_every_fault_is_reported_at_once(folder):
    change(folder / "master.m3u8", 3, "#EXT-X-MEDIA:TYPE=AUDIO")
    change(folder / "low/index.m3u8", 6, "#EXTINF:4 s,")
    change(folder / "low/index.m3u8", 8, "#EXTINF:x,")
    change(folder / "high/index.m3u8", 9, "none.mp4")
    assert [(where, line) for where, line, _ in faults_of(folder)] == [
        ("master.m3u8", 3),
        ("master.m3u8", 4),
        ("master.m3u8", 6),
        ("high/index.m3u8", 9),
        ("low/index.m3u8", 6),
        ("low/index.m3u8", 8),
    ]


def test_renditions_that_are_not_cut_alike_are_refused(folder):
    text = LOW.replace("#EXTINF:4,", "#EXTINF:2,\ntwo.ts\n#EXTINF:2,")
    (folder / "low/index.m3u8").write_text(text, encoding="utf-8")
    message = "3 chunks, where another rendition has 2, cut at other times"
    assert faults_of(folder) == [("master.m3u8", 7, message)]


def test_attributes_may_have_spaces_and_small_letters():
    found = _hls.attributes('BANDWIDTH=5 ,CODECS="a,b" ,NAME="x",x-own=1')
    assert found == {"BANDWIDTH": "5", "CODECS": "a,b", "NAME": "x", "x-own": "1"}


def cut(*seconds):
    """Return the low rendition, cut into chunks of other lengths."""
    lines = "".join(f"#EXTINF:{one},\ntwo.ts\n" for one in seconds)
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:12\n{lines}#EXT-X-ENDLIST\n"


def ladder_of(folder, high, low):
    (folder / "high/two.ts").write_bytes(b"x")
    (folder / "high/index.m3u8").write_text(cut(*high), encoding="utf-8")
    (folder / "low/index.m3u8").write_text(cut(*low), encoding="utf-8")
    notes = []
    try:
        found = playlists.read(folder, notes)
    except MediaError as error:
        return str(error)
    lengths = [len(one["chunks"]) for one in found["renditions"]]
    return lengths, [note.message for note in notes if "chunks" in note.message]


def test_the_last_chunk_of_the_shortest_rendition_may_be_partial(folder):
    note = "the renditions have 9 to 10 chunks: the film ends with the shortest, after 35 s"
    assert ladder_of(folder, [4] * 10, [*[4] * 8, 3]) == ([9, 9], [note])
    assert ladder_of(folder, [*[4] * 8, 3], [4] * 10) == ([9, 9], [note])
    # Also if all have the same number of chunks.
    assert ladder_of(folder, [4, 4, 4], [4, 4, 3]) == ([3, 3], [])


@pytest.mark.parametrize(
    ("high", "low"),
    [((4, 1, 4), (1, 4, 4)), ((4, 4, 4, 4), (4, 12)), ((4, 4), (3.7, 4.3)), ((2, 2), (4,))],
    ids=["equal counts", "a longer last chunk", "0.3 s", "one chunk"],
)
def test_chunks_that_begin_at_other_times_are_refused(folder, high, low):
    assert "cut at other times" in ladder_of(folder, high, low)


def test_chunks_may_begin_a_quarter_of_a_second_apart(folder):
    assert ladder_of(folder, (4, 4), (3.8, 4.2)) == ([2, 2], [])


def test_a_folder_has_one_master_playlist(folder, tmp_path):
    (folder / "other.m3u8").write_text(MASTER, encoding="utf-8")
    with pytest.raises(MediaError, match="several master playlists"):
        playlists.read(folder)
    with pytest.raises(MediaError, match="no master playlist in the folder"):
        playlists.read(folder / "low")
    with pytest.raises(MediaError, match="a media playlist, not a master playlist"):
        playlists.read(folder / "low" / "index.m3u8")


def test_non_utf8_and_empty_playlists_are_reported(folder):
    (folder / "low/index.m3u8").write_bytes(b"#EXTM3U\n\xff\xfe\n")
    assert faults_of(folder) == [("low/index.m3u8", 2, "not UTF-8 text")]
    (folder / "low/index.m3u8").write_bytes(b"")
    assert faults_of(folder) == [("low/index.m3u8", None, "an empty file, not a playlist")]


LINES = st.sampled_from(
    [*MASTER.splitlines(), *HIGH.splitlines(), *LOW.splitlines(), "#EXTINF:", "#EXT-X-KEY:", '"']
)


TEXTS = given(lines=st.lists(LINES | st.text(max_size=40), max_size=25), master=st.booleans())


@settings(max_examples=30, deadline=None)
@example(lines=[MASTER.splitlines()[-2], "#EXT-X-BYTERANGE:1000@100", "one%20chunk.ts"], master=False)
@TEXTS
def test_any_text_is_a_ladder_or_has_faults(tmp_path_factory, lines, master):
    read_or_faults(tmp_path_factory.mktemp("any") / "film", lines, master=master)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@TEXTS
def test_many_texts_are_ladders_or_have_faults(tmp_path_factory, lines, master):
    read_or_faults(tmp_path_factory.mktemp("any") / "film", lines, master=master)


def read_or_faults(base, lines, *, master):
    (base / "low").mkdir(parents=True)
    text = "\n".join(["#EXTM3U", *lines]).encode("utf-8", "replace")
    (base / "master.m3u8").write_bytes(text if master else MASTER.encode())
    (base / "low/index.m3u8").write_bytes(LOW.encode() if master else text)
    # Any playlist gives either a ladder or the program's own error.
    with contextlib.suppress(MediaError):
        assert playlists.read(base / "master.m3u8")["renditions"]


@pytest.mark.module
@pytest.mark.parametrize("name", ["uq18-jp", "uq18-va"])
def test_a_named_ladder_written_out_is_read_back(tmp_path, name):
    from anabranch.media import ladders

    recorded, texts = ladders.resolve({"synthetic": {"name": name}})
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    for rendition in [*recorded["renditions"], recorded["audio"]]:
        for chunk in rendition["chunks"]:
            with (tmp_path / chunk["path"]).open("wb") as file:
                file.truncate(chunk["bytes"])
    found = playlists.read(tmp_path / name)
    expected = json.loads(json.dumps(recorded).replace(f'"{name}/', '"'))
    for kept in ("playlist", "init", "chunks", "bandwidth_bps"):
        assert found["audio"][kept] == expected["audio"][kept]
    assert found | {"audio": None} == expected | {"audio": None}


@pytest.mark.parametrize(
    "address",
    ["/etc/hostname", "../../secret.bin", "%2e%2e/%2e%2e/secret.bin", "link.ts", "../../nowhere.bin"],
)
@pytest.mark.parametrize(
    ("name", "line", "form"),
    [
        ("master.m3u8", 5, "low/{}"),
        ("low/index.m3u8", 7, "{}"),
        ("high/index.m3u8", 3, '#EXT-X-MAP:URI="../low/{}"'),
    ],
)
def test_addresses_outside_the_ladder_folder_are_rejected(folder, address, name, line, form):
    (folder.parent / "secret.bin").write_bytes(b"#EXTM3U")
    (folder / "low" / "link.ts").symlink_to(folder.parent / "secret.bin")
    form = "{}" if address.startswith("/") and name == "master.m3u8" else form
    text = form.replace("../low/", "").format(address) if address.startswith("/") else form.format(address)
    change(folder / name, line, text)
    [(where, at, message)] = faults_of(folder / "master.m3u8")
    assert (where, at) == (name, line)
    assert message.startswith("outside the ladder's folder: `")


def test_a_link_within_the_folder_is_followed(folder):
    (folder / "low" / "two.ts").unlink()
    (folder / "low" / "two.ts").symlink_to(folder / "audio.aac")
    assert playlists.read(folder)["renditions"][0]["chunks"][1]["bytes"] == 750


def test_no_more_than_the_limit_is_read_of_a_playlist(folder, monkeypatch):
    monkeypatch.setattr(_hls, "LARGEST", 2**20)
    with (folder / "low" / "index.m3u8").open("wb") as file:
        file.truncate(2**40)  # a hole: to read it all would need a terabyte of memory
    assert faults_of(folder / "master.m3u8") == [
        ("low/index.m3u8", None, "cannot read the playlist: larger than 1 MiB")
    ]

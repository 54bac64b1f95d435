"""Our rule `hlsjs` beside hls.js' own, asked in node: along whole sessions, and of chunks that take too long."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import anabranch
from anabranch.live.viewers import hlsjs

#: Where hls.js is; tests have a cache of their own, in which it is not.
LIBRARY = hlsjs.library()
#: The renditions' rates, bits per second, and a chunk's length, seconds.
RATES = (400_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
CHUNK_S, CHUNKS = 4, 40


def answers(cases):
    """Run hls.js' own rule on some cases, and return its decisions."""
    node = shutil.which("node")
    if node is None or not LIBRARY.is_file():
        pytest.skip("node or hls.js is not installed")
    done = subprocess.run(
        [node, str(Path(__file__).parent / "hlsjs_rule.js"), str(LIBRARY)],
        input="".join(f"{json.dumps(case)}\n" for case in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """Return a ladder of files with nothing in them, every chunk at its rendition's rate."""
    folder = tmp_path_factory.mktemp("ladder")
    master = ["#EXTM3U"]
    for number, rate in enumerate(RATES):
        master += [
            f"#EXT-X-STREAM-INF:BANDWIDTH={rate},RESOLUTION=640x{180 * (number + 1)}",
            f"{number}.m3u8",
        ]
        lines = ["#EXTM3U", "#EXT-X-VERSION:3", f"#EXT-X-TARGETDURATION:{CHUNK_S}"]
        for place in range(CHUNKS):
            name = f"{number}-{place}.ts"
            lines += [f"#EXTINF:{CHUNK_S},", name]
            with folder.joinpath(name).open("wb") as file:
                file.truncate(rate * CHUNK_S // 8)
        folder.joinpath(f"{number}.m3u8").write_text("\n".join([*lines, "#EXT-X-ENDLIST", ""]))
    folder.joinpath("master.m3u8").write_text("\n".join([*master, ""]))
    return folder


#: Rates of the path by when, Mb/s.
COURSES = {
    "steady": {0: 6},
    "up and down": {0: 1.2, 30: 9, 60: 2.2, 90: 5},
    "slow": {0: 0.8, 40: 1.6},
    "up": {0: 3, 20: 20},
}


@pytest.mark.module
@pytest.mark.parametrize("course", COURSES)
def test_a_session_chooses_as_hlsjs_would_have_chosen(ladder, course):
    first, *later = COURSES[course].items()
    given = {
        "name": course,
        "application": {
            "kind": "adaptive",
            "ladder": str(ladder),
            "abr": "hlsjs",
            "player": {"model": "hlsjs", "max_buffer": "20 s", "max_buffer_bytes": "1 B"},
        },
        "paths": [{"name": "one", "rtt": "60 ms", "rate": f"{first[1]} Mbit/s", "queue": "100 packets"}],
        "events": [{"at": f"{at} s", "path": "one", "rate": f"{rate} Mbit/s"} for at, rate in later],
    }
    run = anabranch.run(given)
    chunks = run.rows("chunks")
    # The rendition that was chosen first requested its playlist first, with more in the buffer.
    playlists = {row["resource"].rpartition("/")[2]: row["t_s"] for row in run.rows("requests")}
    steps, chosen, known = [], [], set()
    for row in chunks:
        assert not row["abandoned"], "how far a chunk was that was given up the trace does not say"
        level = row["rendition"]
        waited = 0.0 if level in known else row["t_s"] - playlists[f"{level}.m3u8"]
        # Nothing is played before the first chunk is in.
        buffer_s = row["buffer_before_s"] + (waited if known else 0.0)
        known.add(level)
        chosen.append(level)
        steps.append({"choose": {"buffer_s": buffer_s}})
        times = {name: row[f"{name}_s"] - row["t_s"] for name in ("first_byte", "done")}
        loaded = {"level": level, "bytes": row["bytes"], "first_byte_s": times["first_byte"]}
        steps.append({"loaded": {**loaded, "fetch_s": times["done"]}})
    told = answers([{"rates": RATES, "duration_s": CHUNK_S, "steps": steps}])[0][::2]
    assert len(chosen) == CHUNKS
    assert len(set(chosen)) > 1, "it does not stay at one"
    assert chosen == told


#: A chunk on its way: rendition, bytes received, seconds since its request and until its first byte, buffer in
#: seconds; and the rendition that hls.js forces. The unit tests of `crates/media/src/abr/hlsjs.rs` have them too.
TOO_LONG = [
    ((3, 1_000_000, 2.1, 0.1, 6.1), None),
    ((3, 1_000_000, 2.1, 0.1, 4.2), 0),
    ((3, 1_000_000, 1.9, 0.1, 3.0), None),
    ((3, 300_000, 2.1, 0.1, 7.0), 0),
    ((3, 50_000, 2.1, 0.1, 3.0), None),
    ((2, 600_000, 2.1, 0.1, 4.4), 1),
    ((2, 700_000, 2.1, 0.1, 3.3), 0),
    ((1, 200_000, 2.1, 0.1, 1.0), None),
    ((0, 1_000, 2.1, 0.1, 1.0), None),
    ((3, 0, 2.1, None, 3.4), None),
    ((3, 0, 2.1, None, 3.2), 1),
]


def test_chunks_are_given_up_as_the_rules_own_tests_say():
    rates = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
    seen = [
        {"loaded": {"level": n, "bytes": rate // 2, "first_byte_s": 0.1, "fetch_s": 0.1 + rate * 4 / 10e6}}
        for n, rate in enumerate(rates)
    ]
    cases = [
        {
            "rates": rates,
            "duration_s": 4,
            "steps": [
                *seen,
                {
                    "watch": {
                        "level": level,
                        "bytes": rates[level] // 2,
                        "received": received,
                        "since_s": since_s,
                        "first_byte_s": first_byte_s,
                        "buffer_s": buffer_s,
                    }
                },
            ],
        }
        for (level, received, since_s, first_byte_s, buffer_s), _ in TOO_LONG
    ]
    assert [told[-1] for told in answers(cases)] == [forced for _, forced in TOO_LONG]


def test_the_players_buffers_are_hlsjs_defaults():
    node = shutil.which("node")
    if node is None or not LIBRARY.is_file():
        pytest.skip("node or hls.js is not installed")
    asked = (
        f"globalThis.self = globalThis; const c = require({json.dumps(str(LIBRARY))}).DefaultConfig;"
        "console.log(JSON.stringify([c.maxBufferLength, c.maxBufferSize, c.maxMaxBufferLength, c.abrEwmaFastVoD,"
        "c.abrEwmaSlowVoD, c.abrEwmaDefaultEstimate, c.abrBandWidthFactor, c.abrBandWidthUpFactor,"
        "c.maxStarvationDelay, c.startLevel === undefined]));process.exit(0)"
    )
    told = subprocess.run([node, "-e", asked], capture_output=True, text=True, check=True).stdout
    # Those of `crates/media/src/adaptive/config.rs` and `abr/hlsjs.rs`.
    assert json.loads(told) == [30, 60_000_000, 600, 3, 9, 500_000, 0.95, 0.7, 4, True]

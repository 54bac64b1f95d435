"""The rule `hlsjs-node`: the controller of hls.js itself in the simulator, and our copy of it in the same runs."""

from __future__ import annotations

import json
import random
import shutil
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.live.viewers import hlsjs
from anabranch.plugins import hlsjs_node

ROOT = Path(__file__).parents[2]
PLACE = f"{hlsjs_node.__file__}:HlsjsNode"
#: The folder with hls.js; tests have a cache of their own, in which it is not.
FOLDER = hlsjs.library().parents[3]
RATES = (400_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)

needs_hlsjs = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / hlsjs_node._LIBRARY).is_file(),
    reason="node or hls.js is not installed",
)


def by_numbers(chunk):
    """Return a ladder by numbers with the rates of `RATES`."""
    renditions = [{"height": 180 * n, "bitrate": f"{rate} bit/s"} for n, rate in enumerate(RATES, 1)]
    return {"renditions": renditions, "chunk": chunk, "length": "160 s", "spread": "20 %"}


def of_files(folder, *, ranges):
    """Write a ladder whose chunks differ in playing time and size, as files or as ranges of one file."""
    folder.mkdir()
    rng = random.Random(40)
    chunks = [(rng.choice([2, 4, 6, 8]), rng.uniform(0.5, 1.5)) for _ in range(34)]
    master = ["#EXTM3U"]
    for number, rate in enumerate(RATES):
        name, end = f"{number}.m3u8", 0
        declared = f"BANDWIDTH={rate * 3 // 2},AVERAGE-BANDWIDTH={rate}"
        master += [f"#EXT-X-STREAM-INF:{declared},RESOLUTION=640x{180 * (number + 1)}", name]
        lines = ["#EXTM3U", "#EXT-X-VERSION:4", "#EXT-X-TARGETDURATION:8"]
        for place, (seconds, share) in enumerate(chunks):
            size, file = int(rate * seconds * share / 8), f"{number}.ts" if ranges else f"{number}-{place}.ts"
            lines += [f"#EXTINF:{seconds},"]
            lines += [f"#EXT-X-BYTERANGE:{size}@{end}"] if ranges else []
            lines += [file]
            end = end + size if ranges else size
            with folder.joinpath(file).open("ab") as opened:
                opened.truncate(end)
        folder.joinpath(name).write_text("\n".join([*lines, "#EXT-X-ENDLIST", ""]))
    folder.joinpath("master.m3u8").write_text("\n".join([*master, ""]))
    return str(folder)


#: Paths by the name of their course. Rates are Mb/s at times in seconds; 0 is an outage.
COURSES = {
    "falls and rises": [("30 ms", "0 %", {0: 6, 30: 0.8, 60: 9, 90: 1.5, 120: 5})],
    "outages": [("60 ms", "0 %", {0: 5, 25: 0, 33: 5, 70: 2, 80: 0, 90: 3})],
    "two lossy paths": [
        ("30 ms", "0.5 %", {0: 3, 40: 0.3, 80: 4, 110: 0.6}),
        ("90 ms", "1 %", {0: 2, 50: 0.4, 95: 3}),
    ],
    "far": [("300 ms", "0 %", {0: 9, 30: 1.2, 50: 0.4, 75: 9, 100: 2})],
}
LADDERS = ("uq18-jp", "2 s", "4 s", "uneven", "ranges")


def scenario(tmp_path, ladder, course):
    """Return a scenario with a ladder and the paths of a course."""
    given = by_numbers(ladder) if ladder.endswith(" s") else ladder
    application = {"kind": "adaptive", "ladder": given, "duration": "160 s"}
    if ladder in {"uneven", "ranges"}:
        application["ladder"] = of_files(tmp_path / ladder, ranges=ladder == "ranges")
        del application["duration"]
    application["player"] = {"model": "hlsjs", "max_buffer": "20 s", "max_buffer_bytes": "1 B"}
    paths, events = [], []
    for number, (rtt, loss, rates) in enumerate(COURSES[course]):
        name = f"path{number}"
        paths.append({"name": name, "rtt": rtt, "loss": loss, "rate": f"{rates[0]} Mbit/s"})
        for at, rate in list(rates.items())[1:]:
            if rate == 0:
                events.append((at, {"at": f"{at} s", "path": name, "state": "down"}))
                continue
            before = [seen for when, seen in rates.items() if when < at][-1]
            if before == 0:
                events.append((at, {"at": f"{at} s", "path": name, "state": "up"}))
            events.append((at, {"at": f"{at} s", "path": name, "rate": f"{rate} Mbit/s"}))
    ordered = [event for _, event in sorted(events, key=lambda one: one[0])]
    return {"name": "compared", "application": application, "paths": paths, "events": ordered}


def played(given, rule):
    """Return a run of a scenario with a rule."""
    return anabranch.run({**given, "application": {**given["application"], "abr": rule}})


def decisions(run):
    """Return the chunks of pictures: index, rendition, and whether it was abandoned."""
    rows = (row for row in run.rows("chunks") if row["track"] == "video")
    return [(row["index"], row["rendition"], row["abandoned"]) for row in rows]


def cases():
    """Return the 20 scenarios. Four of them are in the quick suite."""
    quick = set(zip(LADDERS, COURSES, strict=False))
    return [
        pytest.param(
            ladder,
            course,
            marks=[] if (ladder, course) in quick else pytest.mark.slow,
            id=f"{ladder}, {course}",
        )
        for ladder in LADDERS
        for course in COURSES
    ]


@needs_hlsjs
@pytest.mark.module
@pytest.mark.parametrize(("ladder", "course"), cases())
def test_the_copy_decides_as_hlsjs_itself(tmp_path, ladder, course):
    given = scenario(tmp_path, ladder, course)
    own = played(given, {"name": PLACE, "folder": str(FOLDER)})
    copy = played(given, "hlsjs")
    assert decisions(copy) == decisions(own)
    assert copy.digest == own.digest
    assert len({rendition for _, rendition, _ in decisions(own)}) > 1, "a rule that stays proves little"


@needs_hlsjs
@pytest.mark.module
def test_equal_seeds_give_equal_digests_and_downloads_are_abandoned(tmp_path):
    given = scenario(tmp_path, "4 s", "outages")
    one, other = (played(given, {"name": PLACE, "folder": str(FOLDER)}) for _ in range(2))
    assert one.digest == other.digest
    assert one.tables == other.tables
    assert any(abandoned for _, _, abandoned in decisions(one))


@needs_hlsjs
@pytest.mark.module
def test_a_setting_of_hlsjs_is_used(tmp_path):
    given = scenario(tmp_path, "4 s", "falls and rises")
    firsts = []
    for default in (500_000, 2_400_000, 5_000_000):
        rule = {"name": PLACE, "folder": str(FOLDER), "abrEwmaDefaultEstimate": default}
        firsts.append(decisions(played(given, rule))[0][1])
    # The ladder declares 1.2 times the mean rates: 0.48, 1.2, 2.4, 4.8 and 9.6 Mb/s. The default estimate
    # is used in full for the first chunk (`firstAutoLevel`).
    assert firsts == [0, 2, 3]


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Return a function that runs a scenario file with the rule, and returns the refusal."""
    monkeypatch.chdir(tmp_path)
    film = (ROOT / "scenarios" / "adaptive-two-paths.toml").read_text(encoding="utf-8")

    def run(**parameters):
        given = ", ".join(
            f"{key} = {json.dumps(value)}" for key, value in {"name": PLACE, **parameters}.items()
        )
        text = film.replace('abr = "hlsjs"', f"abr = {{ {given} }}")
        Path("film.toml").write_text(text, encoding="utf-8")
        result = CliRunner().invoke(app, ["run", "film.toml"])
        assert result.exit_code == 2
        return " ".join(result.stderr.split())

    return run


def library(folder, text):
    """Write a file in the place of hls.js."""
    file = folder / hlsjs_node._LIBRARY
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return str(folder)


@pytest.mark.module
def test_node_is_missing(refused, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    told = refused()
    assert "node is not installed" in told
    assert "apt install nodejs" in told


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@needs_node
@pytest.mark.module
def test_hlsjs_is_missing(refused, tmp_path):
    told = refused(folder=str(tmp_path))
    assert f"no hls.js in {tmp_path}" in told
    assert f"npm install --prefix {tmp_path} hls.js@1" in told


@needs_node
@pytest.mark.module
@pytest.mark.parametrize(
    ("text", "message"),
    {
        "another library": ("module.exports = {version: '9.9'}", "no AbrController in"),
        "not JavaScript": ("exports = {", "SyntaxError"),
    }.values(),
    ids=str,
)
def test_the_library_has_no_such_controller(refused, tmp_path, text, message):
    assert message in refused(folder=library(tmp_path / "fake", text))


@needs_node
@pytest.mark.module
def test_an_unknown_setting_is_refused_with_the_nearest(refused, tmp_path):
    text = """module.exports = {version: "9.9", Events: {FRAG_BUFFERED: "a"},
        DefaultConfig: {abrController: function () {}, abrBandWidthUpFactor: 0.7}}"""
    told = refused(folder=library(tmp_path / "fake", text), abrBandWithUpFactor=0.8)
    assert "hls.js 9.9 has no setting abrBandWithUpFactor" in told
    assert "did you mean `abrBandWidthUpFactor`?" in told


@needs_hlsjs
@pytest.mark.module
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"version": "1.0.0"}, "hls.js 1."),
        ({"abrBandwidth": 1}, "has no setting abrBandwidth"),
    ],
)
def test_parameters_that_hlsjs_does_not_meet(refused, parameters, message):
    assert message in refused(folder=str(FOLDER), **parameters)


def test_the_package_announces_the_rule():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["anabranch.abr"]["hlsjs-node"].partition(":")
    assert getattr(import_module(module), name) is hlsjs_node.HlsjsNode

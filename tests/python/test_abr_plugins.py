"""ABR rules written in Python, run by the real simulator."""

from __future__ import annotations

import json
import pathlib
import re
import textwrap

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.errors import InputError, ScenarioError
from anabranch.plugins import ChunkSample, Pause, PlayerView, Rendition

pytestmark = pytest.mark.module

EXAMPLE = f"{pathlib.Path(__file__).parents[2] / 'examples' / 'python' / 'throughput.py'}:Throughput"
LADDER = [
    {"height": 240, "bitrate": "300 kbit/s"},
    {"height": 480, "bitrate": "700 kbit/s"},
    {"height": 720, "bitrate": "3 Mbit/s"},
]
FILM = {
    "name": "film",
    "application": {"kind": "adaptive", "ladder": LADDER, "duration": "40 s"},
    "paths": [
        {"name": "wifi", "rtt": "40 ms", "rate": "1.5 Mbit/s", "loss": "0.5 %"},
        {"name": "lte", "rtt": "90 ms", "rate": "1 Mbit/s"},
    ],
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return a function that writes a rule with these methods into `mine.py` of the working directory."""
    monkeypatch.chdir(tmp_path)

    def writer(*methods, name="mine.py"):
        body = "\n".join(textwrap.indent(textwrap.dedent(method), " " * 4) for method in methods)
        text = f"from anabranch.plugins import Pause\n\n\nclass Mine:\n{body}\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
        return f"{name}:Mine"

    return writer


def play(rule, **application):
    """Return the run of the film with a rule."""
    return anabranch.run({**FILM, "application": {**FILM["application"], "abr": rule, **application}})


@pytest.mark.parametrize("player", ["vlc", "hlsjs"])
@pytest.mark.parametrize("safety", [0.9, 0.5])
def test_the_rule_of_throughput_is_the_same_in_python(player, safety):
    settings = {"player": {"model": player}}
    built_in = play({"name": "throughput", "safety": safety}, **settings)
    same = play({"name": EXAMPLE, "safety": safety}, **settings)
    assert same.digest == built_in.digest
    assert same.tables == built_in.tables
    assert len({row["rendition"] for row in same.rows("chunks")}) > 1


def test_each_chunk_has_the_rendition_that_the_rule_returns(mine):
    place = mine("def choose(self, player):\n    return player.next_chunk % len(player.renditions)")
    video = [row for row in play(place).rows("chunks") if row["track"] == "video"]
    assert len(video) > 5
    assert [row["rendition"] for row in video] == [row["index"] % 3 for row in video]


def test_a_pause_delays_the_request(mine):
    place = mine(
        """
        paused = False

        def choose(self, player):
            if player.next_chunk == 1 and not self.paused:
                self.paused = True
                return Pause(2.5)
            return 0
        """
    )
    first, second = play(place).rows("chunks")[:2]
    assert second["t_s"] - first["done_s"] == pytest.approx(2.5)


def test_a_download_is_abandoned_when_the_rule_says_so(mine):
    place = mine(
        """
        done = False

        def choose(self, player):
            return 2 if player.next_chunk == 3 and not self.done else 0

        def abandons(self, player, loading):
            self.done = self.done or (loading.rendition == 2 and loading.received_bytes > 300_000)
            return loading.rendition == 2 and self.done
        """
    )
    rows = play(place).rows("chunks")[3:6]
    assert [(row["index"], row["rendition"], row["abandoned"]) for row in rows] == [
        (3, 2, True),
        (3, 0, False),
        (4, 0, False),
    ]
    assert 300_000 < rows[0]["bytes"] < 400_000


def test_what_a_rule_is_told_is_what_the_tables_contain(mine, tmp_path):
    place = mine(
        """
        def choose(self, player):
            return 1

        def on_chunk(self, chunk):
            with open("seen.txt", "a") as seen:
                print(chunk.rendition, chunk.received_bytes, chunk.fetch_s, chunk.duration_s, file=seen)
        """
    )
    rows = [
        row for row in play(place).rows("chunks") if row["track"] == "video" and row["done_s"] is not None
    ]
    seen = [line.split() for line in (tmp_path / "seen.txt").read_text(encoding="utf-8").splitlines()]
    assert len(rows) > 5
    assert [(int(one[0]), int(one[1])) for one in seen] == [(row["rendition"], row["bytes"]) for row in rows]
    for one, row in zip(seen, rows, strict=True):
        assert float(one[2]) == pytest.approx(row["done_s"] - row["t_s"], abs=1e-6)


WRONG = {
    "too high": (
        "return 3",
        "Mine.choose returned 3: expected the number of a rendition, 0 to 2, or Pause(...)",
    ),
    "negative": ("return -1", "Mine.choose returned -1: expected the number of a rendition"),
    "nothing": ("pass", "Mine.choose returned None: expected the number of a rendition"),
    "true": ("return True", "Mine.choose returned True: expected the number of a rendition"),
    "pause": ("return Pause(-1)", "Mine.choose returned Pause(-1): wait_s is a number of seconds, 0 to 3600"),
    "nan": ("return Pause(float('nan'))", "Mine.choose returned Pause(nan): wait_s is a number of seconds"),
}


@pytest.mark.parametrize(("body", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_answer_ends_the_run_with_its_place(mine, body, message):
    mine(f"def choose(self, player):\n    {body}")
    with pytest.raises(InputError) as raised:
        play("mine.py:Mine")
    assert message in str(raised.value)
    assert "mine.py" in str(raised.value)


def test_a_wrong_answer_about_a_download(mine):
    mine("def choose(self, player):\n    return 0", "def abandons(self, player, loading):\n    return 'no'")
    with pytest.raises(InputError, match=r"Mine.abandons returned 'no': expected True or False"):
        play("mine.py:Mine")


def test_an_exception_is_raised_unchanged(mine):
    mine("def choose(self, player):\n    return 0", "def on_chunk(self, chunk):\n    raise KeyError('mine')")
    with pytest.raises(KeyError, match="mine"):
        play("mine.py:Mine")


FAULTS = {
    "no method": ("def chose(self, player): ...", "no method `choose` in class Mine", "an ABR rule needs"),
    "a scheduler": (
        "def schedule(self, request, subflows): ...",
        "no method `choose` in class Mine",
        "this is a scheduler",
    ),
    "never called": (
        "def choose(self, player): ...\n    def on_chunks(self, chunk): ...",
        "nothing calls `on_chunks` of an ABR rule",
        "did you mean `on_chunk`?",
    ),
    "arguments": (
        "def choose(self): ...",
        "Mine.choose cannot be called with player",
        "def choose(self, player)",
    ),
}


@pytest.mark.parametrize(("body", "message", "hint"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_class_is_reported_before_the_run(mine, tmp_path, body, message, hint):
    (tmp_path / "mine.py").write_text(f"class Mine:\n    {body}\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as raised:
        play("mine.py:Mine")
    (fault,) = raised.value.faults
    assert fault.message == message
    assert hint in fault.hint
    assert fault.where == "mine.py"


def test_the_command_line_takes_a_rule_by_its_place(mine):
    mine("def choose(self, player):\n    return 1")
    (pathlib.Path.cwd() / "film.json").write_text(json.dumps(FILM), encoding="utf-8")
    arguments = ["run", "adaptive-two-paths", "--set", "application.duration=20s", "--set", "expect={}"]
    result = CliRunner().invoke(app, [*arguments, "--set", "application.abr=mine.py:Mine", "--json"])
    assert result.exit_code == 0, result.stderr
    assert list(json.loads(result.stdout)["plugins"]) == ["mine.py:Mine"]


def test_the_rule_of_the_documentation_plays(monkeypatch, tmp_path):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "reference" / "plugins.md").read_text(
        encoding="utf-8"
    )
    (source,) = re.findall(r"```python\n(# steady\.py\n.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steady.py").write_text(source, encoding="utf-8")
    played = play({"name": "steady.py:Steady", "share": 0.4})
    assert max(row["buffer_after_s"] or 0 for row in played.rows("chunks")) <= 24.0
    assert {row["rendition"] for row in played.rows("chunks")} == {0, 1}


class Lowest:
    """The lowest rendition."""

    def choose(self, player):
        return min(0, player.next_chunk)


def test_python_takes_the_class_itself():
    given = anabranch.run(FILM, set={"application.abr": Lowest})
    assert {row["rendition"] for row in given.rows("chunks")} == {0}


def test_views_for_tests_are_made_by_hand():
    low, high = Rendition(name="low", peak_mbps=1.0), Rendition(name="high", peak_mbps=2.5)
    player = PlayerView([low, high], buffer_s=4.0)
    assert [player.highest_within(mbps) for mbps in (0.5, 2.49, 2.5)] == [0, 0, 1]
    assert [one.name for one in player.renditions] == ["low", "high"]
    assert ChunkSample(received_bytes=1_000_000, fetch_s=2.0).throughput_mbps == 4.0
    assert ChunkSample(fetch_s=0.0).throughput_mbps is None
    assert repr(Pause(2)) == "Pause(2)"

"""The report: self-contained, escaped, small."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import polars
import pytest
from markupsafe import escape

import anabranch
from anabranch import comparison, report
from anabranch.comparison import fidelity, measures, price, verdict
from anabranch.comparison.used import Used
from anabranch.figures import _data, colours
from anabranch.figures.session import Backdrop, _label_lines, session, svg
from anabranch.report import _capacity, _draw, _folder, _panels, _verdict
from anabranch.results.paired import Effect
from anabranch.why import CAUSES, why

PATHS = [
    {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "1 %"},
    {"name": "lte", "rtt": "100 ms", "rate": "unlimited", "queue": "64 KiB"},
]
FILM = {
    "name": "film",
    "application": {"film": "papers-film"},
    "paths": PATHS,
    "events": [
        {"at": "5 s", "path": "wifi", "state": "down"},
        {"at": "9 s", "path": "wifi", "rate": "1 Mb/s"},
    ],
}
BULK = {"name": "bulk", "application": {"kind": "bulk", "duration": "10 s"}, "paths": PATHS}


CROSSED = {**BULK, "cross_traffic": [{"name": "others", "path": "lte", "count": 4, "start": "3 s"}]}


class Tags(HTMLParser):
    """Every tag and the addresses that it would load."""

    def __init__(self):
        super().__init__()
        self.tags, self.loads, self.scripts, self.handlers = [], [], [], []

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag):
        self.tags.append(f"/{tag}")

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.loads += [
            value for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "data")
        ]


def tags_of(text):
    parser = Tags()
    parser.feed(text)
    return parser


@pytest.mark.parametrize("scenario", [FILM, BULK, {**BULK, "clients": 3}, CROSSED],
                         ids=["film", "bulk", "clients", "cross traffic"])  # fmt: skip
def test_nothing_is_loaded_from_outside(scenario):
    text = report.build(anabranch.run(scenario))
    found = tags_of(text)
    # The empty icon keeps a browser from asking for one.
    assert found.loads == ["data:,"]
    assert not {"iframe", "img", "object", "embed"} & set(found.tags)
    assert found.tags.count("script") == 1
    assert found.handlers == []
    assert "@import" not in text
    assert "url(" not in text
    assert not re.search(r"https?://", text)


def test_no_script_runs_but_our_own():
    text = report.build(anabranch.run(BULK))
    (script,) = tags_of(text).scripts
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in text
    assert "default-src &#39;none&#39;" in text


def compared_with(name):
    """Return a comparison of a path with this name and another."""
    effect = Effect(value=5.0, low=4.9, high=5.1, pairs=3, detectable=None)
    used = [
        Used(
            paths=names,
            runs=3,
            exact=False,
            means={"goodput_mbps": effect},
            shares=dict.fromkeys(names, 0.5),
            cost=None,
            use=price.NONE.use([], names),
            unfinished=0,
            unstarted=0,
            unreached=0,
            values={"goodput_mbps": {0: 4.9, 1: 5.0, 2: 5.1}},
        )
        for names in ((name,), ("lte",), (name, "lte"))
    ]
    return comparison.Comparison(
        scenario=name,
        used=tuple(used),
        measures=measures.TRANSFER,
        terms=price.NONE,
        fidelity=fidelity.Fidelity(nearest=None, distance=0.0, congestion="cubic"),
        added=tuple(verdict.added(used, measures.TRANSFER)),
    )


def test_cross_traffic_is_named_where_there_is_any():
    text = report.build(anabranch.run(CROSSED))
    assert "What the cross traffic did" in text
    assert "beside 4 background flows" in text
    row = re.search(r"<tr><td>others</td>.*", text).group()
    assert re.findall(r"<td[^>]*>(.*?)</td>", row) == [
        "others", "4", "bulk", "cubic", "from 3 s", "lte.down", "4.00 Mb/s", "1.00 Mb/s", "20",
    ]  # fmt: skip
    assert "cross traffic" not in report.build(anabranch.run(BULK))


@pytest.mark.parametrize("nasty", [
    '<img src=x onerror="alert(1)">&<b>',
    "</script><script>alert(1)</script>",
    "<script>alert('1')</script>",
    '" onmouseover="alert(1)',
    "</style></svg>{{ 7 * 7 }}",
])  # fmt: skip
def test_names_are_escaped_everywhere(nasty):
    scenario = {
        **FILM,
        "name": nasty,
        "paths": [{**PATHS[0], "name": nasty}, PATHS[1]],
        "events": [{"at": "5 s", "path": nasty, "state": "down"}],
    }
    run = anabranch.run(scenario)
    compared = compared_with(nasty)
    assert nasty in compared.sentences[0]
    text = report.build(run, comparison=compared)
    found = tags_of(text)
    assert "img" not in found.tags
    assert [found.tags.count(tag) for tag in ("script", "style")] == [1, 1]
    assert found.handlers == []
    assert "49" not in re.search(r"<h1>(.*)</h1>", text).group(1)
    assert escape(nasty) in text
    assert f"{escape(nasty)} could" in text


def test_the_figure_has_every_panel():
    text = report.build(anabranch.run(FILM))
    for title in (
        'aria-label="Time"',
        "Pictures, when they were due",
        "Congestion window",
        "Throughput",
        "Player buffer",
        "wifi down",
    ):
        assert title in text
    assert "Pictures, when they were due" not in report.build(anabranch.run(BULK))


def test_round_trips_queues_and_shares_have_panels_if_they_vary():
    tables = anabranch.run(BULK).tables
    count = len(tables["samples"]["t_s"])
    moving = [50.0 + place % 7 for place in range(count)]
    samples = {**tables["samples"], "srtt_ms": moving, "min_rtt_ms": [50.0] * count}
    run = anabranch.run(BULK)
    titles = ("Smoothed RTT of each subflow", "Time in queues, estimated", "Share of each path")
    for own, drawn in (({}, ()), ({"samples": samples}, titles[:2])):
        run.tables.update(own)
        made = _panels.of_run(run)
        assert [panel.title for panel in made.panels if panel.title in titles] == list(drawn)
        assert set(made.constant) <= set(titles) - set(drawn)
    assert "Not drawn, because nothing changes: share of each path." in report.build(run)


def test_a_path_share_is_its_part_of_the_throughput():
    def row(time, path, mbps):
        return {"t_s": time, "subflow": 0, "path": path, "mbps": mbps}

    rows = [row(1, "wifi", 3), row(1, "lte", 1), row(2, "wifi", 0), row(2, "lte", 0), row(3, "lte", 2)]
    assert [(one["t_s"], one["path"], one["part"], one["percent"]) for one in _data.shares(rows)] == [
        (1, "wifi", 0, 75.0), (1, "lte", 0, 25.0), (3, "wifi", 1, 0.0), (3, "lte", 1, 100.0),
    ]  # fmt: skip


def test_queueing_is_the_rtt_above_its_smallest_value():
    samples = {
        "client": [0, 0], "t_s": [0.0, 1.0], "subflow": [0, 0], "path": ["wifi", "wifi"],
        "srtt_ms": [62.5, 50.0], "min_rtt_ms": [50.0, 50.0], "bytes_acked": [1, 2],
    }  # fmt: skip
    tables = {"samples": samples, "connections": {"client": [0], "duration_s": [1.0]}}
    assert [row["queueing_ms"] for row in _data.queueing(tables, 0)] == [12.5, 0.0]


@pytest.mark.slow
def test_a_long_run_stays_small():
    long = {**FILM, "application": {"film": "papers-film", "duration": "624 s"}}
    assert len(report.build(anabranch.run(long))) < 300_000


def test_runs_of_pictures_with_one_fate_are_one_bar():
    run = anabranch.run(FILM)
    bars = _data.fates(run.tables, 0)
    assert [(bar["fate"], bar["pictures"]) for bar in bars] == [
        ("displayed", 600), ("flushed", 20), ("discarded", 10), ("displayed", 570),
    ]  # fmt: skip
    assert all(bar["from_s"] < bar["to_s"] for bar in bars)


def test_both_directions_of_a_change_are_reported_once():
    run = anabranch.run(FILM)
    assert [row["label"] for row in _data.changes(run.tables)] == ["wifi down", "wifi rate 1 Mbit/s"]


def test_a_change_of_an_interface_has_no_direction():
    told = {"t_s": [1.0, 2.0], "link": ["wifi", "lte.up"], "what": ["removed", "down"]}
    assert [row["label"] for row in _data.changes({"events": told})] == ["wifi removed", "lte down (up)"]


def test_lines_have_at_most_a_point_a_pixel():
    long = {**BULK, "application": {"kind": "bulk", "duration": "600 s"}}
    run = anabranch.run(long)
    assert 500 < len(_data.windows(run.tables, 0)) / 2 <= 1000
    assert 500 < len(_data.throughputs(run.tables, 0)) / 2 <= 1000


def test_throughput_is_acknowledged_bytes_per_second():
    rows = _data.throughputs(anabranch.run(BULK).tables, 0)
    assert {row["mbps"] for row in rows} == {4.8}


def test_lines_end_when_nothing_more_is_carried():
    times = [step / 10 for step in range(1000)]
    acked = [min(1000.0 * step, 200_000.0) for step in range(1000)]
    samples = {
        "client": [0] * 1000, "t_s": times, "subflow": [0] * 1000, "path": ["wifi"] * 1000,
        "cwnd_segments": [10.0] * 1000, "bytes_acked": acked,
    }  # fmt: skip
    tables = {"samples": samples, "connections": {"client": [0], "duration_s": [100.0]}}
    for rows in (_data.windows(tables, 0), _data.throughputs(tables, 0)):
        assert 21 <= max(row["t_s"] for row in rows) <= 23
    assert _data.throughputs(tables, 0)[-1]["mbps"] == 0


def test_labels_of_changes_cover_none():
    def lines(*changes):
        rows = [{"t_s": at, "label": label} for at, label in changes]
        return _label_lines(Backdrop(until_s=600.0, stalls=[], changes=rows))

    assert lines((100, "wifi down"), (300, "wifi up")) == [0, 0]
    assert lines((200, "wifi rate 300 kbit/s"), (220, "wifi rate 3 Mbit/s"), (230, "lte down")) == [0, 1, 2]
    assert lines((200, "wifi rate 300 kbit/s"), (260, "wifi rate 3 Mbit/s"), (300, "lte down")) == [0, 1, 0]


def test_rates_of_changes_are_reported_as_people_write_them():
    told = {"t_s": [1.0], "link": ["wifi"], "what": ["rate 300000 bit/s"]}
    assert [row["label"] for row in _data.changes({"events": told})] == ["wifi rate 300 kbit/s"]


def test_colours_follow_the_paths_order():
    assert colours.of_paths(["b", "a", "b"]) == {"b": "#0072B2", "a": "#E69F00"}


def test_a_run_without_samples_still_draws():
    run = anabranch.run(BULK)
    tables = {**run.tables, "samples": {name: [] for name in run.tables["samples"]}}
    assert svg(session(tables)).startswith("<svg")


@pytest.mark.module
def test_a_link_that_follows_a_model_is_labelled():
    run = anabranch.run("wifi-starlink", set={"application.kind": "bulk", "application.duration": "2 s"})
    text = report.build(run)
    assert "802.11, at most 3 Mbit/s" in text
    assert "Starlink, at most 3 Mbit/s" in text
    assert "0 s and the model" in text


def test_the_steps_of_a_fade_have_one_label():
    times = [10 + step * 0.3 for step in range(10)] + [20.0]
    events = {
        "t_s": times,
        "link": ["wifi.down"] * 11,
        "what": [f"rate {rate} bit/s" for rate in range(10)] + ["down"],
    }
    told = [(row["t_s"], row["label"]) for row in _data.changes({"events": events})]
    assert [time for time, _ in told] == [10.0, 20.0]


def test_values_of_several_connections_or_clients_are_labelled(simulator, monkeypatch):
    import io
    from contextlib import redirect_stdout

    from anabranch.cli import _show

    def told(result):
        with redirect_stdout(io.StringIO()) as text:
            _show.run(result)
        return text.getvalue()

    path = {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s"}
    one = {"name": "one", "application": {"kind": "bulk", "duration": "2 s"}, "paths": [path]}
    made = simulator.simulate

    def twice(*given):
        trace = made(*given)
        subflows = trace["tables"]["subflows"]
        for name, values in subflows.items():
            subflows[name] = [*values, *values] if name != "subflow" else [0, 1]
        trace["tables"]["requests"]["id"] = [0, 1]
        return trace

    alone = anabranch.run(one)
    assert re.search(r"RTT difference +-\n", told(alone))
    assert "What each subflow did\n" in told(alone)
    assert "queues, in all" not in told(alone)
    three = anabranch.run({**one, "clients": 3})
    assert "packets dropped by queues, in all" in told(three)
    assert "packets dropped by queues, in all" in report.build(three)
    monkeypatch.setattr(simulator, "simulate", twice)
    both = anabranch.run(one)
    said = "What each subflow did, of all connections that the player opened"
    assert said in told(both)
    assert said in report.build(both)


@pytest.mark.module
def test_path_capacity_is_zero_while_it_is_down():
    run = anabranch.run({**FILM, "application": {"kind": "bulk", "duration": "12 s"}})
    # lte has no rate limit, so nothing is drawn for it.
    assert _capacity.of_paths(run) == {"wifi": [(0.0, 5.0), (5.0, 0.0)]}


def test_the_course_of_a_recording_is_drawn_within_its_cap_and_again_and_again():
    link = {
        "name": "a.down", "rate_bps": 4_000_000,
        "model": {"steps": {
            "begin_ns": [0, 1_000_000_000], "rates_bps": [5_000_000, 1_000_000], "delays_ns": [], "losses": [],
            "repeat_ns": 2_000_000_000,
        }},
    }  # fmt: skip
    plan = {"links": [link], "events": [], "paths": [{"name": "a", "down": ["a.down"], "up": []}]}
    run = SimpleNamespace(plan=plan, tables={}, duration_s=3.5)
    assert _capacity.of_paths(run) == {"a": [(0.0, 4.0), (1.0, 1.0), (2.0, 4.0), (3.0, 1.0)]}
    link["model"] = {"lte": {"direction": "down"}}
    assert _capacity.of_paths(run) == {}


def test_capacity_of_recorded_opportunities_is_drawn_per_second():
    # Packets of 1,500 bytes: two in the first second, none in the second, one in the third, and so again.
    recorded = {"opportunities_ns": [400_000_000, 1_000_000_000, 3_000_000_000], "opportunity_bytes": 1500}
    link = {"name": "a.down", "rate_bps": None, "model": {"opportunities": recorded}}
    plan = {"links": [link], "events": [], "paths": [{"name": "a", "down": ["a.down"], "up": []}]}
    run = SimpleNamespace(plan=plan, tables={}, duration_s=4.5)
    steps = [(0.0, 0.024), (1.0, 0.0), (2.0, 0.012), (3.0, 0.024), (4.0, 0.0)]
    assert _capacity.of_paths(run) == {"a": steps}
    link["rate_bps"] = 20_000
    assert _capacity.of_paths(run)["a"][0] == (0.0, 0.02), "a rate beside a recording is its cap"
    link["rate_bps"], run.duration_s = None, 6000.0
    # 2,000 windows of three seconds, each with three packets: one step.
    assert _capacity.of_paths(run) == {"a": [(0.0, 0.012)]}
    recorded["begin_at_ns"] = 1
    assert _capacity.of_paths(run) == {}, "one that begins elsewhere has another course"


def test_subflows_of_connections_before_the_film_are_folded():
    tables = {
        "requests": {"client": [0, 0, 0], "t_s": [0.0, 0.2, 0.4]},
        "samples": {"client": [0] * 6, "subflow": [0, 2, 5, 5, 2, 3], "t_s": [0.1, 0.5, 0.3, 0.5, 9.0, 0.6]},
        "subflows": {
            "client": [0] * 6,
            "subflow": [0, 1, 2, 3, 4, 5],
            "established": [True] * 4 + [False, True],
        },
    }
    run = SimpleNamespace(tables=tables, qoe={"frames": {}})
    # One that was refused is the film's own, and tells something; 5 is there until the film's first byte.
    assert _panels.opening(run, 0) == {0, 1, 5}
    tables["requests"] = {"client": [0], "t_s": [0.0]}
    assert _panels.opening(run, 0) == set()


@pytest.mark.module
def test_freezes_match_why_and_the_verdict_names_the_main_cause():
    slow = {"paths.lte.rate": "1 Mbit/s", "application.film": "papers-film", "application.duration": "30 s"}
    run = anabranch.run("two-paths", set=slow)
    found = why(run)
    made = _panels.of_run(run)
    assert len(found.freezes) >= run.qoe["buffer_underflows"] > 1
    assert [(one.from_s, one.to_s) for one in made.freezes] == [
        (one.from_s, one.to_s) for one in found.freezes
    ]
    assert made.frozen_s == pytest.approx(found.frozen_s)
    text = report.build(run)
    cause = max(found.frozen_s, key=found.frozen_s.get)
    head = text[: text.index("What the viewer saw")]
    assert f"Stood still for {run.qoe['still_s']:.1f} s in all" in head
    assert escape(CAUSES[cause]) in head


def test_cause_shares_are_listed_in_descending_order():
    assert _panels.said({"capacity": 1.0}) == "capacity"
    assert (
        _panels.said({"capacity": 0.6, "timeout": 0.35, "scheduler": 0.05}) == "capacity 60 %, timeout 35 %"
    )
    assert _panels.said({}) == "unexplained"


def test_ticks_are_ones_that_people_count_in():
    assert [_draw.nice(least) for least in (0.03, 0.7, 1, 1.1, 7.8, 60)] == [0.05, 1, 1, 2, 10, 100]


def test_a_browser_is_there_where_every_test_runs():
    # Elsewhere the tests of test_report_in_browser.py are skipped.
    assert "install chromium" in (Path(__file__).parents[2] / ".ci/run").read_text(encoding="utf-8")


def folder_of(rows, keys):
    """Return results of a transfer: for each row its labels and the goodput of every run."""
    made = SimpleNamespace(labels=tuple(keys), exact=(), notes={})
    frame = polars.DataFrame(
        [
            {"cell": f"c{place}", "run": run, "scenario": "s", **dict(zip(keys, labels, strict=True)),
             "goodput_mbps": value, "max_read_gap_s": 0.5, "duration_s": 9.0}
            for place, (labels, values) in enumerate(rows)
            for run, value in enumerate(values)
        ]
    )  # fmt: skip
    return made, frame


@pytest.fixture
def results(monkeypatch):
    def given(rows, keys):
        made, frame = folder_of(rows, keys)
        monkeypatch.setattr(_folder.store, "made", lambda _: made)
        monkeypatch.setattr(_folder.store, "manifest", lambda _: {"name": "<script>x</script>"})
        monkeypatch.setattr(_folder, "present_runs", lambda _: frame)

    return given


def test_sweep_verdict_names_the_best_cell_per_setting(results):
    keys = ["transport.scheduler", "paths.lte.rate"]
    results(
        [
            (("linux", "1Mbit/s"), [5.0, 6.0, 7.0]),
            (("min-rtt", "1Mbit/s"), [4.0, 5.0, 6.0]),
            (("redundant", "1Mbit/s"), [5.01, 5.98, 7.0]),
            (("linux", "3Mbit/s"), [8.0, 9.0, 7.0]),
            (("min-rtt", "3Mbit/s"), [8.0, 9.0, 7.0]),
        ],
        keys,
    )
    # Only one resample of three in 27 takes the smallest value three times. This is more than the 2.5 % below
    # an interval. Three pairs of schedulers at the one rate, and one at the other.
    corrected = "intervals are corrected for 4 comparisons"
    alike = "linux 8 ± 2.48 Mb/s, min-rtt 8 ± 2.48 Mb/s"
    best = "best by goodput is linux: 6 ± 2.48 Mb/s, and redundant cannot be told from it"
    assert report.verdicts(Path("x"))[0] == [
        f"With lte rate 1Mbit/s: {best}; min-rtt has 5 ± 2.48 Mb/s (-1); {corrected}",
        f"With lte rate 3Mbit/s: no cell can be told from another by goodput: {alike}",
    ]
    (heading, rows), _ = report.verdicts(Path("x"))[1]
    assert heading == "goodput, Mb/s"
    assert [row["setting"] for row in rows] == ["lte rate 1Mbit/s", "", "", "lte rate 3Mbit/s", ""]
    # As the means 6, 5, 5.997, 8 and 8 stand to each other.
    assert float(rows[1]["at"]) / float(rows[3]["at"]) == pytest.approx(5 / 8, abs=0.001)
    assert all(float(row["low"]) < float(row["at"]) < float(row["low"]) + float(row["wide"]) for row in rows)


def test_a_run_below_a_comparison_is_one_line():
    said = _verdict.beside(["Played without a freeze: started after 2 s.", "5 Mb/s of goodput."])
    assert said == "This run: played without a freeze, started after 2 s. 5 Mb/s of goodput."


@pytest.mark.module
def test_chunks_stand_where_they_were_on_their_way():
    run = anabranch.run("adaptive-two-paths", set={"application.duration": "60 s"})
    panel = next(one for one in _panels.of_run(run).panels if one.title == "Chunks on their way")
    names = {(row["track"], row["rendition"]): row["name"] for row in run.rows("renditions")}
    expected = {
        (names[row["track"], row["rendition"]], round(row["t_s"], 3), round(row["done_s"], 3))
        for row in run.rows("chunks")
        if row["done_s"] is not None
    }
    found = {(row.name, band.from_s, band.to_s) for row in panel.rows for band in row.bands}
    assert len(expected) > 5
    assert expected <= found
    assert len(found) == len(run.rows("chunks"))
    assert panel.legend[0] == ("loading", "from request to last byte")


def test_a_chunk_that_was_given_up_ends_with_the_next_request_and_drops_are_counted():
    ladder = {
        "track": ["video"],
        "rendition": [0],
        "name": ["low"],
        "average_bps": [0],
        "bandwidth_bps": [1e6],
    }
    chunks = {"client": [0, 0], "track": ["video"] * 2, "rendition": [0, 0], "t_s": [1.0, 3.0]}
    chunks |= {"done_s": [None, 4.0], "abandoned": [True, False]}
    events = {"client": [0] * 4, "t_s": [1.0, 2.0, 2.0, 5.0], "event": ["start", "drop", "drop", "drop"]}
    own = {"client": [0], "duration_s": [6.0]}
    tables = {"connections": own, "renditions": ladder, "chunks": chunks, "playback": events}
    loads = [(row["from_s"], row["to_s"], row["abandoned"]) for row in _data.loads(tables, 0)]
    assert loads == [(1.0, 3.0, True), (3.0, 4.0, False)]
    assert _data.drops(tables, 0) == [(2.0, 2), (5.0, 3)]

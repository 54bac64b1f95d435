"""Why a picture froze: worlds with one cause, causes that are taken away, and steps worked out by hand."""

from __future__ import annotations

import json
from itertools import pairwise
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch._run import run_loaded
from anabranch.claims import page
from anabranch.cli._app import app
from anabranch.scenario._overrides import Override
from anabranch.scenario.load import load
from anabranch.scenario.streamed import film_of
from anabranch.study import study as studies
from anabranch.why import CAUSES, why
from anabranch.why.world import Paths

#: A ring that hides little.
SMALL = {"player": {"prefetch": "64 KiB"}}


def path(name, rate, **more):
    return {"name": name, "rate": rate, "rtt": "50 ms", **more}


def world(paths, *, events=(), app=None, **transport):
    return {
        "name": "one-cause",
        "application": {"film": "papers-film", "duration": "70 s", **SMALL, **(app or {})},
        "transport": {"congestion": "cubic", "scheduler": "min-rtt", **transport},
        "paths": paths,
        "events": list(events),
    }


def at(second, name, **change):
    return {"at": f"{second} s", "path": name, **change}


#: None of these was used while the rules that distinguish causes were written.
WORLDS = {
    "too slow": ("capacity", world([path("a", "4.2 Mbit/s", rtt="20 ms")])),
    "two too slow": ("capacity", world([path("a", "2 Mbit/s"), path("b", "2 Mbit/s", rtt="60 ms")])),
    "slower from 30 s on": ("capacity", world([path("a", "9 Mbit/s")], events=[at(30, "a", rate="3 Mbit/s")])),
    "cut for good": (
        "path down",
        world([path("a", "7 Mbit/s"), path("b", "2 Mbit/s")], events=[at(25, "a", state="down")]),
    ),
    "cut for 12 s": (
        "path down",
        world([path("a", "9 Mbit/s")], events=[at(30, "a", state="down"), at(42, "a", state="up")]),
    ),
    "random loss, far": (
        "congestion window",
        world([path("a", "30 Mbit/s", rtt="120 ms", loss="1.5 %")], congestion="reno"),
    ),
    "random loss on two": (
        "congestion window",
        world(
            [path("a", "15 Mbit/s", rtt="200 ms", loss="2 %"), path("b", "15 Mbit/s", rtt="180 ms", loss="2 %")],
            congestion="reno",
        ),
    ),
    "all lost for 12 s": (
        "timeout",
        world([path("a", "25 Mbit/s")], events=[at(30, "a", loss="100 %"), at(42, "a", loss="0 %")]),
    ),
    "small receive buffer": (
        "receive window",
        world([path("a", "30 Mbit/s", rtt="300 ms")], receive_buffer="128 KiB", receive_buffer_initial="64 KiB"),
    ),
    "a far second path": (
        "head of line",
        world([path("a", "7 Mbit/s", rtt="30 ms"), path("b", "1 Mbit/s", rtt="2500 ms")], receive_buffer="384 KiB"),
    ),
    "a backup that is not used": (
        "scheduler",
        world([path("a", "3.5 Mbit/s"), path("b", "20 Mbit/s", backup=True)]),
    ),
}  # fmt: skip


def made(scenario, run=0):
    loaded = load(scenario)
    return run_loaded(loaded, run=run, film=film_of(loaded))


@pytest.mark.module
def test_the_one_cause_of_a_world_is_found():
    found = {}
    for name, (_, scenario) in WORLDS.items():
        run = made(scenario)
        assert run.qoe["buffer_underflows"] > 0, name
        causes = why(run)
        # The freeze includes a picture that was shown while the player buffered. Shorter stretches are not
        # freezes.
        assert sum(causes.frozen_s.values()) == pytest.approx(run.qoe["still_s"], rel=0.02), name
        assert sum(causes.discards.values()) == pytest.approx(run.qoe["picture_discards"])
        assert set(causes.frozen_s) <= set(CAUSES)
        found[name] = next(iter(causes.frozen_s))
    right = [name for name, (cause, _) in WORLDS.items() if found[name] == cause]
    assert len(right) >= 0.9 * len(WORLDS), found


def ladder(paths, *, events, **transport):
    own = {"kind": "adaptive", "ladder": "uq18-jp", "abr": "throughput", "duration": "100 s"}
    return {**world(paths, events=events, **transport), "application": own}


#: Worlds in which something happens to a ladder's session at 40 s.
LADDERS = {
    "slower": ("capacity", ladder([path("a", "6 Mbit/s")], events=[at(40, "a", rate="1 Mbit/s")])),
    "cut": (
        "path down",
        ladder([path("a", "5 Mbit/s"), path("b", "1.2 Mbit/s")], events=[at(40, "a", state="down")]),
    ),
    "farther, with a small receive buffer": (
        "receive window",
        ladder(
            [path("a", "30 Mbit/s")],
            events=[at(40, "a", rtt="600 ms")],
            receive_buffer="128 KiB",
            receive_buffer_initial="64 KiB",
        ),
    ),
    "lossy": (
        "congestion window",
        ladder([path("a", "20 Mbit/s", rtt="100 ms")], events=[at(40, "a", loss="1 %")], congestion="reno"),
    ),
    "all lost for 15 s": (
        "timeout",
        ladder([path("a", "8 Mbit/s")], events=[at(41, "a", loss="100 %"), at(56, "a", loss="0 %")]),
    ),
    "slower beside a backup that is not used": (
        "scheduler",
        ladder(
            [path("a", "6 Mbit/s"), path("b", "20 Mbit/s", backup=True)],
            events=[at(40, "a", rate="1 Mbit/s")],
        ),
    ),
}


@pytest.mark.module
@pytest.mark.parametrize("name", LADDERS)
def test_the_one_cause_of_a_step_down_is_found(name):
    cause, scenario = LADDERS[name]
    run = made(scenario)
    found = why(run)
    played = [row for row in run.rows("chunks") if row["track"] == "video" and row["done_s"] is not None]
    steps = sum(other["rendition"] < one["rendition"] for one, other in pairwise(played))
    assert len(found.drops) == steps
    assert sum(found.steps_down.values()) == pytest.approx(steps)
    after = [drop for drop in found.drops if drop.at_s > 40]
    assert after
    assert [next(iter(drop.causes)) for drop in after] == [cause] * len(after)
    # The same session to which nothing happens has no such step.
    calm = why(made({**scenario, "events": []})).drops
    assert not [drop for drop in calm if drop.at_s > 40]


@pytest.mark.module
def test_a_cause_that_is_taken_away_takes_its_share_with_it():
    """Two causes, one after the other: too little capacity, and, with the buffers full again, a cut.

    With the cut first, what it takes from the buffer would freeze the picture later, for want of capacity.
    """
    paths = [path("a", "9 Mbit/s")]
    # 14 s of 3 Mb/s for a film of 5.24 Mb/s leave 6 s too little. The rest of the freeze is due to the
    # outage.
    slow = [at(2, "a", rate="3 Mbit/s"), at(16, "a", rate="9 Mbit/s")]
    cut = [at(40, "a", state="down"), at(60, "a", state="up")]
    long = {"duration": "80 s"}
    both = made(world(paths, events=[*slow, *cut], app=long))
    causes = why(both)
    for cause, without in (("path down", slow), ("capacity", cut)):
        left = made(world(paths, events=without, app=long)).qoe["still_s"]
        saved = 1 - left / both.qoe["still_s"]
        named = causes.frozen_s[cause] / sum(causes.frozen_s.values())
        assert saved > 0.15
        assert abs(saved - named) <= 0.2, (cause, saved, named)


@pytest.mark.slow
@pytest.mark.module
@pytest.mark.parametrize(
    ("study", "row", "control"),
    [
        ("PC16", "eq50", "lia"),
        ("PC16", "eq100", "lia"),
        ("PC16", "diff-swap", "lia"),
        ("HO20", "large-handoff", "olia"),
    ],
)
def test_the_cause_of_a_papers_run_takes_its_share_of_the_discards_with_it(study, row, control):
    """Of runs in which one cause is behind nearly all; docs/reference/cli.md has what comes of others."""
    folder = studies.find(study)
    (cell,) = (
        one
        for one in studies.sweep(folder, studies.read(folder)).cells
        if (dict(one.labels)["row"], dict(one.labels)["transport.congestion"]) == (row, control)
        and dict(one.labels)["transport.scheduler"] == "dft"
    )

    def made_with(congestion):
        settings = [
            Override(key=key, value=congestion if key == "transport.congestion" else value, origin="test")
            for key, value, _ in cell.settings
        ]
        loaded = load(json.loads(cell.raw), settings)
        return run_loaded(loaded, film=film_of(loaded))

    run = made_with(control)
    found = why(run).discards
    assert next(iter(found)) == "congestion window"
    named = found["congestion window"] / sum(found.values())
    # CUBIC's windows fill what these paths carry.
    left = made_with("cubic").qoe["picture_discards"]
    assert abs((1 - left / run.qoe["picture_discards"]) - named) <= 0.2, (left, named)


@pytest.mark.module
def test_data_waits_behind_the_far_path():
    causes = why(made(WORLDS["a far second path"][1]))
    longest = max(causes.freezes, key=lambda one: one.to_s - one.from_s)
    assert max(longest.behind, key=longest.behind.get) == "b"


@pytest.mark.module
def test_discards_have_the_causes_of_the_freeze_they_are_near():
    """Also those that the decoder skips in haste, which never had a time to be shown at."""
    film = {"film": "papers-film-interleaved"}
    run = made(world([path("a", "4.5 Mbit/s")], app=film))
    kinds = {row["why"] for row in run.rows("frames") if row["fate"] == "discarded"}
    assert {"late", "haste"} <= kinds
    found = why(run).discards
    assert sum(found.values()) == pytest.approx(run.qoe["picture_discards"])
    assert next(iter(found)) == "capacity"
    assert found.get("unexplained", 0) < 0.1 * sum(found.values())


def test_a_path_is_down_while_a_link_of_it_or_its_interface_is():
    plan = {
        "links": [
            {"name": "a.down", "rate_bps": 3_000_000},
            {"name": "a.up"},
            {"name": "b.down", "rate_bps": None},
        ],
        "paths": [
            {"name": "a", "down": ["a.down"], "up": ["a.up"]},
            {"name": "b", "down": ["b.down"], "up": []},
        ],
        "events": [{"at_ns": 5 * 10**9, "link": "a.down", "change": {"rate_bps": 1_500_000}}],
    }
    changes = [
        {"t_s": 2.0, "link": "a.up", "what": "down"},
        {"t_s": 3.0, "link": "a.up", "what": "up"},
        {"t_s": 7.0, "link": "a", "what": "link-down"},
    ]
    paths = Paths(plan, {"b": 8e6}, changes)
    assert [paths.is_down("a", second) for second in (1.9, 2.0, 2.9, 3.0, 6.9, 7.0, 99.0)] == [
        False, True, True, False, False, True, True,
    ]  # fmt: skip
    assert not paths.is_down("b", 7.0)
    assert paths.bps("a", 4.9) == pytest.approx(3e6 * 1424 / 1500)
    assert paths.bps("a", 5.0) == pytest.approx(1.5e6 * 1424 / 1500)
    # Of a link without a rate what it was seen to carry counts.
    assert paths.bps("b", 0.0) == 8e6


@pytest.mark.module
def test_why_prints_the_causes_of_a_stored_run(tmp_path):
    scenario = tmp_path / "slow.toml"
    scenario.write_text(
        'name = "slow"\n[application]\nfilm = "papers-film"\nduration = "40 s"\n'
        '[[paths]]\nname = "a"\nrtt = "20 ms"\nrate = "4 Mbit/s"\n'
    )
    out = tmp_path / "out"
    given = ["sweep", str(scenario), "--trials", "1", "--workers", "1", "--out", str(out)]
    assert CliRunner().invoke(app, given).exit_code == 0
    result = CliRunner().invoke(app, ["why", str(out)])
    assert result.exit_code == 0, result.stderr
    assert "capacity" in result.stdout
    told = json.loads(CliRunner().invoke(app, ["why", str(out), "--json"]).stdout)
    assert next(iter(told["frozen_s"])) == "capacity"
    assert told["freezes"][0]["from_s"] < told["freezes"][0]["to_s"]


@pytest.mark.module
def test_a_run_without_a_film_has_the_causes_of_its_rate(tmp_path):
    out = tmp_path / "out"
    given = ["sweep", "bulk-two-paths", "--set", "application.bytes=200KB", "--trials", "1", "--workers", "1"]
    assert CliRunner().invoke(app, [*given, "--out", str(out)]).exit_code == 0
    result = CliRunner().invoke(app, ["why", str(out)])
    assert result.exit_code == 0, result.stderr
    assert "Mb/s of payload that the paths could carry by their own rates were used" in result.stdout
    assert "frozen" not in result.stdout
    # The cells have no player.
    assert CliRunner().invoke(app, ["why", str(out), "--by-cell"]).exit_code == 2


@pytest.mark.module
def test_causes_of_a_study_are_kept_and_stand_on_the_page(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "study.toml").write_text(
        'title = "t"\nsource = "s"\nquestion = "q"\n[[parts]]\nscenarios = ["slow", "fast"]\n'
        '[parts.grid]\n"transport.congestion" = ["cubic"]\n"transport.scheduler" = ["min-rtt", "linux"]\n'
    )
    for name, rate in (("slow", 4), ("fast", 40)):
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\n[application]\nfilm = "papers-film"\nduration = "40 s"\n'
            f'[[paths]]\nname = "a"\nrtt = "20 ms"\nrate = "{rate} Mbit/s"\n'
        )
    (folder / "claims.toml").write_text(
        '[[claims]]\nid = "A"\nplace = "p"\nsays = "s"\nparts = [{ test = "between", metric = "buffer_underflows", '
        'of = { row = "fast", scheduler = ["linux", "min-rtt"] }, within = [-inf, 1], why = "w" }]\n'
    )
    out, page = tmp_path / "out", tmp_path / "page.md"
    given = ["study", "claims", str(folder), str(out), "--run", "--trials", "2", "--workers", "1"]
    assert CliRunner().invoke(app, given).exit_code == 0
    result = CliRunner().invoke(app, ["study", "why", str(out)])
    assert result.exit_code == 0, result.stderr
    kept = (out / "causes.jsonl").read_text()
    assert len(kept.splitlines()) == 4
    # A known cause is not computed again.
    assert CliRunner().invoke(app, ["study", "why", str(out)]).stdout == result.stdout
    assert (out / "causes.jsonl").read_text() == kept
    told = CliRunner().invoke(app, ["study", "claims", str(folder), str(out), "--docs", str(page)])
    assert told.exit_code == 0, told.stderr
    rows = [line for line in page.read_text().splitlines() if line.startswith(("| slow", "| fast"))]
    assert rows[1] == "| fast | cubic | 2 | 0 | 0 |"
    assert rows[0].startswith("| slow | cubic | 2 | ")
    assert "capacity" in rows[0]


def test_causes_table_of_a_ladder_lists_steps_down():
    film = {"runs": 1, "frozen_s": {"capacity": 2.0}, "discards": {"timeout": 3.0}, "steps_down": {}}
    ladder = {
        "runs": 2,
        "frozen_s": {},
        "discards": {},
        "steps_down": {"head of line": 3.0, "scheduler": 1.0},
    }
    told = page._causes(SimpleNamespace(causes={("one", "cubic"): film}))
    assert told[3:] == [
        "| row | control | runs | frozen, s | discards |",
        "|---|---|---|---|---|",
        "| one | cubic | 1 | 2: capacity 100 % | 3: timeout 100 % |",
    ]
    told = page._causes(SimpleNamespace(causes={("two", "cubic"): ladder}))
    assert told[1].startswith(page.CAUSES)
    assert told[3:] == [
        "| row | control | runs | frozen, s | steps down |",
        "|---|---|---|---|---|",
        "| two | cubic | 2 | 0 | 4: head of line 75 %, scheduler 25 % |",
    ]


# -- why it was not better ---------------------------------------------------------------------------

#: UQ18's ladder on one path of 4 Mb/s: 720p takes 3.4 Mb/s on average, and its playlist declares 5.35 Mb/s.
LADDER = {
    "name": "ladder",
    "application": {
        "kind": "adaptive",
        "ladder": "uq18-jp",
        "abr": "hlsjs",
        "duration": "60 s",
        "player": {"model": "hlsjs"},
    },
    "paths": [path("wifi", "4.4 Mbit/s", rtt="30 ms")],
}


@pytest.mark.module
def test_a_rung_that_the_rule_does_not_take_has_the_estimators_view():
    found = anabranch.run(LADDER).why()
    assert next(iter(found.below_s)) == "rule of the player"
    (top,) = {one.higher for one in found.held if one.rendition == "576p"}
    assert top == "720p"
    line = next(one for one in found.sentences if "rule kept it" in one)
    assert "576p instead of 720p" in line
    assert "declares 5.35 Mb/s, which is more" in line


@pytest.mark.module
def test_a_rung_that_the_paths_cannot_carry_lacks_capacity():
    slow = {**LADDER, "paths": [path("wifi", "1 Mbit/s", rtt="30 ms")]}
    found = anabranch.run(slow).why()
    assert found.below_s["capacity"] > 0.5 * sum(found.below_s.values())
    assert sum(found.below_s.values()) == pytest.approx(sum(one.duration_s for one in found.held))


@pytest.mark.module
def test_a_rung_that_a_lossy_path_does_not_reach_names_its_window():
    # Reno's mean window at 2 % loss is 1.22 / sqrt(0.02) = 9 segments: 1 Mb/s at 100 ms, of 20 Mb/s.
    lossy = {
        **LADDER,
        "transport": {"congestion": "reno", "multipath": False},
        "paths": [path("dsl", "20 Mbit/s", rtt="100 ms", loss="2 %")],
    }
    found = anabranch.run(lossy).why()
    reasons = {cause for cause in found.below_s if cause != "not measured"}
    assert reasons & {"congestion window", "loss recovery"}
    assert any("dsl's window was full" in one for one in found.sentences)
    (rate,) = found.rates
    assert rate.carried_mbps < 0.2 * rate.could_mbps
    unused = {cause: parts["dsl"] for cause, parts in rate.unused.items()}
    assert max(unused, key=unused.get) == "congestion window"


@pytest.mark.module
def test_a_path_that_joins_late_is_named():
    # The handshake of the second path takes a second and a half: the first one alone carries 0.5 of 8 Mb/s.
    late = {
        "name": "late",
        "application": {"kind": "bulk", "bytes": "500 kB"},
        "paths": [path("near", "1 Mbit/s"), path("far", "8 Mbit/s", rtt="1500 ms")],
    }
    (rate,) = anabranch.run(late).why().rates
    assert rate.unused["late join"]["far"] > 0.5
    assert "near" not in rate.unused["late join"]


@pytest.mark.module
def test_a_path_that_is_down_is_no_part_of_the_rate_that_was_possible():
    # Of 20 s of data, lte is cut for 10 s: half of its 1424/1500 of 4 Mb/s is lost, and near's 2 Mb/s stay.
    cut = {
        "name": "cut",
        "application": {"kind": "bulk", "duration": "20 s"},
        "paths": [path("near", "2 Mbit/s"), path("lte", "4 Mbit/s")],
        "events": [{"at": "10 s", "path": "lte", "state": "down"}],
    }
    found = anabranch.run(cut).why()
    (rate,) = found.rates
    # Data that was in flight when lte was cut is acknowledged later, over near.
    assert sum(rate.unused["path down"].values()) == pytest.approx(4 * 1424 / 1500 / 2, rel=0.1)
    assert rate.up_mbps == pytest.approx(4 * 1424 / 1500, rel=0.1)
    (sentence,) = (one for one in found.sentences if "could carry" in one)
    assert "by their own rates while up were used while data was wanted; lost while down: lte 1." in sentence
    assert "(path down)" not in sentence


@pytest.mark.module
def test_the_parts_of_a_rate_add_up():
    (rate,) = anabranch.run("bulk-two-paths", set={"application.bytes": "1 MB"}).why().rates
    unused = sum(part for parts in rate.unused.values() for part in parts.values())
    assert rate.carried_mbps + unused == pytest.approx(rate.could_mbps, rel=0.001)


@pytest.mark.module
def test_the_causes_of_cells_are_printed(tmp_path):
    out = tmp_path / "out"
    given = [
        "sweep",
        "adaptive-two-paths",
        "--set",
        "application.duration=30s",
        "--trials",
        "1",
        "--workers",
        "1",
    ]
    slow = ["--set", "paths.lte.rate=200kbit/s"]
    grid = [*slow, "--grid", "paths.wifi.rate=300kbit/s,3Mbit/s", "--out", str(out)]
    assert CliRunner().invoke(app, [*given, *grid]).exit_code == 0
    result = CliRunner().invoke(app, ["why", str(out), "--by-cell", "--json"])
    assert result.exit_code == 0, result.stderr
    one, other = json.loads(result.stdout)
    assert one["cell"] == {"paths.wifi.rate": "300kbit/s"}
    assert one["below_s"].get("capacity", 0) > other["below_s"].get("capacity", 0)
    assert one["unused_mbps"]
    assert CliRunner().invoke(app, ["why", str(out)]).stdout.count("below the top rendition") == 1
    column = "seconds of film below the top rendition"
    assert column in CliRunner().invoke(app, ["why", str(out), "--by-cell"]).stdout


@pytest.mark.module
def test_a_progressive_film_has_no_column_of_renditions(tmp_path):
    out = str(tmp_path / "out")
    few = ["--set", "application.duration=5s", "--trials", "1", "--workers", "1", "--out", out]
    assert CliRunner().invoke(app, ["sweep", "two-paths", *few]).exit_code == 0
    result = CliRunner().invoke(app, ["why", out, "--by-cell"])
    assert result.exit_code == 0, result.stderr
    assert "frozen, s a run" in result.stdout
    assert "rendition" not in result.stdout


@pytest.mark.module
def test_a_scenario_is_explained_without_a_folder():
    said = CliRunner().invoke(app, ["why", "two-paths", "--set", "application.duration=5s", "--json"])
    assert said.exit_code == 0, said.output
    expected = why(anabranch.run("two-paths", set={"application.duration": "5s"})).to_json()
    assert json.loads(said.stdout) == json.loads(json.dumps(expected))


def test_options_of_the_other_kind_are_all_named(tmp_path):
    said = CliRunner().invoke(app, ["why", "two-paths", "--at", "1", "--by-cell"])
    assert said.exit_code == 2
    for option in ("--at", "--by-cell"):
        assert f"needs a folder of results, and `two-paths` is a scenario ({option})" in said.stderr
    said = CliRunner().invoke(app, ["why", str(tmp_path), "--seed", "1"])
    assert said.exit_code == 2
    assert "(--seed)" in said.stderr


@pytest.mark.module
def test_a_path_that_plain_tcp_does_not_use_is_no_part_of_what_was_possible():
    run = anabranch.run("bulk-two-paths", set={"transport.multipath": False, "application.bytes": "1 MB"})
    (sentence,) = run.why().sentences
    # A path of 5 Mb/s: of 1,500 bytes of a packet 1,424 are payload.
    assert f"of the {5 * 1424 / 1500:.2f} Mb/s of payload" in sentence
    assert "lte" not in sentence

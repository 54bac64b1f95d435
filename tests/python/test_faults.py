"""Bad scenarios: every fault at once, with its file, its line, its key and the nearest valid name."""

from __future__ import annotations

import pytest

from anabranch.errors import ScenarioError, nearest
from anabranch.scenario import load as loading
from anabranch.scenario._overrides import Override, parse_assignment

GOOD = """\
name = "good"
[application]
kind = "bulk"
duration = "10 s"
[[paths]]
name = "wifi"
rtt = "50 ms"
rate = "5 Mbit/s"
[[paths]]
name = "lte"
rtt = "100 ms"
rate = "5 Mbit/s"
"""


def faults_of(tmp_path, text, *settings):
    file = tmp_path / "bad.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        loading.load(file, [parse_assignment(setting) for setting in settings])
    return caught.value.faults


CASES = [
    # what, changed line of GOOD (from 1; 0 appends), its new text, line, key, message, hint
    ("unknown key", 7, 'rttt = "50 ms"\nrtt = "50 ms"', 7, "paths.wifi.rttt", "unknown key: `rttt`", "`rtt`"),
    ("unknown top key", 1, 'name = "x"\nclient = 3', 2, "client", "unknown key: `client`", "`clients`"),
    ("bare number", 7, "rtt = 50", 7, "paths.wifi.rtt", "a bare number where a time", '50 -> "50 ms"'),
    ("bare float", 11, "rtt = 0.1", 11, "paths.lte.rtt", "a bare number where a time", '-> "0.1 ms"'),
    ("negative rate", 8, 'rate = "-5 Mbit/s"', 8, "paths.wifi.rate", "must not be negative", ""),
    ("zero rate", 8, 'rate = "0 Mbit/s"', 8, "paths.wifi.rate", "more than zero", ""),
    ("loss", 8, 'rate = "5 Mbit/s"\nloss = "120 %"', 9, "paths.wifi.loss", "above 100 %", ""),
    ("kind", 3, 'kind = "bulky"', 3, "application.kind", "unknown kind: `bulky`", "`bulk`"),
    ("film", 3, 'film = "paper-film"', 3, "application.film", "no such film", "`papers-film`"),
    ("no film", 3, 'kind = "progressive"', 2, "application.film", "missing key: `film`", "papers-film"),
    ("duplicate", 10, 'name = "wifi"', 10, "paths.wifi.name", "duplicate name in paths: `wifi`", "line 6"),
    ("no rate", 8, "", 5, "paths.wifi.rate", "missing key: `rate`", "5 Mbit/s"),
    ("no rtt", 7, "", 5, "paths.wifi.rtt", "missing key: `rtt`", "50 ms"),
    ("no name", 6, "", 5, "paths.0.name", "missing key: `name`", ""),
    ("wrong type", 6, "name = 5", 6, "paths.0.name", "expected a string", ""),
    ("boolean", 8, 'rate = "5 Mbit/s"\nbackup = "yes"', 9, "paths.wifi.backup", "true or false", ""),
    ("queue", 8, 'rate = "1 Mbit/s"\nqueue = 100', 9, "paths.wifi.queue", "bare number", '"100 packets"'),
    ("loss_at", 8, 'rate = "1 Mbit/s"\nloss_at = "exits"', 9, "paths.wifi.loss_at", "unknown", "`exit`"),
    ("link", 8, 'links = ["backbon"]', 8, "paths.wifi.links.0", "unknown link", "no [[links]] table"),
    ("both", 8, 'rate = "1 Mb/s"\ndown = {rate = "1 Mb/s"}\nup = {rate = "1 Mb/s"}', 8, "paths.wifi.rate",
     "for the whole and for each direction", ""),
    ("scheduler", 0, '[transport]\nscheduler = "min-rt"', 14, "transport.scheduler", "unknown scheduler: `min-rt`",
     "did you mean `min-rtt`? `anabranch list schedulers` shows all"),
    ("congestion", 0, '[transport]\ncongestion = {name = "rino"}', 14, "transport.congestion.name",
     "unknown congestion control: `rino`", "`reno`"),
    ("path manager", 0, '[transport]\npath_manager = "fullmesh"', 14, "transport.path_manager",
     "unknown path manager", "`full-mesh`"),
    ("mss", 0, "[transport]\nmss = 1460", 14, "transport.mss", "bare number", '"1460 B"'),
    ("mss range", 0, '[transport]\nmss = "10 B"', 14, "transport.mss", "must be at least 536 B: `10 B`", ""),
    ("event path", 0, '[[events]]\nat = "1 s"\npath = "wify"\nstate = "down"', 15, "events.0.path",
     "unknown path: `wify`", "`wifi`"),
    ("event link", 0, '[[events]]\nat = "1 s"\nlink = "x"\nstate = "down"', 15, "events.0.link",
     "unknown link: `x`", "no [[links]] table"),
    ("event state", 0, '[[events]]\nat = "1 s"\npath = "lte"\nstate = "dwn"', 16, "events.0.state",
     "unknown state: `dwn`", "`down`"),
    ("event on a link's interface", 0, '[[events]]\nat = "1 s"\npath = "lte"\nstate = "removed"\ndirection = "up"',
     17, "events.0.direction", "in both directions", 'state = "down"'),
    ("event without change", 0, '[[events]]\nat = "1 s"\npath = "lte"', 13, "events.0", "changes nothing", ""),
    ("event without place", 0, '[[events]]\nat = "1 s"\nstate = "up"', 13, "events.0", "either a path or a link", ""),
    ("cross traffic nowhere", 0, '[[cross_traffic]]\ncount = 2', 13, "cross_traffic.0", "either `links` or a `path`",
     'path = "wifi"'),
    ("cross traffic twice", 0, '[[cross_traffic]]\npath = "lte"\nlinks = ["x"]', 13, "cross_traffic.0",
     "either `links` or a `path`", ""),
    ("cross traffic's link", 0, '[[cross_traffic]]\nlinks = ["bakbone"]\n[[links]]\nname = "backbone"', 14,
     "cross_traffic.0.links.0", "unknown link: `bakbone`", "`backbone`"),
    ("cross traffic's link without any", 0, '[[cross_traffic]]\nlinks = ["core"]', 14, "cross_traffic.0.links.0",
     "unknown link: `core`", "no [[links]] table"),
    ("cross traffic over a path as a link", 0, '[[cross_traffic]]\nlinks = ["lte"]', 14, "cross_traffic.0.links.0",
     "unknown link: `lte`", 'path = "lte"'),
    ("cross traffic over no link", 0, '[[cross_traffic]]\nlinks = []', 14, "cross_traffic.0.links", "is empty", ""),
    ("cross traffic's path", 0, '[[cross_traffic]]\npath = "lta"', 14, "cross_traffic.0.path", "unknown path: `lta`",
     "`lte`"),
    ("cross traffic over a link as a path", 0, '[[cross_traffic]]\npath = "core"\n[[links]]\nname = "core"', 14,
     "cross_traffic.0.path", "unknown path: `core`", 'links = ["core"]'),
    ("cross traffic's kind", 0, '[[cross_traffic]]\npath = "lte"\nkind = "bulky"', 15, "cross_traffic.0.kind",
     "unknown kind: `bulky`", "`bulk`"),
    ("paced cross traffic", 0, '[[cross_traffic]]\npath = "lte"\nkind = "paced"', 13, "cross_traffic.0.rate",
     'kind "paced" needs `rate`', 'rate = "2 Mbit/s"'),
    ("rate of bulk cross traffic", 0, '[[cross_traffic]]\npath = "lte"\nrate = "1 Mb/s"', 15, "cross_traffic.0.rate",
     'kind "bulk" has no `rate`', '"paced", "udp", "on-off" and "poisson" have'),
    ("datagrams with congestion control", 0, '[[cross_traffic]]\npath = "lte"\nkind = "udp"\nrate = "1 Mb/s"\ncongestion = "reno"',
     17, "cross_traffic.0.congestion", 'kind "udp" has no `congestion`', '"transfers" have'),
    ("bursts without silence", 0, '[[cross_traffic]]\npath = "lte"\nkind = "on-off"\nrate = "1 Mb/s"\non = "1 s"', 13,
     "cross_traffic.0.off", 'kind "on-off" needs `off`', 'off = "3 s"'),
    ("transfers without end", 0, '[[cross_traffic]]\npath = "lte"\nkind = "transfers"\ngap = "1 s"', 13,
     "cross_traffic.0.bytes", 'kind "transfers" needs `bytes`', ""),
    ("so many transfers", 0, '[[cross_traffic]]\npath = "lte"\nkind = "transfers"\ngap = "1 s"\nbytes = "1 MB"\ncount = 2', 18,
     "cross_traffic.0.count", 'kind "transfers" has no `count`', ""),
    ("a datagram's size", 0, '[[cross_traffic]]\npath = "lte"\nkind = "poisson"\nrate = "1 Mb/s"\nsize = "20 B"', 17,
     "cross_traffic.0.size", "must be at least 64", ""),
    ("cross traffic's congestion", 0, '[[cross_traffic]]\npath = "lte"\ncongestion = "rino"', 15,
     "cross_traffic.0.congestion", "unknown congestion control: `rino`", "`reno`"),
    ("cross traffic's congestion's table", 0, '[[cross_traffic]]\npath = "lte"\ncongestion = {name = "rino"}', 15,
     "cross_traffic.0.congestion.name", "unknown congestion control: `rino`", "`reno`"),
    ("cross traffic's congestion's name", 0, '[[cross_traffic]]\npath = "lte"\ncongestion = {beta = 0.5}', 15,
     "cross_traffic.0.congestion.name", "missing key: `name`", "a plug-in's table"),
    ("cross traffic's name", 0, '[[cross_traffic]]\nname = "lte"\npath = "lte"', 14, "cross_traffic.lte.name",
     "`lte` is one of the paths already", "name of their own"),
    ("cross traffic's default name", 0, '[[cross_traffic]]\nname = "cross-2"\npath = "lte"\n[[cross_traffic]]\npath = "lte"',
     16, "cross_traffic.1.name", "`cross-2` is one of the cross_traffic already", ""),
    ("no cross traffic", 0, '[[cross_traffic]]\npath = "lte"\ncount = 0', 15, "cross_traffic.0.count",
     "must be at least 1: `0`", ""),
    ("cross traffic in all", 0, '[[cross_traffic]]\npath = "lte"\ncount = 6000\n[[cross_traffic]]\npath = "lte"\ncount = 6000',
     18, "cross_traffic.1.count", "more than 10,000 flows", ""),
    ("cross traffic's key", 0, '[[cross_traffic]]\npath = "lte"\nflows = 3', 15, "cross_traffic.0.flows", "unknown key",
     ""),
    ("metric", 0, "[expect]\ngoodput = { min = 5 }", 14, "expect.goodput", "unknown metric", "`goodput_mbps`"),
    ("bound", 0, "[expect]\ngoodput_mbps = { mn = 5 }", 14, "expect.goodput_mbps.mn", "unknown key", "`min`"),
    ("subflow", 0, '[expect]\n"subflows.wify.bytes" = { min = 5 }', 14, "expect.subflows.wify.bytes",
     "unknown path: `wify`", "`wifi`"),
    ("player", 0, "[application.player]\nprefetc = \"1 MiB\"", 14, "application.player.prefetc", "unknown key",
     "`prefetch`"),
    ("clients", 1, 'name = "x"\nclients = 0', 2, "clients", "must be at least 1: `0`", ""),
    ("inline loss", 8, 'rate = "1 Mb/s"\nloss = {model = "gilbert-eliot", p = "1 %", r = "1 %"}', 9,
     "paths.wifi.loss.model", "unknown model", "`gilbert-elliott`"),
    ("inline loss key", 8, 'rate = "1 Mb/s"\nloss = {model = "gilbert-elliott", p = "1 %", r = "1 %", q = "1 %"}',
     9, "paths.wifi.loss.q", "unknown key: `q`", ""),
    ("table for a string", 1, "name = {}", 1, "name", "expected a string, got a table", ""),
    ("string for a table", 0, "host = 5", 12, "paths.lte.host", "unknown key", ""),
]  # fmt: skip


@pytest.mark.parametrize(("line", "text", "where", "key", "message", "hint"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_one_fault(tmp_path, line, text, where, key, message, hint):
    lines = GOOD.splitlines()
    if line:
        lines[line - 1] = text
    else:
        lines.append(text)
    faults = faults_of(tmp_path, "\n".join(lines))
    found = [fault for fault in faults if fault.key == key and message in fault.message]
    assert found, [str(fault) for fault in faults]
    if text != "host = 5":
        assert found[0].line == where
    assert found[0].where.endswith("bad.toml")
    assert hint in found[0].hint


def test_one_fault_is_one_message(tmp_path):
    for text in ("rtt = 50", 'rtt = "50 mss"', 'rtt = "-1 ms"'):
        assert len(faults_of(tmp_path, GOOD.replace('rtt = "50 ms"', text))) == 1


def test_every_fault_at_once_in_the_order_of_the_file(tmp_path):
    text = GOOD.replace('rtt = "50 ms"', "rtt = 50").replace('rate = "5 Mbit/s"', 'rate = "-1 Mbit/s"')
    text = (
        text.replace('kind = "bulk"', 'kind = "bulk"\nfilm = "nothing.mp4"')
        + '[transport]\nscheduler = "no"\n'
    )
    faults = faults_of(tmp_path, text, "paths.wfi.rtt=1ms", "hots.timer_tick=1ms")
    assert [fault.line for fault in faults] == [4, 8, 9, 13, 15, None, None]
    assert [fault.where for fault in faults[-2:]] == ["--set paths.wfi.rtt=1ms", "--set hots.timer_tick=1ms"]


def test_a_fault_reads_as_a_person_would_say_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fault = faults_of(tmp_path, GOOD + '[transport]\nscheduler = "redundent"\n')[0]
    assert str(fault) == (
        "error: unknown scheduler: `redundent` (bad.toml, line 14)\n"
        "  key: transport.scheduler\n"
        "  hint: did you mean `redundant`? `anabranch list schedulers` shows all"
    )


def test_no_paths(tmp_path):
    (fault,) = faults_of(tmp_path, 'name = "x"\n[application]\nkind = "bulk"\nduration = "1 s"\n')
    assert "missing key: `paths`" in fault.message
    (fault,) = faults_of(tmp_path, 'name = "x"\npaths = []\n[application]\nkind = "bulk"\nduration = "1 s"\n')
    assert "at least one is needed" in fault.message
    assert fault.line == 2


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('name = "x"\nrtt = 50 ms\n', 2, "not valid TOML, column 10"),
        ('name = "x\n', 1, "not valid TOML"),
        ('name = "x"\n[paths\n', 2, "not valid TOML"),
        ('name = "x"\nname = "y"\n', 2, "not valid TOML"),
        ("", None, "the scenario is empty"),
        ("# only a comment\n", None, "the scenario is empty"),
    ],
)
def test_syntax(tmp_path, text, line, message):
    fault = faults_of(tmp_path, text)[0]
    assert message in fault.message
    assert fault.line == line


def test_a_file_that_is_no_text(tmp_path):
    file = tmp_path / "film.toml"
    file.write_bytes(b'name = "x"\n\xff\xfe\x00')
    with pytest.raises(ScenarioError, match="not UTF-8 text"):
        loading.load(file)


def test_no_such_scenario():
    with pytest.raises(ScenarioError, match="did you mean `two-paths`"):
        loading.load("two-path")
    with pytest.raises(ScenarioError, match="a folder"):
        loading.load("/")


def test_dotted_keys_and_units_have_near_names():
    assert nearest("transport.schedulr", ["transport.preset", "transport.scheduler"]) == "transport.scheduler"
    assert nearest("paths.wifi.rat", ["paths.wifi.rtt", "paths.wifi.rate"]) == "paths.wifi.rate"
    assert nearest("price", ["trace", "rate", "price_per_gb"]) == "price_per_gb"
    assert nearest("Rate", ["rate", "rate_up"]) == "rate"
    assert nearest("Mbit/sec", ["kbit/s", "Mbit/s"]) == "Mbit/s"


def test_an_equal_ending_or_folder_does_not_make_two_names_near(tmp_path):
    (tmp_path / "mixed-up.toml").write_text("")
    with pytest.raises(ScenarioError) as caught:
        loading.load(tmp_path / "missing.toml")
    assert "did you mean" not in str(caught.value)
    with pytest.raises(ScenarioError, match=r"did you mean `.*mixed-up.toml`"):
        loading.load(tmp_path / "mixedup.toml")


@pytest.mark.parametrize("name", ["a/b.toml", "x" * 300, "scenarios/twopaths.toml"])
def test_odd_names_are_refused(name):
    with pytest.raises(ScenarioError, match="no such scenario"):
        loading.load(name)


def test_lines_of_every_form_of_key():
    from anabranch.scenario._lines import key_lines

    text = 'a.b = 1\n"c d" = { e = 2 }\n[f]\ng = [\n  1,\n  { h = 3 },\n]\n[[i]]\nj = 1\n[[i]]\nj = 2\n[i.k]\nl = """\nm = 1\n"""\nn = 1\n'
    lines = key_lines(text)
    assert lines["a", "b"] == 1
    assert lines["c d", "e"] == 2
    assert lines["f", "g", 1, "h"] == 6
    assert lines["i", 0, "j"] == 9
    assert lines["i", 1, "j"] == 11
    assert lines["i", 1, "k", "l"] == 13
    assert lines["i", 1, "k", "n"] == 16
    assert ("m",) not in lines


def test_a_file_is_read_as_it_is_now_whatever_became_of_the_tables_read_before(tmp_path):
    file = tmp_path / "film.toml"
    file.write_text('name = "n"\n[[paths]]\nname = "a"\n', encoding="utf-8")
    loading.tables(file)["paths"][0]["name"] = "b"
    assert loading.tables(file) == {"name": "n", "paths": [{"name": "a"}]}
    file.write_text('name = "o"\n', encoding="utf-8")
    assert loading.tables(file) == {"name": "o"}


def test_overridden_values_have_no_line_numbers(tmp_path):
    file = tmp_path / "table.toml"
    file.write_text(
        'name = "n"\n[application]\nkind = "bulk"\nbytes = "1 MB"\n[transport]\n'
        'scheduler = { name = "linux", burst = 2 }\n[[paths]]\nname = "a"\nrtt = "9 ms"\nrate = "1 Mbit/s"\n'
    )
    given = Override(key="transport.scheduler", value={"name": "linux", "burts": 3}, origin="--scheduler X")
    with pytest.raises(ScenarioError) as caught:
        loading.load(file, [given])
    (fault,) = caught.value.faults
    assert (fault.where, fault.line, fault.key) == ("--scheduler X", None, "transport.scheduler.burts")


def test_a_misspelt_key_is_not_missing_too():
    tables = {
        "name": "one",
        "application": {"kind": "bulk", "duration": "1 s"},
        "paths": [{"name": "a", "rtt": "20 ms", "raet": "5 Mbit/s"}, {"name": "b", "rtt": "20 ms"}],
    }
    with pytest.raises(ScenarioError) as caught:
        loading.load(tables)
    assert [(fault.key, fault.message) for fault in caught.value.faults] == [
        ("paths.a.raet", "unknown key: `raet`"),
        ("paths.b.rate", "missing key: `rate`"),
    ]

"""Messages about wrong values: our own words for every error that pydantic has, and rates meant in bytes."""

from __future__ import annotations

import copy
import datetime
import functools
import math

import pytest
from pydantic import ValidationError

from anabranch.errors import InputError
from anabranch.scenario import _faults, _words, link_models, models, queues, units
from anabranch.study import study as studies

WHOLE = {
    "name": "x",
    "seed": 1,
    "application": {"kind": "progressive", "film": "papers-film", "abr": {"name": "bola"}, "player": {}},
    "transport": {"scheduler": "linux", "congestion": {"name": "cubic"}, "ecn": {"client": "request"}},
    "host": {},
    "paths": [
        {"name": "w", "rate": "5 Mbit/s", "loss": {"model": "gilbert-elliott", "p": "1 %", "r": "20 %"}, "down": {}},
        {"name": "l", "model": {"name": "lte"}},
        {"name": "a", "model": {"name": "wifi"}},
        {"name": "s", "model": {"name": "starlink"}},
        {"name": "t", "trace": {"file": "x"}},
        {"name": "q", "queue": {"name": "codel"}, "reorder": {"share": "1 %", "delay": "5 ms"}},
        {"name": "c", "corrupt": {"share": "1 %", "passes": "5 %"}},
    ],
    "links": [{"name": "a"}],
    "cross_traffic": [{"path": "w"}],
    "events": [{"at": "1 s", "path": "w"}],
    "handoffs": [{"path": "w", "at": ["1 s", "2 s"]}],
    "expect": {"goodput_mbps": {"min": 1.0}, "finished": True},
}  # fmt: skip
#: Every table of a scenario, and where it stands.
TABLES = {
    (): models.Scenario,
    ("application",): models.Application,
    ("application", "abr"): models.Plugin,
    ("application", "player"): models.Player,
    ("transport",): models.Transport,
    ("transport", "ecn"): models.Ecn,
    ("host",): models.Host,
    ("paths", 0): models.Path,
    ("paths", 0, "loss"): models.GilbertElliott,
    ("paths", 0, "down"): models.Direction,
    ("paths", 1, "model"): link_models.MODELS["lte"],
    ("paths", 2, "model"): link_models.MODELS["wifi"],
    ("paths", 3, "model"): link_models.MODELS["starlink"],
    ("paths", 4, "trace"): link_models.Recording,
    ("paths", 5, "queue"): queues.Queue,
    ("paths", 5, "reorder"): models.Reorder,
    ("paths", 6, "corrupt"): models.Corrupt,
    ("links", 0): models.Link,
    ("cross_traffic", 0): models.CrossTraffic,
    ("events", 0): models.Event,
    ("handoffs", 0): models.Handoff,
    ("expect", "goodput_mbps"): models.Bounds,
}
#: Values of every type that TOML has, none of which all keys take.
VALUES = (
    True, 0, -1, 1.5, 10**30, -(10**30), math.nan, math.inf, "", "x", "x" * 100, "a\nb", "5", "15 s", "1 B", "100 %",
    "\N{GREEK SMALL LETTER MU}", [], ["x"], [1], [[]], [{}] * 9, {}, {"x": 1}, {"name": 1}, {"name": "zz"},
    datetime.date(2020, 1, 1), datetime.time(1),
)  # fmt: skip
#: Words of pydantic's own messages.
FOREIGN = ("input", "should", "valid ", "value error", "extra inputs", "field required", "unable", "pydantic")


def put(raw, path, value):
    """Return the tables with one value in another's place."""
    raw = copy.deepcopy(raw)
    node = raw
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return raw


def faults_of(raw):
    """Return each error with the fault that is made of it."""
    source = _faults.Source(where="file", raw=raw, lines={}, origins={})
    try:
        models.Scenario.model_validate(raw)
    except ValidationError as error:
        return [(one, _faults.from_pydantic(source, one)) for one in error.errors(include_url=False)]
    return []


@functools.cache
def brought_about(place):
    """Return each error that has a fault, of every value of every key of a table."""
    return [
        (error, fault)
        for key in (*TABLES[place].model_fields, "no_such_key")
        for value in VALUES
        for error, fault in faults_of(put(WHOLE, (*place, key), value))
        if fault is not None
    ]


@pytest.mark.parametrize("place", TABLES, ids=lambda place: ".".join(map(str, place)) or "scenario")
def test_no_value_of_any_key_is_answered_in_pydantic_s_words(place):
    assert faults_of(WHOLE) == []
    for error, fault in brought_about(place):
        assert not any(word in fault.message.lower() for word in FOREIGN), (error, fault)
        assert str(error["msg"]) not in fault.message or error["type"] == "quantity"
        assert all(line.isprintable() for line in str(fault).splitlines())
        assert len(fault.message) < 220


#: Each kind of error that a scenario can bring about: key, value, and message.
SAID = [
    ("bool_type", ("paths", 0, "backup"), "yes", "expected true or false, got `yes`"),
    ("string_type", ("description",), 5, "expected a string, got `5`"),
    ("string_too_short", ("name",), "", "an empty string where a name is required"),
    ("string_too_long", ("name",), "n" * 65, f"longer than 64 characters: `{'n' * 59}…`"),
    ("string_pattern_mismatch", ("name",), "a\nb",
     "a line break, a tab or another control character in a name: `a\\nb`"),
    ("int_type", ("seed",), "1", "expected a whole number, got `1`"),
    ("int_parsing_size", ("application", "player", "version"), 10**30, f"expected a whole number, got `{10**30}`"),
    ("greater_than_equal", ("clients",), 0, "must be at least 1: `0`"),
    ("greater_than", ("paths", 0, "cap_gb_per_month"), 0, "must be above 0: `0`"),
    ("less_than_equal", ("clients",), 10_001, "must be at most 10,000: `10001`"),
    ("greater_than_equal", ("transport", "mss"), "100 B", "must be at least 536 B: `100 B`"),
    ("less_than", ("paths", 3, "model", "phase"), "15 s", "must be below 15 s: `15 s`"),
    ("less_than", ("paths", 1, "model", "bler"), "100 %", "must be below 100 %: `100 %`"),
    ("finite_number", ("paths", 0, "price_per_gb"), math.inf, "expected a finite number, got `inf`"),
    ("finite_number", ("expect", "goodput_mbps", "max"), math.nan, "expected a finite number, got `nan`"),
    ("float_parsing", ("paths", 0, "price_per_gb"), "dear", "expected a number, got `dear`"),
    ("float_type", ("paths", 0, "price_per_gb"), [], "expected a number, got an array"),
    ("float_type", ("expect", "goodput_mbps", "equals"), [], "expected a number, or true or false, got an array"),
    ("tuple_type", ("paths",), {}, "expected an array, got a table"),
    ("list_type", ("paths", 0, "links"), "a", "expected an array, got `a`"),
    ("dict_type", ("expect",), 1, "expected a table, got `1`"),
    ("model_type", ("application",), "film", "expected a table, got `film`"),
    ("too_short", ("paths",), [], "`paths` is empty: at least one is needed"),
    ("too_long", ("paths",), [{"name": "p"}] * 9, "at most 8 allowed, got 9"),
    ("literal_error", ("application", "kind"), "bulky", "unknown kind: `bulky`"),
    ("literal_error", ("application", "kind"), 1, "expected a string, got `1`"),
    ("extra_forbidden", ("application", "flim"), 1, "unknown key: `flim`"),
    ("missing", ("application", "abr"), {}, "missing key: `name`"),
    ("quantity", ("application", "duration"), "1 parsec", "unknown unit `parsec` for a time: `1 parsec`"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "value", "message"), SAID)
def test_each_kind_of_error_has_its_words(kind, path, value, message):
    found = {error["type"]: fault.message for error, fault in faults_of(put(WHOLE, path, value)) if fault}
    assert found[kind] == message


def test_the_table_has_every_kind_that_values_bring_about():
    found = {error["type"] for place in TABLES for error, _ in brought_about(place)}
    assert found <= {kind for kind, *_ in SAID} | {"bool_parsing"}


def test_a_kind_that_is_not_known_is_reported_nevertheless():
    assert _words.message("some_day", [1], {}) == "not a value of this key: an array"


HEAD = 'title = "t"\nsource = "s"\nquestion = "q"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "trials = 0\n[[parts]]\nscenarios = ['one']", "must be at least 1: `0` (FILE, line 4)"),
        (
            HEAD + "trials = 'x'\n[[parts]]\nscenarios = ['one']",
            "expected a whole number, got `x` (FILE, line 4)",
        ),
        (HEAD, "missing key: `parts` or `worlds` (FILE, line 1)"),
        (
            HEAD + "[[parts]]\nscenarios = []",
            "`parts.0.scenarios` is empty: at least one is needed (FILE, line 5)",
        ),
        (HEAD + "[[parts]]\nscenarios = 'one'", "expected an array, got `one` (FILE, line 5)"),
        (HEAD + "[[parts]]\nscenarios = ['one']\ngird = {}", "unknown key: `gird` (FILE, line 6)"),
        (
            HEAD + "[[parts]]\nscenarios = ['one']\n[assumptions.q]\nwhat = 'w'",
            "missing key: `why` (FILE, line 6)",
        ),
        (
            HEAD + "[[parts]]\nscenarios = ['one']\n[quick]\ntrails = 1",
            "unknown key: `trails` (FILE, line 7)",
        ),
        (HEAD + "parts = 5", "expected an array, got `5` (FILE, line 4)"),
    ],
)
def test_a_study_s_faults_have_our_words_and_their_line(tmp_path, text, said):
    (tmp_path / "one.toml").write_text("", encoding="utf-8")
    file = tmp_path / "study.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        studies.read(tmp_path)
    assert caught.value.faults[0].message in str(caught.value)
    assert str(caught.value).splitlines()[0] == "error: " + said.replace("FILE", str(file))
    if "unknown key" in said:
        assert "did you mean" in str(caught.value)


#: A byte is 8 bits: what was meant, with all its digits, and the unit that says bytes.
MEANT = [
    (units.rate_bps, "5 Mbyte/s", 'write "40 Mbit/s", or "5 MB/s"'),
    (units.rate_bps, "5 MBps", 'write "40 Mbit/s", or "5 MB/s"'),
    (units.rate_bps, "0.5 kilobytes/s", 'write "4 kbit/s", or "0.5 kB/s"'),
    (units.rate_bps, "5 MB", 'write "40 Mbit/s", or "5 MB/s"'),
    (units.rate_bps, "1 MiByte/s", 'write "8.388608 Mbit/s", or "1 MiB/s"'),
    (units.rate_bps, "5 mb/s", 'write "5 Mbit/s" if bits are meant, "5 MB/s" if bytes'),
    (units.rate_bps, "5 Mbits/s", "did you mean `Mbit/s`?"),
    (units.rate_bps, "2 Tbit/s", 'write "2000 Gbit/s"'),
    (units.size_bytes, "6 Mbit", 'write "750 kB", or "6 MB" if bytes are meant'),
    (units.size_bytes, "6 Mb", 'write "750 kB", or "6 MB" if bytes are meant'),
    (units.size_bytes, "6 megabytes", 'write "6 MB"'),
    (units.queue, "8 kbit", 'write "1 kB", or "8 kB" if bytes are meant'),
    (units.time_ns, "5 m", '"5 min" is minutes, "5 ms" milliseconds'),
    (units.time_ns, "5 \N{GREEK SMALL LETTER MU}s", 'write "5 us"'),
    (units.time_ns, "5 Seconds", 'write "5 s"'),
]


@pytest.mark.parametrize(("parse", "value", "hint"), MEANT, ids=[value for _, value, _ in MEANT])
def test_no_hint_is_off_by_a_power(parse, value, hint):
    with pytest.raises(units.UnitError, match="unknown unit") as caught:
        parse(value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "value",
    ["1e9999999 Mbit/s", "1e999999999999999999999", "9" * 5000, "9" * 5000 + " bit/s", 10**400, math.nan, math.inf,
     "nan Mbit/s", "-inf", "1e-9999 bit/s", "9e999 Gbit/s"],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_no_number_is_too_much(value):
    with pytest.raises(units.UnitError) as caught:
        units.rate_bps(value)
    assert len(str(caught.value)) < 150

"""Over which path a client opens its connections: the keys, their warnings, and what runs measure."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.errors import ScenarioError
from anabranch.live import unsupported
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans

RACE = {"first_path": "race", "attempt_delay": "100 ms"}


def scenario(transport, *rtts, **application):
    paths = [
        {"name": f"p{number}", "rtt": rtt, "rate": "8 Mbit/s"}
        for number, rtt in enumerate(rtts or ("50 ms",))
    ]
    application = application or {"kind": "bulk", "bytes": "500 kB"}
    # Timers are exact, so that times follow from round trips.
    host = {"timer_tick": "0 s"}
    return {
        "name": "race",
        "application": application,
        "paths": paths,
        "transport": transport,
        "host": host,
    }


def test_only_a_race_is_in_the_plan():
    def delay(**transport):
        found = plans.build(loading.load(scenario(transport)).scenario, None)
        return found["transport"].get("attempt_delay_ns")

    assert delay() is None
    assert delay(first_path="first", attempt_delay="1 s") is None
    # RFC 8305, sections 5 and 8: 100 ms is the recommended minimum.
    assert delay(first_path="race") == 100_000_000
    assert delay(first_path="race", attempt_delay="250 ms") == 250_000_000


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        ({"first_path": "rase"}, "race"),
        # RFC 8305, section 5: not within 10 ms, and 2 s at most.
        ({"first_path": "race", "attempt_delay": "9 ms"}, "must be at least 10 ms"),
        ({"first_path": "race", "attempt_delay": "2.1 s"}, "must be at most 2 s"),
    ],
)
def test_other_values_are_refused(transport, message):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(transport))
    [fault] = caught.value.faults
    assert message in f"{fault.message} {fault.hint}"


def test_a_delay_without_a_race_is_warned_about():
    [fault] = loading.load(scenario({"attempt_delay": "1 s"})).warnings
    assert fault.key == "transport.attempt_delay"
    assert 'first_path = "race"' in fault.hint
    for transport in (RACE, {"first_path": "first", "attempt_delay": "1 s"}):
        assert loading.load(scenario(transport)).warnings == ()


def test_a_kernels_client_does_not_race(tmp_path):
    loaded = loading.load(scenario(RACE))
    unsupported.check(loaded)
    with pytest.raises(ScenarioError, match="does not race") as caught:
        unsupported.check(loaded, kernel_client=True)
    [fault] = caught.value.faults
    assert (fault.key, "--client anabranch" in fault.hint) == ("transport.first_path", True)
    file = tmp_path / "race.toml"
    file.write_text(
        'name = "r"\n[application]\nkind = "bulk"\nbytes = "1 MB"\n[transport]\nfirst_path = "race"\n'
        '[[paths]]\nname = "a"\nrtt = "20 ms"\nrate = "8 Mbit/s"\n',
        encoding="utf-8",
    )
    for command in ("live", "parity"):
        result = CliRunner().invoke(app, [command, str(file)], env={"COLUMNS": "200"})
        assert result.exit_code == 2
        assert "does not race" in result.stderr
        assert "line 6" in result.stderr


@pytest.mark.module
def test_faster_connections_shorten_the_startup_delay():
    # Three connections of VLC 3 open one after another, each over its first path in 1 s and by a race in 120 ms.
    film = {"kind": "progressive", "film": "papers-film", "duration": "20 s"}
    first, race = (anabranch.run(scenario(transport, "1 s", "20 ms", **film)) for transport in ({}, RACE))
    assert first.tables["connections"]["connect_s"][0] == pytest.approx(1.0, abs=0.01)
    assert race.tables["connections"]["connect_s"][0] == pytest.approx(0.12, abs=0.01)
    # Each connection also saves one round trip for its first request.
    assert first.qoe["startup_delay_s"] - race.qoe["startup_delay_s"] > 2 * 0.88

"""Plug-ins by name, short form and table, checked by the real tables."""

import pytest

from anabranch import plugins
from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans

pytestmark = pytest.mark.module
BASE = {
    "name": "x",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [{"name": "a", "rtt": "9 ms", "rate": "9 Mbit/s"}],
}


def faults(**transport):
    with pytest.raises(ScenarioError) as caught:
        loading.load({**BASE, "transport": transport})
    return caught.value.faults


def test_a_composition_is_a_table_a_nested_table_or_a_short_form():
    given = ["rtx-aware(min-rtt)", {"name": "rtx-aware", "base": "min-rtt"}, {"name": "rtx-aware(min-rtt)"},
             {"name": "rtx-aware", "base": {"name": "min-rtt"}}]  # fmt: skip
    for value in given:
        loaded = loading.load({**BASE, "transport": {"scheduler": value}})
        assert plans.build(loaded.scenario, None)["transport"]["scheduler"]
        assert plugins.label(value) == "rtx-aware(min-rtt)"


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ({"name": "blest(lambda=1.1)", "base": "lpc"}, "blest(lpc, lambda=1.1)"),
        ({"name": "blest(lpc)", "lambda": 1.1}, "blest(lpc, lambda=1.1)"),
        ({"name": '"a(b)/c.py:D"(k=1)', "m": "x,y"}, '"a(b)/c.py:D"(k=1, m="x,y")'),
        ({"name": "a(b)/c.py:D", "k": 1}, '"a(b)/c.py:D"(k=1)'),
        ({"name": "rtx-aware", "base": "c.py:D"}, "rtx-aware(c.py:D)"),
    ],
)
def test_label_is_equivalent_to_the_table(given, short):
    assert plugins.label(given) == plugins.label(short) == short
    parts = [
        [(keys, name, parameters) for keys, name, parameters in plugins.module().plugin_parts(text)]
        for text in (plugins.encode(given), short)
    ]
    kept = [[(k, n, {x: y for x, y in p.items() if x != "base"}) for k, n, p in part] for part in parts]
    assert kept[0] == kept[1]


def test_every_fault_of_a_plug_in_is_reported_with_its_place():
    base = {"name": "min-rt", "a": 1}
    found = faults(
        scheduler={"name": "rtx-aware", "base": base, "b": 2}, congestion="rino", path_manager="ful-mesh"
    )
    assert {fault.key: fault.message for fault in found} == {
        "transport.scheduler.base.name": "unknown scheduler: `min-rt`",
        "transport.scheduler.b": "unknown parameter of rtx-aware: `b`",
        "transport.congestion": "unknown congestion control: `rino`",
        "transport.path_manager": "unknown path manager: `ful-mesh`",
    }
    assert all("did you mean" in fault.hint for fault in found if "unknown parameter" not in fault.message)


@pytest.mark.parametrize(
    "text", ["rtx-aware(", "rtx-aware(linux, linux)", "rtx-aware(linux))", "", "(linux)"]
)
def test_a_broken_short_form_is_a_fault(text):
    (fault,) = faults(scheduler=text)
    assert fault.key == "transport.scheduler"
    assert f"`{text}`" in fault.message


def test_a_parameter_that_is_no_scalar_is_a_fault():
    (fault,) = faults(congestion={"name": "cubic", "beta": [1, 2]})
    assert "parameters are numbers" in fault.message


def test_parameters_are_listed_with_default_and_range():
    found = [(one.key, one.default) for one in plugins.parameters("scheduler", "rtx-aware")]
    assert found == [("base", '"min-rtt"'), ("states", '"recovery"'), ("hold", "0")]
    assert plugins.parameters("scheduler", "nonsense") == []

"""Worlds whose paths fall silent and return: reading the cells, running them, and the tolerances."""

from __future__ import annotations

import json

import pytest

from anabranch.calibrate import outages
from anabranch.calibrate.outages import Figures
from anabranch.errors import InputError
from anabranch.scenario.load import load

WORLDS = {
    "O1": {
        "legs": [
            {"rtt": 40.0, "mb": 5.0, "q": 50, "loss": 0.001, "up": 0.002},
            {"rtt": 80.0, "mb": 3.0, "q": 20},
        ],
        "events": ["10.5:1:down", "12.5:1:up"],
    }
}
HEAD = "case,mode,cc,variant,goodput,longest,still"
ROW = "O1,paced,bbr,capDS,5.0,2.0,3.0"


def folder(tmp_path, *rows, head=HEAD, worlds=WORLDS):
    (tmp_path / "worlds.json").write_text(json.dumps(worlds), encoding="utf-8")
    (tmp_path / "grid.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.module
def test_a_cell_becomes_its_scenario(tmp_path):
    [cell] = outages.read(folder(tmp_path, ROW))
    assert cell.name == "returning-paths/paced/O1/bbr/capDS"
    made = load(cell.scenario()).scenario
    assert (made.transport.rto_max, made.transport.retries) == (10**9, 60)
    assert (made.transport.stack.outage, made.transport.scheduler.name) == ("dsack", "linux")
    assert made.application.rate == 5_240_000
    assert [path.queue for path in made.paths] == [{"packets": 50}, {"packets": 20}]
    assert [(event.path, event.state, event.at) for event in made.events] == [
        ("path2", "down", 10_500_000_000),
        ("path2", "up", 12_500_000_000),
    ]
    # The weighted sum of the character codes of "paced_O1_bbr_1" is 9,224. The seed is this sum times 7919,
    # modulo 1,000,003.
    seed = 9_224 * 7919 % 1_000_003
    assert [path.emulator_seed for path in made.paths] == [seed + 1, seed + 2]


def test_variants_that_the_simulator_does_not_have_are_left_out(tmp_path):
    rows = [ROW.replace("capDS", name) for name in ("A", "capA", "asis")]
    assert [cell.variant for cell in outages.read(folder(tmp_path, *rows))] == ["asis"]


def test_every_fault_of_the_table_is_named(tmp_path):
    rows = [ROW.replace("capDS", "capX"), ROW.replace("O1", "O2"), ROW.replace("5.0", "much")]
    with pytest.raises(InputError) as caught:
        outages.read(folder(tmp_path, *rows))
    messages = [(fault.message, fault.line) for fault in caught.value.faults]
    assert messages == [
        ("unknown variant: `capX`", 2),
        ("no such world: `O2`", 3),
        ("a figure is not a number", 4),
    ]
    with pytest.raises(InputError) as caught:
        outages.read(folder(tmp_path, head=HEAD.replace(",still", "")))
    assert [fault.message for fault in caught.value.faults] == ["no column `still`"]


@pytest.mark.parametrize(
    ("simulator", "near"),
    [
        ((5.25, 2.5, 3.75), (True, True, True)),
        ((5.26, 2.51, 3.76), (False, False, False)),
        ((4.74, 1.49, 2.24), (False, False, False)),
    ],
)
def test_near_is_five_percent_of_goodput_and_a_quarter_of_a_time(simulator, near):
    # 5 % of 5 Mb/s; of 2 s at least half a second; of 3 s a quarter, 0.75 s.
    kernel = Figures(goodput_mbps=5.0, longest_s=2.0, still_s=3.0)
    goodput, longest, still = simulator
    found = Figures(goodput_mbps=goodput, longest_s=longest, still_s=still)
    assert found.near(kernel) == near


def test_a_variant_holds_if_85_percent_of_its_cells_are_near(tmp_path):
    cells = outages.read(folder(tmp_path, *[ROW] * 20))
    near = Figures(goodput_mbps=5.0, longest_s=2.0, still_s=3.0)
    far = Figures(goodput_mbps=5.0, longest_s=2.0, still_s=4.0)
    [row] = outages.rows(cells, [near] * 17 + [far] * 3)
    assert (row.near, row.holds) == ((1.0, 1.0, 0.85), True)
    assert row.simulator.still_s == pytest.approx(3.15)
    [row] = outages.rows(cells, [near] * 16 + [far] * 4)
    assert not row.holds


@pytest.mark.module
def test_a_silent_path_is_seen_between_the_reads(tmp_path):
    # The only leg is silent from 10 to 14 s.
    world = {"legs": WORLDS["O1"]["legs"][1:], "events": ["10:0:down", "14:0:up"]}
    [cell] = outages.read(folder(tmp_path, ROW, worlds={"O1": world}))
    [found] = outages.each([cell], workers=1)
    assert 4.0 < found.longest_s < 5.5
    assert found.still_s >= found.longest_s - 0.01

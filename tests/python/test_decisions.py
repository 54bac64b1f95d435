"""One decision changed: the result of the other path, with the same random draws."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app

pytestmark = pytest.mark.module

FIRST = """
from anabranch.plugins import candidates

class First:
    def __init__(self):
        self.acks = 0

    def on_data_ack(self, now_ms, data_una):
        self.acks += 1

    def schedule(self, request, subflows):
        assert self.acks or request.data_una < 100_000
        return next((one for one in candidates(subflows) if one.can_send), None)
"""


def call(*given):
    return CliRunner().invoke(app, [str(one) for one in given])


def made(tmp_path, scheduler, *, far="600 ms"):
    """The application writes less than either path carries, so nearly every decision is a choice."""
    (tmp_path / "first.py").write_text(FIRST)
    scenario = tmp_path / "two.toml"
    scenario.write_text(
        'name = "two"\n[application]\nkind = "paced"\nrate = "0.4 Mbit/s"\nduration = "10 s"\n'
        f'[transport]\nscheduler = "{scheduler}"\n'
        '[[paths]]\nname = "near"\nrtt = "40 ms"\nrate = "5 Mbit/s"\n'
        f'[[paths]]\nname = "far"\nrtt = "{far}"\nrate = "5 Mbit/s"\n'
    )
    out = tmp_path / "out"
    result = call("sweep", scenario, "--trials", "2", "--workers", "1", "--out", out)
    assert result.exit_code == 0, result.stderr
    return out


def told(*given):
    result = call("why", *given, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "scheduler", ["min-rtt", "first.py:First", "rtx-aware(first.py:First)", "rtx-aware(min-rtt)", "ecf"]
)
def test_the_far_path_would_have_taken_longer_by_its_delay(tmp_path, scheduler):
    out = made(tmp_path, scheduler)
    found = told(out, "--at", "5")
    chosen = found["decision"]
    assert (chosen["taken"], chosen["other"]) == (0, 1)
    assert 5 <= chosen["at_s"] < 6
    # The data is acknowledged after a round trip on the near path, or after one way on the far path. The
    # acknowledgement of a single segment may be delayed by 40 ms.
    assert 40 <= found["acked_ms"]["was"] < 40 + 50
    assert 300 + 20 <= found["acked_ms"]["would_be"] < 300 + 20 + 50
    assert found["goodput_mbps"]["was"] > 0.3
    # The same decision by its number.
    assert told(out, "--decision", chosen["number"]) == found
    assert told(out, "--decision", chosen["number"] + 1)["decision"]["at_s"] >= chosen["at_s"]


def full(tmp_path, scheduler):
    """A bulk transfer, so that windows are always full under schedulers that queue."""
    scenario = tmp_path / "full.toml"
    scenario.write_text(
        'name = "full"\n[application]\nkind = "bulk"\nduration = "10 s"\n'
        f'[transport]\nscheduler = "{scheduler}"\n'
        '[[paths]]\nname = "near"\nrtt = "40 ms"\nrate = "5 Mbit/s"\n'
        '[[paths]]\nname = "far"\nrtt = "120 ms"\nrate = "5 Mbit/s"\n'
    )
    out = tmp_path / f"full-{scheduler}"
    assert call("sweep", scenario, "--trials", "1", "--workers", "1", "--out", out).exit_code == 0
    return out


def test_a_scheduler_that_queues_has_a_choice_where_another_subflow_has_room_to_queue(tmp_path):
    out = full(tmp_path, "linux")
    found = told(out, "--at", "5")
    assert found["decision"]["queues"]
    assert found["decision"]["at_s"] < 6
    # Either way the data waits in a queue and then crosses its path.
    assert None not in found["acked_ms"].values()
    assert min(found["acked_ms"].values()) > 40
    # A scheduler that sends only within the window never queues.
    assert not told(full(tmp_path, "min-rtt"), "--decision", "0")["decision"]["queues"]


def test_of_two_equal_paths_neither_would_have_been_better(tmp_path):
    found = told(made(tmp_path, "min-rtt", far="40 ms"), "--decision", "20")
    assert abs(found["acked_ms"]["was"] - found["acked_ms"]["would_be"]) < 40


@pytest.mark.parametrize("scheduler", ["linux", "linux-6.1", "round-robin", "dft", "redundant"])
def test_every_scheduler_in_rust_is_asked_through_one_that_agrees(tmp_path, scheduler):
    chosen = told(made(tmp_path, scheduler), "--decision", "3")["decision"]
    assert {chosen["taken"], chosen["other"]} == {0, 1}


def test_why_rejects_decision_together_with_at(tmp_path):
    out = made(tmp_path, "min-rtt")
    assert call("why", out, "--decision", "0", "--at", "1").exit_code == 2


def test_a_decision_that_there_was_not_is_reported_with_how_many_there_were(tmp_path):
    result = call("why", made(tmp_path, "min-rtt"), "--decision", "1000000")
    assert result.exit_code == 2
    assert "no such decision" in result.stderr

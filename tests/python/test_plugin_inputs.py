"""Notices to plug-ins in Python, and congestion controls that build on built-in ones."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest

import anabranch
from anabranch import plugins
from anabranch.errors import InputError

pytestmark = pytest.mark.module

PAGE = Path(__file__).parents[2] / "docs" / "more-inputs.md"
BULK = {
    "name": "bulk",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "0.5 %"},
        {"name": "lte", "rtt": "100 ms", "rate": "5 Mbit/s"},
    ],
}
OUTAGE = {
    **BULK,
    "application": {"kind": "bulk", "duration": "10 s"},
    "events": [{"at": "2 s", "path": "wifi", "loss": "100 %"}, {"at": "6 s", "path": "wifi", "loss": "0 %"}],
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return how to write a plug-in's file into the working directory."""
    monkeypatch.chdir(tmp_path)

    def writer(text, name="mine.py"):
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")

    return writer


def heard():
    """Return what the plug-in that was imported last has noted."""
    names = [name for name in sys.modules if re.fullmatch(r"_anabranch_plugins\.\w+\.mine", name)]
    return sys.modules[names[-1]].told


NOTES = """
    told = []
    class Mine:
        {builds_on}
        def schedule(self, request, subflows{proposal}):
            told.append(("asked", request.now_ms, subflows))
            free = [subflow for subflow in subflows if subflow.can_send]
            return min(free, key=lambda subflow: subflow.srtt_ms, default=None)
        def on_event(self, now_ms, subflow, event):
            told.append((subflow, now_ms, event))
"""


@pytest.mark.parametrize(("builds_on", "proposal"), [("", ""), ('builds_on = "linux"', ", proposal")])
def test_a_scheduler_is_notified_of_an_outage(write, builds_on, proposal):
    write(NOTES.format(builds_on=builds_on, proposal=proposal))
    anabranch.run(OUTAGE, scheduler="mine.py:Mine")
    told = heard()
    events = [(now, event) for subflow, now, event in told if subflow == 0]
    assert events[0][1].kind == "opened"
    # RFC 6298 section 5.5 doubles the timeout from at least 200 ms: four seconds hold at most four, and two at the least.
    timeouts = [event.consecutive_timeouts for now, event in events if event.kind == "timeout" and now < 6000]
    assert timeouts == list(range(1, len(timeouts) + 1))
    assert 2 <= len(timeouts) <= 4
    assert not any(event.kind == "delivered" and 2200 < now < 6000 for now, event in events)
    assert any(event.kind == "delivered" and now > 6000 for now, event in events)
    assert any(event.kind == "congestion" and event.state == "Loss" for _, event in events)
    assert any(event.kind == "lost" and event.segments > 0 for _, event in events)
    during = [
        (now, view)
        for what, now, views in told
        if what == "asked" and 3000 < now < 6000
        for view in views
        if view.id == 0
    ]
    # The oldest segment was sent around the cut, and a timeout lies ahead.
    assert during
    assert all(1900 < view.oldest_sent_ms < 2200 for _, view in during)
    assert all(now <= view.next_timeout_ms for now, view in during)


def test_a_scheduler_without_the_method_decides_as_before(write):
    write(NOTES.format(builds_on="", proposal="").replace("on_event", "note"))
    assert anabranch.run(BULK, scheduler="mine.py:Mine").digest == anabranch.run(BULK, scheduler="spd").digest


def test_the_wary_scheduler_avoids_a_subflow_until_it_delivers():
    space = {}
    source = re.search(r"^```python\n# wary.py\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    exec(source.group(1), space)
    wary = space["Wary"](after_timeout=3)
    near, far = plugins.SubflowView(id=0, srtt_ms=20.0), plugins.SubflowView(id=1, srtt_ms=90.0)
    request = plugins.SendRequest(now_ms=1000.0)
    assert wary.schedule(request, (near, far)) is near
    wary.on_event(1000.0, 0, plugins.SubflowEvent(kind="timeout", consecutive_timeouts=1))
    assert wary.schedule(request, (near, far)) is far
    assert wary.schedule(request, (near,)) is near
    wary.on_event(1100.0, 0, plugins.SubflowEvent(kind="delivered", segments=3))
    assert wary.schedule(request, (near, far)) is near
    silent = plugins.SubflowView(id=0, srtt_ms=20.0, oldest_sent_ms=950.0)
    assert wary.schedule(request, (silent, far)) is far


CONTROLS = ["reno", "cubic", "bbr", "bbr3", "compound", "lia", "olia", "balia", "wvegas", "ccp"]


@pytest.mark.parametrize("base", CONTROLS)
def test_a_controller_that_adds_nothing_is_its_base_to_the_byte(write, base):
    write(f'class Mine:\n    builds_on = "{base}"\n')
    assert (
        anabranch.run(BULK, congestion="mine.py:Mine").digest == anabranch.run(BULK, congestion=base).digest
    )


def test_a_controller_changes_window_and_rate_behind_its_base(write):
    write(
        """
        told = set()
        class Mine:
            builds_on = "bbr"
            pacing_rate_mbps = None
            def on_ack(self, ack, window):
                told.add(window.base_pacing_rate_mbps is not None)
                self.pacing_rate_mbps = 1.0
        """
    )
    one = {**BULK, "paths": [BULK["paths"][1]]}
    # Paced at 1 Mb/s, of which headers take some percent: 40 bytes of TCP/IP and 32 of options in 1,500.
    found = anabranch.run(one, congestion="mine.py:Mine").qos["goodput_mbps"]
    assert found == pytest.approx(0.95, abs=0.05)
    assert heard() == {True}
    write(
        'class Mine:\n    builds_on = "bbr"\n    def on_ack(self, ack, window):\n        window.cwnd = min(window.cwnd, 4)\n'
    )
    # Four segments of 1,428 bytes each 100 ms.
    found = anabranch.run(one, congestion="mine.py:Mine").qos["goodput_mbps"]
    assert found == pytest.approx(0.45, abs=0.05)


def test_a_base_that_is_unknown_is_a_fault(write):
    write('class Mine:\n    builds_on = "bbr9"\n')
    with pytest.raises(InputError, match=r"builds_on.*bbr9"):
        anabranch.run(BULK, congestion="mine.py:Mine")
    write("class Mine:\n    def on_ack(self, ack, window):\n        pass\n")
    with pytest.raises(InputError, match="no method `on_congestion`"):
        anabranch.run(BULK, congestion="mine.py:Mine")


def test_scheduler_request_contains_the_deadline(write):
    write(
        """
        told = []
        class Mine:
            def schedule(self, request, subflows):
                if request.ask == "new-data":
                    told.append((request.now_ms, request.hinted_ms, request.deadline_ms, request.media_buffered_ms))
                return next((subflow for subflow in subflows if subflow.can_send), None)
        """
    )
    short = {"application.duration": "30 s", "expect": {}}
    anabranch.run("adaptive-two-paths", scheduler="mine.py:Mine", set=short)
    assert {told[1:] for told in heard()} == {(None, None, None)}
    anabranch.run(
        "adaptive-two-paths", scheduler="mine.py:Mine", set={**short, "application.player.cmcd": True}
    )
    hints = [one for one in heard() if one[1] is not None]
    assert hints
    for now, hinted, deadline, buffered in hints:
        assert now >= hinted
        assert buffered % 100 == 0
        # CTA-5004: while it plays, the remaining buffer is the deadline; before, data is needed at once.
        assert deadline - hinted == pytest.approx(buffered, abs=1e-6) or deadline == hinted
    assert max(one[3] for one in hints) > 5000

"""Runs over real packets: their results in both directions, and refused scenarios."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import InputError, ScenarioError
from anabranch.live import parity, run_live
from anabranch.live.parity import WORLDS
from anabranch.scenario.load import load

GIVEN = {
    "name": "run",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [
        {"name": "wifi", "rtt": "20 ms", "rate": "10 Mbit/s", "queue": "50 packets"},
        {"name": "lte", "rtt": "40 ms", "rate": "10 Mbit/s", "queue": "50 packets"},
    ],
}


@pytest.mark.parametrize("server", ["gateway", pytest.param("kernel", marks=pytest.mark.slow)])
def test_subflows_are_reported_by_either_server(server):
    # Long enough for both subflows, also where the second one joins late on a busy machine.
    given = {**GIVEN, "application": {"kind": "bulk", "bytes": "3 MB"}}
    run = run_live(load(given), server=server)
    subflows = {row["path"]: row for row in run.rows("subflows")}
    assert set(subflows) == {"wifi", "lte"}
    # A kernel's totals are those of the last look, up to a tenth of a second before the end.
    least = 3_000_000 if server == "gateway" else 2_500_000
    assert least <= sum(row["bytes"] for row in subflows.values()) < 3_300_000
    assert all(row["bytes_sent"] >= row["bytes"] > 100_000 for row in subflows.values())
    samples = run.rows("samples")
    assert {row["path"] for row in samples} == {"wifi", "lte"}
    assert max(row["cwnd_segments"] for row in samples) > 10
    assert all(0 <= row["t_s"] <= run.summary["duration_s"] + 0.2 for row in samples)
    assert all(row["min_rtt_ms"] >= 20 for row in samples if row["min_rtt_ms"] is not None)
    assert run.summary["world"] == run.to_json()["world"] == "live"
    assert run.digest == run.identity == ""
    assert any("lateness" in note for note in run.notes)


def test_every_key_of_the_run_summary_is_documented():
    page = Path(__file__).parents[2].joinpath("docs/reference/trace.md").read_text(encoding="utf-8")
    told = page.partition("## Summary of a run\n")[2].partition("\n## ")[0]
    summary = run_live(load(GIVEN)).summary
    names = [*summary, *summary["lateness"], *summary["ends"]]
    assert [name for name in names if f"`{name}`" not in told] == []


def test_a_kernel_that_serves_has_the_congestion_control_that_was_asked_for():
    given = {**GIVEN, "transport": {"congestion": "reno"}}
    run = run_live(load(given), server="kernel")
    assert run.summary["server_congestion"] == "reno"


def test_a_kernel_without_the_controller_is_reported():
    from anabranch.errors import MissingError

    given = {**GIVEN, "transport": {"congestion": "olia"}}
    with pytest.raises(MissingError, match="no congestion control olia; it has"):
        run_live(load(given), server="kernel")


def test_a_film_is_played_from_our_server_by_a_kernel():
    given = {**GIVEN, "application": {"film": "demo", "duration": "4 s"}}
    run = run_live(load(given))
    assert run.qoe["startup_delay_s"] < 3
    assert run.qoe["frames"]["displayed"] > 20


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("gateway", "kernel"),
        pytest.param("kernel", "kernel", marks=pytest.mark.slow),
        pytest.param("kernel", "anabranch", marks=pytest.mark.slow),
    ],
)
def test_pictures_and_sound_come_side_by_side_with_any_ends(server, client):
    player = {"model": "hlsjs"}
    lowest = {"name": "fixed", "rendition": 0}
    application = {
        "kind": "adaptive",
        "ladder": "uq18-jp",
        "abr": lowest,
        "duration": "4 s",
        "player": player,
    }
    paths = [{**path, "rate": "2 Mbit/s"} for path in GIVEN["paths"]]
    run = run_live(load({**GIVEN, "application": application, "paths": paths}), server=server, client=client)
    done = [row for row in run.rows("requests") if row["done_s"] is not None and "/audio/" in row["resource"]]
    pictures = [row for row in run.rows("requests") if row["done_s"] is not None and row not in done]
    beside = [
        (sound["resource"], other["resource"])
        for sound in done
        for other in pictures
        if sound["first_byte_s"] < other["done_s"] and other["first_byte_s"] < sound["done_s"]
    ]
    assert len(beside) >= 2
    # Each of two connections has a subflow on each path.
    carried = sorted(row["path"] for row in run.rows("subflows") if row["bytes"] > 10_000)
    assert carried == ["lte", "lte", "wifi", "wifi"]


def test_simulator_and_gateway_agree_on_goodput():
    figures = {figure.name: figure for figure in parity(load(GIVEN), trials=2)}
    goodput = figures["goodput, Mb/s"]
    assert all(len(goodput.values[world]) == 2 for world in WORLDS)
    # A transfer of half a second on a machine that may be busy: the bench judges closely.
    assert abs(goodput.apart("gateway", "simulator")) < 0.15
    assert figures["retransmissions"].mean("kernel") is not None


def test_a_class_in_python_schedules_real_packets(tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Last:\n"
        "    def schedule(self, request, subflows):\n"
        "        from anabranch.plugins import candidates\n"
        "        ready = candidates(subflows)\n"
        "        return max(ready, key=lambda subflow: subflow.id) if ready else None\n",
        encoding="utf-8",
    )
    given = {**GIVEN, "transport": {"scheduler": f"{tmp_path / 'mine.py'}:Last"}}
    run = run_live(load(given))
    down = {row["link"]: row["bytes_delivered"] for row in run.rows("links")}
    assert run.rows("connections")[0]["finished"]
    assert down["lte.down"] > down["wifi.down"]


def test_live_run_rejects_several_clients():
    with pytest.raises(ScenarioError, match="one client"):
        run_live(load({**GIVEN, "clients": 2}))


def test_one_end_is_a_kernel():
    with pytest.raises(InputError, match="one end at least"):
        run_live(load(GIVEN), client="anabranch")


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "anabranch", *words], capture_output=True, text=True, check=False
    )


def test_live_command_reports_all_errors_together():
    done = command(
        "live",
        "bulk-two-paths",
        "--server",
        "kernal",
        "--client",
        "me",
        "--set",
        "seed=x",
        "--application",
        "bulky",
    )
    assert done.returncode == 2
    assert "did you mean `kernel`" in done.stderr
    assert "--client" in done.stderr
    assert "did you mean `bulk`" in done.stderr
    assert "seed" in done.stderr


#: A scenario whose own application would take an hour, and has keys of no other, and an expectation.
HOUR = """
name = "hour"
[application]
kind = "adaptive"
ladder = "uq18-jp"
abr = "vlc-rate"
duration = "1 h"
[expect]
finished = true
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "10 Mbit/s"
"""


def asked(tmp_path, application, *settings):
    """Return what a run with an application of the command's tells."""
    file = tmp_path / "hour.toml"
    file.write_text(HOUR, encoding="utf-8")
    words = [word for setting in settings for word in ("--set", f"application.{setting}")]
    done = command("live", str(file), "--application", application, *words, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told, sum(subflow["bytes"] for subflow in told["qos"]["subflows"])


def test_a_bulk_transfer_may_be_asked_for(tmp_path):
    told, total = asked(tmp_path, "bulk", "bytes=200kB")
    assert told["qoe"] is None
    assert 200_000 <= total < 210_000


def test_a_paced_transfer_may_be_asked_for(tmp_path):
    told, total = asked(tmp_path, "paced", "rate=1Mbit/s", "duration=2s")
    assert told["qoe"] is None
    assert told["duration_s"] >= 1.8
    assert total == pytest.approx(250_000, rel=0.1)


def test_a_player_may_be_asked_for(tmp_path):
    told, _ = asked(tmp_path, "player", "duration=2s")
    assert told["qoe"]["frames"]["displayed"] > 10


def test_the_command_prints_json():
    done = command("live", "bulk-two-paths", "--set", "application.bytes=200kB", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["world"] == "live"
    assert told["qos"]["goodput_mbps"] > 1

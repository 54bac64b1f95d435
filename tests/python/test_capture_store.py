"""Captured sessions in folders of results: `anabranch capture --store`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app

pytestmark = pytest.mark.module

KEYS = {"application.bytes": "300 kB"}


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """Return the runs of two schedulers under two seeds, with the capture of each at the server."""
    folder = tmp_path_factory.mktemp("captures")
    made = {}
    for scheduler in ("linux", "round-robin"):
        for seed in (1, 2):
            file = folder / f"{scheduler}-{seed}.pcapng"
            run = anabranch.run(
                "bulk-two-paths", scheduler=scheduler, seed=seed, set=KEYS, pcapng=file, pcapng_at="server"
            )
            made[scheduler, seed] = (run, file)
    return made


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def store(file, folder, *labels):
    return command(
        "capture", file, "--store", folder, *(part for label in labels for part in ("--label", label))
    )


def test_captured_sessions_are_trials_of_their_cells(captures, tmp_path):
    folder = tmp_path / "mine"
    for (scheduler, seed), (_, file) in captures.items():
        done = store(file, folder, f"scheduler={scheduler}", "place=home")
        assert done.exit_code == 0, done.stderr
        assert f"stored as trial {seed} of `place=home, scheduler={scheduler}`" in done.stderr
    found = json.loads(
        command("results", folder, "--by", "scheduler", "--metric", "retransmissions", "--json").stdout
    )
    for row in found:
        own = [run for (scheduler, _), (run, _) in captures.items() if scheduler == row["scheduler"]]
        again = [sum(one["retransmissions"] for one in run.qos["subflows"]) for run in own]
        assert row["runs"] == 2
        assert row["retransmissions"] == pytest.approx(sum(again) / 2)
    frame = anabranch.load(folder)
    assert frame["place"].unique().to_list() == ["home"]
    assert frame["run"].to_list() == [0, 1, 0, 1]


def test_a_stored_session_opens_as_the_run_of_its_capture(captures, tmp_path):
    _, file = captures["linux", 1]
    assert store(file, tmp_path / "mine").exit_code == 0
    (identity,) = anabranch.load(tmp_path / "mine")["identity"]
    opened, read = anabranch.open_run(tmp_path / "mine", identity), anabranch.read_capture(file)
    assert opened.rows("subflows") == read.rows("subflows")
    assert opened.qos == read.qos
    assert opened.summary["captured_at"] == "server"


def test_a_session_is_stored_once(captures, tmp_path):
    _, file = captures["linux", 1]
    store(file, tmp_path / "mine")
    for labels in ((), ("place=home",)):
        again = store(file, tmp_path / "mine", *labels)
        assert again.exit_code == 0
        assert "this session is there already: trial 1 of `captured`" in again.stderr
    assert len(anabranch.load(tmp_path / "mine")) == 1


def test_two_sessions_with_the_same_figures_are_told_apart_by_their_times(captures, tmp_path):
    _, file = captures["linux", 1]
    later = tmp_path / "later.pcapng"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    anabranch.run(
        "bulk-two-paths",
        scheduler="linux",
        seed=1,
        set=KEYS,
        pcapng=later,
        pcapng_at="server",
        pcapng_start=start,
    )
    assert store(file, tmp_path / "mine").exit_code == 0
    assert "stored as trial 2" in store(later, tmp_path / "mine").stderr
    identities = anabranch.load(tmp_path / "mine")["identity"]
    assert identities.n_unique() == 2


def test_labels_with_the_same_letters_are_different_cells(captures, tmp_path):
    _, one = captures["linux", 1]
    _, two = captures["linux", 2]
    store(one, tmp_path / "mine", "p=a, r=1")
    store(two, tmp_path / "mine", "p=a", "r=1")
    assert anabranch.load(tmp_path / "mine")["cell"].to_list() == ['p="a, r=1"', "p=a, r=1"]


def test_retransmissions_are_unknown_at_a_client(tmp_path):
    anabranch.run("bulk-two-paths", set=KEYS, pcapng=tmp_path / "client.pcapng")
    store(tmp_path / "client.pcapng", tmp_path / "mine")
    frame = anabranch.load(tmp_path / "mine")
    assert frame["retransmissions"].to_list() == [None]
    assert frame["goodput_mbps"][0] > 0


def test_a_folder_of_simulated_runs_is_refused(captures, tmp_path):
    _, file = captures["linux", 1]
    anabranch.sweep("bulk-two-paths", trials=1, out=tmp_path / "simulated", set=KEYS)
    done = store(file, tmp_path / "simulated")
    assert done.exit_code == 2
    assert "the folder has simulated runs" in done.stderr


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["scheduler"], "a label is KEY=VALUE"),
        (["=linux"], "a label is KEY=VALUE"),
        (["a=1", "a=2"], "`a` is given twice"),
        (["seed=3"], "`seed` is a column of all results"),
        (["goodput_mbps=3"], "`goodput_mbps` is a column of all results"),
    ],
)
def test_a_wrong_label_is_refused(captures, tmp_path, labels, message):
    _, file = captures["linux", 1]
    done = store(file, tmp_path / "mine", *labels)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "mine").exists()


def test_a_label_needs_a_folder(captures):
    _, file = captures["linux", 1]
    done = command("capture", file, "--label", "a=1")
    assert done.exit_code == 2
    assert "a label needs a folder" in done.stderr

"""Links on the command line, and the local server of the page."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import struct
import threading
import time
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli import _play
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.play import build, links, policy, presets, server
from anabranch.scenario import _overrides, load

pytestmark = pytest.mark.module
_ROOT = Path(__file__).resolve().parents[2]
_BULK = "#v=1&paths.0.name=wifi&paths.0.loss=1&paths.1.name=lte&application.kind=bulk&application.bytes=1"


def call(*arguments):
    """Return the result of a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_link_runs_with_its_number_and_its_digest_is_compared():
    digest = anabranch.run(links.read(_BULK).tables(), run=2).summary["digest"]
    right = call("run", f"{_BULK}&run=2&digest={digest[:16]}", "--json")
    assert right.exit_code == 0
    assert (json.loads(right.stdout)["digest"], json.loads(right.stdout)["run"]) == (digest, 2)
    wrong = call("run", f"{_BULK}&run=2&digest=0123456789abcdef&build=9.9.9")
    assert wrong.exit_code == 1
    assert "the link promises the result 0123456789abcdef of build 9.9.9" in wrong.stderr
    # A changed scenario is not the link's run.
    assert call("run", f"{_BULK}&digest=0123456789abcdef", "--seed", "7").exit_code == 0


def test_the_link_of_a_run_repeats_it():
    changes = ("--set", "application.bytes=1MB", "--set", "paths.wifi.loss=2%", "--run", "1")
    first = call("run", "bulk-two-paths", *changes, "--json", "--link")
    (fragment,) = re.findall(r"^link: (#\S+)$", first.stderr, re.MULTILINE)
    again = call("run", fragment, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["digest"] == json.loads(first.stdout)["digest"]


def test_watching_a_run_serves_the_page_with_its_link(monkeypatch):
    served = []
    monkeypatch.setattr(_play, "serve", served.append)
    result = call(
        "run", "bulk-two-paths", "--set", "application.bytes=1MB", "--run", "1", "--json", "--watch"
    )
    assert result.exit_code == 0
    assert "link:" not in result.stderr
    again = call("run", f"#{served[0]}", "--json")
    assert json.loads(again.stdout)["digest"] == json.loads(result.stdout)["digest"]
    assert json.loads(again.stdout)["run"] == 1


def test_the_page_of_a_watched_run_answers_until_an_interrupt(monkeypatch, capsys):
    answered = []

    def interrupted(_):
        address, _, fragment = capsys.readouterr().out.strip().partition("#")
        answered.append((fragment, ask(address.split("/")[2], "GET", "/index.html")[0]))
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _play.serve("v=1&run=1", native=True)
    assert answered == [("v=1&run=1", 200)]


@pytest.mark.parametrize("command", [("run", "--link"), ("run", "--watch"), ("play",)])
def test_a_scenario_with_other_keys_is_refused(command, tmp_path):
    name, *options = command
    own = tmp_path / "own.toml"
    text = (_ROOT / "scenarios" / "cross-traffic.toml").read_text(encoding="utf-8")
    own.write_text(text.replace("count = 2", "count = 3"), encoding="utf-8")
    result = call(name, own, *options)
    assert result.exit_code == 2
    assert "the page does not offer all of this scenario: links, cross_traffic" in result.stderr


def test_the_link_of_a_shipped_scenario_names_it():
    changes = ("--set", "application.duration=1s", "--congestion", "reno", "--seed", "3")
    # Another video is another scenario.
    assert call("run", "cross-traffic", *changes, "--link").exit_code == 2
    own = links.setup_of(
        load.load(
            "cross-traffic",
            [_overrides.parse_assignment(one) for one in ("transport.congestion=reno", "seed=3")],
        ),
        where="",
        hint="",
    )
    assert links.write(own, run=1) == "v=1&scenario=cross-traffic&seed=3&transport.congestion=reno&run=1"


@pytest.mark.parametrize("name", ["two-paths", "handover", "handover-removed", "wifi-lte", "wifi-starlink"])
def test_shipped_scenarios_are_set_ups_of_the_page(name):
    loaded = load.load(name)
    made = load.load(links.read(f"#{links.write(presets.of_loaded(loaded, films={}))}").tables())
    ours, theirs = (one.scenario.model_dump() for one in (made, loaded))
    assert ours["events"] == theirs["events"]
    assert [path["name"] for path in ours["paths"]] == [path["name"] for path in theirs["paths"]]


@pytest.fixture
def served(tmp_path):
    """Yield the host and port of a page, beside which is a file that it must not serve."""
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("page", encoding="utf-8")
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    with server.serving(tmp_path / "page") as address:
        yield address.split("/")[2]


def ask(host, method, path, *, headers=None, body=None):
    """Return the status and the body of an answer."""
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request(method, path, body=body, headers=headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers
    connection.close()
    return found


def test_the_server_serves_the_page_and_nothing_beside_it(served):
    status, body, headers = ask(served, "GET", "/index.html?x=1")
    assert (status, body) == (200, b"page")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for path in ("/../secret", "/%2e%2e/secret", "//secret", "/missing"):
        assert ask(served, "GET", path)[0] == 404


def test_another_page_cannot_use_the_server(served):
    other = {"Origin": "http://example.org", "Content-Type": "application/json"}
    assert ask(served, "POST", "/run", headers=other, body="{}")[0] == 400
    # The name of another host that was made to mean this one.
    assert ask(served, "GET", "/index.html", headers={"Host": "example.org"})[0] == 403
    # A form of another page cannot send JSON.
    assert ask(served, "POST", "/run", headers={"Content-Type": "text/plain"}, body="{}")[0] == 400


@pytest.mark.parametrize("plan", ["{}", "[]", "no JSON", '{"paths": 3}'])
def test_a_broken_plan_is_a_fault(served, plan):
    status, body, _ = ask(served, "POST", "/run", headers={"Content-Type": "application/json"}, body=plan)
    assert status == 200
    assert json.loads(body)["faults"][0]["message"]


def test_a_browser_that_resets_its_connection_leaves_no_traceback(served, capfd):
    host, _, port = served.partition(":")
    for _ in range(3):
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            time.sleep(0.05)  # until the server waits for the rest of the request
            # Closing with a linger time of 0 sends a reset (socket(7)).
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "number", "promised"), [((), 3, True), (("--run", "3"), 3, True), (("--run", "0"), 0, False)]
)
def test_the_number_of_a_run_is_the_options_before_the_links(given, number, promised):
    link = f"{_BULK}&run=3&digest=0123456789abcdef"
    made = call("run", link, "--json", *given)
    assert json.loads(made.stdout)["run"] == number
    # The link promises the result of its own run only, and here it promises a wrong one.
    assert made.exit_code == (1 if promised else 0)


def test_a_scenario_that_the_page_does_not_offer_is_refused_before_its_run(monkeypatch):
    monkeypatch.setattr("anabranch.cli._commands.simulate", lambda *_, **__: pytest.fail("a run was made"))
    refused = call("run", "cross-traffic", "--set", "cross_traffic.0.count=3", "--link")
    assert refused.exit_code == 2
    assert "the page does not offer all of this scenario" in refused.stderr


@pytest.mark.parametrize("value", ["5.05", "1_0", "nan", "0x10", " 5", "٥"])
def test_a_number_that_the_page_cannot_hold_is_refused(value):
    # The rate of a path has steps of 0.1 Mbit/s, and the page reads decimal digits.
    refused = call("run", f"{_BULK}&paths.0.rate={value}")
    assert refused.exit_code == 2
    assert "from 0.1 to 1000 Mbit/s in steps of 0.1" in refused.stderr


def test_cuts_that_meet_are_one():
    found = links.read(f"{_BULK}&paths.0.cuts=15-30,10-20,40-,50-60").tables()["events"]
    assert [(event["at"], event["state"]) for event in found] == [
        ("10 s", "down"),
        ("30 s", "up"),
        ("40 s", "down"),
    ]


def test_a_run_ends_when_the_browser_closes_its_connection(served, monkeypatch):
    ended = threading.Event()

    def simulate(_text, _capture, progress, _plugins):
        try:
            while True:
                progress(0.0, 1.0)
                time.sleep(0.001)
        finally:
            ended.set()

    monkeypatch.setattr(
        server, "module", lambda: types.SimpleNamespace(simulate=simulate, PlanError=ValueError)
    )
    host, _, port = served.partition(":")
    head = (
        f"POST /run HTTP/1.1\r\nHost: {served}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(head.encode() + b"{}")
        assert not ended.wait(0.1)
    assert ended.wait(10)


def test_the_tables_are_kept_between_starts_until_a_source_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "_made", lambda: {"tables": "first"})
    assert build._tables()["tables"] == "first"
    monkeypatch.setattr(build, "_made", lambda: {"tables": "second"})
    assert build._tables()["tables"] == "first"
    monkeypatch.setattr(build, "_sources", lambda: "an edited scenario")
    assert build._tables()["tables"] == "second"
    (kept,) = [path for path in tmp_path.iterdir() if "second" in path.read_text(encoding="utf-8")]
    kept.write_text("broken", encoding="utf-8")
    assert build._tables()["tables"] == "second"


def test_the_hash_of_the_sources_changes_with_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_PACKAGE", tmp_path)
    (tmp_path / "keys.py").write_text("one", encoding="utf-8")
    found = {build._sources()}
    (tmp_path / "keys.py").write_text("one and more", encoding="utf-8")
    found.add(build._sources())
    os.utime(tmp_path / "keys.py", ns=(0, 0))
    found.add(build._sources())
    assert len(found) == 3
    assert build._sources() in found


def test_every_file_with_a_page_has_its_policy(tmp_path):
    source = _ROOT / "play"
    for path in sorted(source.rglob("*.html")):
        is_lesson = path.parent != source
        text = policy.written(path.read_text(encoding="utf-8"), is_lesson=is_lesson)
        assert text.count("Content-Security-Policy") == 1
        assert (policy.LESSON if is_lesson else policy.PAGE) in text
        # It has effect only before all that it governs.
        assert text.index("Content-Security-Policy") < min(text.find(tag) for tag in ("<title", "<link"))


@pytest.mark.parametrize(("change", "run"), [("seed=5", 0), ("seed=1", 2)])
def test_another_draw_of_a_network_has_no_link(change, run):
    # The handoffs of this row are at times that are drawn from the seed and the number of the run.
    path = presets.SHIPPED / "_studies" / "HO20" / "cell-handoff.toml"
    loaded = load.load(path, [_overrides.parse_assignment(change)])
    with pytest.raises(InputError, match="does not offer all"):
        links.setup_of(loaded, where="", hint="", run=run)


def test_the_first_draw_of_a_network_has_a_link():
    loaded = load.load(presets.SHIPPED / "_studies" / "HO20" / "cell-handoff.toml")
    assert links.write(links.setup_of(loaded, where="", hint="")) == "v=1&scenario=HO20%2Fcell-handoff"

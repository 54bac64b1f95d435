"""CMCD reports of a session: the form of CTA-5004, and values by hand."""

from __future__ import annotations

import json
import types
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.cli._commands import Cmcd
from anabranch.metrics import cmcd

#: The example with all keys in CTA-5004 (version 1): a query argument, and the same as header fields.
EXAMPLE = {
    "bl": 21300,
    "br": 3200,
    "bs": True,
    "cid": "faec5fc2-ac30-11ea-bb37-0242ac130002",
    "d": 4004,
    "dl": 18500,
    "mtp": 48100,
    "nor": "..%2F300kbps%2Ftrack.m4v",
    "nrr": "12323-48763",
    "ot": "v",
    "pr": 1.08,
    "rtp": 12000,
    "sf": "d",
    "sid": "6e2fb550-c457-11e9-bb97-0800200c9a66",
    "st": "v",
    "su": True,
    "tb": 6000,
}
QUERY = (
    "CMCD=bl%3D21300%2Cbr%3D3200%2Cbs%2Ccid%3D%22faec5fc2-ac30-11ea-bb37-0242ac130002%22%2Cd%3D4004%2Cdl%3D18500"
    "%2Cmtp%3D48100%2Cnor%3D%22..%252F300kbps%252Ftrack.m4v%22%2Cnrr%3D%2212323-48763%22%2Cot%3Dv%2Cpr%3D1.08"
    "%2Crtp%3D12000%2Csf%3Dd%2Csid%3D%226e2fb550-c457-11e9-bb97-0800200c9a66%22%2Cst%3Dv%2Csu%2Ctb%3D6000"
)
HEADERS = """\
CMCD-Object: br=3200,d=4004,ot=v,tb=6000
CMCD-Request: bl=21300,dl=18500,mtp=48100,nor="..%2F300kbps%2Ftrack.m4v",nrr="12323-48763",su
CMCD-Session: cid="faec5fc2-ac30-11ea-bb37-0242ac130002",pr=1.08,sf=d,sid="6e2fb550-c457-11e9-bb97-0800200c9a66",st=v
CMCD-Status: bs,rtp=12000
"""


def test_the_query_and_the_header_fields_are_those_of_the_standard_s_example():
    report = cmcd.Report(0.0, "a.m4v", EXAMPLE)
    assert report.line("query") == f"/a.m4v?{QUERY}"
    assert report.line("headers") == f"GET /a.m4v HTTP/1.1\n{HEADERS}"
    assert json.loads(report.line("json"))["cmcd"] == EXAMPLE


def chunk(index, t_s, done_s, buffer_s, rendition, mbps):
    return {
        "client": 0,
        "track": "video",
        "index": index,
        "rendition": rendition,
        "duration_s": 4.004,
        "bytes": 1,
        "t_s": t_s,
        "first_byte_s": t_s,
        "done_s": done_s,
        "throughput_mbps": mbps,
        "buffer_before_s": buffer_s,
        "buffer_after_s": None,
        "abandoned": False,
    }


def columns(tables):
    """Return tables of rows as tables of columns."""
    return {name: {key: [row[key] for row in rows] for key in rows[0]} for name, rows in tables.items()}


def session():
    """A playlist and four chunks. Playing begins at 1.25 s and stands still from 5.25 to 6.5 s."""
    resources = [(0.0, "f/master.m3u8"), (0.5, "f/0.ts"), (2.0, "f/1.ts"), (6.0, "f/2.ts"), (7.0, "f/3.ts")]
    return {
        "connections": [{"client": 0}],
        "requests": [
            {"client": 0, "id": number, "t_s": t_s, "resource": name}
            for number, (t_s, name) in enumerate(resources)
        ],
        "chunks": [
            chunk(0, 0.5, 1.25, 0.0, 0, 1.949),
            chunk(1, 2.0, 5.0, 3.254, 1, 2.951),
            chunk(2, 6.0, 6.5, 0.0, 0, None),
            chunk(3, 7.0, None, 3.5, 0, None),
        ],
        "renditions": [
            {"track": "video", "rendition": 0, "bandwidth_bps": 456_680, "average_bps": 311_000.0},
            {"track": "video", "rendition": 1, "bandwidth_bps": 3_276_452, "average_bps": 2_082_000.0},
        ],
        "playback": [
            {"client": 0, "t_s": 1.25, "event": "start", "pts_s": 0.0},
            {"client": 0, "t_s": 5.25, "event": "underflow", "pts_s": 4.0},
            {"client": 0, "t_s": 6.5, "event": "resume", "pts_s": 4.0},
        ],
    }


def values(version):
    return [dict(report.values) for report in cmcd.reports(columns(session()), session="x", version=version)]


def test_version_1_by_hand():
    found = values(1)
    assert len({report.pop("sid") for report in found}) == 1
    always = {"sf": "h", "st": "v"}
    # The peak rates are 456.68 and 3,276.452 kbit/s. Sound is inside the chunks.
    ladder = {"ot": "av", "d": 4004, "tb": 3276}
    assert found == [
        {**always, "ot": "m", "su": True},
        {**always, **ladder, "br": 457, "bl": 0, "dl": 0, "su": True},
        # 3.254 s are 3,300 ms, and 1.949 Mbit/s are 1,900 kbit/s, to the nearest hundred.
        {**always, **ladder, "br": 3276, "bl": 3300, "dl": 3300, "mtp": 1900},
        {**always, **ladder, "br": 457, "bl": 0, "dl": 0, "mtp": 3000, "bs": True, "su": True},
        # The stall ended after the prior request. The last complete chunk has no throughput.
        {**always, **ladder, "br": 457, "bl": 3500, "dl": 3500, "bs": True},
    ]


def test_version_2_adds_the_player_s_state():
    found = values(2)
    assert [report["sn"] for report in found] == [0, 1, 2, 3, 4]
    assert {report["v"] for report in found} == {2}
    assert [report["sta"] for report in found] == ["s", "s", "p", "r", "p"]
    # Playing began at 1.25 s. At 6 s, 4 s had been shown, and at 7 s half a second more.
    assert [report.get("pt") for report in found] == [None, None, 750, 4000, 4500]
    # The startup delay is reported once.
    assert [report.get("msd") for report in found] == [None, None, 1250, None, None]
    assert [report.get("bsa") for report in found] == [None, None, None, [1], [1]]
    assert [report.get("bsd") for report in found] == [None, None, None, None, [1250]]
    assert [report.get("bsda") for report in found] == [None, None, None, None, [1250]]
    assert {report.get("lb") for report in found[1:]} == {457}


def test_version_2_writes_inner_lists():
    third = cmcd.reports(columns(session()), session="x", version=2)[2]
    text = third.text()
    for item in ("bl=(3300;av)", "br=(3276;av)", "lb=(457;av)", "mtp=(1900;av)", "tb=(3276;av)"):
        assert item in text.split(",")
    assert "v=2" in third.text(only="CMCD-Session")


def test_clients_have_sessions_of_their_own():
    tables = session()
    two = {
        name: [*table, *({**row, "client": 1} for row in table)] if name != "renditions" else table
        for name, table in tables.items()
    }
    found = cmcd.reports(columns(two), session="x")
    assert len({report.values["sid"] for report in found}) == 2
    assert len(found) == 10


@pytest.mark.module
@pytest.mark.parametrize("form", cmcd.FORMS)
def test_a_run_writes_a_report_for_each_request(tmp_path, form):
    file = tmp_path / "reports.txt"
    options = ["--cmcd", str(file), "--cmcd-form", form]
    done = CliRunner().invoke(app, ["run", "adaptive-two-paths", *options])
    assert done.exit_code == 0, done.stderr
    text = file.read_text(encoding="utf-8")
    if form == "json":
        read = [json.loads(line) for line in text.splitlines()]
        assert read[0]["resource"] == "uq18-jp/master.m3u8"
        assert {report["cmcd"]["ot"] for report in read} == {"m", "v", "a"}
    elif form == "query":
        assert all("CMCD=" in line and "sid=" in unquote(line) for line in text.splitlines())
    else:
        assert text.count("GET /") == text.count("CMCD-Session: ")


def test_a_form_that_does_not_exist_and_a_film_without_chunks_are_faults(tmp_path):
    done = CliRunner().invoke(
        app, ["run", "two-paths", "--cmcd", str(tmp_path / "x.json"), "--cmcd-form", "jsn"]
    )
    assert done.exit_code == 2
    assert "no such form: `jsn` (--cmcd-form)" in done.stderr
    assert "no adaptive playback in the scenario (--cmcd)" in done.stderr


def test_two_runs_over_real_packets_have_different_sessions(tmp_path):
    """The identifier of a simulated run comes from its digest, which such a run does not have."""
    found = set()
    for number in range(2):
        file = tmp_path / f"{number}.json"
        run = types.SimpleNamespace(digest="", plan={"run": 0}, tables=columns(session()))
        Cmcd(file=file).write(run)
        found |= {json.loads(line)["cmcd"]["sid"] for line in file.read_text(encoding="utf-8").splitlines()}
    assert len(found) == 2

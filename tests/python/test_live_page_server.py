"""The page of a live run for browsers: events, refused requests, and that the run never waits."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
from base64 import b64encode
from hashlib import sha256
from urllib.parse import urlsplit

import pytest

from anabranch.errors import Fault, MissingError
from anabranch.live import page as pages

RUN = {"scenario": "two", "paths": ["wifi", "lte"], "application": "bulk", "server": "gateway",
       "client": "kernel", "expected_s": 5.0}  # fmt: skip


def moment(t_s, *carried):
    known = {"queue_packets": 3, "queue_bytes": 4500, "bytes_acked": 1, "cwnd_segments": 10,
             "in_flight_segments": 9, "srtt_ms": 20.0}  # fmt: skip
    return {
        "t_s": t_s,
        "bytes_read": 1,
        "paths": [{"bytes": one, **known} for one in carried],
        "player": None,
    }


@pytest.fixture(scope="module")
def still():
    """A page of a run that sends nothing."""
    with pages.served() as made:
        yield made


@pytest.fixture
def page():
    with pages.served() as made:
        yield made


def ask(page, path="/state", method="GET", hosts=None):
    """Return the status, the headers and the body of an answer."""
    where = urlsplit(page.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for host in [where.netloc] if hosts is None else hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        body = b"" if path == "/events" and answer.status == 200 else answer.read()
        return answer.status, answer.headers, body
    finally:
        connection.close()


def state(page, is_there, path="/state"):
    """The page shows the state of a run that sends nothing."""
    for _ in range(600):
        told = json.loads(ask(page, path)[2])
        if is_there(told):
            return told
        time.sleep(0.05)
    raise AssertionError(f"it never came: {told}")


def last_is(t_s):
    return lambda told: told["moments"] and told["moments"][-1]["t_s"] == t_s


@pytest.mark.parametrize("path", ["/", "/state", "/events", "/nowhere"])
@pytest.mark.parametrize(
    "host",
    [
        "anabranch.example:{port}", "anabranch.example", "localhost.anabranch.example:{port}", "127.0.0.1",
        "localhost", "127.0.0.1:{other}", "10.0.0.1:{port}", "0.0.0.0:{port}", "[::2]:{port}", "::1:{port}",
        "me@127.0.0.1:{port}", "127.0.0.1:{port}:{port}", "127.0.0.1:{port} x", "2130706433:{port}", "",
    ],
)  # fmt: skip
def test_a_name_that_is_not_loopback_is_refused(still, path, host):
    port = urlsplit(still.url).port
    status, _, body = ask(still, path, hosts=[host.format(port=port, other=port % 65535 + 1)])
    assert status == 403
    assert b"two" not in body
    assert b"<" not in body


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_names_and_addresses_of_loopback_are_answered(still, host):
    hosts = [f"{host}:{urlsplit(still.url).port}"]
    assert [ask(still, path, hosts=hosts)[0] for path in ("/", "/state", "/events")] == [200, 200, 200]


def test_one_host_is_named_and_no_more(still):
    own = urlsplit(still.url).netloc
    assert ask(still, hosts=[])[0] == 403
    assert ask(still, hosts=[own, "anabranch.example"])[0] == 403
    assert ask(still, hosts=[own, own])[0] == 403
    # A request with a foreign name gets no event.
    assert ask(still, method="POST", hosts=["anabranch.example"])[0] == 403


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "CHANGE"]
)
@pytest.mark.parametrize("path", ["/", "/state", "/events"])
def test_it_only_reads(still, method, path):
    status, headers, _ = ask(still, path, method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/state"])
def test_a_head_is_that_of_the_answer(still, path):
    whole, bare = ask(still, path), ask(still, path, "HEAD")
    assert bare[0] == whole[0] == 200
    assert bare[2] == b""
    same = ("Content-Length", "Content-Type", "Content-Security-Policy")
    assert [bare[1][name] for name in same] == [whole[1][name] for name in same]
    assert int(whole[1]["Content-Length"]) == len(whole[2]) > 0


def test_invalid_requests_get_an_http_error(still):
    assert ask(still, "/favicon.ico")[0] == 404
    assert ask(still, "/../state")[0] == 404
    assert ask(still, "/state?since=soon")[0] == 400
    assert ask(still, "http://[/state")[0] == 400


def test_the_page_is_whole_and_nothing_else_may_run(still):
    _, headers, body = ask(still, "/")
    text, policy = body.decode(), headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    for tag, source in (("script", "script-src"), ("style", "style-src")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inside) == 1
        digest = b64encode(sha256(inside[0].encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}';" in policy
    # The one address is the name of a language, which is never requested.
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "{{" not in text
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


def test_throughput_and_shares_are_those_of_the_last_second(page):
    assert json.loads(ask(page)[2]) == {"run": None, "over": None, "ended": False, "moments": []}
    page.begin(RUN)
    for tenth in range(31):
        # 1 Mb/s and 3 Mb/s in the first two seconds, then the first path alone.
        page.show(moment(tenth / 10, 12_500 * tenth, 37_500 * min(tenth, 20)))
    told = state(page, last_is(3.0), "/state?since=-1")
    assert told["run"].items() >= RUN.items()
    assert told["over"] is None
    at = {one["t_s"]: one["paths"] for one in told["moments"]}
    assert len(at) == 31
    assert [path["throughput_mbps"] for path in at[0.0]] == [None, None]
    assert [path["share"] for path in at[0.0]] == [None, None]
    for t_s, rates in ((0.1, (1, 3)), (1.5, (1, 3)), (2.5, (1, 1.5)), (3.0, (1, 0))):
        assert [path["throughput_mbps"] for path in at[t_s]] == pytest.approx(rates)
        assert [path["share"] for path in at[t_s]] == pytest.approx([rate / sum(rates) for rate in rates])
    assert [path["share_so_far"] for path in at[3.0]] == pytest.approx([375 / 1125, 750 / 1125])
    assert at[3.0][0]["cwnd_segments"] == 10
    assert [one["t_s"] for one in state(page, last_is(3.0))["moments"]] == [3.0]


def test_after_its_end_a_run_is_still_shown_until_the_next(page):
    page.begin(RUN)
    page.show(moment(0.0, 0, 0))
    page.show(moment(1.0, 100, 0))
    page.over("done")
    told = state(page, lambda told: told["over"], "/state?since=-1")
    assert told["over"] == "done"
    assert [one["t_s"] for one in told["moments"]] == [0.0, 1.0]
    page.begin({**RUN, "scenario": "next"})
    again = state(page, lambda told: told["over"] is None, "/state?since=-1")
    assert again["run"]["scenario"] == "next"
    assert again["run"]["number"] != told["run"]["number"]
    assert again["moments"] == []


class Loaded:
    class scenario:  # noqa: N801
        name = "two"
        paths = ()

        class application:  # noqa: N801
            kind = "bulk"


def test_a_run_that_fails_is_over_too(page):
    with pytest.raises(ZeroDivisionError), page.following(Loaded, server="gateway"):
        raise ZeroDivisionError
    assert state(page, lambda told: told["over"])["over"] == "failed"
    with page.following(Loaded, server="gateway") as show:
        show(moment(0.0))
    assert state(page, lambda told: told["over"] == "done")["run"]["server"] == "gateway"


def events(page, *, last=None):
    """Yield each event of a stream: its number, and its content."""
    where = urlsplit(page.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    try:
        connection.request("GET", "/events", headers={} if last is None else {"Last-Event-ID": last})
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        for line in answer:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "id":
                number = value
            elif field == "data":
                yield number, json.loads(value)
    finally:
        connection.close()


def test_event_stream_sends_each_moment_once_in_order():
    heard = []
    with pages.served() as page:
        page.begin(RUN)
        stream = events(page)
        for tenth in range(30):
            page.show(moment(tenth / 10, tenth, tenth))
            if tenth % 7 == 0:
                heard.append(next(stream))
        page.over("done")
        while heard[-1][1]["over"] is None:
            heard.append(next(stream))
        assert len([one for _, told in heard for one in told["moments"]]) == 30
        # After a broken connection, a browser gets the events that it missed.
        number, told = next(events(page, last="20"))
        assert number == "30"
        assert [one["number"] for one in told["moments"]] == list(range(21, 31))
    heard += list(stream)
    assert [one["number"] for _, told in heard for one in told["moments"]] == list(range(1, 31))
    assert heard[-1][1]["ended"]
    assert not any(told["ended"] for _, told in heard[:-1])


def test_streams_have_a_bound(page):
    streams = [events(page) for _ in range(16)]
    assert [next(stream)[1]["ended"] for stream in streams] == [False] * 16
    assert ask(page, "/events")[0] == 503
    assert ask(page)[0] == 200


def test_it_goes_with_the_block_and_is_on_loopback_alone():
    with pages.served() as page:
        where = urlsplit(page.url)
        assert where.hostname == "127.0.0.1"
        assert ask(page)[0] == 200
        for address in ("127.0.0.2", socket.gethostbyname(socket.gethostname())):
            if address != "127.0.0.1":
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((address, where.port))
        with (
            pytest.raises(MissingError, match="Address already in use"),
            pages.served(("127.0.0.1", where.port)),
        ):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", where.port))
    page.show(moment(0.0, 0))


def test_the_run_never_waits_for_a_browser(monkeypatch):
    made = []
    popen = subprocess.Popen
    monkeypatch.setattr(pages.subprocess, "Popen", lambda *a, **k: made.append(popen(*a, **k)) or made[-1])
    with pages.served() as page:
        page.begin(RUN)
        state(page, lambda told: told["run"])
        made[0].send_signal(signal.SIGSTOP)
        # If the run waited for the page, the test would otherwise wait for ever.
        rescue = threading.Timer(60, made[0].kill)
        rescue.start()
        # The test sends more than all buffers hold, so that the server must leave events out.
        for number in range(20_000):
            page.show(moment(number / 10, number, number))
        rescue.cancel()
        made[0].send_signal(signal.SIGCONT)
        page.over("done")
        told = state(page, lambda told: told["over"], "/state?since=-1")
        assert 0 < len(told["moments"]) < 3000
        made[0].kill()
        made[0].wait()
        for number in range(3):
            page.show(moment(number / 10, number, number))
        page.over("failed")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("127.1.2.3:8000", ("127.1.2.3", 8000)),
        ("[::1]:8000", ("::1", 8000)),
        ("0.0.0.0:8000", "not an address on loopback: 0.0.0.0"),
        ("[::]:8000", "not an address on loopback: ::"),
        ("192.168.0.1:8000", "not an address on loopback: 192.168.0.1"),
        ("localhost:8000", "not an IP address"),
        ("127.0.0.1", "not an address with a port"),
        ("127.0.0.1:70000", "not an address with a port"),
    ],
)
def test_only_loopback_serves(given, found):
    place = pages.place(given)
    if isinstance(place, Fault):
        assert place.message.startswith(found)
        assert place.where == "--watch-at"
    else:
        assert place == found

"""The relay of a measurement, with servers that redirect, refuse, break off, or name other servers."""

import http.client
import socket
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from anabranch import measure
from anabranch.errors import InputError
from anabranch.measure import _session
from anabranch.measure._relay import Relay
from anabranch.measure._sockets import Watch
from test_measure import _NEEDS_IP

_LIST = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n{}#EXTINF:2.0,\n{}\n#EXT-X-ENDLIST\n"


@contextmanager
def _server(answers):
    """Serve answers by path: functions of the handler, or bodies. Yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            found = answers[self.path]
            if callable(found):
                found(self)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(found)

        do_HEAD = do_GET  # noqa: N815 - the base class's name

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _order(address):
    plan = measure.planned(f"{address}/x.m3u8", paths=["lo"], capture=False)
    return _session.Order(
        host=plan.host, url=plan.url, arm="TCP over lo", trial=0, path=plan.host.paths[0], limit_s=1.0
    )


def _await_handlers():
    """Wait until no server handles a request: the relay records a chunk after its last byte was written."""
    end = time.monotonic() + 10
    while any("process_request_thread" in one.name for one in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def _relay(answers):
    """Yield a relay to such a server, its session, and a function that requests."""
    session = _session.Session(arm="TCP over lo", trial=0)
    with (
        _server(answers) as address,
        Watch(multipath=False) as watch,
        Relay(_order(address), session, watch) as relay,
    ):

        def ask(target, method="GET"):
            connection = http.client.HTTPConnection("127.0.0.1", urlsplit(relay.address).port, timeout=10)
            connection.request(method, target)
            answer = connection.getresponse()
            try:
                return answer, answer.read()
            finally:
                connection.close()
                _await_handlers()

        yield relay, session, ask


def _breaks_off(handler):
    """Send 5,000 of 100,000 announced bytes, and close."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(bytes(5000))
    handler.close_connection = True


def _resets(handler):
    """Send the head of an answer, and reset the connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.rfile.close()
    handler.connection.close()
    handler.close_connection = True


def _redirects(place):
    def answer(handler):
        handler.send_response(302)
        handler.send_header("Location", place)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def _refuses(*statuses):
    """Answer each of these in turn, with a body of ten bytes."""
    left = list(statuses)

    def answer(handler):
        handler.send_response(left.pop(0))
        handler.send_header("Content-Length", "10")
        handler.end_headers()
        handler.wfile.write(bytes(10))

    return answer


@_NEEDS_IP
@pytest.mark.parametrize(
    ("answer", "message"),
    [(_breaks_off, "95,000 bytes before the end of the body"), (_resets, "reset by peer")],
)
def test_a_server_that_breaks_off_ends_the_session_and_gives_no_chunk(answer, message):
    with _relay({"/x.m3u8": _LIST.format("", "0.ts").encode(), "/0.ts": answer}) as (relay, session, ask):
        ask("/x.m3u8")
        # The player's connection is closed too, so that it does not wait.
        with pytest.raises(http.client.IncompleteRead):
            ask("/0.ts")
        assert message in str(relay.fault)
        assert session.chunks == []


@_NEEDS_IP
def test_the_model_of_a_player_reports_a_server_that_breaks_off():
    with _server({"/x.m3u8": _LIST.format("", "0.ts").encode(), "/0.ts": _breaks_off}) as address:
        session = _session.play(_order(address))
    assert session.error == "the server closed the connection 95,000 bytes before the end of the body"
    assert session.chunks == []


@_NEEDS_IP
def test_a_player_that_leaves_is_no_failure():
    with _relay({"/x": bytes(50_000_000)}) as (relay, session, _):
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(relay.address).port, timeout=10)
        connection.request("GET", "/x")
        connection.getresponse().read1(10)
        connection.close()
        deadline = time.monotonic() + 10
        while handled := [one for one in threading.enumerate() if "process_request" in one.name]:
            assert time.monotonic() < deadline, handled
            time.sleep(0.01)
        assert session.bytes < 50_000_000
        assert relay.fault is None


@_NEEDS_IP
def test_a_redirected_chunk_and_playlist_belong_to_their_rendition():
    master = b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=7,RESOLUTION=4x360\nlist.m3u8\n"
    answers = {
        "/x.m3u8": master,
        "/list.m3u8": _redirects("/else/where"),
        "/else/where": _LIST.format("", "0.ts").encode(),
        "/else/0.ts": _redirects("/cache/0.ts"),
        "/cache/0.ts": bytes(700),
    }
    with _relay(answers) as (relay, session, ask):
        statuses = [ask(target)[0].status for target in answers]
        assert statuses == [200, 302, 200, 302, 200]
        assert ask("/cache/0.ts", "HEAD")[0].status == 200
        assert [(one.bytes, one.height, one.rate_bps) for one in session.chunks] == [(700, 360, 7)]
        assert relay.fault is None


@_NEEDS_IP
@pytest.mark.parametrize(
    "tag",
    [
        '#EXT-X-MAP:URI="{}/init.mp4"\n',
        '#EXT-X-KEY:METHOD=AES-128,URI="{}/key"\n',
        '#EXT-X-DEFINE:NAME="cdn",VALUE="{}"\n#EXT-X-MAP:URI="{{$cdn}}/init.mp4"\n',
        "#EXTINF:2.0,\n{}/init.mp4\n",
    ],
)
@pytest.mark.parametrize("scheme", ["", "http:"])
def test_every_address_of_a_playlist_leads_through_the_relay_or_is_refused(tag, scheme):
    with _relay({}) as (relay, _, _):
        own, server = relay._origin, relay._remote.removeprefix("http:")
        text = _LIST.format(tag.format(scheme + server), "0.ts")
        found = relay.playlist(f"http:{server}/x.m3u8", text.encode()).decode()
        assert f"{own}/{'key' if 'KEY' in tag else 'init.mp4'}" in found
        assert "\n0.ts\n" in found
        other = _LIST.format(tag.format(f"{scheme}//192.0.2.9"), "0.ts")
        with pytest.raises(InputError, match="the address leads to another server"):
            relay.playlist(f"http:{server}/x.m3u8", other.encode())


@_NEEDS_IP
def test_a_rendition_of_sound_on_another_server_is_refused_and_a_key_in_the_address_is_not():
    master = (
        '#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="b",URI="http://192.0.2.9/a.m3u8"\n'
        '#EXT-X-STREAM-INF:BANDWIDTH=7,AUDIO="a"\nlist.m3u8\n'
    )
    with _relay({}) as (relay, _, _):
        with pytest.raises(InputError, match="the address leads to another server"):
            relay.playlist(f"{relay._remote}/x.m3u8", master.encode())
        text = _LIST.format('#EXT-X-KEY:METHOD=AES-128,URI="data:;base64,AAAA"\n', "0.ts")
        assert relay.playlist(f"{relay._remote}/x.m3u8", text.encode()).decode() == text


@_NEEDS_IP
def test_a_refusal_reaches_the_player_which_may_repeat_the_request():
    answers = {"/x.m3u8": _LIST.format("", "0.ts").encode(), "/0.ts": _refuses(503, 404, 200)}
    with _relay(answers) as (relay, session, ask):
        ask("/x.m3u8")
        assert [ask("/0.ts")[0].status for _ in range(2)] == [503, 404]
        assert session.chunks == []
        assert list(relay.refused.values()) == [f"the server answers 404 Not Found: {relay._remote}/0.ts"]
        assert ask("/0.ts")[0].status == 200
        assert (relay.refused, relay.fault) == ({}, None)
        assert [chunk.bytes for chunk in session.chunks] == [10]

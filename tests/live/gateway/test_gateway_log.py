"""The gateway's log: failing outputs lose lines but no connection, and SIGHUP opens the log again."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from bystander import LEAST_MBPS, Bystander, streams_first
from uplinks import Origin, echo, exchange, record, wait

_DROPPED, _WRITTEN = (f'log_lines_total{{outcome="{it}"}}' for it in ("dropped", "written"))
#: The smallest capacity of a pipe: one page.
_PIPE_BYTES = 4096


@contextmanager
def full_disk():
    """Yield an output without free space."""
    with Path("/dev/full").open("w", encoding="ascii") as output:
        yield output


@contextmanager
def unread():
    """Yield a pipe that is not read."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    yield writer
    os.close(writer)
    os.close(reader)


@contextmanager
def without_reader():
    """Yield a pipe whose reader has closed it."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def serves(lab, times):
    """Serve short connections. Each adds a line to the log."""
    for _ in range(times):
        with lab.connect() as client:
            assert exchange(client, b"1234567served") == b"1234567served"


def ends(gateway):
    """Stop a gateway. Its log must not delay this."""
    gateway.terminate()
    assert gateway.wait_end() == 0


def test_a_log_that_is_not_read_holds_up_no_connection(lab):
    with Origin(lab.host, streams_first(echo)), unread() as output, lab.gateway(stdout=output) as gateway:
        # A line has more than 180 bytes.
        lines = _PIPE_BYTES // 180 + 10
        with Bystander(lab) as client:
            rate = client.meter()
            serves(lab, lines)
            time.sleep(1)
            assert rate() >= LEAST_MBPS
            counted = gateway.metrics()
            assert counted['connections_ended_total{reason="finished"}'] == lines
            assert counted[_WRITTEN] < lines
        ends(gateway)


@pytest.mark.slow
@pytest.mark.parametrize("output", [full_disk, without_reader])
def test_a_log_that_cannot_be_written_costs_its_lines_and_no_connection(lab, output):
    with Origin(lab.host, streams_first(echo)), output() as stdout, lab.gateway(stdout=stdout) as gateway:
        with Bystander(lab) as client:
            rate = client.meter()
            serves(lab, 3)
            time.sleep(2)
            assert rate() >= LEAST_MBPS
            wait(lambda: gateway.metrics()[_DROPPED] == 3, "the lines are counted")
            assert gateway.metrics()[_WRITTEN] == 0
        told = [note for note in gateway.notes if "the log cannot be written" in note]
        assert len(told) == 1
        ends(gateway)


def test_sighup_opens_the_log_again_and_reads_the_limits_again(lab, tmp_path):
    log, old, limits = tmp_path / "gateway.log", tmp_path / "gateway.log.1", tmp_path / "limits.toml"
    limits.write_text("per_source = 2\n", encoding="utf-8")
    with ExitStack() as stack:
        stack.enter_context(Origin(lab.host, echo))
        gateway = stack.enter_context(lab.gateway("--log", str(log), "--limits", str(limits)))

        def hang_up(told):
            gateway.process.send_signal(signal.SIGHUP)
            wait(lambda: any(told in note for note in gateway.notes), told)

        def served():
            with lab.connect() as client:
                assert exchange(client, b"served") == b"served"

        served()
        wait(lambda: log.exists() and log.read_text(encoding="ascii"), "the first line")
        log.rename(old)
        # A faulty file is reported, and the limits do not change.
        limits.write_text("per_sorce = 3\nmemory = 1\n", encoding="utf-8")
        hang_up("the limits stay as they were")
        told = "".join(gateway.notes)
        assert re.search(r"no such limit: `per_sorce` \(.*limits.toml, line 1\)", told)
        assert "did you mean `per_source`?" in told
        assert "line 2" in told
        held = [stack.enter_context(lab.connect()) for _ in range(2)]
        for connected in held:
            connected.sendall(b"x")
            assert connected.recv(1) == b"x"
        with pytest.raises(TimeoutError):
            lab.connect(timeout=1.5)
        limits.write_text("per_source = 4\nidle = '20 s'\n", encoding="utf-8")
        hang_up("per_source = 4")
        served()
        wait(lambda: log.exists() and log.read_text(encoding="ascii"), "a line of the new file")
        for file in (old, log):
            (line,) = file.read_text(encoding="ascii").splitlines()
            found = record(line)
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])
            assert found["end"] == "finished"
        assert gateway.process.poll() is None


def test_sighup_changes_memory_and_times_for_connections_that_are_open(lab, tmp_path):
    limits = tmp_path / "limits.toml"

    def change(text, told):
        limits.write_text(text, encoding="utf-8")
        gateway.process.send_signal(signal.SIGHUP)
        wait(lambda: any(told in note for note in gateway.notes), told)

    shorter = "memory = '64 MiB'\nidle = '300 ms'\ngrace = '1000 s'\n"
    limits.write_text("idle = '1000 s'\ngrace = '1000 s'\n", encoding="utf-8")
    with Origin(lab.host, echo), lab.gateway("--limits", str(limits)) as gateway:
        with lab.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            change(shorter, "idle_s = 0.3")
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert gateway.records(1)[0]["end"] == "idle"
        assert gateway.metrics()["memory_limit_bytes"] == 64 << 20
        change("idle = '1000 s'\ngrace = '300 ms'\n", "grace_s = 0.3")
        with lab.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            gateway.terminate()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert gateway.wait_end() == 0
        assert gateway.records(2)[1]["end"] == "shutdown"

"""Worker processes: forked while the program has one thread, spawned otherwise."""

import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import _json
from anabranch.results import store

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")

PROGRAM = """
import json, signal, sys, threading
import helper
from anabranch import _pool

helper.MARK = "parent"
signal.signal(signal.SIGTERM, lambda *_: None)
stop = threading.Event()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=stop.wait, daemon=True).start()
with _pool.processes(2) as pool:
    with _pool.undisturbed():
        future = pool.submit(helper.seen)
    print(json.dumps(future.result()))
stop.set()
"""
HELPER = """
import signal
MARK = None

def seen():
    return [MARK, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL]
"""


@pytest.mark.parametrize(("more_threads", "mark"), [(0, "parent"), (1, None)])
def test_workers_are_forked_only_from_a_program_with_one_thread(more_threads, mark, tmp_path):
    """A forked worker has the parent's memory, but not its handler of SIGTERM."""
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", str(more_threads)],
        stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert json.loads(done.stdout) == [mark, True]


def test_a_forked_worker_does_not_hold_the_lock_of_a_journal(tmp_path):
    """The lock ends with the program, even if a worker lives longer."""
    path = tmp_path / "journal"
    context = multiprocessing.get_context("fork")
    ready, go_on = context.Event(), context.Event()
    with path.open("a+b") as file:
        assert store._try_lock(file)
        worker = context.Process(target=lambda: ready.set() or go_on.wait(60))
        worker.start()
        assert ready.wait(60)
    try:
        with path.open("rb") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        go_on.set()
        worker.join()


def test_the_text_of_a_plan_is_plain_json_with_sorted_keys():
    plan = {"seed": 1, "film": {"b": [1, 2], "a": "é"}, "ladder": None, "application": {"z": 0.5, "y": None}}
    text = '{"application":{"y":null,"z":0.5},"film":{"a":"\\u00e9","b":[1,2]},"ladder":null,"seed":1}'
    assert _json.of_plan(plan) == text
    assert _json.of_plan({**plan, "film": {**plan["film"], "a": "e"}}) == text.replace("\\u00e9", "e")
    assert _json.of_plan(plan) == text


def test_a_film_is_encoded_once(monkeypatch):
    film, encoded = {"bytes": 1}, []
    plain = _json.text
    monkeypatch.setattr(_json, "text", lambda value, **how: encoded.append(value) or plain(value, **how))
    texts = [_json.of_plan({"film": film, "run": run}) for run in range(3)]
    assert texts == [f'{{"film":{{"bytes":1}},"run":{run}}}' for run in range(3)]
    assert encoded.count(film) == 1

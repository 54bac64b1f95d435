"""Plain values of the command line are taken without a validator, and as a validator would take them."""

from __future__ import annotations

import os
import subprocess
import sys

import typer

from anabranch.cli import _app, _values
from anabranch.results import identity

#: Texts that a person may type, and defaults that a command declares.
VALUES = (
    None, "", "a", "-", " 1", "0", "00", "7", "-7", "-0", "+7", "1_000", "1e3", "1.5", "07", "１",
    "9223372036854775807", "9223372036854775808", "1000000", "1000001", 0, 1, -1, True, False, 1.0,
    [], (), ["a"], ("a", "b"), ["1", 2],
)  # fmt: skip


def parameters():
    group = typer.main.get_command(_app.app)
    for command in group.commands.values():
        for inner in getattr(command, "commands", {"": command}).values():
            with inner.make_context("test", [], resilient_parsing=True) as context:
                for one in inner.get_params(context):
                    yield context, one


def test_plain_conversion_matches_the_click_library():
    taken = set()
    for context, parameter in parameters():
        judge = type(parameter).get_runtime_param(parameter)
        for value in VALUES:
            plain = _values.plain(value, parameter)
            if plain is _values._UNJUDGED:
                continue
            expected = judge.coerce(value, param=parameter, ctx=context)
            assert (type(plain), plain) == (type(expected), expected), (parameter, value)
            taken.add(repr(value))
    assert {"None", "''", "'a'", "'0'", "'7'", "'-7'", "0", "['a']", "('a', 'b')"} <= taken
    # A number in an unusual form, or outside its range, is judged by the library.
    assert not {"1.0", "True"} & taken


def test_a_list_of_names_needs_no_validator():
    code = (
        "import sys; sys.argv = ['anabranch', 'list', 'schedulers']\n"
        "from anabranch.cli import main\n"
        "try: main()\n"
        "except SystemExit as done: code = done.code\n"
        "heavy = {'pydantic', 'polars', 'numpy', 'scipy', 'altair', 'av', 'duckdb'} & set(sys.modules)\n"
        "print(code, sorted(heavy))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "0 []"


def settled(tmp_path, monkeypatch):
    """Return two files of code, and their hash, kept in a cache of the test's own."""
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(identity, "_SETTLED_NS", 0)
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file in files:
        file.write_text("a = 1\n")
    return files


def test_the_hash_of_the_program_is_read_once_for_the_same_files(tmp_path, monkeypatch):
    files = settled(tmp_path, monkeypatch)
    first = identity._kept(files, tmp_path)
    assert first == identity._hashed(files, tmp_path)
    monkeypatch.setattr(identity, "_hashed", lambda *_: "read again")
    assert identity._kept(files, tmp_path) == first


def test_a_changed_file_is_hashed_again_though_size_and_time_of_writing_are_the_same(tmp_path, monkeypatch):
    files = settled(tmp_path, monkeypatch)
    first = identity._kept(files, tmp_path)
    before = files[0].stat()
    after = before
    while after.st_ctime_ns == before.st_ctime_ns:  # a tick of the file system's clock
        files[0].write_text("a = 2\n")
        os.utime(files[0], ns=(before.st_atime_ns, before.st_mtime_ns))
        after = files[0].stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert identity._kept(files, tmp_path) == identity._hashed(files, tmp_path) != first


def test_a_hash_is_not_kept_of_a_file_just_written(tmp_path, monkeypatch):
    files = settled(tmp_path, monkeypatch)
    monkeypatch.setattr(identity, "_SETTLED_NS", 2 * 10**9)
    identity._kept(files, tmp_path)
    assert not (tmp_path / "cache").exists()

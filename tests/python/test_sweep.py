"""Many runs: grids, folders of results, resuming, shards, clusters, and the same bytes from all."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import polars
import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import _run
from anabranch.cli._app import app
from anabranch.errors import Fault, InputError, MissingError
from anabranch.results import identity, manifest, sealed, store
from anabranch.results.read import LeftOutWarning
from anabranch.study import execute, grid, runner, sweep
from anabranch.study.verify import verify

SMALL = """
name = "small"
[application]
kind = "bulk"
bytes = "200 kB"
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"
loss = "1 %"
price_per_gb = 2.0
[[paths]]
name = "lte"
rtt = "60 ms"
rate = "8 Mbit/s"
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def small(scenario, *, trials=3, axes=("transport.scheduler=min-rtt,linux",), keep=()):
    found = [grid.parse(text) for text in axes]
    points = [
        sweep.Point(
            path=scenario,
            settings=tuple((axis.key, axis.values[place], axis.origin) for axis, place in point),
            labels=tuple((axis.key, axis.texts[place]) for axis, place in point),
        )
        for point in grid.points(found)
    ]
    return sweep.Sweep(name="small", cells=sweep.cells(points), trials=trials, keep=keep)


def tables(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# -- grids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("transport.scheduler=min-rtt,linux", "transport.scheduler", ("min-rtt", "linux")),
        ("paths.wifi.rtt=50ms, 100ms", "paths.wifi.rtt", ("50ms", "100ms")),
        ("clients=1,2", "clients", (1, 2)),
        ("transport.scheduler=rtx-aware(a, b=1),linux", "transport.scheduler", ("rtx-aware(a, b=1)", "linux")),
        ('transport.scheduler={name="linux", x=1},linux', "transport.scheduler", ({"name": "linux", "x": 1}, "linux")),
        ('name="a,b",c', "name", ("a,b", "c")),
    ],
)  # fmt: skip
def test_an_axis_is_a_key_and_its_values(text, key, values):
    axis = grid.parse(text)
    assert (axis.key, axis.values) == (key, values)


@pytest.mark.parametrize("text", ["", "clients", "clients=", "=1,2", "clients=1,,2", "clients=1,1"])
def test_a_broken_axis_is_a_fault(text):
    assert isinstance(grid.parse(text), Fault)


def test_the_last_axis_turns_fastest():
    axes = [grid.parse("a=1,2"), grid.parse("b=3,4")]
    found = [tuple(axis.values[place] for axis, place in point) for point in grid.points(axes)]
    assert found == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_every_fault_of_a_grid_is_reported_once(scenario, tmp_path):
    axes = ("--grid", "transport.schedular=min-rtt,linux", "--grid", "paths.wifi.rtt=50,60ms")
    result = call("sweep", scenario, *axes, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert result.stderr.count("unknown key: `schedular`") == 1
    assert "did you mean `scheduler`?" in result.stderr
    assert result.stderr.count("--grid paths.wifi.rtt=50,60ms") == 1


# -- the folder ----------------------------------------------------------------------------------


@pytest.mark.module
def test_sweep_tables_record_settings_and_results(scenario, tmp_path):
    done = runner.run(small(scenario), tmp_path / "out", workers=1)
    assert (done.total, done.before, done.now, done.complete) == (6, 0, 6, True)
    runs = anabranch.load(tmp_path / "out")
    assert runs["transport.scheduler"].to_list() == ["min-rtt"] * 3 + ["linux"] * 3
    assert runs["run"].to_list() == [0, 1, 2] * 2
    assert runs["identity"].n_unique() == 6
    assert (runs["bytes_wifi"] + runs["bytes_lte"] > 100_000).all()
    assert runs["cost"].to_list() == pytest.approx([count * 2e-9 for count in runs["bytes_wifi"]])
    subflows = anabranch.load(tmp_path / "out", "subflows")
    assert len(subflows) == 12
    assert set(subflows["path"]) == {"wifi", "lte"}
    whole = anabranch.run(scenario, scheduler="linux", run=2)
    assert runs.row(-1, named=True)["digest"] == whole.digest
    assert runs.row(-1, named=True)["goodput_mbps"] == whole.qos["goodput_mbps"]


@pytest.mark.module
def test_trials_are_paired(scenario, tmp_path):
    """The same run number has the same losses whatever the scheduler: path wifi alone shows it."""
    what = small(scenario, axes=("transport.scheduler=min-rtt,linux", "transport.multipath=false"))
    runner.run(what, tmp_path / "out", workers=1)
    runs = anabranch.load(tmp_path / "out")
    by = [
        runs.filter(runs["transport.scheduler"] == name)["digest"].to_list() for name in ("min-rtt", "linux")
    ]
    assert by[0] == by[1]
    assert len(set(by[0])) == 3


@pytest.mark.slow
@pytest.mark.module
def test_processes_shards_and_one_process_give_the_same_bytes(scenario, tmp_path):
    what = small(scenario)
    runner.run(what, tmp_path / "one", workers=1)
    runner.run(what, tmp_path / "two", workers=2)
    for number in (3, 1, 2):
        done = runner.run(what, tmp_path / "shards", workers=1, shard=runner.Shard(number=number, of=3))
    assert done.complete
    assert tables(tmp_path / "one") == tables(tmp_path / "two") == tables(tmp_path / "shards")


@pytest.mark.module
def test_more_trials_run_only_the_missing_runs(scenario, tmp_path):
    out = tmp_path / "out"
    runner.run(small(scenario, trials=2), out, workers=1)
    done = runner.run(small(scenario, trials=3), out, workers=1)
    assert (done.before, done.now) == (4, 2)
    runner.run(small(scenario, trials=3), tmp_path / "whole", workers=1)
    assert tables(out) == tables(tmp_path / "whole")


@pytest.mark.module
def test_fewer_trials_take_nothing_away(scenario, tmp_path):
    out = tmp_path / "out"
    runner.run(small(scenario, trials=3), out, workers=1)
    before = tables(out)
    done = runner.run(small(scenario, trials=1), out, workers=1)
    assert (done.total, done.before, done.now) == (2, 2, 0)
    assert tables(out) == before
    assert json.loads((out / "manifest.json").read_text())["trials"] == 3


@pytest.mark.module
@pytest.mark.parametrize("axis", ["paths.wifi.rtt=20ms,0.02s", "paths.wifi.price_per_gb=1,2"])
def test_cells_that_make_the_same_plan_are_two_cells(scenario, tmp_path, axis):
    out = tmp_path / "out"
    done = runner.run(small(scenario, trials=2, axes=(axis,)), out, workers=1)
    assert (done.total, done.before, done.now) == (4, 0, 4)
    runs = anabranch.load(out)
    assert len(runs) == 4
    assert runs["identity"].n_unique() == 2
    assert runs[axis.partition("=")[0]].n_unique() == 2


@pytest.mark.module
def test_a_journal_that_is_being_written_is_left_alone(scenario, tmp_path):
    """A shard that finds nothing left to run makes no tables of journals that others still write."""
    out, what = tmp_path / "out", small(scenario, trials=1)
    whole = sweep.manifest(what, sweep.planned(what))
    other = store.Store(out, whole, part="1of2")
    with other.writing() as journal:
        runner.run(what, out, workers=1)
        assert not (out / "runs.parquet").exists()
        row = anabranch.load(out).row(0, named=True)
        name = identity.of_run(whole["cells"][0]["hash"], 77)
        journal.add({"runs": [row | {"run": 77, "identity": name}], "subflows": []}, {})
    assert store.Store(out, whole).finish()
    assert len(anabranch.load(out)) == len(what.cells) + 1
    assert store.journals(out) == []


def test_many_may_begin_at_once(tmp_path):
    """The first ones of a folder meet: each finds it made, or makes it."""
    code = (
        "import sys, pathlib; from anabranch.results.store import Store; "
        "manifest = dict(code='c', trials=1, keep=[], notes={}, scenarios={}, cells=[]); "
        "[Store(pathlib.Path(sys.argv[1]) / str(n), manifest, part=sys.argv[2]) for n in range(20)]"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(part)], stderr=subprocess.PIPE)
        for part in range(4)
    ]
    assert [program.communicate()[1] for program in started] == [b""] * 4


@pytest.mark.module
def test_damage_is_reported_in_a_sentence(scenario, tmp_path):
    out = tmp_path / "out"
    runner.run(small(scenario, trials=1), out, workers=1)
    whole = (out / "runs.parquet").read_bytes()
    (out / "runs.parquet").write_bytes(whole[:100])
    with pytest.raises(InputError, match="a damaged table"):
        anabranch.load(out)
    (out / "runs.parquet").write_bytes(whole)
    (out / "journal-x.jsonl").write_text('{"runs":3}\n')
    with pytest.warns(LeftOutWarning, match="line 1: a damaged record in a journal"):
        assert len(anabranch.load(out)) == 2
    (out / "journal-x.jsonl").unlink()
    (out / "manifest.json").write_text('{"format": 2}')
    with pytest.raises(InputError, match="parts missing"):
        anabranch.load(out)


@pytest.mark.module
def test_intervals_are_student_s(scenario, tmp_path):
    from statistics import mean, stdev

    out = tmp_path / "out"
    runner.run(small(scenario), out, workers=1)
    rows = json.loads(call("results", out, "--metric", "goodput_mbps", "--json").stdout)
    for row in rows:
        of = [
            one["goodput_mbps"]
            for one in anabranch.load(out).to_dicts()
            if one["transport.scheduler"] == row["transport.scheduler"]
        ]
        assert row["goodput_mbps"] == pytest.approx(mean(of))
        assert row["goodput_mbps_ci95"] == pytest.approx(4.30265 * stdev(of) / 3**0.5, rel=1e-4)


@pytest.mark.module
def test_a_line_that_was_being_written_is_run_again(scenario, tmp_path):
    out, what = tmp_path / "out", small(scenario)
    with pytest.raises(KeyboardInterrupt):
        runner.run(what, out, workers=1, progress=interrupt_after(3))
    (journal,) = store.journals(out)
    whole = journal.read_bytes()
    assert whole.count(b"\n") == 3
    journal.write_bytes(whole[:-20])
    assert len(anabranch.load(out)) == 2
    done = runner.run(what, out, workers=1)
    assert (done.before, done.now) == (2, 4)
    runner.run(what, tmp_path / "whole", workers=1)
    assert tables(out) == tables(tmp_path / "whole")
    assert store.journals(out) == []


def interrupt_after(count):
    def progress(done, _total):
        if done == count:
            raise KeyboardInterrupt

    return progress


@pytest.mark.slow
@pytest.mark.module
def test_a_killed_sweep_goes_on_where_it_was(scenario, tmp_path):
    """kill -9 of the whole program: its workers end too, and the written runs count."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "anabranch", "sweep", scenario, "--grid", "transport.scheduler=min-rtt,linux",
               "--trials", "400", "--workers", "2", "--out", out]  # fmt: skip
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = out / "journal-all.jsonl"
    until = time.monotonic() + 60
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= 10) and time.monotonic() < until:
        time.sleep(0.02)
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    program.send_signal(signal.SIGKILL)
    program.wait()
    kept = journal.read_bytes().count(b"\n")
    assert 10 <= kept < 800
    done = runner.run(small(scenario, trials=20), out, workers=1)
    assert done.before > 0
    assert done.before + done.now == 40
    assert children
    until = time.monotonic() + 20
    while any(Path(f"/proc/{child}/cmdline").exists() and b"python" in Path(f"/proc/{child}/cmdline").read_bytes()
              for child in children) and time.monotonic() < until:  # fmt: skip
        time.sleep(0.1)
    assert time.monotonic() < until, "the workers outlive their parent"


@pytest.mark.module
def test_tables_of_the_trace_are_kept_when_asked(scenario, tmp_path):
    runner.run(small(scenario, trials=1, keep=("samples",)), tmp_path / "out", workers=1)
    samples = anabranch.load(tmp_path / "out", "samples")
    assert samples["identity"].n_unique() == 2
    assert {"t_s", "cwnd_segments", "path"} <= set(samples.columns)
    with pytest.raises(InputError, match="no such table"):
        anabranch.load(tmp_path / "out", "sample")


@pytest.mark.module
def test_a_folder_of_something_else_is_refused(scenario, tmp_path):
    out = tmp_path / "out"
    runner.run(small(scenario, trials=1), out, workers=1)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["sha256"]
    (out / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    for read in (anabranch.load, lambda folder: runner.run(small(scenario, trials=1), folder, workers=1)):
        with pytest.raises(InputError, match="a later version of this program: format 99"):
            read(out)
    (out / "manifest.json").write_text(json.dumps({**manifest, "format": 1}))
    with pytest.raises(InputError, match="another version: format 1"):
        runner.run(small(scenario, trials=1), out, workers=1)
    assert len(anabranch.load(out, earlier=True)) == 2
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("dear diary")
    (tmp_path / "notes" / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="cannot read the manifest"):
        runner.run(small(scenario, trials=1), tmp_path / "notes", workers=1)
    (tmp_path / "notes" / "manifest.json").unlink()
    with pytest.raises(InputError, match="something else than results"):
        runner.run(small(scenario, trials=1), tmp_path / "notes", workers=1)
    with pytest.raises(InputError, match="no folder of results"):
        anabranch.load(tmp_path / "nowhere")


@pytest.mark.module
def test_two_writers_are_one_too_many(scenario, tmp_path):
    what = small(scenario, trials=1)
    first = store.Store(tmp_path / "out", sweep.manifest(what))
    with first.writing(), pytest.raises(InputError, match="another process"):
        runner.run(what, tmp_path / "out", workers=1)


@pytest.mark.module
def test_a_full_disk_is_reported_in_a_sentence_and_loses_nothing(scenario, tmp_path, monkeypatch):
    what, out = small(scenario), tmp_path / "out"
    add, count = store._Journal.add, [0]

    def full(self, rows, traces):
        count[0] += 1
        if count[0] > 2:
            raise OSError(28, os.strerror(28))
        add(self, rows, traces)

    monkeypatch.setattr(store._Journal, "add", full)
    with pytest.raises(MissingError, match="No space left on device") as caught:
        runner.run(what, out, workers=1)
    assert "repeat the command" in str(caught.value)
    monkeypatch.undo()
    assert runner.run(what, out, workers=1).before == 2


@pytest.mark.module
def test_a_worker_of_another_build_is_refused(scenario):
    what = small(scenario)
    job = next(what.jobs(sweep.planned(what)))
    with pytest.raises(MissingError, match="another build"):
        execute.work(job, "0.0.1+abc")


@pytest.mark.module
def test_a_worker_imports_no_tables_unless_it_keeps_some(scenario):
    # Each of two workers would import polars and numpy, which takes as long as several short runs.
    code = (
        "import sys, pathlib\n"
        "from anabranch.results import identity\n"
        "from anabranch.study import execute, sweep\n"
        "point = sweep.Point(path=pathlib.Path(sys.argv[1]), settings=(), labels=())\n"
        "what = sweep.Sweep(name='one', cells=sweep.cells([point]), trials=1, keep=tuple(sys.argv[2:]))\n"
        "job = next(what.jobs(sweep.planned(what)))\n"
        "rows, traces = execute.work(job, identity.code())\n"
        "print(len(rows['runs']), *traces, *sorted({'polars', 'numpy'} & set(sys.modules)))"
    )

    def told(*keep):
        words = [sys.executable, "-c", code, str(scenario), *keep]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    assert told() == ["1"]
    assert {"1", "samples", "polars"} <= set(told("samples"))


@pytest.mark.module
def test_a_run_of_a_sweep_has_the_identity_of_the_same_run_alone(scenario):
    what = small(scenario, axes=("seed=1,2",))
    (*_, job) = what.jobs(sweep.planned(what))
    loaded, film = job.ready()
    runs = [_run.run_loaded(loaded, run=job.run, film=film, cell=cell) for cell in ("", job.hash)]
    assert [run.identity for run in runs] == [job.identity] * 2


@pytest.mark.slow
@pytest.mark.module
def test_a_dask_cluster_gives_the_same_bytes(scenario, tmp_path):
    distributed = pytest.importorskip("distributed")
    what = small(scenario)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        done = runner.run(what, tmp_path / "cluster", workers=1, dask=cluster.scheduler_address)
    assert done.complete
    runner.run(what, tmp_path / "here", workers=1)
    assert tables(tmp_path / "cluster") == tables(tmp_path / "here")


def lost(name):
    """Return an error as Dask has it."""
    import concurrent.futures

    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    return {
        "worker": KilledWorker("work-1", SimpleNamespace(address="tcp://127.0.0.1:1"), 3),
        "connection": CommClosedError("in <TCP>: closed"),
        "scheduler": concurrent.futures.CancelledError(),
        "task": FutureCancelledError("work-1", "scheduler-connection-lost"),
    }[name]


@pytest.mark.parametrize("name", ["worker", "connection", "scheduler", "task"])
def test_a_cluster_that_goes_away_is_reported_in_a_sentence(monkeypatch, name):
    pytest.importorskip("distributed")
    error = lost(name)

    class Pool:
        def submit(self, *_):
            future = Future()
            future.set_exception(error)
            return future

    monkeypatch.setattr(execute, "_cluster", lambda _: nullcontext((Pool(), 1)))
    with pytest.raises(MissingError, match="a worker of the cluster is gone") as caught:
        list(execute.execute([None], workers=1, dask="tcp://127.0.0.1:1"))
    assert "finished runs are kept" in str(caught.value)


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.module
def test_sql_over_the_tables(scenario, tmp_path):
    runner.run(small(scenario), tmp_path / "out", workers=1)
    frame = anabranch.query(tmp_path / "out", "SELECT count(*) AS n FROM runs JOIN subflows USING (identity)")
    assert frame["n"].to_list() == [12]
    with pytest.raises(InputError, match=r"no such column: `goodput` in runs .*\n.*`goodput_mbps`"):
        anabranch.query(tmp_path / "out", "SELECT goodput FROM runs")
    for broken in ("SELEC 1", "SELECT count() FROM nothing", "SELECT * FROM read_csv('/etc/passwd')"):
        with pytest.raises(InputError, match="DuckDB"):
            anabranch.query(tmp_path / "out", broken)


def rewritten(out, table, change):
    """Change a table of a folder and its checksum, so that only a repeated run reveals the change."""
    file = out / f"{table}.parquet"
    change(polars.read_parquet(file)).write_parquet(file)
    found = manifest.read(out)
    found["tables"][file.name] = [sealed.digest(file.read_bytes())]
    (out / manifest.MANIFEST).write_bytes(manifest.text(found))


@pytest.mark.module
def test_verify_finds_changed_values(scenario, tmp_path):
    out = tmp_path / "out"
    runner.run(small(scenario), out, workers=1)
    assert verify(out) == ({}, 6)
    assert verify(out, sample=2) == ({}, 2)
    nine = polars.when(polars.col("run") == 1).then(9.0).otherwise(polars.col("goodput_mbps"))
    rewritten(out, "runs", lambda runs: runs.with_columns(nine.alias("goodput_mbps")))
    differences, count = verify(out)
    assert (len(differences), count) == (2, 6)
    for lines in differences.values():
        (line,) = lines
        assert "goodput_mbps is" in line
        assert "9.0 is kept" in line
    with pytest.raises(InputError, match="no run is called"):
        verify(out, ["zzz"])


@pytest.mark.module
def test_verify_finds_names_that_are_wrong_and_rows_that_are_gone(scenario, tmp_path):
    out = tmp_path / "out"
    runner.run(small(scenario, keep=("samples",)), out, workers=1)
    assert verify(out) == ({}, 6)
    first, second, third, *_ = anabranch.load(out)["identity"].to_list()
    named = polars.when(polars.col("identity") == second).then(polars.lit("f" * 20)).otherwise("identity")
    for table in store.TABLES:
        rewritten(
            out,
            table,
            lambda rows: rows.filter(polars.col("identity") != first).with_columns(named.alias("identity")),
        )
    (spoiled,) = (out / "traces").glob(f"{third}-*/samples.parquet")
    spoiled.write_bytes(b"x")
    differences, count = verify(out)
    assert count == 4
    found = {name: lines[0] for name, lines in differences.items()}
    assert "is missing" in found[first]
    assert "is missing" in found[second]
    assert "has this identity" in found["f" * 20]
    assert "differs from the one that the run makes now" in found[third]
    assert "a damaged table" in found[str(spoiled)]


# -- the command line ----------------------------------------------------------------------------


@pytest.mark.module
def test_the_command_line_from_sweep_to_verify(scenario, tmp_path):
    out = tmp_path / "out"
    grid_option = ("--grid", "transport.scheduler=min-rtt,linux")
    result = call("sweep", scenario, *grid_option, "--trials", 2, "--workers", 1, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "transport.scheduler" in result.stdout
    assert "4 runs, 0 were there already" in result.stderr
    result = call("sweep", scenario, *grid_option, "--trials", 2, "--workers", 1, "--out", out, "--json")
    assert [row["runs"] for row in json.loads(result.stdout)] == [2, 2]
    result = call("results", out, "--by", "run", "--json")
    assert [row["run"] for row in json.loads(result.stdout)] == [0, 1]
    assert "did you mean `run`?" in call("results", out, "--by", "rn").stderr
    assert call("verify", out).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--grid", "clients"), "expected KEY=VALUE,VALUE"),
        (("--grid", "clients=1,2", "--grid", "clients=3"), "given twice: `clients`"),
        (("--grid", "clientz=1,2"), "did you mean `clients`?"),
        (("--shard", "4/3"), "not a shard: `4/3`"),
        (("--keep", "sample"), "did you mean `samples`?"),
    ],
)
def test_bad_usage_is_2(scenario, tmp_path, arguments, message):
    result = call("sweep", scenario, "--trials", 1, "--workers", 1, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("mean", "half", "shown"),
    [
        (135.0, 118.3, "135 ± 120"),
        (1234567.0, 45678.0, "1235000 ± 46000"),
        (0.000123456, 0.0000012, "0.0001235 ± 0.0000012"),
        (0.0, 0.0, "0"),
        (9.99996, 9.96, "10 ± 10"),
        # 24.5 ± 105 reaches below zero, which no count does.
        (24.5, 105.0, "24.5 (0 to 130)"),
        (7, None, "7"),
        (-2.5, None, "-2.5"),
        (None, 1.0, "-"),
    ],
)
def test_numbers_in_tables_are_plain(mean, half, shown):
    from anabranch.cli._sweep import _cell

    assert _cell({"m": mean, "m_ci95": half}, "m_ci95", "m") == shown

"""The papers' claims as statements: all are there, name existing cells, and report their faults together."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.claims import measure, statement
from anabranch.claims.judge import VERDICTS
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.results.read import load
from anabranch.study import study as studies
from anabranch.study.assume import said

PAGE = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
CLAIMS = {"HO20": 17, "LEO24": 18, "PC16": 22, "SD18": 20, "UQ18": 24}

STUDY = """
title = "t"
source = "s"
question = "q"
[[parts]]
scenarios = ["one", "two"]
[parts.grid]
"transport.congestion" = ["cubic", "reno"]
"transport.multipath" = [false, true]
"transport.scheduler" = ["linux"]
"""
MATTERS = '[matters.goodput_mbps]\nby = 0.1\nwhy = "w"\n'
CLAIM = '[[claims]]\nid = "A"\nplace = "p"\nsays = "s"\n'
SOUND = 'parts = [{ test = "less", metric = "goodput_mbps", of = { row = "one", congestion = "reno", multipath = true }, than = { congestion = "cubic" } }]\n'


def made(tmp_path, text):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\n[[paths]]\nname = "a"\nrtt = "9 ms"\nrate = "1 Mbit/s"'
        )
    (folder / "claims.toml").write_text(text)
    return statement.read(folder, studies.read(folder))


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_of_the_paper_is_stated(name):
    folder = studies.find(name)
    found = statement.read(folder, studies.read(folder))
    assert [one.claim.id for one in found] == [f"{name}.{number + 1}" for number in range(CLAIMS[name])]
    assert all(bool(one.comparisons) != bool(one.claim.missing) for one in found)


def test_lists_stand_for_each_of_their_values(tmp_path):
    text = SOUND.replace('row = "one", congestion = "reno"', 'row = ["one", "two"], congestion = "reno"')
    (one,) = made(tmp_path, MATTERS + CLAIM + text)
    assert [comparison.of.name for comparison in one.comparisons] == [
        "one, reno, multipath true",
        "two, reno, multipath true",
    ]
    # `than` changes the keys that it names and keeps the others, so rows are compared with themselves.
    assert [comparison.than.name for comparison in one.comparisons] == [
        "one, cubic, multipath true",
        "two, cubic, multipath true",
    ]
    assert one.needed == 2
    assert len(one.cells()) == 4


def test_every_fault_is_reported_at_once(tmp_path):
    """Eleven faults, each with its line, its key and the nearest valid name."""
    text = f"""{MATTERS}
[matters.godput]
by = 1
why = "w"
{CLAIM}
at = {{ row = "one", multipath = true }}
parts = [
    {{ test = "less", metric = "goodput", of = {{ congestion = "reno" }}, than = {{ congestion = "cubic" }}, by = 1, why = "w" }},
    {{ test = "less", metric = "goodput_mbps", of = {{ congestion = "rneo" }}, than = {{ congestion = "cubic" }} }},
    {{ test = "less", metric = "goodput_mbps", of = {{ congestoin = "reno" }}, than = 1 }},
    {{ test = "less", metric = "goodput_mbps +", of = {{ congestion = "reno" }}, than = 1 }},
    {{ test = "between", metric = "goodput_mbps", of = {{ congestion = "reno" }}, within = [2, 1], why = "w" }},
    {{ test = "less", metric = "duration_s", of = {{ congestion = "reno" }}, than = 1 }},
    {{ test = "less", metric = "goodput_mbps", of = {{ congestion = "reno" }} }},
    {{ test = "less", metric = "goodput_mbps", than = 1 }},
]
{CLAIM}
at_least = 2
{SOUND}
"""
    with pytest.raises(InputError) as caught:
        made(tmp_path, text)
    told = {(fault.line, fault.message) for fault in caught.value.faults}
    assert told == {
        (5, "no part has this metric: `godput`"),
        (15, "no such column in row one, reno, multipath true: `goodput`"),
        (15, "no such column in row one, cubic, multipath true: `goodput`"),
        (16, "no cell of the study has this congestion: `rneo`"),
        (17, "no such key of the study's grid: `congestoin`"),
        (18, "not a metric: `goodput_mbps +`"),
        (19, "expected the lower bound first, and one that is finite"),
        (20, "it is not said by how much `duration_s` must differ to matter"),
        (21, "expected `than`, with cells or a number"),
        (22, "2 cells have this: row = one, multipath = True"),
        (25, "given twice: `A`"),
        (29, "there are only 1 comparisons: 2"),
    }
    hints = " ".join(fault.hint for fault in caught.value.faults)
    for name in ("goodput_mbps", "reno", "congestion"):
        assert f"did you mean `{name}`?" in hints
    assert all(fault.where.endswith("claims.toml") for fault in caught.value.faults)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[claims]", "not valid TOML"),
        (CLAIM.replace("says", "syas") + SOUND, "did you mean `says`?"),
        (CLAIM + SOUND.replace('"less"', '"les"'), "did you mean `less`?"),
        (CLAIM + SOUND.replace("metric", "metrik"), "did you mean `metric`?"),
        (CLAIM, "expected either `parts`, or `missing`"),
        (CLAIM + 'missing = "m"\n' + SOUND, "expected either `parts`, or `missing`"),
        ("", "missing key: `claims`"),
        (MATTERS.replace("0.1", "-1") + CLAIM + SOUND, "matters.goodput_mbps.by"),
    ],
)
def test_a_broken_list_of_claims_is_reported(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        made(tmp_path, text)
    assert message in str(caught.value)


def test_a_metric_is_arithmetic_over_columns():
    row = {"bytes_F1": 3, "bytes_F2": 1, "subflows.F1.retransmissions": 4, "finished": True}
    for text, value in (
        ("bytes_F2 / (bytes_F1 + bytes_F2)", 0.25),
        ("subflows.F1.retransmissions - 2 * bytes_F2", 2.0),
        ("finished", 1.0),
        ("bytes_F3", None),
        ("bytes_F1 / (bytes_F2 - 1)", None),
    ):
        metric = measure.parse(text)
        assert isinstance(metric, measure.Metric)
        assert metric.value(row) == value
    for text in (
        "",
        "1 +",
        "__import__('os')",
        "bytes_F1 ** 2",
        "a if b else c",
        "'text'",
        "a[0]",
        "(" * 300,
    ):
        assert isinstance(measure.parse(text), str)


def small(tmp_path, trials=3, extra=()):
    """The verdicts of a study of four short cells with a known truth: half the rate gives half the
    goodput.
    """
    folder = tmp_path / "studies" / "mine"
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(
        'title = "t"\nsource = "s"\nquestion = "q"\n[[parts]]\nscenarios = ["one", "two"]\n'
        '[parts.grid]\n"transport.congestion" = ["cubic", "reno"]\n"transport.scheduler" = ["linux"]\n'
        '[assumptions.size]\nwhat = "w"\nwhy = "y"\nset = { "application.bytes" = "300 kB" }\n'
        '[assumptions.rate]\nwhat = "w"\nwhy = "y"\nset = { "paths.a.rate" = "2 Mbit/s" }\n'
        'sweep = [{ "paths.a.rate" = "4 Mbit/s" }, { "paths.a.rate" = "0.5 Mbit/s" }]\nscenarios = ["two"]\n'
        '[assumptions.delay]\nwhat = "w"\nwhy = "y"\nset = { "paths.a.rtt" = "9 ms" }\n'
        'sweep = [{ "paths.a.rtt" = "90 ms" }]\n'
    )
    for name, rate in (("one", 1), ("two", 2)):
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\n[application]\nkind = "bulk"\nbytes = "1 MB"\n'
            f'[[paths]]\nname = "a"\nrtt = "9 ms"\nrate = "{rate} Mbit/s"\nloss = "1 %"\n'
        )
    (folder / "claims.toml").write_text(
        MATTERS
        + '[[claims]]\nid = "A"\nplace = "p"\nsays = "faster | with twice the rate"\nat = { congestion = ["cubic", "reno"] }\n'
        'parts = [{ test = "more", metric = "goodput_mbps", of = { row = "two" }, than = { row = "one" } }]\n'
        '[[claims]]\nid = "B"\nplace = "p"\nsays = "slower"\nat = { congestion = "reno" }\n'
        'parts = [{ test = "less", metric = "subflows.a.throughput_mbps", of = { row = "two" }, than = { row = "one" }, by = 0.1, why = "w" }]\n'
        '[[claims]]\nid = "C"\nplace = "p"\nsays = "s"\nmissing = "a clock"\n'
    )
    given = [
        "study",
        "claims",
        str(folder),
        str(tmp_path / "out"),
        "--run",
        "--trials",
        str(trials),
        "--workers",
        "1",
    ]
    return CliRunner().invoke(app, [*given, *extra])


@pytest.mark.module
def test_claims_command_runs_missing_trials_and_judges(tmp_path):
    page = tmp_path / "claims.md"
    result = small(tmp_path, trials=8, extra=["--docs", str(page), "--json"])
    assert result.exit_code == 0, result.stderr
    found = {one["id"]: one for one in json.loads(result.stdout)}
    assert {name: one["verdict"] for name, one in found.items()} == {
        "A": "reproduced",
        "B": "not reproduced",
        "C": "not testable",
    }
    assert [one["pairs"] for one in found["A"]["comparisons"]] == [8, 8]
    assert 0.7 < found["A"]["comparisons"][0]["value"] < 1.1
    # If no other worlds were run, the verdict by means is that of the study itself.
    assert {name: one["by_means"]["where"] for name, one in found.items()} == {
        "A": "everywhere",
        "B": "nowhere",
        "C": "unknown",
    }
    told = page.read_text()
    assert "- not run: paths.a.rate = 4 Mbit/s; paths.a.rate = 0.5 Mbit/s; paths.a.rtt = 90 ms" in told
    assert "| mine | 1 | 1 | 0 | 1 | 0 | 32 | 8 | 0.00 |" in told
    assert "application.bytes = 300 kB" in told
    assert "faster \\| with twice the rate" in told
    # Runs that exist are not repeated, and need no --run.
    again = CliRunner().invoke(
        app, ["study", "claims", str(tmp_path / "studies" / "mine"), str(tmp_path / "out"), "--json"]
    )
    assert again.exit_code == 0, again.stderr
    assert again.stdout == result.stdout
    assert "runs, " not in again.stderr.replace("(32 runs", "")


@pytest.mark.module
def test_pilot_uses_another_seed_and_estimates_the_trial_count(tmp_path):
    assert small(tmp_path, trials=1).exit_code == 0
    given = ["study", "pilot", str(tmp_path / "studies" / "mine"), "--workers", "1", "--out"]
    result = CliRunner().invoke(app, [*given, str(tmp_path / "pilot"), "--json"])
    assert result.exit_code == 0, result.stderr
    found = {one["claim"]: one for one in json.loads(result.stdout)}
    assert {name: one["outcome"] for name, one in found.items()} == {"A": "holds", "B": "fails"}
    assert all(3 <= one["trials"] < 30 for one in found.values())
    rows = load(tmp_path / "pilot").to_dicts()
    assert {row["seed"] for row in rows} == {1001}
    assert len(rows) == 4 * 8
    told = CliRunner().invoke(app, [*given, str(tmp_path / "pilot")])
    assert "32 were there already" in told.stderr
    assert "30 trials, the study's own number, decide 2 of 2 claims" in told.stderr


@pytest.mark.module
def test_chosen_claims_are_judged_apart_and_change_their_rows_alone(tmp_path):
    page = tmp_path / "claims.md"
    extra = ["--docs", str(page)]
    assert small(tmp_path, trials=8, extra=extra).exit_code == 0
    before = page.read_text()
    # B's expression is inverted, so the claim holds now. It needs half of the cells.
    file = tmp_path / "studies" / "mine" / "claims.toml"
    file.write_text(file.read_text().replace('test = "less"', 'test = "more"'))
    given = [
        "study",
        "claims",
        str(file.parent),
        str(tmp_path / "apart"),
        "--run",
        "--trials",
        "7",
        "--workers",
        "1",
    ]
    result = CliRunner().invoke(app, [*given, "--only", "B", *extra])
    assert result.exit_code == 0, result.stderr
    assert "14 runs, 0 were there already" in result.stderr
    after = page.read_text()
    own = [line for line in after.splitlines() if line not in before.splitlines()]
    assert own[0] == "| mine | 2 | 0 | 0 | 1 | 0 | 32 | 8 | 0.00 |"
    assert own[1].startswith(
        "Judged later, by themselves: B. 14 runs; trials of a cell: 7; seed: 1; CPU hours: "
    )
    assert own[2].startswith("| B (p) | slower | **reproduced** |  |  | two, reno against one, reno")
    assert len(own) == 3
    # A second call gives the same page, without repetition.
    assert CliRunner().invoke(app, [*given, "--only", "B", *extra]).exit_code == 0
    assert page.read_text() == after


@pytest.mark.module
def test_a_page_keeps_the_papers_that_are_not_judged(tmp_path):
    page = tmp_path / "claims.md"
    assert small(tmp_path, extra=["--docs", str(page)]).exit_code == 0
    first = page.read_text()
    causes = "Why pictures froze and were discarded (`anabranch study why`), means of all:\n\n| row |\n|---|\n| x |\n"
    page.write_text(f"{first}\n{causes}".replace("mine", "kin"))
    judged = [
        "study",
        "claims",
        str(tmp_path / "studies" / "mine"),
        str(tmp_path / "out"),
        "--docs",
        str(page),
    ]
    assert CliRunner().invoke(app, judged).exit_code == 0
    both = page.read_text()
    # Both papers by name, each with its rows, and each section as the page of it alone has it.
    own = first[first.index("\n## mine") :]
    other = f"{own}\n{causes}".replace("mine", "kin")
    assert both[both.index("\n## ") :] == f"{other}{own}"
    rows = [line for line in first.splitlines() if line.startswith("| mine |")]
    assert len(rows) == 2
    told = [line for line in both.splitlines() if line.startswith(("| mine |", "| kin |"))]
    assert told == [line for row in rows for line in (row.replace("mine", "kin"), row)]
    # After judging again, the other claim is unchanged, except that its causes are marked as those of an
    # earlier page.
    page.write_text(both.replace("mine", "third").replace("kin", "mine"))
    assert CliRunner().invoke(app, judged).exit_code == 0
    earlier = "(`anabranch study why`, on the build and the trials of an earlier page), means of all:"
    assert page.read_text() == both.replace("mine", "third").replace("kin", "mine").replace(
        "(`anabranch study why`), means of all:", earlier
    )
    # Other findings in the list of claims are copied unchanged. A later assumption that sets no key does not
    # change the results.
    file = tmp_path / "studies" / "mine" / "claims.toml"
    file.write_text(f'found = """\nA table:\n\n| a |\n|---|\n"""\n{file.read_text()}')
    study = file.with_name("study.toml")
    later = '[assumptions.late]\nwhat = "later"\nwhy = "y"\nsweep = [{ "host.clock_phase" = "0 s" }]\n'
    study.write_text(f"{study.read_text()}{later}")
    assert CliRunner().invoke(app, judged).exit_code == 0
    told = page.read_text().partition("\n## mine\n")[2]
    assert "\n\nA table:\n\n| a |\n|---|\n\nWhy pictures froze" in told
    assert "- late: later: nothing is set (y)\n" in told
    # A text that is not such a page is not kept.
    page.write_text("# Something else\n\n## mine\n\nwords\n")
    assert CliRunner().invoke(app, judged).exit_code == 0
    assert "words" not in page.read_text()
    assert page.read_text().startswith(first[: first.index("| paper |")])


def test_claims_that_cannot_be_chosen_are_reported(tmp_path):
    result = CliRunner().invoke(app, ["study", "claims", "PC16", "--only", "PC16.31"])
    assert result.exit_code == 2
    assert "no such claim: `PC16.31`" in result.stderr
    page = str(tmp_path / "none.md")
    result = CliRunner().invoke(app, ["study", "claims", "PC16", "--only", "PC16.13", "--docs", page])
    assert "not a page of claims that could be judged again" in result.stderr


@pytest.mark.module
def test_results_of_other_settings_are_reported(tmp_path):
    assert small(tmp_path).exit_code == 0
    file = tmp_path / "studies" / "mine" / "study.toml"
    file.write_text(file.read_text().replace("300 kB", "400 kB"))
    result = CliRunner().invoke(app, ["study", "claims", str(file.parent), str(tmp_path / "out")])
    assert "4 cells have other settings than the study as it stands" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("PC61",), "did you mean `PC16`?"),
        (("PC16", "nowhere"), "no folder of results"),
        (("all", "nowhere"), "no results of any study"),
        (("PC16", "--trials", "3", "--workers", "2"), "--workers"),
    ],
)
def test_a_wrong_call_is_reported(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["study", "claims", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_study_without_claims_is_reported(tmp_path, monkeypatch):
    with pytest.raises(InputError):
        made(tmp_path, "")
    (tmp_path / "mine" / "claims.toml").unlink()
    for command in ("claims", "pilot"):
        result = CliRunner().invoke(app, ["study", command, str(tmp_path / "mine")])
        assert result.exit_code == 2
        assert "states no claims" in result.stderr


@pytest.mark.module
def test_worlds_around_a_study_change_how_a_claim_comes_out(tmp_path):
    """With half the rate in row one, the claims about twice its rate are inverted. The other rows stay those
    of the study.
    """
    page = tmp_path / "claims.md"
    extra = ["--around", "rate", "--around-trials", "2", "--docs", str(page), "--json"]
    result = small(tmp_path, trials=4, extra=extra)
    assert result.exit_code == 0, result.stderr
    found = {one["id"]: one["by_means"] for one in json.loads(result.stdout)}
    faster, slower = "paths.a.rate = 4 Mbit/s", "paths.a.rate = 0.5 Mbit/s"
    assert {world["set"]: world["holds"] for world in found["A"]["worlds"]} == {faster: True, slower: False}
    assert {world["set"]: world["holds"] for world in found["B"]["worlds"]} == {faster: False, slower: True}
    assert [found[name]["where"] for name in "ABC"] == ["here", "here", "unknown"]
    # The claims need four cells of this row (two times two rates) with two runs each. Row one is not run
    # again.
    assert "8 runs, 0 were there already" in result.stderr
    told = page.read_text()
    assert f"here (2 of 3) | {slower} |" in told
    assert f"here (1 of 3) | {slower} |" in told
    assert "- not run: paths.a.rtt = 90 ms" in told
    assert "| mine | 0 | 2 | 0 | 2 | 1 |" in told


def test_worlds_of_an_unknown_assumption_are_reported():
    result = CliRunner().invoke(app, ["study", "claims", "LEO24", "--run", "--around", "emulatr"])
    assert result.exit_code == 2
    assert "did you mean `emulator`?" in result.stderr
    result = CliRunner().invoke(app, ["study", "claims", "LEO24", "--around", "emulator"])
    assert result.exit_code == 2
    assert "nothing is run: `--around`" in result.stderr


def test_numbers_of_a_path_with_several_connections_are_the_films_own():
    """The player's first connections only read the film's structure, so their windows are not meaningful."""
    from anabranch.claims import stored

    row = {}
    for carried in ({"bytes": 9, "retransmissions": 4}, {"bytes": 1, "retransmissions": 1}):
        stored._add(row, {"path": "a", "cwnd_segments_median": 40 * carried["bytes"], **carried})
    assert row["subflows.a.bytes"] == 10
    assert row["subflows.a.retransmissions"] == 5
    assert row["subflows.a.cwnd_segments_median"] == 360


@pytest.mark.parametrize("name", CLAIMS)
def test_the_page_has_the_claims_as_they_are_stated(name):
    """The page of verdicts is written by a command that a person runs. It must not contain other claims or
    assumptions.
    """
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith(f"| {name}.")]
    folder = studies.find(name)
    study = studies.read(folder)
    stated = [one.claim for one in statement.read(folder, study)]
    assert [(row[0].removeprefix("| "), row[1].replace("\\|", "|")) for row in rows] == [
        (f"{one.id} ({one.place})", one.says) for one in stated
    ]
    for row, one in zip(rows, stated, strict=True):
        verdict = row[2].strip("*")
        assert verdict in VERDICTS
        assert (verdict == "not testable") == (one.missing is not None)
        assert not (one.inferred and verdict == "reproduced")
    assert statement.found(folder) in section
    for key, assumption in study.assumptions.items():
        assert f"- {key}: {assumption.what}: {said(assumption.set)} ({assumption.why})" in section
    # The page lists each changed assumption, even if it was not run.
    for assumption in study.assumptions.values():
        assert all(said(other) in section for other in assumption.others)
    # The numbers at the top are those of the table.
    counts = [sum(row[2].strip("*") == verdict for row in rows) for verdict in VERDICTS]
    assert f"| {name} | {' | '.join(map(str, counts))} | " in text

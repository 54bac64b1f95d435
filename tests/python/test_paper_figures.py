"""Figures and tables for a paper: lines over a numeric axis, sizes of columns, PDF, LaTeX and Markdown."""

from __future__ import annotations

import csv
import json
import re
import struct

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.experiments import axes, drawn, page
from anabranch.figures import colours, sizes, study, words
from anabranch.figures.picture import Picture
from anabranch.results import written

LTE, WIFI, SCHEDULER = "paths.lte.rate", "paths.wifi.loss", "transport.scheduler"


def rows(grid, metric=lambda _: 1.0, runs=3):
    """Runs of every cell of a grid."""
    cells = [{}]
    for key, values in grid.items():
        cells = [{**cell, key: value} for cell in cells for value in values]
    return [
        {"row": "small", "run": run, "seed": 1, **cell, "goodput_mbps": metric(cell) + run}
        for cell in cells
        for run in range(runs)
    ]


GRID = {
    SCHEDULER: ["linux", "min-rtt"],
    LTE: ["1 Mbit/s", "500 kbit/s", "10 Mbit/s"],
    WIFI: ["0 %", "1 %"],
}


# -- axes ----------------------------------------------------------------------------------------------


def test_a_numeric_axis_is_across_and_a_second_one_gives_small_multiples():
    found = axes.of(rows(GRID), list(GRID))
    assert (found.x, found.unit, found.panel, found.colour, found.others) == (
        LTE,
        "Mb/s",
        WIFI,
        SCHEDULER,
        (),
    )
    assert found.values == {"1 Mbit/s": 1.0, "500 kbit/s": 0.5, "10 Mbit/s": 10.0}
    assert not found.is_log, "a factor of 20"
    wide = {**GRID, LTE: ["1 Mbit/s", "10 Mbit/s", "100 Mbit/s"]}
    assert axes.of(rows(wide), list(wide)).is_log


def test_categories_and_two_values_are_bars():
    for grid in ({SCHEDULER: ["a", "b", "c"]}, {LTE: ["1 Mbit/s", "2 Mbit/s"]}):
        assert axes.of(rows(grid), list(grid)) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["20ms", "0.1 s"], ([20.0, 100.0], "ms")),
        (["1 s", "2 min"], ([1.0, 120.0], "s")),
        (["0.5 %", "2 %"], ([0.5, 2.0], "%")),
        (["64 kB", "2 MB"], ([0.064, 2.0], "MB")),
        (["20packets", "400 packets", "1 packet"], ([20.0, 400.0, 1.0], "packets")),
        (["20packets", "64 kB"], None),
        ([1, 2.5], ([1.0, 2.5], "")),
        (["unlimited", "5 Mbit/s"], None),
        (["linux", "1 s"], None),
        ([True, False], None),
    ],
)
def test_values_with_units_are_numbers(values, expected):
    found = words.numbers(values)
    assert found == expected if expected is None else found == (pytest.approx(expected[0]), expected[1])


def test_titles_are_words_with_units():
    assert words.key(LTE, "Mb/s") == "rate of lte, Mb/s"
    assert words.key("paths.wifi.rtt", "ms") == "round-trip time of wifi, ms"
    assert words.metric("startup_delay_s") == "startup delay, s"
    assert words.metric("max_read_gap_s") == "max read gap, s"
    assert words.metric("queue_drops") == "queue drops"


def test_a_scheduler_has_the_colour_of_the_table():
    assert colours.of_lines(["min-rtt", "mine", "linux"])["linux"] == colours.LINES["linux"]
    found = colours.of_lines([*colours.LINES, "mine", "yours"])
    assert len(set(found.values())) == len(found)


def test_a_band_is_the_95_percent_interval():
    points = axes._points(
        rows({LTE: GRID[LTE]}, runs=3), "goodput_mbps", axes.of(rows(GRID), list(GRID)[1:2]), {}
    )
    # 1, 2 and 3: mean 2, standard error 1 / sqrt(3), and Student's t of two degrees is 4.303.
    assert [row["x"] for row in points] == [0.5, 1.0, 10.0]
    assert points[0]["mean"] == 2.0
    assert points[0]["high"] - 2.0 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


def test_a_metric_that_never_varies_is_left_out_and_named():
    own = [{"a": place, "b": 0, "c": 7} for place in range(3)]
    assert drawn._varying(own, ["a", "b", "c"]) == (
        ["a"],
        ["left out, 0 in every run: b", "left out, 7 in every run: c"],
    )
    # Bars of equal heights are no empty panel; bars without height are.
    assert drawn._varying(own, ["b", "c"]) == (["c"], ["left out, 0 in every run: b"])
    assert drawn._varying(own, ["b"]) == ([], ["left out, 0 in every run: b"])


# -- sizes ---------------------------------------------------------------------------------------------


def picture():
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    own = rows(GRID, lambda row: float(row[LTE].split()[0]))
    return axes.picture(own, ["goodput_mbps"], axes.of(own, list(GRID)))


def test_widths_are_centimetres_or_columns():
    assert sizes.parse("8.9") == sizes.parse("8.9 cm") == 8.9
    # IEEE's columns have 3.5 inches, ACM's 3.33.
    assert sizes.parse("ieee") == pytest.approx(3.5 * 2.54)
    assert sizes.parse("acm") == pytest.approx(3.33 * 2.54, abs=0.01)
    for text in ("wide", "1.5.2", "0.1", "-3", "nan"):
        assert sizes.parse(text) is None
    with pytest.raises(InputError, match="not a width of a figure: `wide`"):
        Picture(chart=None).sized("wide")


@pytest.mark.slow
def test_a_figure_has_the_width_of_a_column_in_every_form(tmp_path):
    sized = picture().sized("ieee", points=7)
    files = {file.suffix: file for file in sized.save_all(tmp_path / "one.pdf")}
    assert set(files) == {".svg", ".png", ".csv", ".pdf"}
    svg = files[".svg"].read_text()
    assert re.search(r'<svg\b[^>]*\bwidth="8.89cm"', svg)
    # 3.5 inches are 252 points, and at 300 dots an inch 1,050 pixels.
    box = re.search(rb"MediaBox *\[0 0 ([\d.]+) ", files[".pdf"].read_bytes())
    assert float(box[1]) == pytest.approx(252, abs=0.5)
    width, _ = struct.unpack(">II", files[".png"].read_bytes()[16:24])
    assert width == pytest.approx(1050, abs=2)
    # Letters of 7 points are 9.33 pixels in a drawing of 336, as far as the plots could be fitted.
    drawing = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])
    letters = {float(one) for one in re.findall(r'font-size="([\d.]+)(?:px)?"', svg)}
    assert letters
    for one in letters:
        assert one * 336 / drawing * 0.75 == pytest.approx(7, abs=0.1)
    numbers = list(csv.DictReader(files[".csv"].read_text().splitlines()))
    assert len(numbers) == 12
    assert {row["line"] for row in numbers} == {"linux", "min-rtt"}


def test_the_figure_has_lines_bands_and_words():
    svg = picture().svg
    for text in ("rate of lte, Mb/s", "goodput, Mb/s", "scheduler", "loss of wifi"):
        assert text in svg
    for name in ("linux", "min-rtt"):
        assert colours.LINES[name].lower() in svg.lower()


def test_lines_differ_without_colour_and_the_axis_begins_at_zero():
    """A grey print has marks and dashes only."""
    chart = picture().chart.to_dict(validate=False)
    _, line, dots = chart["vconcat"][0]["spec"]["layer"]
    assert line["encoding"]["strokeDash"]["scale"]["range"][:2] == [[1, 0], [6, 2]]
    marks = dots["encoding"]["shape"]["scale"]["range"]
    assert len(set(marks)) == len(marks) == 2
    assert line["encoding"]["y"]["scale"]["zero"] is True
    assert line["encoding"]["y"]["title"] == ["goodput, Mb/s", "band: 95 % interval"]


def test_small_multiples_share_the_title_below_them_and_are_in_the_order_of_their_numbers():
    grid = {LTE: ["1 Mbit/s", "5 Mbit/s", "2 Mbit/s"], WIFI: ["10 %", "2 %"]}
    found = rows(grid)
    panels = axes.picture(found, ["goodput_mbps"], axes.of(found, list(grid)))
    (metric,) = panels.chart.to_dict(validate=False)["vconcat"]
    assert metric["facet"]["sort"] == ["2 %", "10 %"]
    assert metric["title"]["text"] == "rate of lte, Mb/s"
    assert panels.svg.count(">rate of lte, Mb/s</text>") == 1


def test_the_plots_of_a_narrow_figure_are_as_high_as_the_title_of_their_axis():
    svg = picture().sized("ieee").svg
    # 26 letters of 8 points are about 95 pixels. The plots have 160 pixels on a screen.
    heights = re.findall(r'd="M0\.5,0\.5h[\d.]+v([\d.]+)h[^"]*" stroke="#DDDDDD"', svg)
    assert [float(one) for one in heights] == [96.0, 96.0]


def test_lines_that_hide_each_other_are_named():
    grid = {SCHEDULER: ["linux", "min-rtt", "ecf"], LTE: ["1 Mbit/s", "2 Mbit/s", "5 Mbit/s"]}
    level = {"linux": 1.0, "min-rtt": 2.0, "ecf": 2.0}
    own = [{**row, "goodput_mbps": level[row[SCHEDULER]] + row["run"]} for row in rows(grid)]
    found = axes.picture(own, ["goodput_mbps"], axes.of(own, list(grid)))
    assert found.notes == ("equal means everywhere, so the lines coincide: min-rtt, ecf (goodput, Mb/s)",)
    own[-1]["goodput_mbps"] += 1
    assert axes.picture(own, ["goodput_mbps"], axes.of(own, list(grid))).notes == ()


def test_bars_name_their_marks_and_keep_their_height_in_a_column():
    own = [
        {**row, "series": row[SCHEDULER], "control": "cubic", "scheduler": row[SCHEDULER]}
        for row in rows({SCHEDULER: ["linux", "min-rtt"]})
    ]
    found = drawn.bars(own, "goodput_mbps")
    panel = found.chart.to_dict(validate=False)["concat"][0]
    assert panel["layer"][0]["encoding"]["y"]["title"] == [
        "goodput, Mb/s",
        "black: 95 % interval",
        "grey: least to most, dots: trials",
    ]
    # Two bars are widened to the column, but stay as high as on a screen: 130 pixels.
    svg = found.sized("ieee").svg
    heights = re.findall(r'd="M0\.5,0\.5h[\d.]+v([\d.]+)h[^"]*" stroke="#DDDDDD"', svg)
    assert [float(one) for one in heights] == [130.0]


def test_a_band_of_counts_does_not_reach_below_zero():
    # Trials of 0, 1 and 2: a mean of 1 and half an interval of 4.303 / 3**0.5 = 2.48.
    own = [{**row, "goodput_mbps": float(row["run"])} for row in rows(GRID)]
    points = axes.picture(own, ["goodput_mbps"], axes.of(own, list(GRID))).data
    assert {(row["low"], round(row["high"], 2)) for row in points} == {(0.0, 3.48)}
    # The rate less the waiting can be negative. Its band is not cut, although no trial is below zero.
    for row in own:
        row["rate_less_waiting_mbps"] = row["goodput_mbps"]
    points = axes.picture(own, ["rate_less_waiting_mbps"], axes.of(own, list(GRID))).data
    assert {(round(row["low"], 2), round(row["high"], 2)) for row in points} == {(-1.48, 3.48)}
    # A band contains its mean: here -1, with half an interval of 2.48.
    for row in own:
        row["goodput_mbps"] -= 2
    points = axes.picture(own, ["goodput_mbps"], axes.of(own, list(GRID))).data
    assert {(round(row["low"], 2), round(row["high"], 2)) for row in points} == {(-3.48, 1.48)}


def test_an_axis_of_a_cross_names_a_missing_zero():
    assert study._not_from_zero("goodput, Mb/s", (3.0, 6.0)) == "goodput, Mb/s (axis not from 0)"
    assert study._not_from_zero("goodput, Mb/s", (0.0, 5.0)) == "goodput, Mb/s"


@pytest.mark.parametrize(
    ("lows", "highs", "ends"),
    [
        # A tenth of the range is 0.76, so the step is 1, and the axis begins at zero.
        ([0.4, 2.0], [3.0, 8.0], (0.0, 8.0)),
        # A tenth is 0.38, so the step is 0.5.
        ([4.2], [8.0], (4.0, 8.0)),
        ([0.3], [1.3], (0.3, 1.3)),
        ([-2.5], [7.6], (-4.0, 8.0)),
        # The step for a single value of 7 is a tenth of it, rounded up to 1.
        ([7.0], [7.0], (6.0, 8.0)),
        ([0.0], [0.0], (0.0, 1.0)),
    ],
)
def test_the_axis_of_a_cross_ends_at_round_numbers(lows, highs, ends):
    assert study._domain(lows, highs) == ends


def test_the_axes_of_a_cross_have_the_ends_that_their_titles_describe():
    cells = [
        {"row": "a", "series": name, "control": "cubic", "scheduler": name, "srtt_ms": 50.0 + 30 * place,
         "srtt_ms_ci95": 1.0, "goodput_mbps": 0.9 + 7 * place, "goodput_mbps_ci95": 0.5}
        for place, name in enumerate(("linux", "ecf"))
    ]  # fmt: skip
    drawn_cross = json.dumps(study.cross(cells, "srtt_ms", "goodput_mbps").to_dict())
    # 49 to 81 in steps of 5, and 0.4 to 8.4 in steps of 1.
    assert '"domain": [45.0, 85.0], "nice": false' in drawn_cross
    assert '"domain": [0.0, 9.0], "nice": false' in drawn_cross
    assert drawn_cross.count(study._BROKEN) == drawn_cross.count(f"{words.metric('srtt_ms')} {study._BROKEN}")


# -- tables --------------------------------------------------------------------------------------------


def test_tables_are_latex_markdown_and_csv():
    heads, lines = ("a_b", "goodput, Mb/s"), [["50 %", "4.1 ± 0.2"], ["x|y", "3"]]
    latex = written.text(".tex", heads, lines, left=1)
    assert "\\begin{tabular}{lr}" in latex
    assert "  50 \\% & 4.1 $\\pm$ 0.2 \\\\\n" in latex
    assert "a\\_b" in latex
    markdown = written.text(".md", heads, lines, left=1)
    assert markdown.splitlines()[1] == "|---|--:|"
    assert "x\\|y" in markdown
    assert list(csv.reader(written.text(".csv", heads, lines, left=1).splitlines())) == [list(heads), *lines]


def test_a_table_for_a_paper_has_words_units_and_equal_decimals():
    from anabranch.experiments.table import printed

    rows = [
        {"paths.wifi.rtt": "20ms", "transport.scheduler": "linux", "runs": 3, "goodput_mbps": 4.0, "goodput_mbps_ci95": 0.123},
        {"paths.wifi.rtt": "7.5 ms", "transport.scheduler": "ecf", "runs": 3, "goodput_mbps": 10.256, "goodput_mbps_ci95": 0.2},
        {"paths.wifi.rtt": "1 s", "transport.scheduler": "ecf", "runs": 1, "goodput_mbps": None, "goodput_mbps_ci95": None},
    ]  # fmt: skip
    heads, lines = printed(rows, ["paths.wifi.rtt", "transport.scheduler", "runs", "goodput_mbps"], 2)
    assert heads == ["round-trip time of wifi, ms", "scheduler", "runs", "goodput, Mb/s"]
    # The median of the half widths is 0.2, which has two significant digits with two decimals.
    assert lines == [
        ["20.0", "linux", "3", "4.00 ± 0.12"],
        ["7.5", "ecf", "3", "10.26 ± 0.20"],
        ["1,000.0", "ecf", "1", "-"],
    ]


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        # Four significant digits of a small mean, and not four decimals.
        (0.000123456, 0.0000012, "0.0001235 ± 0.0000012"),
        (0.000123456, None, "0.000123"),
        # More than four decimals of a larger mean are noise.
        (5.0, 1e-9, "5.0000 ± 0.0000"),
        (-2.5, 5.0, "-2.5 (-7.5 to 2.5)"),
        (2.5, 5.0, "2.5 (0.0 to 7.5)"),
        (float("nan"), None, "nan"),
        (float("inf"), None, "inf"),
        (float("inf"), float("nan"), "inf ± nan"),
    ],
)
def test_a_table_for_a_paper_keeps_small_negative_and_infinite_means(mean, half, text):
    from anabranch.experiments.table import printed

    rows = [{"cell": "a", "goodput_mbps": mean, "goodput_mbps_ci95": half}]
    assert printed(rows, ["cell", "goodput_mbps"], 1)[1] == [["a", text]]


def test_a_table_of_differences_has_equal_decimals():
    from anabranch.experiments.table import differences

    own = [
        (-3.0, -3.123, -2.877, 12),
        (0.5, None, None, 1),
        (0.0, 0.0, 0.0, 12),
        (None, None, None, 0),
        (1.26, 1.0, 1.5, 6),
    ]
    ends = ("", "_low", "_high", "_pairs")
    rows = [{f"goodput_mbps{end}": one for end, one in zip(ends, row, strict=True)} for row in own]
    # The half widths above zero are 0.123 and 0.25, whose two significant digits need two decimals.
    assert differences(rows, "goodput_mbps", [12] * 5) == [
        "-3.00 [-3.12, -2.88]", "+0.50, 1 pair", "no difference", "-", "+1.26 [+1.00, +1.50], 6 pairs",
    ]  # fmt: skip


def test_all_faults_of_the_options_are_reported_at_once(tmp_path):
    options = ("--figure", "f.eps", "--width", "wide", "--table", "t.doc", "--report", "no/r.html")
    told = CliRunner().invoke(app, ["results", str(tmp_path), *options])
    assert told.exit_code == 2
    for text in (
        "not a form of a figure: `.eps`",
        "not a width of a figure: `wide`",
        "not a form of a table",
        "no such folder",
    ):
        assert text in told.stderr
    alone = CliRunner().invoke(app, ["results", str(tmp_path), "--width", "ieee"])
    assert "a size needs a figure" in alone.stderr


def test_a_study_draws_rows_with_a_numeric_axis_as_lines_and_the_others_as_bars():
    buffers = {"transport.receive_buffer": ["600 KB", "1200 KB", "16 MiB"], SCHEDULER: ["linux", "min-rtt"]}
    whole = [{**row, "row": "buffers"} for row in rows(buffers)]
    # Another row of the study has one buffer only, and two schedulers.
    others = [{**row, "transport.receive_buffer": None} for row in rows({SCHEDULER: ["linux", "min-rtt"]})]
    labels = ["row", "transport.receive_buffer", SCHEDULER]
    found = drawn._by_axis([*whole, *others], labels)
    assert found[""] == (others, None)
    own, over = found["transport.receive_buffer"]
    assert own == whole
    assert (over.x, over.colour, over.panel) == ("transport.receive_buffer", SCHEDULER, None)
    # Two values are categories, and assumptions that vary are not pooled into one line.
    assert set(drawn._by_axis(others, labels)) == {""}
    varied = [{**row, "varied": row["run"]} for row in whole]
    assert set(drawn._by_axis(varied, [*labels, "varied"])) == {""}
    heading = page._heading("picture-discards-over-transport--receive_buffer")
    assert heading == "Picture discards over receive buffer"


@pytest.mark.module
def test_a_folder_of_bulk_runs_has_lines_of_goodput(tmp_path):
    out = tmp_path / "out"
    options = ["--grid", "paths.wifi.rtt=20ms,40ms,80ms", "--grid", f"{SCHEDULER}=linux,redundant"]
    bulk = [
        "--set",
        "application.kind=bulk",
        "--set",
        "application.duration=1s",
        "--set",
        "paths.wifi.loss=0 %",
    ]
    told = CliRunner().invoke(
        app, ["sweep", "two-paths", *options, *bulk, "--trials", "2", "--workers", "1", "--out", str(out)]
    )
    assert told.exit_code == 0, told.output
    found = drawn.every(out)
    assert {row["line"] for row in found["goodput-mbps"].data} == {"linux", "redundant"}
    assert {row["x"] for row in found["goodput-mbps"].data} == {20.0, 40.0, 80.0}


@pytest.mark.module
def test_a_metric_that_is_zero_in_every_cell_is_on_no_axis(tmp_path):
    out = tmp_path / "out"
    # 10 Mb/s carry a film of 5 Mb/s, so no picture is discarded; 0.5 % loss causes retransmissions.
    options = ["--grid", f"{SCHEDULER}=linux,min-rtt", "--trials", "1", "--workers", "1", "--out", str(out)]
    told = CliRunner().invoke(app, ["sweep", "two-paths", *options])
    assert told.exit_code == 0, told.output
    found = drawn.every(out)
    assert "retransmissions" in found
    assert "picture-discards" not in found
    assert "discards-retransmissions" not in found


@pytest.mark.parametrize(
    ("cells", "by"),
    [
        ([("cubic", "linux"), ("cubic", "min-rtt")], "scheduler"),
        ([("cubic", "linux"), ("reno", "min-rtt")], "control"),
        ([("cubic", "linux"), ("cubic", "linux")], "control"),
    ],
)
def test_bars_are_coloured_by_what_varies(cells, by):
    own = [{"control": control, "scheduler": scheduler} for control, scheduler in cells]
    assert study._coloured_by(own) == by


def test_headings_of_a_page_are_words():
    heads = ["row", "paths.wifi.rtt", "runs", "goodput_mbps", "retransmissions"]
    assert page._in_words(heads, 3) == [
        "row",
        "round-trip time of wifi",
        "runs",
        "goodput, Mb/s",
        "retransmissions",
    ]

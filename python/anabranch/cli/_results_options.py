"""The options of `anabranch results`."""

from pathlib import Path
from typing import Annotated

import typer

By = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Columns that define a cell (default: the grid's keys)."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Columns whose mean is printed (default: a selection)."),
]
Sql = Annotated[str | None, typer.Option(help="An SQL query over the tables `runs` and `subflows`.")]
Versus = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE", help="Print differences from cells with this value of a grid key, e.g. linux."
    ),
]
Earlier = Annotated[
    bool,
    typer.Option(
        "--earlier",
        help="Include runs of earlier sources, builds and cells, distinguished by column `sources`.",
    ),
]
Figure = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Draw the metrics: FILE.svg, FILE.png, a PDF if named so, and the numbers in FILE.csv.",
    ),
]
Width = Annotated[
    str | None,
    typer.Option(metavar="CM|COLUMN", help="Width of the figure: 8.9, or ieee, ieee-page, acm, acm-page."),
]
FontSize = Annotated[
    float | None,
    typer.Option(min=4, max=30, metavar="PT", help="Size of the figure's letters in points (default: 8)."),
]
Table = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the table as LaTeX (.tex), Markdown (.md) or CSV (.csv)."),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write an HTML page with verdicts, means, figures and assumptions."),
]

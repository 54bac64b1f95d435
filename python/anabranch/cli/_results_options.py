"""The options of `anabranch results`."""

from pathlib import Path
from typing import Annotated

import typer

By = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Columns that make a cell (default: the grid's keys)."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Columns to take the mean of (default: a selection)."),
]
Sql = Annotated[str | None, typer.Option(help="A query of your own over the tables `runs` and `subflows`.")]
Versus = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE", help="Differences to the cells with this value of a key of the grid, e.g. linux."
    ),
]
Earlier = Annotated[
    bool,
    typer.Option(
        "--earlier",
        help="Also runs of earlier sources, builds and cells, distinguished by column `sources`.",
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
    float | None, typer.Option(min=4, max=30, metavar="PT", help="Size of its letters (default: 8).")
]
Table = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the table as LaTeX (.tex), Markdown (.md) or CSV (.csv)."),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write one HTML page: verdicts, means, figures, assumptions."),
]

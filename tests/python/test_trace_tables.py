"""A trace's tables in Python: mappings of sequences as they always were, and Arrow data on request."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence

import polars
import pytest

import anabranch
from anabranch import metrics
from anabranch.plugins import module

pytestmark = pytest.mark.module


def column_of(kind, values):
    return module().Column(kind, values)


def table_of(columns):
    return module().Table(columns)


BULK = {
    "name": "bulk",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [{"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s"}],
}

KINDS = {
    "bool": [True, False, True],
    "float": [1.5, None, -0.0],
    "int": [3, -1, 3],
    "text": ["Open", "", "Loss, at last"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_is_a_sequence(kind):
    values = KINDS[kind]
    column = column_of(kind, values)
    assert column.kind == kind
    assert column.to_list() == list(column) == values
    assert len(column) == 3
    assert [column[0], column[-1], column[-3]] == [values[0], values[2], values[0]]
    assert column[1:] == values[1:]
    assert list(reversed(column)) == values[::-1]
    assert column.index(values[1]) == 1
    assert column.count(values[0]) == values.count(values[0])
    assert values[1] in column
    assert "no such value" not in column
    for place in (3, -4):
        with pytest.raises(IndexError):
            column[place]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_equal_to_lists_and_to_each_other(kind):
    values = KINDS[kind]
    column = column_of(kind, values)
    assert column == values
    assert column == column_of(kind, values)
    assert column != values[:2]
    assert column != column_of(kind, values[::-1][:2])


def made():
    return table_of([(kind, column_of(kind, values)) for kind, values in KINDS.items()])


def test_a_table_is_a_mapping():
    table = made()
    assert list(table) == list(table.keys()) == list(KINDS)
    assert len(table) == 4
    assert table["int"] == KINDS["int"]
    assert table == KINDS
    assert dict(table.items()) == KINDS
    assert {**table, "more": []}.keys() == {*KINDS, "more"}
    assert table != {**KINDS, "more": []}
    assert table != {**KINDS, "int": [3, -1, 4]}
    assert "int" in table
    assert "no such" not in table
    assert table.get("no such", ()) == ()
    with pytest.raises(KeyError):
        table["no such"]


def test_a_frame_takes_a_table_whole():
    frame = polars.DataFrame(made())
    assert frame.schema == {
        "bool": polars.Boolean,
        "float": polars.Float64,
        "int": polars.Int64,
        "text": polars.String,
    }
    assert frame.to_dict(as_series=False) == KINDS
    assert frame["float"].null_count() == 1
    assert polars.Series(made()["text"]).to_list() == KINDS["text"]


def test_a_frame_takes_a_table_as_arrow():
    # A Mapping is read value by value, ten times as slow, and loses the type of an empty column.
    assert not isinstance(made(), Mapping)
    assert not isinstance(made()["int"], Sequence)
    empty = polars.DataFrame(table_of([("t_s", column_of("float", [])), ("path", column_of("text", []))]))
    assert empty.schema == {"t_s": polars.Float64, "path": polars.String}
    assert polars.Series(column_of("float", [])).dtype == polars.Float64


def test_an_empty_table_keeps_its_kinds():
    run = anabranch.run(BULK)
    frame = polars.DataFrame(run.tables["frames"])
    assert frame.height == 0
    assert frame.schema["shown_s"] == polars.Float64
    assert frame.schema["fate"] == polars.String


def test_run_dataframe_equals_its_rows():
    run = anabranch.run(BULK)
    frame = polars.DataFrame(run.tables["samples"])
    assert frame.height > 10
    assert frame.to_dicts() == run.rows("samples")


def test_a_run_can_be_sent_elsewhere():
    run = anabranch.run(BULK)
    assert pickle.loads(pickle.dumps(run)) == run
    assert copy.deepcopy(run) == run


def test_a_table_is_split_by_its_clients():
    table = table_of([("client", column_of("int", [7, 0, 7])), ("path", column_of("text", ["a", "b", "c"]))])
    parts = table.split("client")
    assert [client for client, _ in parts] == [0, 7]
    assert [dict(part) for _, part in parts] == [
        {"client": [0], "path": ["b"]},
        {"client": [7, 7], "path": ["a", "c"]},
    ]


def test_the_simulators_tables_and_plain_lists_have_equal_metrics():
    run = anabranch.run(BULK, set={"clients": 3})
    plain = {
        name: {column: values.to_list() for column, values in table.items()}
        for name, table in run.tables.items()
    }
    assert metrics.by_client(plain) == run.clients
    assert metrics.qos(plain) == run.qos
    assert len({client["qos"]["goodput_mbps"] for client in run.clients}) == 3


def crowd(clients):
    """Make a trace of a number of clients with 30 s of samples on two subflows each, ordered by time."""
    moments = [
        (tenth / 10, client, subflow)
        for tenth in range(300)
        for client in range(clients)
        for subflow in (0, 1)
    ]
    count = len(moments)
    whole = {
        "connections": {
            "client": ("int", list(range(clients))),
            "duration_s": ("float", [30.0] * clients),
            "bytes_read": ("int", [1_000_000] * clients),
            "reinjected_bytes": ("int", [0] * clients),
            "max_read_gap_s": ("float", [0.5] * clients),
            "finished": ("bool", [True] * clients),
        },
        "subflows": {
            "client": ("int", [client for client in range(clients) for _ in (0, 1)]),
            "subflow": ("int", [0, 1] * clients),
            "path": ("text", ["wifi", "lte"] * clients),
            "bytes": ("int", [500_000] * 2 * clients),
            "retransmissions": ("int", [0] * 2 * clients),
        },
        "samples": {
            "t_s": ("float", [time for time, _, _ in moments]),
            "client": ("int", [client for _, client, _ in moments]),
            "subflow": ("int", [subflow for _, _, subflow in moments]),
            "cwnd_segments": ("int", [10] * count),
            "srtt_ms": ("float", [50.0] * count),
            "in_flight_segments": ("int", [8] * count),
            "retransmissions": ("int", [0] * count),
            "state": ("text", ["Open"] * count),
        },
    }
    return {
        name: table_of([(column, column_of(*given)) for column, given in columns.items()])
        for name, columns in whole.items()
    }


class Counted(list):
    """A column that counts the values taken from it."""

    taken = 0

    def __iter__(self):
        Counted.taken += len(self)
        return super().__iter__()

    def __getitem__(self, place):
        Counted.taken += 1
        return super().__getitem__(place)


def taken(clients):
    """Return how many values the metrics of a number of clients take from a trace."""
    Counted.taken = 0
    tables = crowd(clients)
    metrics.by_client(
        {
            name: {column: Counted(table[column].to_list()) for column in table}
            for name, table in tables.items()
        }
    )
    return Counted.taken


def test_the_metrics_go_through_a_trace_once():
    # Ten times as many clients, ten times as many rows, and no row looked at for another client's sake.
    assert taken(30) == 10 * taken(3) > 0


def test_tables_of_lists_and_of_the_simulator_have_equal_metrics():
    lists = {name: {column: table[column].to_list() for column in table} for name, table in crowd(5).items()}
    found = metrics.by_client(lists)
    assert len(found) == 5
    assert found == metrics.by_client(crowd(5))

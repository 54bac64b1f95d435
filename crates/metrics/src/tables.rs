//! The tables of a trace, and the rows of one client in them.

use std::collections::BTreeMap;

use anabranch_trace::{Column, Trace};

/// The tables of a trace. A table or a column may be missing, because other programs also write traces.
#[derive(Debug)]
pub struct Tables<'a> {
    tables: Vec<(&'a str, Columns<'a>)>,
}

type Columns<'a> = Vec<(&'a str, &'a Column)>;

impl<'a> Tables<'a> {
    /// Creates tables of named columns.
    pub fn new(tables: Vec<(&'a str, Vec<(&'a str, &'a Column)>)>) -> Self {
        Self { tables }
    }

    /// Returns a table with all its rows.
    pub fn table(&self, name: &str) -> Option<Table<'_>> {
        let (_, columns) = self.tables.iter().find(|(known, _)| *known == name)?;
        Some(Table { columns, rows: None })
    }

    /// Returns the tables of each client, in ascending order of clients. A table without a column `client`
    /// belongs to all.
    pub fn of_each(&self) -> Vec<Own<'_>> {
        let groups = |columns: &Columns<'_>| {
            columns.iter().find(|(name, _)| *name == "client").map(|(_, column)| {
                column.group().into_iter().collect::<BTreeMap<i64, Vec<usize>>>()
            })
        };
        let parts: Vec<_> = self.tables.iter().map(|(_, columns)| groups(columns)).collect();
        let connections = self.tables.iter().position(|(name, _)| *name == "connections");
        let Some(Some(clients)) = connections.map(|place| &parts[place]) else { return Vec::new() };
        let own = |client: i64| Own {
            client,
            tables: self
                .tables
                .iter()
                .zip(&parts)
                .map(|((name, columns), part)| {
                    let rows = |part: &BTreeMap<_, Vec<usize>>| {
                        part.get(&client).cloned().unwrap_or_default()
                    };
                    (*name, Table { columns, rows: part.as_ref().map(rows) })
                })
                .collect(),
        };
        clients.keys().map(|client| own(*client)).collect()
    }
}

impl<'a> From<&'a Trace> for Tables<'a> {
    fn from(trace: &'a Trace) -> Self {
        let columns = |table: &'a anabranch_trace::Table| {
            table.columns.iter().map(|(name, column)| (*name, column)).collect()
        };
        Self { tables: trace.tables.iter().map(|table| (table.name, columns(table))).collect() }
    }
}

/// The tables of one client.
#[derive(Debug)]
pub struct Own<'a> {
    client: i64,
    tables: Vec<(&'a str, Table<'a>)>,
}

impl<'a> Own<'a> {
    /// Creates the tables of one client from tables that contain no other client.
    pub fn whole(tables: &'a Tables<'a>) -> Self {
        let all =
            |(name, columns): &'a (&'a str, Columns<'a>)| (*name, Table { columns, rows: None });
        Self { client: 0, tables: tables.tables.iter().map(all).collect() }
    }

    /// Returns the client's number.
    pub fn client(&self) -> i64 {
        self.client
    }

    /// Returns a table; an empty one if the trace does not have it.
    pub(crate) fn table(&self, name: &str) -> &Table<'a> {
        const NONE: &Table<'static> = &Table { columns: &[], rows: None };
        self.tables.iter().find(|(known, _)| *known == name).map_or(NONE, |(_, table)| table)
    }

    /// Returns a number from the client's row in `connections`; NaN if it is missing.
    pub(crate) fn connection(&self, name: &str) -> f64 {
        self.table("connections").numbers(name).first().copied().unwrap_or(f64::NAN)
    }

    /// Returns whether the session was finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.table("connections").numbers("finished").first().is_some_and(|flag| *flag > 0.0)
    }
}

/// Some rows of a table.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    columns: &'a [(&'a str, &'a Column)],
    /// The rows; `None` for all.
    rows: Option<Vec<usize>>,
}

impl Table<'_> {
    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(known, _)| *known == name).map(|(_, column)| *column)
    }

    fn taken<T: Clone>(&self, values: &[T]) -> Vec<T> {
        match &self.rows {
            None => values.to_vec(),
            Some(rows) => rows.iter().map(|row| values[*row].clone()).collect(),
        }
    }

    /// Returns the numbers of a column. A missing number is NaN, and a flag is 0 or 1. The result is empty if
    /// the column is missing or contains text.
    pub(crate) fn numbers(&self, name: &str) -> Vec<f64> {
        match self.column(name) {
            Some(Column::Float(values)) => self.taken(values),
            Some(Column::Int(values)) => {
                self.taken(values).into_iter().map(|value| value as f64).collect()
            }
            Some(Column::Bool(values)) => {
                self.taken(values).into_iter().map(|value| f64::from(u8::from(value))).collect()
            }
            Some(Column::Text(_)) | None => Vec::new(),
        }
    }

    /// Returns the numbers of a column, padded with NaN to `rows` numbers.
    pub(crate) fn padded(&self, name: &str, rows: usize) -> Vec<f64> {
        let mut found = self.numbers(name);
        found.resize(rows, f64::NAN);
        found
    }

    /// Returns the texts of a column; empty if it has none.
    pub(crate) fn words(&self, name: &str) -> Vec<&str> {
        let Some(Column::Text(words)) = self.column(name) else { return Vec::new() };
        match &self.rows {
            None => words.iter().collect(),
            Some(rows) => rows.iter().filter_map(|row| words.get(*row)).collect(),
        }
    }

    /// Returns whether a column contains only whole numbers.
    pub(crate) fn is_whole(&self, name: &str) -> bool {
        matches!(self.column(name), Some(Column::Int(_)))
    }
}

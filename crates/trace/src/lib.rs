//! The trace of a run as tables (docs/plan-and-trace.md).
//!
//! The simulator or the live run fills [`Rows`], one row struct at a time. The finished trace has a [`Table`]
//! of columns for each kind of row.

mod column;
mod rows;

pub use column::{Column, Words};
pub use rows::*;

/// A table with its columns in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name.
    pub name: &'static str,
    /// Whether the run's digest includes the table.
    pub digested: bool,
    /// The columns that the run's digest excludes.
    pub undigested_columns: Vec<&'static str>,
    /// The columns: names, and values of equal length.
    pub columns: Vec<(&'static str, Column)>,
}

/// The summary of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The SHA-256 in hexadecimal of the log of all packet fates, the number of steps, and the tables.
    /// Columns and tables with the mark `@undigested` in `rows.rs` are excluded. Equal inputs give equal
    /// digests. Over real packets it is empty.
    pub digest: String,
    /// The duration of the run in virtual time, seconds.
    pub duration_s: f64,
    /// The number of processed events.
    pub steps: u64,
    /// Notes to print with the results, for example that a plug-in is a reconstruction.
    pub notes: Vec<String>,
    /// Clients and background flows that stopped making progress. Over real packets it is empty.
    pub standstills: Vec<Standstill>,
}

/// A client or background flow that sends no more packets, although it is not finished.
#[derive(Clone, Debug, PartialEq)]
pub struct Standstill {
    /// A sentence with the start time and the state of the subflows.
    pub message: String,
    /// The time at which the standstill began, seconds.
    pub at_s: f64,
    /// Whether the scheduler could have used a subflow: one with window space and an empty queue.
    pub could_send: bool,
}

/// The complete output of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The summary of the run.
    pub summary: Summary,
    /// The tables.
    pub tables: Vec<Table>,
}

impl Trace {
    /// Returns the table with a name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl Table {
    /// Returns the column with a name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(other, _)| *other == name).map(|(_, column)| column)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of a column, also if they are integers. The result is empty if the column is not
    /// numeric.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        match self.column(name) {
            Some(Column::Float(values)) => values.clone(),
            Some(Column::Int(values)) => values.iter().map(|v| *v as f64).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps() -> Table {
        let mut rows = Rows::default();
        for (client, t_s) in [(3, 0.5), (0, 1.0), (3, 2.0)] {
            rows.gaps.push(GapRow { client, t_s, gap_s: f64::NAN });
        }
        let tables = rows.into_tables();
        tables.into_iter().find(|table| table.name == "gaps").expect("every trace has the table")
    }

    #[test]
    fn a_row_becomes_one_value_in_every_column() {
        let table = gaps();
        assert_eq!(table.len(), 3);
        assert_eq!(table.column("client"), Some(&Column::Int(vec![3, 0, 3])));
        assert_eq!(table.numbers("t_s"), [0.5, 1.0, 2.0]);
        assert!(table.numbers("gap_s").iter().all(|gap| gap.is_nan()));
        assert_eq!(table.numbers("client"), [3.0, 0.0, 3.0]);
        assert_eq!(table.column("no such"), None);
    }

    #[test]
    fn columns_and_tables_outside_the_digest_are_marked_at_their_rows() {
        let tables = Rows::default().into_tables();
        let of = |name: &str| {
            tables.iter().find(|table| table.name == name).expect("every trace has the table")
        };
        assert_eq!(of("connections").undigested_columns, ["planned_s"]);
        assert_eq!(
            of("subflows").undigested_columns,
            ["penalties", "delivered_ce", "ecn_reductions"]
        );
        assert!(of("links").digested && of("gaps").undigested_columns.is_empty());
        let outside: Vec<_> =
            tables.iter().filter(|table| !table.digested).map(|table| table.name).collect();
        assert_eq!(outside, ["departures", "arrivals", "receivers", "wrong_reads"]);
    }

    #[test]
    fn table_names_are_unique() {
        let mut names: Vec<_> = Rows::default().into_tables().iter().map(|t| t.name).collect();
        assert!(Rows::default().into_tables().iter().all(Table::is_empty));
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}

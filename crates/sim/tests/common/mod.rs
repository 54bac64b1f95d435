//! Runs a plan and reads its trace.

#![allow(dead_code, reason = "each test program uses some of it")]

use anabranch_sim::{Column, Plan, Silent, Trace, run};

/// Runs a plan in JSON and returns its trace. If the plan or the run fails, it panics with the plan, which is
/// sufficient to repeat the run.
pub(crate) fn simulate(text: &str) -> Trace {
    let plan = Plan::from_json(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&plan, None, &mut Silent).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns a numeric column of a table.
pub(crate) fn numbers(trace: &Trace, table: &str, column: &str) -> Vec<f64> {
    let table = trace.table(table).expect("a table");
    assert!(table.column(column).is_some(), "no column {column}");
    table.numbers(column)
}

/// Returns the sum of a numeric column.
pub(crate) fn total(trace: &Trace, table: &str, column: &str) -> f64 {
    numbers(trace, table, column).iter().sum()
}

/// Returns the path of each subflow at the server.
pub(crate) fn paths(trace: &Trace) -> Vec<String> {
    match trace.table("subflows").and_then(|table| table.column("path")) {
        Some(Column::Text(names)) => names.iter().map(str::to_owned).collect(),
        other => panic!("{other:?}"),
    }
}

/// Returns the mean smoothed RTT from the fifth second on, ms.
pub(crate) fn srtt(trace: &Trace) -> f64 {
    let rows =
        numbers(trace, "samples", "t_s").into_iter().zip(numbers(trace, "samples", "srtt_ms"));
    let late: Vec<f64> =
        rows.filter(|(t, ms)| *t > 5.0 && !ms.is_nan()).map(|(_, ms)| ms).collect();
    assert!(late.len() > 50, "{} samples", late.len());
    late.iter().sum::<f64>() / late.len() as f64
}

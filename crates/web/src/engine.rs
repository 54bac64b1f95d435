//! Runs a plan, and returns the tables of its trace as buffers of numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_metrics as metrics;
use anabranch_plan::{Plan, PlanError};
use anabranch_sim::{Observer, RunError, run_with};
use anabranch_trace::{Column, Trace};
use anabranch_units::Seed;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::page::Page;
use crate::scheduler::Classes;

/// The values of a column, in the form of JavaScript's typed arrays.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// Flags, 0 or 1.
    Flags(Vec<u8>),
    /// Numbers; NaN for a missing number.
    Numbers(Vec<f64>),
    /// Indices of the column's words.
    Words(Vec<u32>),
}

impl From<Column> for Buffer {
    fn from(column: Column) -> Self {
        match column {
            Column::Bool(values) => Self::Flags(values.into_iter().map(u8::from).collect()),
            Column::Float(values) => Self::Numbers(values),
            // Counters are below 2^53, so doubles represent them exactly.
            Column::Int(values) => Self::Numbers(values.into_iter().map(|v| v as f64).collect()),
            Column::Text(words) => Self::Words(words.numbers().to_vec()),
        }
    }
}

/// The result of a run: a JSON header, and buffers that it refers to by index.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Either `faults`, or `summary`, `tables` and `metrics`.
    pub header: String,
    /// The columns' values.
    pub buffers: Vec<Buffer>,
}

/// The options of a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    /// The number of the run, which replaces the plan's.
    run: Option<u64>,
    /// The names of the schedulers that the page provides.
    schedulers: BTreeSet<String>,
    /// The columns to return, by table; all of them if it is missing.
    columns: Option<Columns>,
}

/// Names of columns by table.
type Columns = BTreeMap<String, BTreeSet<String>>;

/// A fault of a plan or a run.
#[derive(Debug, Serialize)]
struct Fault {
    key: String,
    message: String,
    hint: String,
}

impl Fault {
    /// Creates a fault of the plan as a whole.
    fn whole(message: String) -> Self {
        Self { key: String::new(), message, hint: String::new() }
    }
}

/// Runs a plan. The plan and the options are JSON. Faults are a part of the result.
pub fn run(plan: &str, options: &str, page: Arc<dyn Page>) -> Answer {
    outcome(plan, options, page).unwrap_or_else(|faults| Answer {
        header: json!({ "faults": faults }).to_string(),
        buffers: Vec::new(),
    })
}

fn outcome(plan: &str, options: &str, page: Arc<dyn Page>) -> Result<Answer, Vec<Fault>> {
    let options: Options =
        serde_json::from_str(options).map_err(|error| vec![Fault::whole(error.to_string())])?;
    let mut plan = Plan::from_json(plan).map_err(|error| faults_of(&error))?;
    plan.run = options.run.unwrap_or(plan.run);
    let seed = Seed { seed: plan.seed, run: plan.run };
    let registry = Classes::new(Arc::clone(&page), options.schedulers, seed).registry();
    let mut watched = Watched(page);
    match run_with(&plan, registry, None, &mut watched) {
        Ok(trace) => {
            let paths: Vec<_> = plan.paths.iter().map(|path| &*path.name).collect();
            Ok(answer(trace, &paths, options.columns.as_ref()))
        }
        Err(RunError::Plan(error)) => Err(faults_of(&error)),
        // The exception came from the page's code, so the page already has it.
        Err(RunError::Plugin) => Err(Vec::new()),
        Err(error) => Err(vec![Fault::whole(error.to_string())]),
    }
}

/// Returns all faults of a plan, with the keys that lead to them.
fn faults_of(error: &PlanError) -> Vec<Fault> {
    let fault = |fault: anabranch_plan::PlanFault| Fault {
        key: fault.path.to_string(),
        message: fault.message,
        hint: match &*fault.known {
            [] => String::new(),
            known => format!("known names: {}", known.join(", ")),
        },
    };
    error.faults().into_iter().map(fault).collect()
}

/// Reports the progress of a run to the page.
struct Watched(Arc<dyn Page>);

impl Observer for Watched {
    fn progress(&mut self, done_s: f64, total_s: f64) -> bool {
        self.0.progress(if total_s > 0.0 { (done_s / total_s).min(1.0) } else { 1.0 })
    }
}

/// Returns the metrics of a run: `qoe`, `qos`, `duration_s`, and for each client `strips`, the states of its screen,
/// and `renditions`, the renditions of a ladder on its screen.
fn metrics_of(trace: &Trace, paths: &[&str]) -> Value {
    let tables = metrics::Tables::from(trace);
    let clients = metrics::by_client(&tables, paths);
    let object =
        |found: Option<metrics::Object>| found.map_or(metrics::Value::Null, metrics::Value::Object);
    let strip = |spans: Vec<metrics::Span>| -> Vec<metrics::Value> {
        spans.into_iter().map(|span| metrics::Value::Object(span.into_object())).collect()
    };
    let shown = |all: Vec<metrics::Shown>| -> Vec<metrics::Value> {
        all.into_iter().map(|one| metrics::Value::Object(one.into_object())).collect()
    };
    json!({
        "qoe": object(metrics::qoe(&clients)),
        "qos": object(Some(metrics::qos(&tables, &clients))),
        "duration_s": metrics::duration_s(&tables),
        "strips": metrics::strips(&tables).into_iter().map(strip).collect::<Vec<_>>(),
        "renditions": metrics::renditions_of_each(&tables).into_iter().map(shown).collect::<Vec<_>>(),
    })
}

/// Returns the answer to a run, with the wanted columns or with all of them.
fn answer(trace: Trace, paths: &[&str], wanted: Option<&Columns>) -> Answer {
    let is_wanted = |table: &str, column: &str| {
        wanted.is_none_or(|all| all.get(table).is_some_and(|own| own.contains(column)))
    };
    let metrics = metrics_of(&trace, paths);
    let Trace { summary, tables } = trace;
    let mut buffers = Vec::new();
    let mut described = Vec::new();
    for table in tables {
        let (rows, mut columns) = (table.len(), Vec::new());
        for (name, column) in table.columns {
            if !is_wanted(table.name, name) {
                continue;
            }
            let words = match &column {
                Column::Text(words) => Some(words.known().to_vec()),
                _ => None,
            };
            columns.push(json!({ "name": name, "buffer": buffers.len(), "words": words }));
            buffers.push(Buffer::from(column));
        }
        described.push(json!({ "name": table.name, "rows": rows, "columns": columns }));
    }
    let standstills: Vec<Value> = summary
        .standstills
        .iter()
        .map(|it| json!({ "message": it.message, "at_s": it.at_s, "could_send": it.could_send }))
        .collect();
    let header = json!({
        "summary": {
            "world": "simulated",
            "digest": summary.digest,
            "duration_s": summary.duration_s,
            "steps": summary.steps,
            "notes": summary.notes,
            "standstills": standstills,
        },
        "tables": described,
        "metrics": metrics,
    });
    Answer { header: header.to_string(), buffers }
}

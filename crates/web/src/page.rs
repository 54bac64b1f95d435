//! The simulator's interface to the page that runs it.

use std::fmt::Debug;

/// A scheduler that the page has built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// The number by which the page identifies the scheduler.
    pub number: u32,
    /// The built-in scheduler on which it builds, as a name or in the short form.
    pub builds_on: Option<String>,
    /// Whether it handles requests without new data; `None` for the base's value.
    pub wants_idle: Option<bool>,
    /// Whether it handles requests to reinject; `None` for the base's value.
    pub reinjects: Option<bool>,
}

/// A notification to a scheduler, with the values that it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `on_sent`: subflow, first byte, bytes.
    Sent,
    /// `on_data_ack`: time in ms, first byte that is not acknowledged.
    DataAck,
    /// `on_penalised`: subflow.
    Penalised,
    /// `on_event`: time in ms, subflow, then the event as in [`layout`](crate::layout).
    Event,
}

/// The functions of the page that the simulator calls during a run.
pub trait Page: Debug + Send + Sync {
    /// Receives the fraction of the run that has passed, 0 to 1. Returns false to stop the run.
    fn progress(&self, share: f64) -> bool;

    /// Builds the scheduler with a name. `parameters` is a JSON object, and `seed` is a whole number below
    /// 2^53. Returns `None` if the page's code failed.
    fn build(&self, name: &str, parameters: &str, seed: f64) -> Option<Instance>;

    /// Calls a scheduler with the numbers of a request and its views ([`layout`](crate::layout)). The page
    /// overwrites the first numbers with the decision. Returns false if the page's code failed.
    fn schedule(&self, number: u32, numbers: &mut [f64]) -> bool;

    /// Notifies a scheduler. Returns false if the page's code failed.
    fn notify(&self, number: u32, notice: Notice, values: &[f64]) -> bool;

    /// Reports that a scheduler's decision or attribute is invalid.
    fn refuse(&self, number: u32, method: &str, reason: &str);
}

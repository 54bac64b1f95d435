//! The page that runs the simulator, as the simulator sees it.

use std::fmt::Debug;

/// A scheduler that the page has built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// The page's number for it.
    pub number: u32,
    /// The built-in scheduler that it builds on, as a name or in the short form.
    pub builds_on: Option<String>,
    /// Whether it handles requests without new data; `None` for the base's answer.
    pub wants_idle: Option<bool>,
    /// Whether it handles requests to reinject; `None` for the base's answer.
    pub reinjects: Option<bool>,
}

/// A notification of a scheduler.
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

/// The functions that the simulator calls while a run lasts.
pub trait Page: Debug + Send + Sync {
    /// Receives the share of the run that has passed, 0 to 1. `false` stops the run.
    fn progress(&self, share: f64) -> bool;

    /// Builds the scheduler of a name. `parameters` is a JSON object, and `seed` a whole number below 2^53. Returns
    /// `None` if the page's code failed.
    fn build(&self, name: &str, parameters: &str, seed: f64) -> Option<Instance>;

    /// Calls a scheduler with the numbers of a request and its views ([`layout`](crate::layout)). The page replaces
    /// the first numbers by its answer. Returns false if the page's code failed.
    fn schedule(&self, number: u32, numbers: &mut [f64]) -> bool;

    /// Notifies a scheduler. Returns false if the page's code failed.
    fn notify(&self, number: u32, notice: Notice, values: &[f64]) -> bool;

    /// Reports that the answer or an attribute of a scheduler is invalid.
    fn refuse(&self, number: u32, method: &str, reason: &str);
}

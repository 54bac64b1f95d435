//! The description of a model: its name in a scenario, and its parameters.

use anabranch_plugin::Unit;
use anabranch_units::Duration;
use serde::{Deserialize, Deserializer};

/// A model that a scenario may name.
#[derive(Clone, Copy, Debug)]
pub struct ModelKind {
    /// The model's name, which is also its key in a plan.
    pub name: &'static str,
    /// The model's name in reports.
    pub called: &'static str,
    /// Whether the model includes the delay. If it does, the path must not set a delay.
    pub delays: bool,
    /// Short names. Each stands for the model with one parameter set: the short name, the parameter's key and its
    /// value.
    pub short: &'static [(&'static str, &'static str, &'static str)],
    /// The parameters.
    pub parameters: &'static [ModelParameter],
}

/// A parameter of a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelParameter {
    /// The key in a scenario; empty if a scenario cannot set it.
    pub key: &'static str,
    /// The key in a plan.
    pub plan: &'static str,
    /// The form of the value.
    pub form: Form,
    /// The meaning in a few words.
    pub meaning: &'static str,
}

/// The form of a parameter's value.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// The direction of the link, `"down"` or `"up"`. It follows from the link's place in the scenario.
    Way,
    /// The name of the path or link, which both directions share. It follows from the place in the scenario.
    Place,
    /// A name that several links may share. By default, both directions of a path or link share one of their own.
    Shared,
    /// One of these words. The first one is the default.
    Word(&'static [&'static str]),
    /// A number with a unit, from `least` to `most`.
    Quantity {
        /// The unit.
        unit: Unit,
        /// The default.
        usual: Usual,
        /// The smallest value.
        least: f64,
        /// The largest value.
        most: f64,
        /// Whether the range excludes `most`.
        below: bool,
    },
}

impl ModelParameter {
    /// The direction of a link.
    pub(crate) const WAY: Self =
        Self { key: "", plan: "direction", form: Form::Way, meaning: "which way" };

    /// The mean rate. By default, the model's profile determines it.
    pub(crate) const fn mean(meaning: &'static str) -> Self {
        let form = Form::number(Unit::Rate, Usual::Open, 1.0, f64::INFINITY);
        Self { key: "mean", plan: "mean_bps", form, meaning }
    }
}

impl Form {
    /// Creates the form of a number from `least` to `most`.
    pub(crate) const fn number(unit: Unit, usual: Usual, least: f64, most: f64) -> Self {
        Self::Quantity { unit, usual, least, most, below: false }
    }

    /// Creates the form of a number from 0 to less than `most`.
    pub(crate) const fn below(unit: Unit, usual: Usual, most: f64) -> Self {
        Self::Quantity { unit, usual, least: 0.0, most, below: true }
    }
}

/// The default of a number.
#[derive(Clone, Copy, Debug)]
pub enum Usual {
    /// The model determines the value.
    Open,
    /// This number.
    Is(f64),
    /// A number that depends on another parameter: the key of that parameter, and a number for each of its words.
    By(&'static str, &'static [(&'static str, f64)]),
}

/// A fault of parameters, most often a combination that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFault {
    /// The parameter's key in a scenario.
    pub key: &'static str,
    /// The description of the fault.
    pub message: String,
    /// A suggestion, possibly empty.
    pub hint: String,
}

/// Reads a duration in nanoseconds from a plan.
pub(crate) fn nanoseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_nanos)
}

/// Reads an optional duration in nanoseconds from a plan.
pub(crate) fn maybe_nanoseconds<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
}

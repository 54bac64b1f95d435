//! The table of models: how a scenario names one, and what it may set of it.

use anabranch_plugin::Unit;
use anabranch_units::Duration;
use serde::{Deserialize, Deserializer};

/// A model as a scenario names it.
#[derive(Clone, Copy, Debug)]
pub struct ModelKind {
    /// Its name, which is its key in a plan too.
    pub name: &'static str,
    /// How a report calls it.
    pub called: &'static str,
    /// It has delays of its own, so that a path that follows it may have no other.
    pub delays: bool,
    /// Short names: each is the model with a word for one of its parameters.
    pub short: &'static [(&'static str, &'static str, &'static str)],
    /// Its parameters, each where a plan has it.
    pub parameters: &'static [ModelParameter],
}

/// A parameter of a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelParameter {
    /// Its key in a scenario; empty where a scenario does not set it.
    pub key: &'static str,
    /// Its key in a plan.
    pub plan: &'static str,
    /// What it may be.
    pub form: Form,
    /// What it means, in a few words.
    pub meaning: &'static str,
}

/// What a parameter of a model may be.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Which way the link leads, `"down"` or `"up"`: set by where it stands.
    Way,
    /// What both directions have in common, the name of the path or link: set by where it stands.
    Place,
    /// A name that links share, or none: then both directions of a path or link share one of their own.
    Shared,
    /// One of these words; the first unless told.
    Word(&'static [&'static str]),
    /// A number with a unit, from `least` to `most`.
    Quantity {
        /// What it measures.
        unit: Unit,
        /// What it is unless told.
        usual: Usual,
        /// The least that it may be.
        least: f64,
        /// The most that it may be.
        most: f64,
        /// It must be less than `most`.
        below: bool,
    },
}

impl ModelParameter {
    /// Which way a link leads.
    pub(crate) const WAY: Self =
        Self { key: "", plan: "direction", form: Form::Way, meaning: "which way" };

    /// The mean rate, which the model's profile has unless told.
    pub(crate) const fn mean(meaning: &'static str) -> Self {
        let form = Form::number(Unit::Rate, Usual::Open, 1.0, f64::INFINITY);
        Self { key: "mean", plan: "mean_bps", form, meaning }
    }
}

impl Form {
    /// A quantity from `least` to `most`.
    pub(crate) const fn number(unit: Unit, usual: Usual, least: f64, most: f64) -> Self {
        Self::Quantity { unit, usual, least, most, below: false }
    }

    /// A quantity from nothing to less than `most`.
    pub(crate) const fn below(unit: Unit, usual: Usual, most: f64) -> Self {
        Self::Quantity { unit, usual, least: 0.0, most, below: true }
    }
}

/// What a quantity is unless told.
#[derive(Clone, Copy, Debug)]
pub enum Usual {
    /// The model decides.
    Open,
    /// This.
    Is(f64),
    /// It goes by the word of another parameter.
    By(&'static str, &'static [(&'static str, f64)]),
}

/// What is wrong with parameters that are right one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFault {
    /// The parameter's key in a scenario.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What could be there instead.
    pub hint: String,
}

/// A duration of a plan.
pub(crate) fn nanoseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_nanos)
}

/// One that may be absent.
pub(crate) fn maybe_nanoseconds<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
}

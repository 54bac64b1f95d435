//! A queue as it is chosen: a name and values, checked against the table.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_units::{ByteCount, Duration, RandomStream};

use super::{DISCIPLINES, Discipline, Queue};
use crate::QueueLimit;

/// A parameter of a discipline. Its value is a whole number of its unit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its key.
    pub key: &'static str,
    /// What it measures.
    pub unit: Unit,
    /// What it is when it is not given.
    pub default: u64,
    /// The least and the most that it may be.
    pub range: (u64, u64),
    /// What it means, in a few words.
    pub meaning: &'static str,
}

/// What a parameter measures, and what its value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// No or yes, 0 or 1.
    Flag,
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
}

impl Unit {
    /// Its name at text edges.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Flag => "flag",
            Self::Size => "size",
            Self::Time => "time",
        }
    }
}

/// A discipline by name with values for its parameters; those not given are its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueChoice {
    /// Which.
    pub name: String,
    /// Values by key.
    pub values: BTreeMap<String, u64>,
}

impl QueueChoice {
    /// One with its defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: BTreeMap::new() }
    }

    /// The same with a value.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: u64) -> Self {
        self.values.insert(key.into(), value);
        self
    }

    /// Whether there is such a queue.
    ///
    /// # Errors
    ///
    /// An unknown name or parameter, or a value out of its range.
    pub fn check(&self) -> Result<(), QueueFault> {
        let discipline = self.discipline()?;
        for (key, &value) in &self.values {
            let parameter = discipline.parameters.iter().find(|known| known.key == key);
            let (least, most) = parameter.ok_or_else(|| QueueFault::Parameter(key.clone()))?.range;
            if !(least..=most).contains(&value) {
                return Err(QueueFault::Range { key: key.clone(), value });
            }
        }
        Ok(())
    }

    fn discipline(&self) -> Result<&'static Discipline, QueueFault> {
        let found = DISCIPLINES.iter().find(|known| known.name == self.name);
        found.copied().ok_or_else(|| QueueFault::Name(self.name.clone()))
    }

    /// The queue, empty. Its chance is drawn from `random`.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn build(
        &self,
        limit: QueueLimit,
        random: RandomStream,
    ) -> Result<Box<dyn Queue>, QueueFault> {
        self.check()?;
        let discipline = self.discipline()?;
        let values = discipline.parameters.iter().map(|parameter| {
            let given = self.values.get(parameter.key);
            (parameter.key, given.copied().unwrap_or(parameter.default))
        });
        let settings = Settings { limit, values: values.collect() };
        Ok((discipline.build)(&settings, random))
    }
}

/// What a discipline is built from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much it holds.
    pub limit: QueueLimit,
    values: BTreeMap<&'static str, u64>,
}

impl Settings {
    /// The value of one of the discipline's own parameters.
    pub(super) fn count(&self, key: &str) -> u64 {
        self.values[key]
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.count(key) != 0
    }

    pub(super) fn size(&self, key: &str) -> ByteCount {
        ByteCount(self.count(key))
    }

    pub(super) fn time(&self, key: &str) -> Duration {
        Duration::from_nanos(self.count(key))
    }
}

/// What is wrong with a [`QueueChoice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueFault {
    /// No discipline has that name.
    Name(String),
    /// It has no such parameter.
    Parameter(String),
    /// A value that the parameter may not have.
    Range {
        /// The parameter.
        key: String,
        /// What was given.
        value: u64,
    },
}

impl fmt::Display for QueueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "unknown queue: `{name}`"),
            Self::Parameter(key) => write!(f, "unknown parameter of a queue: `{key}`"),
            Self::Range { key, value } => {
                write!(f, "queue parameter {key} is out of range: {value}")
            }
        }
    }
}

//! Parameters that count things, bytes or nanoseconds, and that a scenario writes with a unit.

/// A parameter that is a whole number of something. A plug-in has it as a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its key.
    pub key: &'static str,
    /// What it measures.
    pub unit: Unit,
    /// What it is when it is not given.
    pub default: u64,
    /// The least and the most that it may be, below 2^53.
    pub range: (u64, u64),
    /// What it means, in a few words.
    pub meaning: &'static str,
}

/// What a parameter measures, and what its value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Decibels.
    Decibels,
    /// No or yes, 0 or 1.
    Flag,
    /// Bits a second, above zero.
    Rate,
    /// A share of a whole, from 0 to 1.
    Share,
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
    /// Megahertz.
    Width,
}

impl Unit {
    /// Its name at text edges.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Decibels => "decibels",
            Self::Flag => "flag",
            Self::Rate => "rate",
            Self::Share => "share",
            Self::Size => "size",
            Self::Time => "time",
            Self::Width => "width",
        }
    }
}

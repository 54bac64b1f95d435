//! How rules of adaptation are named and parameterised: each owns its parameters and refuses
//! unknown keys.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AbrValue {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

impl fmt::Display for AbrValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => write!(f, "{word}"),
        }
    }
}

/// A rule's name beside its own parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbrChoice {
    /// The rule's name.
    pub name: String,
    /// Its parameters; what is left out has its default.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, AbrValue>,
}

impl AbrChoice {
    /// The rule of this name with all its defaults.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), parameters: BTreeMap::new() }
    }
}

/// One thing that is wrong with a rule's name or parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbrFault {
    /// The key of the parameter; empty for the rule itself.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What could have been meant: the names or keys there are.
    pub known: Vec<&'static str>,
}

/// Everything that is wrong with a rule's name and parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; "))]
pub struct AbrError {
    /// At least one.
    pub faults: Vec<AbrFault>,
}

impl AbrError {
    pub(super) fn unknown_name(name: &str, known: Vec<&'static str>) -> Self {
        let message = format!("unknown ABR rule: `{name}`");
        Self { faults: vec![AbrFault { path: Vec::new(), message, known }] }
    }
}

/// A parameter that a rule has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbrParameter {
    /// Its key.
    pub key: &'static str,
    /// Its default, as a scenario would have it.
    pub default: String,
    /// What it may be, in words.
    pub allowed: String,
}

/// The parameters of a rule that is being built.
///
/// A rule asks for each of its parameters by key; what it never asks for is unknown. A value that
/// does not do is reported when all are read, and until then stands for the default.
#[derive(Debug)]
pub struct AbrParameters<'a> {
    choice: &'a AbrChoice,
    asked: Vec<AbrParameter>,
    faults: Vec<AbrFault>,
}

impl<'a> AbrParameters<'a> {
    pub(super) fn new(choice: &'a AbrChoice) -> Self {
        Self { choice, asked: Vec::new(), faults: Vec::new() }
    }

    /// A number within `range`.
    pub fn number(&mut self, key: &'static str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let allowed = format!("a number from {} to {}", range.start(), range.end());
        match self.ask(key, default.to_string(), allowed) {
            None => default,
            Some(AbrValue::Number(number)) if range.contains(number) => *number,
            Some(value) => self.refuse(key, value, default),
        }
    }

    /// A whole number within `range`.
    pub fn whole(&mut self, key: &'static str, default: u32, range: RangeInclusive<u32>) -> u32 {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        let fits = |number: f64| number.fract() == 0.0 && range.contains(&(number as u32));
        match self.ask(key, default.to_string(), allowed) {
            None => default,
            Some(AbrValue::Number(number)) if *number >= 0.0 && fits(*number) => *number as u32,
            Some(value) => self.refuse(key, value, default),
        }
    }

    /// A number within `range`, or `None` for the word that is the default.
    pub fn number_or(
        &mut self,
        key: &'static str,
        word: &'static str,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        let allowed = format!("a number from {} to {}, or \"{word}\"", range.start(), range.end());
        match self.ask(key, format!("\"{word}\""), allowed) {
            Some(AbrValue::Number(number)) if range.contains(number) => Some(*number),
            None => None,
            Some(AbrValue::Word(given)) if given == word => None,
            Some(value) => self.refuse(key, value, None),
        }
    }

    /// One of `words`; the first is the default.
    pub fn word(&mut self, key: &'static str, words: &'static [&'static str]) -> &'static str {
        let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        match self.ask(key, quoted[0].clone(), quoted.join(" or ")) {
            None => words[0],
            Some(value) => {
                let said = |word: &&&str| *value == AbrValue::Word((**word).to_owned());
                words
                    .iter()
                    .find(said)
                    .copied()
                    .unwrap_or_else(|| self.refuse(key, value, words[0]))
            }
        }
    }

    fn ask(&mut self, key: &'static str, default: String, allowed: String) -> Option<&'a AbrValue> {
        self.asked.push(AbrParameter { key, default, allowed });
        self.choice.parameters.get(key)
    }

    /// Reports a value that the parameter asked for last cannot have.
    fn refuse<T>(&mut self, key: &str, value: &AbrValue, default: T) -> T {
        let allowed = self.asked.last().map_or("", |info| info.allowed.as_str());
        let message = format!("`{key}` of {} is {allowed}, not `{value}`", self.choice.name);
        self.faults.push(AbrFault { path: vec![key.to_owned()], message, known: Vec::new() });
        default
    }

    /// What was asked for, when nothing was wrong and nothing is left over.
    pub(super) fn finish(mut self) -> Result<Vec<AbrParameter>, AbrError> {
        let known: Vec<_> = self.asked.iter().map(|info| info.key).collect();
        for key in self.choice.parameters.keys().filter(|key| !known.contains(&key.as_str())) {
            let message = format!("unknown parameter of {}: `{key}`", self.choice.name);
            let known = known.clone();
            self.faults.push(AbrFault { path: vec![key.clone()], message, known });
        }
        if self.faults.is_empty() { Ok(self.asked) } else { Err(AbrError { faults: self.faults }) }
    }
}

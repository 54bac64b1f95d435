//! The parameters that a plug-in reads while it is built, and the faults in them.

use std::ops::RangeInclusive;

use anabranch_units::{ByteCount, Duration};

use crate::choice::{PluginChoice, Value};
use crate::fault::{PluginError, PluginFault};
use crate::measure::Measure;
use crate::registry::Registry;

/// The declaration of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// The key.
    pub key: &'static str,
    /// The default value, as written in a scenario.
    pub default: String,
    /// The allowed values in words.
    pub allowed: String,
    /// The unit of the value, if it has one.
    pub measure: Option<Measure>,
}

impl ParameterInfo {
    /// Formats the parameter as in a scenario, with its value in `choice` or with its default.
    pub fn declared(&self, choice: &PluginChoice) -> String {
        match choice.parameters.get(self.key) {
            None => format!("{} = {}", self.key, self.default),
            Some(Value::Text(text)) => format!("{} = \"{text}\"", self.key),
            Some(value) => format!("{} = {value}", self.key),
        }
    }
}

/// The parameters of a plug-in that is being built.
///
/// A plug-in reads each of its parameters by key. Keys that it does not read are reported as unknown. An
/// invalid value is replaced by the default, and reported after all parameters have been read.
#[derive(Debug)]
pub struct Parameters<'a> {
    choice: &'a PluginChoice,
    registry: &'a Registry,
    asked: Vec<ParameterInfo>,
    faults: Vec<PluginFault>,
}

impl<'a> Parameters<'a> {
    /// Creates the parameters of a choice. Nested plug-ins are found in `registry`.
    pub fn new(choice: &'a PluginChoice, registry: &'a Registry) -> Self {
        Self { choice, registry, asked: Vec::new(), faults: Vec::new() }
    }

    /// Returns the plug-in's name. Several names can share one implementation.
    pub fn name(&self) -> &'a str {
        &self.choice.name
    }

    /// Returns the registry for nested plug-ins.
    pub fn registry(&self) -> &'a Registry {
        self.registry
    }

    /// Reads a number within `range`.
    pub fn number(&mut self, key: &'static str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let allowed = format!("a number from {} to {}", range.start(), range.end());
        match self.ask(key, default.to_string(), allowed) {
            None => default,
            Some(Value::Number(number)) if range.contains(number) => *number,
            Some(value) => self.refuse(key, value, default),
        }
    }

    /// Reads a whole number within `range`.
    pub fn whole(&mut self, key: &'static str, default: u32, range: RangeInclusive<u32>) -> u32 {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        let fits = |number: f64| number.fract() == 0.0 && range.contains(&(number as u32));
        match self.ask(key, default.to_string(), allowed) {
            None => default,
            Some(Value::Number(number)) if *number >= 0.0 && fits(*number) => *number as u32,
            Some(value) => self.refuse(key, value, default),
        }
    }

    /// Reads a number within `range`, or `word`, which returns `None`. If `default` is `None`, `word` is the
    /// default.
    pub fn number_or(
        &mut self,
        key: &'static str,
        default: impl Into<Option<f64>>,
        range: RangeInclusive<f64>,
        word: &'static str,
    ) -> Option<f64> {
        let default = default.into();
        let told = default.map_or_else(|| format!("\"{word}\""), |number| number.to_string());
        let allowed = format!("a number from {} to {}, or \"{word}\"", range.start(), range.end());
        match self.ask(key, told, allowed) {
            None => default,
            Some(Value::Number(number)) if range.contains(number) => Some(*number),
            Some(Value::Text(text)) if text == word => None,
            Some(value) => self.refuse(key, value, default),
        }
    }

    /// Reads a whole number with a unit.
    pub fn count(&mut self, measure: &Measure) -> u64 {
        let Measure { key, default, range: (least, most), .. } = *measure;
        let allowed = format!("a whole number from {least} to {most}");
        let found = self.ask(key, default.to_string(), allowed);
        if let Some(info) = self.asked.last_mut() {
            info.measure = Some(*measure);
        }
        let fits = |number: f64| number.fract() == 0.0 && (least..=most).contains(&(number as u64));
        match found {
            None => default,
            Some(Value::Number(number)) if *number >= 0.0 && fits(*number) => *number as u64,
            Some(value) => self.refuse(key, value, default),
        }
    }

    /// Reads a boolean, which is written as 0 or 1.
    pub fn switch(&mut self, measure: &Measure) -> bool {
        self.count(measure) != 0
    }

    /// Reads a number of bytes.
    pub fn size(&mut self, measure: &Measure) -> ByteCount {
        ByteCount(self.count(measure))
    }

    /// Reads a number of nanoseconds.
    pub fn time(&mut self, measure: &Measure) -> Duration {
        Duration::from_nanos(self.count(measure))
    }

    /// Reads a boolean.
    pub fn flag(&mut self, key: &'static str, default: bool) -> bool {
        match self.ask(key, default.to_string(), "true or false".to_owned()) {
            None => default,
            Some(Value::Flag(flag)) => *flag,
            Some(value) => self.refuse(key, value, default),
        }
    }

    /// Reads one of `words`; the first is the default.
    pub fn word(&mut self, key: &'static str, words: &'static [&'static str]) -> &'static str {
        let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        let found = self.ask(key, quoted[0].clone(), quoted.join(" or "));
        let Some(value) = found else { return words[0] };
        let said = |word: &&&str| *value == Value::Text((**word).to_owned());
        if let Some(word) = words.iter().find(said) {
            return word;
        }
        self.refuse(key, value, ());
        if let Some(fault) = self.faults.last_mut() {
            fault.known = words.to_vec();
        }
        words[0]
    }

    /// Reads the parameter `base`: another plug-in of the same kind, on which this one builds.
    pub fn base(&mut self, default: &str) -> PluginChoice {
        let found = self.ask("base", format!("\"{default}\""), "a plug-in of the same kind".into());
        match found {
            None => PluginChoice::named(default),
            Some(Value::Plugin(choice)) => choice.clone(),
            Some(Value::Text(text)) => PluginChoice::parse(text).unwrap_or_else(|error| {
                self.adopt("base", error);
                PluginChoice::named(default)
            }),
            Some(value) => self.refuse("base", value, PluginChoice::named(default)),
        }
    }

    /// Adds the faults of a nested plug-in. `key` is the key of that plug-in.
    pub fn adopt(&mut self, key: &str, error: PluginError) {
        self.faults.extend(error.below(key).faults);
    }

    fn ask(&mut self, key: &'static str, default: String, allowed: String) -> Option<&'a Value> {
        self.asked.push(ParameterInfo { key, default, allowed, measure: None });
        self.choice.parameters.get(key)
    }

    /// Records an invalid value of the parameter that was read last, and returns the default.
    fn refuse<T>(&mut self, key: &str, value: &Value, default: T) -> T {
        let allowed = self.asked.last().map_or("", |info| info.allowed.as_str());
        let message = format!("`{key}` of {} is {allowed}, not `{value}`", self.name());
        self.faults.push(PluginFault { path: vec![key.to_owned()], message, known: Vec::new() });
        default
    }

    /// Checks that no parameter is invalid or unknown. Returns the parameters that were read.
    ///
    /// # Errors
    /// Returns all faults, including unknown keys.
    pub fn finish(mut self) -> Result<Vec<ParameterInfo>, PluginError> {
        let known: Vec<_> = self.asked.iter().map(|info| info.key).collect();
        for key in self.choice.parameters.keys().filter(|key| !known.contains(&key.as_str())) {
            let message = format!("unknown parameter of {}: `{key}`", self.name());
            let known = known.clone();
            self.faults.push(PluginFault { path: vec![key.clone()], message, known });
        }
        if self.faults.is_empty() {
            Ok(self.asked)
        } else {
            Err(PluginError { faults: self.faults })
        }
    }
}

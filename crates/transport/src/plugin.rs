//! How plug-ins are named and parameterised: each owns its parameters and refuses unknown keys.

use std::collections::BTreeMap;

use thiserror::Error;

/// A plug-in's name and the first sentence of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginName {
    /// The name used in scenarios.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
}

impl PluginName {
    pub(crate) const fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name
    }
}

/// What is wrong with a plug-in's name or parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The parameter does not exist for this plug-in.
    #[error("unknown parameter of {plugin}: `{key}`")]
    UnknownKey {
        /// The plug-in.
        plugin: String,
        /// The key.
        key: String,
    },
    /// No plug-in has this name.
    #[error("unknown name: `{name}`")]
    UnknownName {
        /// The name.
        name: String,
    },
}

/// A plug-in's name with its numeric parameters, as a scenario gives them.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    name: &'a str,
    values: &'a BTreeMap<String, f64>,
}

impl<'a> Parameters<'a> {
    /// The parameters of the plug-in `name`.
    pub const fn new(name: &'a str, values: &'a BTreeMap<String, f64>) -> Self {
        Self { name, values }
    }

    /// The plug-in's name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Accepts only the keys in `known`.
    ///
    /// # Errors
    /// The first key that is not known.
    pub fn only(&self, known: &[&str]) -> Result<(), PluginError> {
        match self.values.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                Err(PluginError::UnknownKey { plugin: self.name.to_owned(), key: key.clone() })
            }
        }
    }

    /// The value of `key`, or `default`.
    pub fn get_or(&self, key: &str, default: f64) -> f64 {
        self.values.get(key).copied().unwrap_or(default)
    }
}

//! The faults of a plug-in's name and parameters, each with its keys.

use thiserror::Error;

/// One fault of a plug-in's name or parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFault {
    /// The keys that lead to the fault. The list is empty for the plug-in itself, and `["base",
    /// "lambda"]` for a parameter of its base.
    pub path: Vec<String>,
    /// The message.
    pub message: String,
    /// The known names or keys that the author may have meant.
    pub known: Vec<&'static str>,
}

/// All faults of a plug-in's name and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", .faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; "))]
pub struct PluginError {
    /// The faults, at least one.
    pub faults: Vec<PluginFault>,
}

impl PluginError {
    /// Returns an error with a single fault.
    pub fn one(path: &[&str], message: String, known: Vec<&'static str>) -> Self {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self { faults: vec![PluginFault { path, message, known }] }
    }

    /// Adds a key in front of each path.
    #[must_use]
    pub fn below(mut self, key: &str) -> Self {
        for fault in &mut self.faults {
            fault.path.insert(0, key.to_owned());
        }
        self
    }
}

//! What is wrong with a plug-in's name and parameters: everything at once, each with its place.

use thiserror::Error;

/// One thing that is wrong with a plug-in's name or parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFault {
    /// The keys that lead there: empty for the plug-in itself, `["base", "lambda"]` for a parameter
    /// of its base.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What could have been meant: the names or keys there are.
    pub known: Vec<&'static str>,
}

/// Everything that is wrong with a plug-in's name and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", .faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; "))]
pub struct PluginError {
    /// At least one.
    pub faults: Vec<PluginFault>,
}

impl PluginError {
    /// A single fault.
    pub fn one(path: &[&str], message: String, known: Vec<&'static str>) -> Self {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self { faults: vec![PluginFault { path, message, known }] }
    }

    /// The same behind a key more.
    #[must_use]
    pub fn below(mut self, key: &str) -> Self {
        for fault in &mut self.faults {
            fault.path.insert(0, key.to_owned());
        }
        self
    }
}

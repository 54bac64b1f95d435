//! Functions that use a kind's table of names, for example to build plug-ins.

use crate::choice::PluginChoice;
use crate::fault::{PluginError, PluginFault};
use crate::foreign::foreign;
use crate::kind::{Kind, PluginName};
use crate::parameters::{ParameterInfo, Parameters};
use crate::registry::Registry;

/// Returns every name of a kind.
pub fn names<K: Kind>() -> impl Iterator<Item = PluginName> {
    K::TABLE.iter().map(|(name, _)| *name)
}

/// Builds a plug-in from its name and parameters.
///
/// # Errors
/// Returns an error for an unknown name, and for all parameters that are unknown or out of range.
pub fn build<K: Kind>(
    choice: &PluginChoice,
    registry: &Registry,
    input: K::Input,
) -> Result<K::Plugin, PluginError> {
    construct::<K>(choice, registry, input).map(|(built, _)| built)
}

/// Returns the parameters of the plug-in called `name`.
///
/// # Errors
/// Returns an error for an unknown name.
pub fn parameters<K: Kind>(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    let choice = PluginChoice::named(name);
    construct::<K>(&choice, &Registry::TABLES, K::trial()).map(|(_, parameters)| parameters)
}

/// Builds a plug-in, and returns it with the parameters that it read. The list is empty for a plug-in outside
/// the tables.
///
/// # Errors
/// Returns an error for an unknown name, and for all parameters that are unknown or out of range.
pub fn construct<K: Kind>(
    choice: &PluginChoice,
    registry: &Registry,
    input: K::Input,
) -> Result<(K::Plugin, Vec<ParameterInfo>), PluginError> {
    let Some((_, maker)) = K::TABLE.iter().find(|(known, _)| known.name == choice.name) else {
        let foreign = foreign::<K>(registry).and_then(|foreign| foreign.build(choice, input));
        return Ok((foreign.unwrap_or_else(|| Err(unknown_name::<K>(&choice.name)))?, Vec::new()));
    };
    let mut parameters = Parameters::new(choice, registry);
    let plugin = K::make(*maker, &mut parameters, input);
    Ok((plugin, parameters.finish()?))
}

fn unknown_name<K: Kind>(name: &str) -> PluginError {
    let known = names::<K>().map(|known| known.name).collect();
    PluginError::one(&[], format!("unknown {}: `{name}`", K::NOUN), known)
}

/// A kind of plug-in that is selected at run time.
#[derive(Clone, Copy, Debug)]
pub struct AnyKind {
    /// The plan's key for a plug-in of this kind.
    pub key: &'static str,
    /// Whether a plan may use the short form.
    pub short_form: bool,
    parameters: fn(&str) -> Result<Vec<ParameterInfo>, PluginError>,
    faults: fn(&PluginChoice, &Registry) -> Vec<PluginFault>,
}

impl AnyKind {
    /// Creates the value that represents the kind `K` at run time.
    pub const fn of<K: Kind>() -> Self {
        Self {
            key: K::KEY,
            short_form: K::SHORT_FORM,
            parameters: parameters::<K>,
            faults: |choice, registry| {
                let built = build::<K>(choice, registry, K::trial());
                built.err().map(|error| error.faults).unwrap_or_default()
            },
        }
    }

    /// Returns the parameters of the plug-in called `name`.
    ///
    /// # Errors
    /// Returns an error for an unknown name.
    pub fn parameters(&self, name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
        (self.parameters)(name)
    }

    /// Builds the plug-in of a choice once and returns its faults.
    pub fn faults(&self, choice: &PluginChoice, registry: &Registry) -> Vec<PluginFault> {
        (self.faults)(choice, registry)
    }
}

//! Kinds of plug-ins: the table of names, and what is built from it.

use std::fmt;

use crate::{ParameterInfo, Parameters, PluginChoice, PluginError, PluginFault, Registry};

/// A plug-in's name and the first sentence of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginName {
    /// The name used in scenarios.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// What whoever shows a result of it has to say with it.
    pub note: Option<&'static str>,
}

impl PluginName {
    /// A name about which nothing has to be said.
    pub const fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, note: None }
    }

    /// The same with a note.
    #[must_use]
    pub const fn with_note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }
}

/// A kind of plug-in: schedulers, say. The type that implements it is a name alone.
pub trait Kind: fmt::Debug + 'static {
    /// The key under which a plan has one.
    const KEY: &'static str;
    /// What one is called in messages.
    const NOUN: &'static str;
    /// Whether a plan's name may be the short form, with parameters in parentheses.
    const SHORT_FORM: bool = true;
    /// The table of names: a plug-in is one line here, and one for each other name.
    const TABLE: &'static [(PluginName, Self::Maker)];

    /// A plug-in that is built.
    type Plugin;
    /// What it is built from besides its parameters.
    type Input;
    /// What the table has beside a name: the function that builds, and facts, if any.
    type Maker: Copy;

    /// Builds the plug-in of a line of the table.
    fn make(
        maker: Self::Maker,
        parameters: &mut Parameters<'_>,
        input: Self::Input,
    ) -> Self::Plugin;

    /// An input for a plug-in that is built to be looked at and thrown away.
    fn trial() -> Self::Input;
}

/// Every name of a kind.
pub fn names<K: Kind>() -> impl Iterator<Item = PluginName> {
    K::TABLE.iter().map(|(name, _)| *name)
}

/// Builds a plug-in from its name and its own parameters.
///
/// # Errors
/// Unknown names, and every parameter that does not do.
pub fn build<K: Kind>(
    choice: &PluginChoice,
    registry: &Registry,
    input: K::Input,
) -> Result<K::Plugin, PluginError> {
    construct::<K>(choice, registry, input).map(|(built, _)| built)
}

/// The parameters of the plug-in called `name`.
///
/// # Errors
/// Unknown names.
pub fn parameters<K: Kind>(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    let choice = PluginChoice::named(name);
    construct::<K>(&choice, &Registry::TABLES, K::trial()).map(|(_, parameters)| parameters)
}

/// Builds a plug-in, and tells of the parameters that it read; of one that is in no table, nothing.
///
/// # Errors
/// Unknown names, and every parameter that does not do.
pub fn construct<K: Kind>(
    choice: &PluginChoice,
    registry: &Registry,
    input: K::Input,
) -> Result<(K::Plugin, Vec<ParameterInfo>), PluginError> {
    let Some((_, maker)) = K::TABLE.iter().find(|(known, _)| known.name == choice.name) else {
        let foreign = registry.foreign::<K>().and_then(|foreign| foreign.build(choice, input));
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

/// A kind as those see it who are told which at run time.
#[derive(Clone, Copy, Debug)]
pub struct AnyKind {
    /// The key under which a plan has one.
    pub key: &'static str,
    /// Whether a plan's name may be the short form.
    pub short_form: bool,
    parameters: fn(&str) -> Result<Vec<ParameterInfo>, PluginError>,
    faults: fn(&PluginChoice, &Registry) -> Vec<PluginFault>,
}

impl AnyKind {
    /// A kind without its type.
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

    /// The parameters of the plug-in called `name`.
    ///
    /// # Errors
    /// Unknown names.
    pub fn parameters(&self, name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
        (self.parameters)(name)
    }

    /// What is wrong with a choice: it is built once to find out.
    pub fn faults(&self, choice: &PluginChoice, registry: &Registry) -> Vec<PluginFault> {
        (self.faults)(choice, registry)
    }
}

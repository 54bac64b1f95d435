//! Kinds of plug-ins, which are described by a trait and a table of names.

use std::fmt;

use crate::parameters::Parameters;

/// A plug-in's name and the first sentence of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginName {
    /// The name used in scenarios.
    pub name: &'static str,
    /// Its purpose in one sentence.
    pub summary: &'static str,
    /// A note that every report of its results must include.
    pub note: Option<&'static str>,
}

impl PluginName {
    /// Returns a name without a note.
    pub const fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, note: None }
    }

    /// Returns the name with a note.
    #[must_use]
    pub const fn with_note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }
}

/// A kind of plug-in, for example schedulers. The type that implements it has no values.
pub trait Kind: fmt::Debug + 'static {
    /// The plan's key for a plug-in of this kind.
    const KEY: &'static str;
    /// The noun for a plug-in of this kind in messages.
    const NOUN: &'static str;
    /// Whether a plan may use the short form, with parameters in parentheses.
    const SHORT_FORM: bool = true;
    /// The table of names. A plug-in has one line, and one more for each alias.
    const TABLE: &'static [(PluginName, Self::Maker)];

    /// The type of a built plug-in.
    type Plugin;
    /// The input of a plug-in in addition to its parameters.
    type Input;
    /// The table's value for a name: the build function, and properties if any.
    type Maker: Copy;

    /// Builds the plug-in of a table line.
    fn make(
        maker: Self::Maker,
        parameters: &mut Parameters<'_>,
        input: Self::Input,
    ) -> Self::Plugin;

    /// Returns an input for a plug-in that is built only to check its parameters.
    fn trial() -> Self::Input;
}

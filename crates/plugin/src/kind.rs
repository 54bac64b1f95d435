//! Kinds of plug-ins, each of which is described by a trait and a table of names.

use std::fmt;

use crate::parameters::Parameters;

/// A plug-in's name and the first sentence of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginName {
    /// The name used in scenarios.
    pub name: &'static str,
    /// The purpose in one sentence.
    pub summary: &'static str,
    /// A note that every report of the plug-in's results must include.
    pub note: Option<&'static str>,
}

impl PluginName {
    /// Creates a name without a note.
    pub const fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, note: None }
    }

    /// Adds a note.
    #[must_use]
    pub const fn with_note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }
}

/// A kind of plug-in, for example schedulers. The implementing type is a marker without values.
pub trait Kind: fmt::Debug + 'static {
    /// The plan's key for a plug-in of this kind.
    const KEY: &'static str;
    /// The noun for a plug-in of this kind in messages.
    const NOUN: &'static str;
    /// Whether a plan may use the short form, with parameters in parentheses.
    const SHORT_FORM: bool = true;
    /// The table of names. Each plug-in has one entry, and each alias has another one.
    const TABLE: &'static [(PluginName, Self::Maker)];

    /// The type of a built plug-in.
    type Plugin;
    /// The input of a plug-in in addition to its parameters.
    type Input;
    /// The value of an entry in the table: the build function, and other properties if the kind has any.
    type Maker: Copy;

    /// Builds the plug-in of a table entry.
    fn make(
        maker: Self::Maker,
        parameters: &mut Parameters<'_>,
        input: Self::Input,
    ) -> Self::Plugin;

    /// Returns the input for building a plug-in only to check its parameters.
    fn trial() -> Self::Input;
}

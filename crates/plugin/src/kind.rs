//! Kinds of plug-ins: what a room says of one, its table of names included.

use std::fmt;

use crate::parameters::Parameters;

/// A plug-in's name and the first sentence of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginName {
    /// The name used in scenarios.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// A note that every report of its results must include.
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

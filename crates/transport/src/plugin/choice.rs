//! A plug-in as a scenario names it: `blest`, `blest(lambda=1.1)`, `rtx-aware(sticky(min-rtt))`.

use std::collections::BTreeMap;
use std::fmt;

use super::PluginError;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
    /// Another plug-in, on which this one builds.
    Plugin(PluginChoice),
}

/// A plug-in by name, with its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginChoice {
    /// The name in its table.
    pub name: String,
    /// Its own parameters; `base` is the plug-in that it builds on.
    pub parameters: BTreeMap<String, Value>,
}

impl PluginChoice {
    /// A plug-in with its default parameters.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), parameters: BTreeMap::new() }
    }

    /// With another parameter.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.parameters.insert(key.to_owned(), value);
        self
    }

    /// Reads the short form: a name, and in parentheses its base and its parameters
    /// (`rtx-aware(blest)`, `compound(gamma=auto)`).
    ///
    /// # Errors
    /// Parentheses that do not match, a nameless plug-in, a parameter given twice.
    pub fn parse(text: &str) -> Result<Self, PluginError> {
        let fault = |what: &str| PluginError::one(&[], format!("{what}: `{text}`"), Vec::new());
        let text = text.trim();
        let Some((name, rest)) = text.split_once('(') else {
            let sound = !text.is_empty() && !text.contains([')', ',']);
            return if sound { Ok(Self::named(text)) } else { Err(fault("not a plug-in's name")) };
        };
        let inside = rest.strip_suffix(')').ok_or_else(|| fault("a parenthesis is left open"))?;
        let mut choice = Self::parse(name).map_err(|_| fault("not a plug-in's name"))?;
        for argument in arguments(inside).ok_or_else(|| fault("parentheses do not match"))? {
            let before = argument.split('(').next().unwrap_or_default();
            let (key, value) = match before.find('=') {
                Some(at) => (argument[..at].trim(), scalar(argument[at + 1..].trim())),
                None => ("base", Value::Plugin(Self::parse(argument)?)),
            };
            if choice.parameters.insert(key.to_owned(), value).is_some() {
                return Err(fault(&format!("`{key}` is given twice")));
            }
        }
        Ok(choice)
    }
}

/// The arguments between the commas that are in no parentheses; `None` when those do not match.
fn arguments(inside: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut found) = (0_u32, 0, Vec::new());
    for (at, character) in inside.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                found.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&inside[start..]);
    (depth == 0).then_some(found)
}

/// A number, `true`, `false`, or a word.
fn scalar(text: &str) -> Value {
    match text {
        "true" => Value::Flag(true),
        "false" => Value::Flag(false),
        _ => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Plugin(choice) => write!(f, "{choice}"),
        }
    }
}

/// The short form, which [`PluginChoice::parse`] reads.
impl fmt::Display for PluginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let mut before = "(";
        let base = self.parameters.get("base");
        if let Some(base) = base {
            write!(f, "({base}")?;
            before = ", ";
        }
        for (key, value) in self.parameters.iter().filter(|(key, _)| *key != "base") {
            write!(f, "{before}{key}={value}")?;
            before = ", ";
        }
        if self.parameters.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

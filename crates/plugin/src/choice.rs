//! The choice of a plug-in in a scenario: `blest`, `blest(lambda=1.1)`,
//! `rtx-aware(sticky(min-rtt))`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::fault::PluginError;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A boolean.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// Another plug-in, on which this one builds.
    Plugin(PluginChoice),
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

/// A plug-in's name and parameters. In a plan, the parameters are keys next to `name`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct PluginChoice {
    /// The name in its kind's table.
    pub name: String,
    /// The parameters. `base` is the plug-in on which this one builds.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Value>,
}

impl PluginChoice {
    /// Creates a choice with default parameters.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), parameters: BTreeMap::new() }
    }

    /// Adds a parameter to the choice, or replaces one.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(key.to_owned(), value.into());
        self
    }

    /// Parses the short form: a name, then the base and the parameters in parentheses
    /// (`rtx-aware(blest)`, `compound(gamma=auto)`).
    ///
    /// Text in double quotes is taken literally: `rtx-aware("c,d/mine.py:X")`. Text that ends like the path
    /// of a class, `.py:Name`, is one name.
    ///
    /// # Errors
    /// Returns an error for unbalanced parentheses or quotes, and for a missing name. Also returns one for a
    /// parameter that is given twice or is not finite, and for more than [`LEVELS`] levels.
    pub fn parse(text: &str) -> Result<Self, PluginError> {
        let (mut depth, mut deepest) = (0_usize, 0);
        for (_, character) in bare(text) {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        if deepest >= LEVELS {
            return Err(too_deep());
        }
        Self::parse_level(text)
    }

    /// Parses a choice. The caller has checked the number of levels.
    fn parse_level(text: &str) -> Result<Self, PluginError> {
        let text = text.trim();
        let fault = |what: &str| {
            PluginError::one(&[], format!("{what}: `{}`", shortened(text)), Vec::new())
        };
        if is_place(text) {
            return Ok(Self::named(text));
        }
        let open = bare(text).find(|(_, character)| *character == '(').map(|(at, _)| at);
        let Some(open) = open else {
            let named = name(text).map(Self::named);
            return named.ok_or_else(|| fault("not a plug-in's name"));
        };
        let closed =
            bare(text).last().is_some_and(|(at, last)| last == ')' && at + 1 == text.len());
        if !closed {
            return Err(fault("a parenthesis is left open"));
        }
        let inside = &text[open + 1..text.len() - 1];
        let named = name(&text[..open]).map(Self::named);
        let mut choice = named.ok_or_else(|| fault("not a plug-in's name"))?;
        for argument in arguments(inside).ok_or_else(|| fault("parentheses do not match"))? {
            let mut before = bare(argument).take_while(|(_, character)| *character != '(');
            let (key, value) = match before.find(|(_, character)| *character == '=') {
                Some((at, _)) => (argument[..at].trim(), argument[at + 1..].trim()),
                None => ("base", argument),
            };
            let value = match key {
                "base" => Value::Plugin(Self::parse_level(value)?),
                _ => scalar(value),
            };
            if matches!(value, Value::Number(number) if !number.is_finite()) {
                let message = format!("`{key}` of {} is finite, not `{value}`", choice.name);
                return Err(PluginError::one(&[key], message, Vec::new()));
            }
            if choice.parameters.insert(key.to_owned(), value).is_some() {
                return Err(fault(&format!("`{key}` is given twice")));
            }
        }
        Ok(choice)
    }
}

/// The largest number of nested plug-ins.
pub const LEVELS: usize = 16;

/// Returns the error for a composition of more than [`LEVELS`] levels.
pub(crate) fn too_deep() -> PluginError {
    let message = format!("plug-ins can be nested to at most {LEVELS} levels");
    PluginError::one(&[], message, Vec::new())
}

/// Returns the characters outside quotes, and the quotes, with their positions.
fn bare(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quoted = false;
    text.char_indices().filter(move |(_, character)| {
        let quote = *character == '"';
        quoted ^= quote;
        quote || !quoted
    })
}

/// Returns whether the text ends in `.py:Name` and has no quote. A short form with parentheses cannot have
/// this ending.
fn is_place(text: &str) -> bool {
    let class = text.rsplit_once(".py:").map_or("", |(_, class)| class);
    let of_name = |character: char| character.is_alphanumeric() || character == '_';
    !class.is_empty() && class.chars().all(of_name) && !text.contains('"')
}

/// Returns a plug-in's name without its quotes; `None` if the text is not a name.
fn name(text: &str) -> Option<&str> {
    let text = text.trim();
    let inside = unquoted(text);
    let sound = inside.is_some() || !text.contains([')', ',', '"']);
    Some(inside.unwrap_or(text)).filter(|name| sound && !name.is_empty())
}

/// Returns the text between the quotes, if all of the text is quoted.
fn unquoted(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.contains('"')).then_some(inside)
}

/// Returns the text, shortened for messages.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Splits arguments at the commas outside parentheses. Returns `None` if the parentheses are not
/// balanced.
fn arguments(inside: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut found) = (0_u32, 0, Vec::new());
    for (at, character) in bare(inside) {
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

/// Parses a number, `true`, `false`, or a string that may be quoted.
fn scalar(text: &str) -> Value {
    match text {
        "true" => Value::Flag(true),
        "false" => Value::Flag(false),
        _ => text
            .parse()
            .map_or_else(|_| Value::Text(unquoted(text).unwrap_or(text).to_owned()), Value::Number),
    }
}

/// A string in the short form. It is quoted if it would otherwise be parsed differently.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = !self.0.contains(['(', ')', ',', '=']) || self.0.contains('"');
        if plain { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0) }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", Quoted(text)),
            Self::Plugin(choice) => write!(f, "{choice}"),
        }
    }
}

/// Formats the short form that [`PluginChoice::parse`] parses.
impl fmt::Display for PluginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(&self.name))?;
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

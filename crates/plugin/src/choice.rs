//! A plug-in as a scenario names it: `blest`, `blest(lambda=1.1)`, `rtx-aware(sticky(min-rtt))`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::fault::PluginError;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
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

/// A plug-in by name, with its parameters, which a plan has beside the name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct PluginChoice {
    /// The name in its table.
    pub name: String,
    /// Its own parameters; `base` is the plug-in that it builds on.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Value>,
}

impl PluginChoice {
    /// A plug-in with its default parameters.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), parameters: BTreeMap::new() }
    }

    /// With another parameter.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(key.to_owned(), value.into());
        self
    }

    /// Reads the short form: a name, and in parentheses its base and its parameters
    /// (`rtx-aware(blest)`, `compound(gamma=auto)`).
    ///
    /// What stands in double quotes is a name or a word as it is: `rtx-aware("c,d/mine.py:X")`. What
    /// ends like the place of a class, in `.py:Name`, is a name as a whole.
    ///
    /// # Errors
    /// Parentheses or quotes that do not match, a nameless plug-in, a parameter given twice or not
    /// finite, more than [`LEVELS`] levels.
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

    /// Reads what is known to be of few levels.
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

/// The most plug-ins in a composition, one around the other.
pub const LEVELS: usize = 16;

/// The fault of a composition of more than [`LEVELS`] levels.
pub(crate) fn too_deep() -> PluginError {
    let message = format!("plug-ins build on one another to at most {LEVELS} levels");
    PluginError::one(&[], message, Vec::new())
}

/// The characters that are in no quotes, and the quotes, each with its place.
fn bare(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quoted = false;
    text.char_indices().filter(move |(_, character)| {
        let quote = *character == '"';
        quoted ^= quote;
        quote || !quoted
    })
}

/// What ends in `.py:Name`, without a quote: no short form does that has parentheses or commas.
fn is_place(text: &str) -> bool {
    let class = text.rsplit_once(".py:").map_or("", |(_, class)| class);
    let of_name = |character: char| character.is_alphanumeric() || character == '_';
    !class.is_empty() && class.chars().all(of_name) && !text.contains('"')
}

/// A plug-in's name, without its quotes.
fn name(text: &str) -> Option<&str> {
    let text = text.trim();
    let inside = unquoted(text);
    let sound = inside.is_some() || !text.contains([')', ',', '"']);
    Some(inside.unwrap_or(text)).filter(|name| sound && !name.is_empty())
}

/// What stands in quotes, when all does.
fn unquoted(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.contains('"')).then_some(inside)
}

/// As much of a text as a message can have.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// The arguments between the commas that are in no parentheses; `None` when those do not match.
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

/// A number, `true`, `false`, or a word, which may be in quotes.
fn scalar(text: &str) -> Value {
    match text {
        "true" => Value::Flag(true),
        "false" => Value::Flag(false),
        _ => text
            .parse()
            .map_or_else(|_| Value::Text(unquoted(text).unwrap_or(text).to_owned()), Value::Number),
    }
}

/// A name or a word as the short form has it, in quotes where it would be read as something else.
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

/// The short form, which [`PluginChoice::parse`] reads.
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

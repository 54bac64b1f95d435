//! Plug-ins as a plan names them: JSON, or a name or short form alone.

use std::collections::BTreeMap;

use anabranch_media::{AbrChoice, AbrError, build_abr};
use anabranch_transport::plugin::{LEVELS, PluginError, PluginFault, Registry, Value, too_deep};
use anabranch_transport::{PluginChoice, congestion, path_manager, scheduler};
use anabranch_units::Seed;
use serde::Deserialize;

use crate::fault::PlanError;

/// A plug-in's name beside its own parameters.
#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    parameters: BTreeMap<String, Parameter>,
}

/// A parameter of a plug-in; another plug-in's name is a text too.
#[derive(Deserialize)]
#[serde(untagged)]
enum Parameter {
    Flag(bool),
    Number(f64),
    Text(String),
    Plugin(Named),
}

impl Named {
    /// The name may be the short form, which has parameters too.
    fn choice(self) -> Result<PluginChoice, PluginError> {
        let mut choice = PluginChoice::parse(&self.name)?;
        for (key, parameter) in self.parameters {
            let value = match parameter {
                Parameter::Flag(flag) => Value::Flag(flag),
                Parameter::Number(number) => Value::Number(number),
                Parameter::Text(text) => Value::Text(text),
                Parameter::Plugin(named) => {
                    Value::Plugin(named.choice().map_err(|error| below(&key, error))?)
                }
            };
            if choice.parameters.contains_key(&key) {
                let message = format!("`{key}` is given twice: in `{}` and beside it", self.name);
                let fault = PluginFault { path: vec![key], message, known: Vec::new() };
                return Err(PluginError { faults: vec![fault] });
            }
            choice.parameters.insert(key, value);
        }
        Ok(choice)
    }
}

/// What is wrong, below a key.
fn below(key: &str, mut error: PluginError) -> PluginError {
    for fault in &mut error.faults {
        fault.path.insert(0, key.to_owned());
    }
    error
}

/// A plug-in choice from its JSON, or its name or short form alone.
///
/// # Errors
/// Text that is neither. Whether such a plug-in exists is not checked here.
pub(crate) fn choice(text: &str) -> Result<PluginChoice, PlanError> {
    if !text.trim_start().starts_with('{') {
        return Ok(PluginChoice::parse(text)?);
    }
    let choice = serde_json::from_str::<Named>(text)?.choice()?;
    if parts(choice.clone()).nth(LEVELS).is_some() { Err(too_deep().into()) } else { Ok(choice) }
}

/// A plug-in and those that it builds on, one below the other.
fn parts(choice: PluginChoice) -> impl Iterator<Item = PluginChoice> {
    std::iter::successors(Some(choice), |part| match part.parameters.get("base") {
        Some(Value::Plugin(base)) => Some(base.clone()),
        Some(Value::Text(base)) => PluginChoice::parse(base).ok(),
        _ => None,
    })
}

/// A rule's faults as those of any plug-in.
pub(crate) fn plugin_error(error: AbrError) -> PluginError {
    let fault = |fault: anabranch_media::AbrFault| PluginFault {
        path: fault.path,
        message: fault.message,
        known: fault.known,
    };
    PluginError { faults: error.faults.into_iter().map(fault).collect() }
}

/// What is wrong with a plug-in of a kind (`scheduler`, `congestion`, `abr`, or a path manager).
///
/// # Errors
/// Text that is not the JSON of a plug-in.
pub fn plugin_faults(
    kind: &str,
    text: &str,
    registry: &Registry,
) -> Result<Vec<PluginFault>, PlanError> {
    if kind == "abr" {
        let choice: AbrChoice = serde_json::from_str(text)?;
        let faults = |error| plugin_error(error).faults;
        return Ok(build_abr(&choice).err().map(faults).unwrap_or_default());
    }
    let choice = match choice(text) {
        Err(PlanError::Plugin(error)) => return Ok(error.faults),
        other => other?,
    };
    let built = match kind {
        "scheduler" => scheduler::build(&choice, registry).map(drop),
        "congestion" => {
            let random = Seed { seed: 0, run: 0 }.stream("check");
            congestion::build(&choice, registry, random).map(drop)
        }
        _ => path_manager::build(&choice).map(drop),
    };
    Ok(built.err().map(|error| error.faults).unwrap_or_default())
}

/// The plug-ins in a composition, each with the keys that lead to it; none for invalid text.
pub fn plugin_parts(text: &str) -> Vec<(Vec<String>, PluginChoice)> {
    let whole = choice(text).ok();
    let keys = |level| vec!["base".to_owned(); level];
    whole.into_iter().flat_map(parts).enumerate().map(|(level, part)| (keys(level), part)).collect()
}

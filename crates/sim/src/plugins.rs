//! Plug-ins as a plan names them: JSON, or a name or short form alone.

use std::collections::BTreeMap;

use anabranch_transport::plugin::{PluginError, PluginFault, Registry, Value};
use anabranch_transport::{PluginChoice, congestion, path_manager, scheduler};
use anabranch_units::Seed;
use serde::Deserialize;

use crate::plan::PlanError;

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
                Parameter::Plugin(named) => Value::Plugin(named.choice()?),
            };
            choice.parameters.insert(key, value);
        }
        Ok(choice)
    }
}

/// A plug-in choice from its JSON, or its name or short form alone.
///
/// # Errors
/// What is neither; whether there is such a plug-in its table knows.
pub(crate) fn choice(what: &'static str, text: &str) -> Result<PluginChoice, PlanError> {
    let fault = |error| PlanError::Plugin { what, error };
    if !text.trim_start().starts_with('{') {
        return PluginChoice::parse(text).map_err(fault);
    }
    serde_json::from_str::<Named>(text)?.choice().map_err(fault)
}

/// What is wrong with a plug-in of a kind (`scheduler`, `congestion`, or a path manager).
///
/// # Errors
/// What is no JSON of a plug-in at all.
pub fn plugin_faults(
    kind: &str,
    text: &str,
    registry: &Registry,
) -> Result<Vec<PluginFault>, PlanError> {
    let choice = match choice("plug-in", text) {
        Err(PlanError::Plugin { error, .. }) => return Ok(error.faults),
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

/// The plug-ins in a composition, each behind the keys that lead to it; none in what is no plug-in.
pub fn plugin_parts(text: &str) -> Vec<(Vec<String>, PluginChoice)> {
    let mut found = Vec::new();
    let mut next = choice("plug-in", text).ok();
    let mut path = Vec::new();
    while let Some(part) = next {
        next = match part.parameters.get("base") {
            Some(Value::Plugin(base)) => Some(base.clone()),
            Some(Value::Text(base)) => PluginChoice::parse(base).ok(),
            _ => None,
        };
        found.push((path.clone(), part));
        path.push("base".to_owned());
    }
    found
}

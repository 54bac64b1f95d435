//! Plug-ins as a plan names them: JSON, or a name or short form alone.

use anabranch_congestion::Controllers;
use anabranch_media::AbrRules;
use anabranch_plugin::{AnyKind, PluginChoice, PluginFault, Registry};
use anabranch_scheduler::Schedulers;
use anabranch_transport::path_manager::PathManagers;

use crate::fault::PlanError;

/// The kinds of plug-in that a plan names.
pub const KINDS: &[AnyKind] = &[
    AnyKind::of::<Schedulers>(),
    AnyKind::of::<Controllers>(),
    AnyKind::of::<PathManagers>(),
    AnyKind::of::<AbrRules>(),
];

/// A plug-in choice from its JSON, or its name or short form alone.
///
/// # Errors
/// Text that is neither. Whether such a plug-in exists is not checked here.
pub fn choice(text: &str) -> Result<PluginChoice, PlanError> {
    if !text.trim_start().starts_with('{') {
        return Ok(PluginChoice::parse(text)?);
    }
    Ok(serde_json::from_str::<PluginChoice>(text)?.resolved()?)
}

/// What is wrong with a plug-in of one of [`KINDS`], by its key.
///
/// # Errors
/// Text that is not the JSON of a plug-in.
pub fn plugin_faults(
    kind: &str,
    text: &str,
    registry: &Registry,
) -> Result<Vec<PluginFault>, PlanError> {
    let unknown = PlanError::Invalid("there is no such kind of plug-in");
    let kind = KINDS.iter().find(|known| known.key == kind).ok_or(unknown)?;
    let read = if kind.short_form { choice(text) } else { Ok(serde_json::from_str(text)?) };
    match read {
        Err(PlanError::Plugin(error)) => Ok(error.faults),
        read => Ok(kind.faults(&read?, registry)),
    }
}

/// The plug-ins in a composition, each with the keys that lead to it; none for invalid text.
pub fn plugin_parts(text: &str) -> Vec<(Vec<String>, PluginChoice)> {
    let whole = choice(text).ok();
    let keys = |level| vec!["base".to_owned(); level];
    whole
        .iter()
        .flat_map(PluginChoice::parts)
        .enumerate()
        .map(|(level, part)| (keys(level), part))
        .collect()
}

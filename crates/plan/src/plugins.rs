//! The plug-ins of a plan. Each is given as JSON, or by its name or short form.

use anabranch_congestion::Controllers;
use anabranch_media::AbrRules;
use anabranch_mptcp::path_manager::PathManagers;
use anabranch_plugin::{AnyKind, PluginChoice, PluginFault, Registry};
use anabranch_scheduler::Schedulers;

use crate::fault::PlanError;

/// The plug-in kinds that a plan uses.
pub const KINDS: &[AnyKind] = &[
    AnyKind::of::<Schedulers>(),
    AnyKind::of::<Controllers>(),
    AnyKind::of::<PathManagers>(),
    AnyKind::of::<AbrRules>(),
];

/// Parses a plug-in choice from JSON, or from a name or short form.
///
/// # Errors
/// Returns an error for text that is neither. It does not check that the plug-in exists.
pub fn choice(text: &str) -> Result<PluginChoice, PlanError> {
    if !text.trim_start().starts_with('{') {
        return Ok(PluginChoice::parse(text)?);
    }
    Ok(serde_json::from_str::<PluginChoice>(text)?.resolved()?)
}

/// Returns the faults of a plug-in. `kind` is the key of one of [`KINDS`].
///
/// # Errors
/// Returns an error for text that is not the JSON of a plug-in.
pub fn plugin_faults(
    kind: &str,
    text: &str,
    registry: &Registry,
) -> Result<Vec<PluginFault>, PlanError> {
    let unknown = PlanError::Invalid("unknown kind of plug-in");
    let kind = KINDS.iter().find(|known| known.key == kind).ok_or(unknown)?;
    let read = if kind.short_form { choice(text) } else { Ok(serde_json::from_str(text)?) };
    match read {
        Err(PlanError::Plugin(error)) => Ok(error.faults),
        read => Ok(kind.faults(&read?, registry)),
    }
}

/// Returns the plug-ins of a composition, each with the keys that lead to it. Returns an empty list for
/// invalid text.
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

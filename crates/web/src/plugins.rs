//! The tables of plug-ins with their parameters, for the page's menus.

use anabranch_congestion as congestion;
use anabranch_mptcp::path_manager;
use anabranch_mptcp::profile::{PARTS, PROFILES};
use anabranch_plan::{Form, KINDS, MODELS, ModelParameter, Usual, abr_names, queue};
use anabranch_plugin::{ParameterInfo, PluginName};
use anabranch_scheduler as scheduler;
use serde_json::{Value, json};

/// Returns every plug-in by kind: `schedulers`, `controllers`, `path_managers`, `abr_rules`, `profiles`,
/// `profile_parts`, `link_models` and `queues`.
pub fn plugins() -> Value {
    let about = |name: &str, summary: &str| json!({ "name": name, "summary": summary });
    json!({
        "schedulers": named("scheduler", scheduler::names()),
        "controllers": named("congestion", congestion::names()),
        "path_managers": named("path_manager", path_manager::names()),
        "abr_rules": named("abr", abr_names()),
        "profiles": PROFILES.iter().map(|it| about(it.name, it.summary)).collect::<Vec<_>>(),
        "profile_parts": PARTS.iter().map(|it| about(it.name, it.summary)).collect::<Vec<_>>(),
        "link_models": link_models(),
        "queues": queues(),
    })
}

/// Returns the plug-ins of a kind. `key` is the kind's key in a plan.
fn named(key: &str, names: impl Iterator<Item = PluginName>) -> Vec<Value> {
    let kind = KINDS.iter().find(|kind| kind.key == key);
    let of = |name: &str| kind.and_then(|kind| kind.parameters(name).ok()).unwrap_or_default();
    names
        .map(|it| {
            let parameters: Vec<_> = of(it.name).iter().map(parameter).collect();
            json!({
                "name": it.name, "summary": it.summary, "note": it.note, "parameters": parameters,
            })
        })
        .collect()
}

/// Returns a parameter. The unit and the range are null if they exist only in words (`allowed`).
fn parameter(info: &ParameterInfo) -> Value {
    json!({
        "name": info.key,
        "default": info.default,
        "allowed": info.allowed,
        "unit": info.measure.map(|it| it.unit.name()),
        "least": info.measure.map(|it| it.range.0),
        "most": info.measure.map(|it| it.range.1),
        "summary": info.measure.map(|it| it.meaning),
    })
}

fn link_models() -> Vec<Value> {
    MODELS
        .iter()
        .map(|kind| {
            let parameters: Vec<_> = kind.parameters.iter().map(model_parameter).collect();
            json!({ "name": kind.name, "summary": kind.called, "parameters": parameters })
        })
        .collect()
}

/// Returns a parameter of a link model. `unit` is null for a word or a name.
fn model_parameter(info: &ModelParameter) -> Value {
    let (unit, default, least, most, words) = match info.form {
        Form::Quantity { unit, usual, least, most, .. } => {
            let default = match usual {
                Usual::Is(number) => Some(number),
                Usual::Open | Usual::By(..) => None,
            };
            (Some(unit.name()), default, Some(least), Some(most), None)
        }
        Form::Word(words) => (None, None, None, None, Some(words)),
        Form::Way | Form::Place | Form::Shared => (None, None, None, None, None),
    };
    json!({
        "name": info.key, "plan": info.plan, "summary": info.meaning, "unit": unit, "default": default,
        "least": least, "most": most, "words": words,
    })
}

fn queues() -> Vec<Value> {
    queue::disciplines()
        .map(|(kind, limit)| {
            let found = queue::parameters(kind.name).unwrap_or_default();
            let parameters: Vec<_> = found
                .iter()
                .filter_map(|info| info.measure)
                .map(|it| {
                    json!({
                        "name": it.key, "unit": it.unit.name(), "default": it.default,
                        "least": it.range.0, "most": it.range.1, "summary": it.meaning,
                    })
                })
                .collect();
            json!({
                "name": kind.name, "summary": kind.summary, "limit": limit.named(),
                "parameters": parameters,
            })
        })
        .collect()
}

//! Tests that a connection executes the decisions of its scheduler.

#[path = "../pair/mod.rs"]
mod pair;

mod core;
mod events;
mod relief;
mod switches;

use anabranch_plugin::{PluginChoice, Registry};
use anabranch_scheduler::PathScheduler;

fn named(name: &str) -> PluginChoice {
    PluginChoice::parse(name).expect("a plug-in's short form")
}

fn build(name: &str) -> Box<dyn PathScheduler> {
    anabranch_scheduler::build(&named(name), &Registry::TABLES).expect("a known name")
}

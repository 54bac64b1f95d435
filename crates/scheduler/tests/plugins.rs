//! Tests of all schedulers: names, parameters and composition.

use anabranch_plugin::{PluginChoice, PluginError, Registry, Value};
use anabranch_scheduler as scheduler;

fn named(name: &str) -> PluginChoice {
    PluginChoice::named(name)
}

#[test]
fn every_scheduler_builds_and_rejects_unknown_parameters() {
    let odd = |name: &str| named(name).with("lamda", Value::Number(1.0));
    let refused = |error: PluginError| {
        let fault = error.faults.into_iter().find(|fault| fault.path == ["lamda"]);
        assert!(fault.expect("the unknown key").message.contains("lamda"));
    };
    for plugin in scheduler::names() {
        refused(scheduler::build(&odd(plugin.name), &Registry::TABLES).expect_err("unknown"));
        scheduler::build(&named(plugin.name), &Registry::TABLES).expect("no parameters needed");
        assert!(!plugin.summary.is_empty());
    }
    let error = scheduler::build(&named("blesst"), &Registry::TABLES).expect_err("unknown");
    assert_eq!(error.to_string(), "unknown scheduler: `blesst`");
    assert!(error.faults[0].known.contains(&"linux"), "the names there are");
}

#[test]
fn standalone_scheduler_reports_its_registered_name() {
    // A composition has the name of its outer rule.
    for plugin in scheduler::names() {
        let built = scheduler::build(&named(plugin.name), &Registry::TABLES).expect("known");
        if built.base().is_none() {
            // The papers' name for min-rtt.
            let own = if plugin.name == "spd" { "min-rtt" } else { plugin.name };
            assert_eq!(built.name(), own);
        }
    }
}

#[test]
fn a_composition_has_sixteen_levels() {
    let nested = |levels: usize| {
        format!("{}min-rtt{}", "rtx-aware(".repeat(levels - 1), ")".repeat(levels - 1))
    };
    let whole = PluginChoice::parse(&nested(16)).expect("16 levels");
    scheduler::build(&whole, &Registry::TABLES).expect("16 levels");
    for text in [nested(17), nested(200_000), "rtx-aware(".repeat(200_000), "a(base=".repeat(99)] {
        let error = PluginChoice::parse(&text).expect_err("too many levels");
        assert_eq!(error.to_string(), "plug-ins can be nested to at most 16 levels");
    }
    let long = PluginChoice::parse(&"a)".repeat(1000)).expect_err("no name").to_string();
    assert!(long.len() < 200, "{long}");
}

#[test]
fn integer_parameters_are_integral_and_all_numbers_finite() {
    let told = |value: f64| {
        let choice = named("round-robin").with("num_segments", Value::Number(value));
        scheduler::build(&choice, &Registry::TABLES).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!([1.0, 255.0].map(told), [Ok(()), Ok(())]);
    for value in [1.5, 0.0, -1.0, 256.0, 4_294_967_297.0, f64::NAN, f64::INFINITY] {
        let expected =
            format!("`num_segments` of round-robin is a whole number from 1 to 255, not `{value}`");
        assert_eq!(told(value), Err(expected));
    }
    for (text, shown) in [("nan", "NaN"), ("inf", "inf"), ("-infinity", "-inf"), ("1e999", "inf")] {
        let error = PluginChoice::parse(&format!("mine.py:X(k={text})")).expect_err(text);
        assert_eq!(error.to_string(), format!("`k` of mine.py:X is finite, not `{shown}`"));
        assert_eq!(error.faults[0].path, ["k"]);
    }
}

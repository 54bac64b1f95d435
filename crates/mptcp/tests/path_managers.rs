//! All path managers: names, parameters, and the paths that they join.

use anabranch_mptcp::path_manager::{self, Candidate};
use anabranch_plugin::{PluginChoice, Value};
use anabranch_units::Instant;

fn named(name: &str) -> PluginChoice {
    PluginChoice::named(name)
}

#[test]
fn path_managers_reject_unknown_parameters() {
    for plugin in path_manager::names() {
        let odd = named(plugin.name).with("lamda", Value::Number(1.0));
        let error = path_manager::build(&odd).expect_err("unknown");
        let fault = error.faults.into_iter().find(|fault| fault.path == ["lamda"]);
        assert!(fault.expect("the unknown key").message.contains("lamda"));
    }
}

#[test]
fn path_managers_join_all_or_nothing() {
    let address = |host: u8| std::net::SocketAddr::from(([10, host, 0, 1], 80));
    let unused = [1, 2].map(|host| Candidate {
        address_id: host,
        local: address(host),
        remote: address(host + 10),
        backup: false,
        rate: None,
    });
    for (name, expected) in [("full-mesh", 2), ("none", 0), ("range", 2)] {
        let mut manager = path_manager::build(&named(name)).expect("a known name");
        assert_eq!(manager.on_established(Instant::ZERO, &unused, &[]).len(), expected, "{name}");
    }
}

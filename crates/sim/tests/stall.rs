//! A window update that is lost while the path is down must not stop a connection forever. Probes find the
//! open window later: probes of the subflow with plain TCP, and of the connection with MPTCP.

mod common;

use anabranch_sim::{Column, Plan, Silent, run};

use common::{numbers, simulate};

#[test]
fn a_window_that_opens_during_an_outage_opens_after_it() {
    for multipath in [false, true] {
        for (from_ms, to_ms) in [(10_000, 11_000), (10_900, 20_000), (11_200, 14_200)] {
            let events: Vec<String> = [(from_ms, "down"), (to_ms, "up")]
                .iter()
                .flat_map(|(ms, what)| {
                    ["d", "u"].map(|link| {
                        format!(
                            r#"{{"at_ns":{},"link":"{link}","change":"{what}"}}"#,
                            ms * 1_000_000u64
                        )
                    })
                })
                .collect();
            let text = format!(
                r#"{{"scenario":"stall","seed":1,"run":0,
                "application":{{"kind":"progressive","player":{{"prefetch_bytes":1000000}}}},
                "film":{{"synthetic":{{"name":"papers-film","rate_bps":2000000,"duration_ns":60000000000}}}},
                "transport":{{"multipath":{multipath},"scheduler":"linux","congestion":"cubic",
                  "path_manager":"full-mesh","receive_buffer_initial":131072,
                  "receive_buffer_max":262144,"send_buffer_max":4194304,"mss":1460}},
                "links":[
                  {{"name":"d","rate_bps":20000000,"queue":{{"packets":100}},"delay_ns":25000000}},
                  {{"name":"u","rate_bps":20000000,"queue":{{"packets":100}},"delay_ns":25000000}}],
                "paths":[{{"name":"p","down":["d"],"up":["u"]}}],
                "events":[{}],"time_limit_ns":600000000000}}"#,
                events.join(",")
            );
            let plan = Plan::from_json(&text).expect("a plan");
            let outcome = run(&plan, None, &mut Silent);
            assert!(
                outcome.is_ok(),
                "multipath {multipath}, {from_ms} to {to_ms}: {:?}",
                outcome.err()
            );
        }
    }
}

#[test]
fn a_run_ends_with_clients_whose_server_has_given_up() {
    // A path fails permanently. The server gives up after 15 minutes, and the client is not notified.
    let plan = |death: &str| {
        format!(
            r#"{{"scenario":"stall","seed":1,"run":0,
            "application":{{"kind":"bulk","bytes":1000000}},
            "transport":{{"multipath":true,"scheduler":"linux","congestion":"cubic",
              "path_manager":"full-mesh","receive_buffer_initial":131072,
              "receive_buffer_max":262144,"send_buffer_max":4194304,"mss":1460}},
            "links":[
              {{"name":"d","rate_bps":2000000,"queue":{{"packets":100}},"delay_ns":25000000}},
              {{"name":"u","rate_bps":2000000,"queue":{{"packets":100}},"delay_ns":25000000}}],
            "paths":[{{"name":"p","down":["d"],"up":["u"]}}],
            "events":[{death}],"time_limit_ns":100000000000000}}"#
        )
    };
    let death = r#"{"at_ns":1000000000,"link":"d","change":"down"},
        {"at_ns":1000000000,"link":"u","change":"down"}"#;
    for (events, finished) in [("", true), (death, false)] {
        let trace = simulate(&plan(events));
        let connections = trace.table("connections").expect("a table");
        assert_eq!(connections.column("finished"), Some(&Column::Bool(vec![finished])));
        let read = numbers(&trace, "connections", "bytes_read")[0];
        assert_eq!(read >= 1e6, finished, "{read} bytes");
    }
}

//! Whole TCP connections over managed queues, and over links that reorder, duplicate or corrupt packets. All
//! checks of the simulator apply.

mod common;

use anabranch_sim::Trace;
use anabranch_units::Seed;
use common::{numbers, simulate, srtt, total};

/// Returns a plan with a bulk session over one path of 10 Mb/s and 20 ms each way. The queue holds 400
/// packets, about 480 ms. `down` has further keys of the link towards the client, and `more` of the plan.
fn plan(down: &str, seconds: u64, more: &str) -> String {
    let nanos = seconds * 1_000_000_000;
    format!(
        r#"{{"scenario":"queues","seed":1,"run":0,"application":{{"kind":"bulk","duration_ns":{nanos}}},
        "transport":{{"multipath":false,"scheduler":"linux","congestion":"cubic","path_manager":"full-mesh",
          "receive_buffer_initial":131072,"receive_buffer_max":6291456,"send_buffer_max":4194304,"mss":1460}},
        "links":[
          {{"name":"p.down","rate_bps":10000000,"queue":{{"packets":400}},"delay_ns":20000000{down}}},
          {{"name":"p.up","rate_bps":10000000,"queue":{{"packets":400}},"delay_ns":20000000}}],
        "paths":[{{"name":"p","down":["p.down"],"up":["p.up"]}}]{more},"time_limit_ns":600000000000}}"#
    )
}

const CODEL: &str = r#","discipline":{"name":"codel","values":{}}"#;
const FQ_CODEL: &str = r#","discipline":{"name":"fq-codel"}"#;

fn goodput(trace: &Trace, seconds: u64) -> f64 {
    total(trace, "connections", "bytes_read") * 8e-6 / seconds as f64
}

#[test]
fn codel_takes_the_delay_out_of_a_buffer_and_leaves_the_rate() {
    let tail = simulate(&plan("", 30, ""));
    for discipline in [CODEL, FQ_CODEL] {
        let codel = simulate(&plan(discipline, 30, ""));
        assert!(total(&codel, "links", "dropped_aqm") > 0.0, "it took effect");
        assert!(total(&codel, "links", "dropped_queue") < 1.0);
        // The path itself has 40 ms, and a segment takes 1.2 ms. CUBIC fills the 400 packets of a drop-tail
        // queue and reduces the window by less than a third at a loss, so hundreds of milliseconds remain.
        // With CoDel, the queueing delay is about 5 ms, and larger only between drops.
        let (with, without) = (srtt(&codel), srtt(&tail));
        assert!(with < 65.0 && without > 250.0, "{with} ms against {without} ms");
        let (with, without) = (goodput(&codel, 30), goodput(&tail, 30));
        assert!(with > 0.9 * without, "{with} Mb/s against {without} Mb/s");
    }
    assert!(total(&tail, "links", "dropped_aqm") < 1.0);
    assert!(total(&tail, "links", "dropped_queue") > 0.0, "the buffer was full");
}

/// Runs a client that reads 1 Mb/s, alone or with two bulk flows. Returns the trace and the goodput of each
/// bulk flow.
fn paced(discipline: &str, alone: bool) -> (Trace, Vec<f64>) {
    let flows = r#","cross_traffic":[{"name":"others","data":["p.down"],"acks":["p.up"],"kind":"bulk",
        "congestion":"cubic","count":2,"start_ns":0}]"#;
    let text = plan(discipline, 30, if alone { "" } else { flows });
    let paced = r#""kind":"paced","rate_bps":1000000,"duration_ns""#;
    let trace = simulate(&text.replacen(r#""kind":"bulk","duration_ns""#, paced, 1));
    let rates = numbers(&trace, "cross_traffic", "goodput_mbps");
    (trace, rates)
}

#[test]
fn fq_codel_isolates_a_paced_flow_from_bulk_flows() {
    let (fair, rates) = paced(FQ_CODEL, false);
    assert!(total(&fair, "links", "dropped_aqm") > 0.0, "it took effect");
    let [alone, with, without] =
        [paced(FQ_CODEL, true).0, fair.clone(), paced("", false).0].map(|trace| srtt(&trace));
    // In addition to its delay alone, a packet waits for one packet of another flow that is in service. If
    // its own queue is not new, it also waits for one packet of each flow.
    assert!(with < alone + 3.6 && without > 200.0, "{with} ms, {alone} alone, {without} without");
    assert!((goodput(&fair, 30) - 1.0).abs() < 0.02, "{} Mb/s", goodput(&fair, 30));
    // The bulk flows share the rest equally.
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.1, "{rates:?}");
    assert!(rates.iter().sum::<f64>() > 7.5, "{rates:?}");
}

#[test]
fn queues_are_managed_on_every_kind_of_link() {
    let models = [
        r#","model":{"wifi":{"channel":"c","station":"w","standard":"802.11g","width_mhz":20,"streams":1,"aggregate":1,"snr_db":30,"fading_db":0,"memory_ns":500000000}}"#,
        r#","model":{"lte":{"direction":"down","profile":"tmobile-driving","bler":0.1,"mean_bps":8000000}}"#,
        r#","model":{"steps":{"begin_ns":[0,1000000000],"rates_bps":[9000000,5000000],"delays_ns":[0,0],"losses":[0.0,0.0],"repeat_ns":2000000000}}"#,
    ];
    for model in models {
        let tail = simulate(&plan(model, 20, ""));
        for discipline in [CODEL, FQ_CODEL] {
            let managed = simulate(&plan(&format!("{model}{discipline}"), 20, ""));
            assert!(total(&managed, "links", "dropped_aqm") > 0.0, "{model}");
            let (with, without) = (srtt(&managed), srtt(&tail));
            assert!(with < 0.6 * without, "{with} ms against {without} ms: {model}");
        }
    }
}

#[test]
fn impairments_of_the_wire_hit_packets_and_the_stream_stays_whole() {
    // The client checks every byte that it reads, and the simulator counts every packet.
    let behind = r#","reorder":{"share":0.01,"by_ns":8000000,"gap":1}"#;
    let each = [
        ("reordered", behind),
        ("duplicated", r#","duplicate":0.01"#),
        ("dropped_corrupt", r#","corrupt":0.005"#),
    ];
    let plain = simulate(&plan("", 20, ""));
    for (column, settings) in each {
        let trace = simulate(&plan(settings, 20, ""));
        let packets = numbers(&trace, "links", "enqueued")[0];
        let hit = numbers(&trace, "links", column)[0];
        let share = if column == "dropped_corrupt" { 0.005 } else { 0.01 };
        let deviation = (packets * share * (1.0 - share)).sqrt();
        // Packets that the queue drops are not affected by the impairment.
        let sent = packets - numbers(&trace, "links", "dropped_queue")[0];
        assert!((hit - sent * share).abs() < 4.0 * deviation + 5.0, "{column}: {hit} of {sent}");
        assert!(goodput(&trace, 20) > 1.0, "{column}: {} Mb/s", goodput(&trace, 20));
        assert_ne!(trace.summary.digest, plain.summary.digest, "{column}");
        let again = simulate(&plan(settings, 20, ""));
        assert_eq!(trace.summary.digest, again.summary.digest, "{column}");
    }
    let all = each.map(|(_, settings)| settings).concat();
    let both = format!("{all}{FQ_CODEL}");
    let trace = simulate(&plan(&both, 20, ""));
    for (column, _) in each {
        assert!(numbers(&trace, "links", column)[0] > 0.0, "{column}");
    }
}

#[test]
fn a_queue_that_there_is_not_is_refused() {
    for discipline in [
        r#","discipline":{"name":"codle"}"#,
        r#","discipline":{"name":"codel","values":{"quantum":1514}}"#,
        r#","discipline":{"name":"codel","values":{"interval":0}}"#,
        r#","duplicate":1.5"#,
        r#","reorder":{"share":0.1,"by_ns":0,"gap":1}"#,
    ] {
        let plan = anabranch_sim::Plan::from_json(&plan(discipline, 1, "")).unwrap();
        assert!(anabranch_sim::run(&plan, None, &mut anabranch_sim::Silent).is_err());
    }
}

/// Returns a plan with two paths of 8 and 4 Mb/s. The seed determines queues and impairments, and links that
/// go down, up again and become slower.
fn drawn(seed: u64) -> String {
    let mut luck = Seed { seed, run: 0 }.stream("worlds");
    let mut links = Vec::new();
    for (path, rate) in [("a", 8_000_000), ("b", 4_000_000)] {
        for way in ["down", "up"] {
            let kinds = ["", CODEL, FQ_CODEL, r#","discipline":{"name":"drop-tail"}"#];
            let discipline = kinds[luck.below(4) as usize];
            let (share, by_ns, gap) =
                (0.1 * luck.uniform(), 1 + luck.below(50_000_000), 1 + luck.below(5));
            let behind = format!(r#","reorder":{{"share":{share},"by_ns":{by_ns},"gap":{gap}}}"#);
            let behind = if luck.chance(0.7) { behind } else { String::new() };
            let (duplicate, corrupt) = (0.1 * luck.uniform(), 0.02 * luck.uniform());
            let queue = 5 + luck.below(200);
            let jitter_ns = luck.below(5_000_000);
            links.push(format!(
                r#"{{"name":"{path}.{way}","rate_bps":{rate},"queue":{{"packets":{queue}}},"delay_ns":15000000,
                "jitter_ns":{jitter_ns},"duplicate":{duplicate},"corrupt":{corrupt}{behind}{discipline}}}"#
            ));
        }
    }
    let event = |at_ms: u64, link: &str, change: &str| {
        format!(r#"{{"at_ns":{at_ms}000000,"link":"{link}","change":{change}}}"#)
    };
    let events = [
        event(4000, "a.down", r#""down""#),
        event(4000, "a.up", r#""down""#),
        event(5500, "a.down", r#""up""#),
        event(5500, "a.up", r#""up""#),
        event(7000, "b.down", r#"{"rate_bps":1500000}"#),
        event(8000, "b.down", r#"{"delay_ns":60000000}"#),
        event(9000, "a.down", r#"{"loss":{"bernoulli":0.02}}"#),
    ];
    let scheduler = ["linux", "min-rtt", "round-robin", "redundant"][seed as usize % 4];
    let congestion = ["cubic", "bbr", "lia"][seed as usize % 3];
    format!(
        r#"{{"scenario":"drawn","seed":{seed},"run":0,"application":{{"kind":"bulk","duration_ns":14000000000}},
        "transport":{{"multipath":true,"scheduler":"{scheduler}","congestion":"{congestion}",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460,"checksum":{}}},
        "links":[{}],"paths":[{{"name":"a","down":["a.down"],"up":["a.up"]}},
        {{"name":"b","down":["b.down"],"up":["b.up"]}}],"events":[{}],"time_limit_ns":600000000000}}"#,
        seed.is_multiple_of(2),
        links.join(","),
        events.join(",")
    )
}

#[test]
fn worlds_drawn_by_a_seed_hold_every_checker() {
    // The simulator ends a run with an error if bytes are wrong, the window is exceeded, packets are not
    // accounted for, or no event will occur any longer.
    let mut seen = [0.0; 4];
    for seed in 0..24 {
        let trace = simulate(&drawn(seed));
        assert!(goodput(&trace, 14) > 0.1, "seed {seed}: {} Mb/s", goodput(&trace, 14));
        let columns = ["reordered", "duplicated", "dropped_corrupt", "dropped_aqm"];
        for (sum, column) in seen.iter_mut().zip(columns) {
            *sum += total(&trace, "links", column);
        }
    }
    assert!(seen.iter().all(|&count| count > 500.0), "{seen:?}");
}
